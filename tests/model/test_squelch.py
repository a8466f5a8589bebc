"""Squelch in the model: what follows if there are too few places; tests/conformance/test_squelch.py has how many."""

from dataclasses import replace

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.squelch import SYSTEM, Parameters

SMALL = Parameters(waiters=1, high=1, low=0, capacity=3, rate=1, signal_delay=1, data_delay=1, repeat=2)


def test_the_sender_hears_nothing_in_the_shortest_overflow() -> None:
    graph = explore(SYSTEM, replace(SMALL, capacity=2), stop_at_violation=True)
    (violation,) = graph.violations
    assert violation.invariant == "Bounded"
    actions = [step.action for step in violation.steps]
    assert actions[-1] == "Deliver"
    assert "ReceiveSignal" not in actions


@pytest.mark.parametrize(("name", "value"), [("high", -1), ("capacity", 0)])
def test_parameters_that_the_specification_refuses_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(SMALL, **{name: value})  # type: ignore[arg-type]  # they are numbers
