"""Squelch in the model: how far above its watermark an inbox goes, and what follows if there are fewer places."""

from dataclasses import replace

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.squelch import SYSTEM, Parameters, needed_headroom
from permitflow_proofs.squelch import worst_run

# The inbox reaches 8 messages: with more than 7 the sender is told to stop.
TABLE = {(1, 3, 3): 5, (2, 3, 3): 10, (4, 5, 5): 36, (1, 0, 1): 0, (3, 2, 7): 25}
"""For a rate and the delays of signals and data: the most messages above 8."""

SMALL = Parameters(waiters=1, high=1, low=0, capacity=3, rate=1, signal_delay=1, data_delay=1, repeat=2)


def eight(rate: int, signal_delay: int, data_delay: int) -> Parameters:
    trip = rate * (signal_delay + data_delay)
    return Parameters(
        waiters=1,
        high=7,
        low=3,
        capacity=7 + trip,
        rate=rate,
        signal_delay=signal_delay,
        data_delay=data_delay,
        repeat=trip,
    )


@pytest.mark.parametrize(("assumed", "overshoot"), TABLE.items())
def test_a_stopped_consumer_gets_what_came_before_the_signal(assumed: tuple[int, int, int], overshoot: int) -> None:
    parameters = eight(*assumed)
    peak = max(state.inbox for state in worst_run(parameters))
    assert peak == 8 + overshoot
    assert peak <= parameters.high + needed_headroom(parameters)


@pytest.mark.parametrize("assumed", [assumed for assumed, overshoot in TABLE.items() if overshoot])
def test_the_headroom_of_one_way_is_too_small(assumed: tuple[int, int, int]) -> None:
    rate, signal_delay, _ = assumed
    peak = max(state.inbox for state in worst_run(eight(*assumed)))
    assert peak > 8 + rate * signal_delay


@pytest.mark.parametrize("losses", range(4))
def test_each_lost_signal_costs_the_places_until_its_repetition(losses: int) -> None:
    parameters = replace(eight(2, 3, 3), losses=losses, repeat=14, high=8)
    assert max(state.inbox for state in worst_run(parameters)) == 8 + 12 + 14 * losses


def test_the_sender_hears_nothing_in_the_shortest_overflow() -> None:
    graph = explore(SYSTEM, replace(SMALL, capacity=2), stop_at_violation=True)
    (violation,) = graph.violations
    assert violation.invariant == "Bounded"
    actions = [step.action for step in violation.steps]
    assert actions[-1] == "Deliver"
    assert "ReceiveSignal" not in actions


@pytest.mark.parametrize("low", range(4))
def test_a_gap_between_the_watermarks_saves_signals(low: int) -> None:
    """A consumer that takes every other message: how many signals are there for a hundred messages?"""
    parameters = replace(SMALL, high=3, low=low, capacity=9, repeat=2)
    state, signals = SYSTEM.initial(parameters), 0
    for number in range(100):
        # One comes at once when it may; then one is consumed.
        if state.heard == 0:
            for action in ("Offer", "Send", "Deliver"):
                state = SYSTEM.perform(action, state, parameters)
        if (number % 2 or state.heard) and state.inbox:
            state = SYSTEM.perform("Consume", state, parameters)
        for action in ("SendXoff", "SendXon"):
            if SYSTEM.is_enabled(action, state, parameters):
                state = SYSTEM.perform("ReceiveSignal", SYSTEM.perform(action, state, parameters), parameters)
                signals += 1
        if SYSTEM.is_enabled("Tick", state, parameters):
            state = SYSTEM.perform("Tick", state, parameters)
    assert signals <= 100 // (parameters.high + 1 - low)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("waiters", 0),
        ("rate", 0),
        ("data_delay", 0),
        ("repeat", 0),
        ("low", -1),
        ("signal_delay", -1),
        ("losses", -1),
        ("high", -1),
        ("capacity", 0),
    ],
)
def test_parameters_that_the_specification_refuses_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(SMALL, **{name: value})  # type: ignore[arg-type]  # they are numbers
