"""Permits to add over lossy networks, which no end has, and what else of published vectors only the model can play.

The others are played by model and link side by side: tests/conformance/test_lossy_vectors.py.
"""

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.queue import Fifo
from permitflow_model.lossy_channel import SYSTEM, Feedback, Parameters, State

ADDED = Parameters(window=1, total=3, copies=3, cumulative=False)


def played(state: State, *actions: str) -> State:
    for action in actions:
        state = SYSTEM.perform(action, state, ADDED)
    return state


def test_a_lost_permit_is_lost_for_ever() -> None:
    lost = ("Send", "Deliver", "Acknowledge", "Consume", "Hear", "Acknowledge", "LoseFeedback")
    state = played(SYSTEM.initial(ADDED), *lost)
    assert (state.sent, state.limit - state.sent, state.data.size(), state.feedback.size()) == (1, 0, 0, 0)
    reminded = played(state, "Remind", "Acknowledge", "Ignore")
    assert not SYSTEM.is_enabled("Send", reminded, ADDED)
    assert SYSTEM.broken_invariants(state, ADDED) == ["NeverStarved"]


def test_a_doubled_permit_lets_too_much_leave() -> None:
    doubled = ("Send", "Deliver", "Consume", "Acknowledge", "DuplicateFeedback", "Hear", "Hear", "Send", "Send")
    state = played(SYSTEM.initial(ADDED), *doubled)
    assert (state.limit, state.data.size()) == (3, 2)
    assert "Bounded" in SYSTEM.broken_invariants(state, ADDED)


def test_a_limit_that_is_not_larger_is_ignored() -> None:
    """QUIC's numbers: a receiver that enlarges its window, as ours does not."""
    parameters = Parameters(window=1_048_576, total=4_194_304, copies=3)
    state, limits = SYSTEM.initial(parameters), list[int]()
    for limit in (1_048_577, 1_048_575, 2_097_152, 2_097_152):
        state = state._replace(feedback=Fifo((Feedback(0, limit),)))
        is_news = SYSTEM.is_enabled("Hear", state, parameters)
        state = SYSTEM.perform("Hear" if is_news else "Ignore", state, parameters)
        limits.append(state.limit)
    assert limits == [1_048_577, 1_048_577, 2_097_152, 2_097_152]


def test_without_reordering_no_copy_is_older_than_a_window() -> None:
    def is_young(state: State, parameters: Parameters) -> bool:
        return all(number >= state.received - parameters.window for number in state.data)

    in_order = Parameters(window=1, total=3, copies=2, reorders=False)
    assert not explore(SYSTEM, in_order, invariants={"Young": is_young}).violations
    reordered = Parameters(window=1, total=3, copies=2)
    assert explore(SYSTEM, reordered, invariants={"Young": is_young}, stop_at_violation=True).violations
