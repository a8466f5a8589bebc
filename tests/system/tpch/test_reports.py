"""What the reports of both demos call wrong: each thing that must not be, one at a time."""

from dataclasses import replace

import pytest

from examples.tpch.pipeline import Counted, Recorded, checks_of
from examples.tpch.report import Check, Report, StreamNumbers
from examples.tpch.tables import ShippingMode
from examples.tpch.two_jobs import HOPS, check_of_replay, checks_of_hops, judges
from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.tracing import MemoryTrace
from permitflow_testing.traces import judge_all

ANSWER = (ShippingMode("MAIL", 4, 6),)
STREAM = StreamNumbers(hop="in", stream="q12/0#put1", rows=10, peak_rows_held=8, window_rows=8)
GOOD = Report(
    scale=0.1,
    answer=ANSWER,
    direct_answer=ANSWER,
    streams=[STREAM],
    checks=[Check(True, "all is well")],
    seconds={"replay": 1.0},
    total_seconds=1.0,
)


def test_models_and_theorems_are_those_of_what_the_demo_uses() -> None:
    explorer, tlc, prover = ({name.partition("=")[2] for name in command[3:]} for command in judges().values())
    assert {"published", "probe-barrier-waits", "spark-commit-tight"} <= explorer
    assert tlc < explorer
    assert {"threshold", "spark-exactly-once"} <= prover
    assert not {"gate", "stop-and-wait", "gate-type-ok", "squelch-type-ok"} & (explorer | prover)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(GOOD, direct_answer=(ShippingMode("MAIL", 5, 5),)), "the answer through the exchange is"),
        (replace(GOOD, answer=(), direct_answer=()), "the query found nothing"),
        (replace(GOOD, streams=[replace(STREAM, peak_rows_held=9)]), "in, q12/0#put1: 9 rows at once, 8 may be"),
        (replace(GOOD, checks=[Check(False, "all is lost")]), "all is lost"),
    ],
    ids=["answer", "empty", "bound", "check"],
)
def test_whatever_is_wrong_is_called_so(bad: Report, words: str) -> None:
    assert GOOD.holds
    (problem,) = bad.problems()
    assert words in problem
    assert bad.as_json()["holds"] is False


@pytest.mark.parametrize("lost_in", [None, *HOPS])
def test_each_hop_must_carry_all_rows_of_the_answer(lost_in: str | None) -> None:
    streams = [replace(STREAM, hop=hop, rows=5 if hop == lost_in else 10) for hop in HOPS]
    assert [check.holds for check in checks_of_hops(streams, ANSWER)] == [hop != lost_in for hop in HOPS]


async def test_the_recorded_run_must_be_whole_valid_and_at_rest() -> None:
    recorder = MemoryTrace()
    parameters = ChannelParameters(row_permits=8, permit_batch=2)
    ends: tuple[LocalSender[list[int]], LocalReceiver[list[int]]]
    ends = open_channel(parameters, name="a", record=recorder.recorder)
    sender, receiver = ends
    await sender.send([1])
    cut = recorder.trace()
    await sender.end()
    assert len([message async for message in receiver]) == 1
    whole = recorder.trace()
    (verdict,) = judge_all(whole)
    assert check_of_replay(whole, [verdict]).holds
    for trace, verdicts in ((replace(whole, is_complete=False), [verdict]), (whole, []), (cut, judge_all(cut))):
        assert not check_of_replay(trace, verdicts).holds


COUNTED = Counted(expected=10, lost=0, duplicated=0, foreign=0)
RECORDED = Recorded(lives=2, events=50, query_events=9, refused=())


@pytest.mark.parametrize(
    ("counted", "recorded", "missed_kills", "words"),
    [
        (COUNTED._replace(lost=1), RECORDED, 0, "1 rows were lost"),
        (COUNTED._replace(duplicated=2), RECORDED, 0, "2 duplicated"),
        (COUNTED._replace(foreign=3), RECORDED, 0, "3 are from elsewhere"),
        (COUNTED._replace(expected=0), RECORDED, 0, "of 0 late line items"),
        (COUNTED, RECORDED._replace(refused=("a run",)), 0, "1 runs refused\na run"),
        (COUNTED, RECORDED._replace(query_events=0), 0, "and 0 of the query"),
        (COUNTED, RECORDED._replace(events=0), 0, "0 steps of the exchange"),
        (COUNTED, RECORDED, 1, "1 kills came too late"),
    ],
)
def test_whatever_is_wrong_with_a_pipeline_is_called_so(
    counted: Counted, recorded: Recorded, missed_kills: int, words: str
) -> None:
    assert all(check.holds for check in checks_of(COUNTED, RECORDED, missed_kills=0))
    (found,) = (check for check in checks_of(counted, recorded, missed_kills=missed_kills) if not check.holds)
    assert words in found.text
