"""What the report calls wrong: each thing that must not be, one at a time."""

from dataclasses import replace

import pytest

from permitflow.demo.query12 import ShippingMode
from permitflow.demo.streaming.report import ChannelNumbers, Counted, PipelineReport, RecordedRun

RIGHT = Counted(expected=10, lost=0, duplicated=0, foreign=0)
CHANNEL = ChannelNumbers(channel="lineitems/0", rows=100, peak_kept_rows=8, bound=8)
RECORDED = RecordedRun(lives=2, silent_lives=0, streams=4, events=50, cut_streams=1, query_events=9, refused=())
GOOD = PipelineReport(
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


def test_a_good_run_holds() -> None:
    assert GOOD.holds
    assert GOOD.as_json()["problems"] == []


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (replace(GOOD, counted=replace(RIGHT, lost=1)), "1 rows were lost, 0 duplicated, 0 are from elsewhere"),
        (replace(GOOD, counted=replace(RIGHT, duplicated=2)), "0 rows were lost, 2 duplicated, 0 are from elsewhere"),
        (replace(GOOD, counted=replace(RIGHT, foreign=3)), "0 rows were lost, 0 duplicated, 3 are from elsewhere"),
        (replace(GOOD, counted=replace(RIGHT, expected=0)), "the query found nothing"),
        (replace(GOOD, answer=(ShippingMode("MAIL", 4, 5),)), "the answer of the pipeline is"),
        (replace(GOOD, channels=(replace(CHANNEL, peak_kept_rows=9),)), "lineitems/0: 9 rows kept, 8 may be"),
        (replace(GOOD, seen_problems=("lineitems/0: row 7 came next, after 8",)), "lineitems/0: row 7 came next"),
        (replace(GOOD, recorded=replace(RECORDED, refused=("a run",))), "not one that the specification allows"),
        (replace(GOOD, recorded=replace(RECORDED, query_events=0)), "not one that the specification allows"),
        (replace(GOOD, recorded=replace(RECORDED, events=0)), "not one that the specification allows"),
        (replace(GOOD, missed_kills=1), "1 kills came too late"),
    ],
)
def test_each_problem_is_named(bad: PipelineReport, problem: str) -> None:
    assert not bad.holds
    (found,) = bad.problems()
    assert problem in found
