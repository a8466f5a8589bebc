"""What the reports of both demos call wrong: each thing that must not be, one at a time."""

from dataclasses import replace

import pytest

from permitflow.demo.streaming_demo import ChannelNumbers, Counted, PipelineReport, RecordedRun
from permitflow.demo.tpch import ShippingMode
from permitflow.demo.two_jobs import DemoReport, Evidence, Hop, StreamNumbers, TraceVerdict, judges

STREAM = StreamNumbers(stream="q12/0#put1", rows=10, chunks=2, peak_rows_held=8, window_rows=8, blocked_share=0.5)
TRACE = TraceVerdict(streams=1, events=12, is_complete=True, is_at_rest=True, refused=())
GOOD = DemoReport(
    scale=0.1,
    row_permits=8,
    evidence=(Evidence(name="theorems, by Z3", holds=True, count=27),),
    answer=(ShippingMode("MAIL", 4, 6),),
    direct_answer=(ShippingMode("MAIL", 4, 6),),
    hops=(Hop(name="in", streams=(STREAM,)),),
    trace=TRACE,
    seconds={"replay": 1.0},
    total_seconds=1.0,
)


def test_models_and_theorems_are_those_of_what_the_demo_uses() -> None:
    explorer, tlc, prover = ({name.partition("=")[2] for name in command[3:]} for command in judges().values())
    assert {"published", "probe-barrier-waits", "spark-commit-tight"} <= explorer
    assert tlc < explorer
    assert {"threshold", "spark-exactly-once"} <= prover
    assert not {"gate", "stop-and-wait", "gate-type-ok", "squelch-type-ok"} & (explorer | prover)


def test_a_good_report_has_no_problems() -> None:
    assert GOOD.holds
    assert GOOD.as_json()["holds"] is True


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (replace(GOOD, evidence=(replace(GOOD.evidence[0], holds=False),)), "not all theorems, by Z3"),
        (replace(GOOD, direct_answer=(ShippingMode("MAIL", 5, 5),)), "the answer through the exchange is"),
        (replace(GOOD, answer=(), direct_answer=(), hops=()), "the query found nothing"),
        (replace(GOOD, hops=(Hop(name="in", streams=(replace(STREAM, rows=9),)),)), "in: 9 rows moved, 10 are"),
        (replace(GOOD, hops=(Hop(name="in", streams=(replace(STREAM, peak_rows_held=9),)),)), "more rows in flight"),
        (replace(GOOD, trace=replace(TRACE, refused=("channel 'x': not a behaviour",))), "the recorded run"),
        (replace(GOOD, trace=replace(TRACE, is_complete=False)), "the recorded run"),
        (replace(GOOD, trace=replace(TRACE, is_at_rest=False)), "the recorded run"),
        (replace(GOOD, trace=replace(TRACE, events=0)), "the recorded run"),
    ],
    ids=["evidence", "answer", "empty", "rows lost", "bound", "refused", "incomplete", "not at rest", "no events"],
)
def test_whatever_is_wrong_is_called_so(bad: DemoReport, words: str) -> None:
    (problem,) = bad.problems()
    assert words in problem
    assert not bad.holds
    assert bad.as_json()["holds"] is False


RIGHT = Counted(expected=10, lost=0, duplicated=0, foreign=0)
CHANNEL = ChannelNumbers(channel="lineitems/0", rows=100, peak_rows_held=8, window_rows=8)
RECORDED = RecordedRun(lives=2, silent_lives=0, streams=4, events=50, cut_streams=1, query_events=9, refused=())
GOOD_PIPELINE = PipelineReport(
    scale=0.1,
    seed=1,
    kills={"driver": 1},
    missed_kills=0,
    starts={"driver": 2},
    failures={"driver": 0},
    line_items=100,
    counted=RIGHT,
    answer=(ShippingMode("MAIL", 4, 6),),
    direct_answer=(ShippingMode("MAIL", 4, 6),),
    channels=(CHANNEL,),
    looks=3,
    seen_problems=(),
    recorded=RECORDED,
    seconds={"pipeline": 1.0},
    total_seconds=1.0,
)


def test_a_good_pipeline_has_no_problems() -> None:
    assert GOOD_PIPELINE.holds
    assert GOOD_PIPELINE.as_json()["problems"] == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (
            replace(GOOD_PIPELINE, counted=replace(RIGHT, lost=1)),
            "1 rows were lost, 0 duplicated, 0 are from elsewhere",
        ),
        (
            replace(GOOD_PIPELINE, counted=replace(RIGHT, duplicated=2)),
            "0 rows were lost, 2 duplicated, 0 are from elsewhere",
        ),
        (
            replace(GOOD_PIPELINE, counted=replace(RIGHT, foreign=3)),
            "0 rows were lost, 0 duplicated, 3 are from elsewhere",
        ),
        (replace(GOOD_PIPELINE, counted=replace(RIGHT, expected=0)), "the query found nothing"),
        (replace(GOOD_PIPELINE, answer=(ShippingMode("MAIL", 4, 5),)), "the answer of the pipeline is"),
        (replace(GOOD_PIPELINE, channels=(replace(CHANNEL, peak_rows_held=9),)), "lineitems/0: 9 rows kept, 8 may be"),
        (
            replace(GOOD_PIPELINE, seen_problems=("lineitems/0: row 7 came next, after 8",)),
            "lineitems/0: row 7 came next",
        ),
        (
            replace(GOOD_PIPELINE, recorded=replace(RECORDED, refused=("a run",))),
            "not one that the specification allows",
        ),
        (replace(GOOD_PIPELINE, recorded=replace(RECORDED, query_events=0)), "not one that the specification allows"),
        (replace(GOOD_PIPELINE, recorded=replace(RECORDED, events=0)), "not one that the specification allows"),
        (replace(GOOD_PIPELINE, missed_kills=1), "1 kills came too late"),
    ],
)
def test_whatever_is_wrong_with_a_pipeline_is_called_so(bad: PipelineReport, problem: str) -> None:
    assert not bad.holds
    (found,) = bad.problems()
    assert problem in found
