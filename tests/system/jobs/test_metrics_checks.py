"""The checks of a run's metrics find what is wrong, and only that."""

from typing import Any

import pytest

from examples.jobs.metrics_checks import MetricsTruth, metrics_figures, metrics_problems
from tests.support.monitored import monitored

STATE: dict[str, Any] = {
    "packets_per_second": 100,
    "peak_packets_per_second": 100,
    "sources": {"w1#1": {"finished": 8}, "w1#2": {"finished": 5}, "master#1": {"finished": 15}},
    "results": {"w1": {"results": 15}},
    "packets": {"arrived": 40},
    "lost_on_purpose": 7,
}
TRUTH = MetricsTruth(
    totals={"w1#2": {"finished": 5}, "master#1": {"finished": 15}}, results={"w1#1": 10, "w1#2": 5}, killed={"w1#1"}
)


def test_a_run_as_it_should_be_has_no_problem() -> None:
    assert metrics_problems(STATE, TRUTH) == []
    assert metrics_figures(STATE, TRUTH) == [
        ("metrics that the monitor has", "exact, of 2 processes"),
        ("packets to it in any second", "100 at most, limit 100"),
        ("packets", "40, 7 of them lost on purpose"),
        ("finished by w1#1, which was killed", "10, 2 of them not told to the monitor"),
    ]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"peak_packets_per_second": 101}, "more than 100 packets came to the monitor in a second"),
        (
            {"sources": STATE["sources"] | {"w1#2": {"finished": 4}}},
            "the monitor knows of w1#2 {'finished': 4}, and not {'finished': 5}",
        ),
        ({"sources": STATE["sources"] | {"w3#1": {}}}, "the monitor knows of w3#1, which did not run"),
        (
            {"sources": STATE["sources"] | {"w1#1": {"finished": 12}}},
            "the monitor knows of 12 results of w1#1, of which the master took 10",
        ),
        ({"results": {}}, "the master told the monitor of 0 results of w1, and took 15"),
    ],
)
def test_each_thing_that_is_wrong_is_told(wrong: dict[str, object], problem: str) -> None:
    assert metrics_problems(STATE | wrong, TRUTH) == [problem]


def test_a_minute_of_overload_stays_below_the_limit_at_any_loss() -> None:
    for lose in (0.0, 0.6):
        state = monitored(12, lose=lose)
        assert 0 < state["peak_packets_per_second"] <= state["packets_per_second"]
        assert metrics_problems({**state}, MetricsTruth(totals=state["sources"])) == []
