"""Published vectors of flow control over lossy networks, played by the model: limits that count, and permits to add."""

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.queue import Fifo
from permitflow_model.lossy_channel import SYSTEM, Feedback, Parameters, State

ONE = Parameters(window=1, total=2, copies=3)
ADDED = Parameters(window=1, total=3, copies=3, cumulative=False)


def played(parameters: Parameters, *actions: str, state: State | None = None) -> State:
    state = SYSTEM.initial(parameters) if state is None else state
    for action in actions:
        state = SYSTEM.perform(action, state, parameters)
    return state


def heard(parameters: Parameters, state: State, *told: Feedback) -> list[int]:
    """The sender's limit after each feedback."""
    limits = []
    for feedback in told:
        state = state._replace(feedback=Fifo((feedback,)))
        action = "Hear" if SYSTEM.is_enabled("Hear", state, parameters) else "Ignore"
        state = played(parameters, action, state=state)
        limits.append(state.limit)
    return limits


LIMIT_LOST = ("Send", "Deliver", "Acknowledge", "Consume", "Hear", "Acknowledge", "LoseFeedback")


def test_a_lost_permit_is_lost_for_ever() -> None:
    state = played(ADDED, *LIMIT_LOST)
    assert (state.sent, state.limit - state.sent, state.data.size(), state.feedback.size()) == (1, 0, 0, 0)
    reminded = played(ADDED, "Remind", "Acknowledge", "Ignore", state=state)
    assert not SYSTEM.is_enabled("Send", reminded, ADDED)
    assert SYSTEM.broken_invariants(state, ADDED) == ["NeverStarved"]


def test_a_doubled_permit_lets_too_much_leave() -> None:
    doubled = ("Send", "Deliver", "Consume", "Acknowledge", "DuplicateFeedback", "Hear", "Hear", "Send", "Send")
    state = played(ADDED, *doubled)
    assert (state.limit, state.data.size()) == (3, 2)
    assert "Bounded" in SYSTEM.broken_invariants(state, ADDED)


def test_limits_that_come_late_or_twice_change_nothing() -> None:
    parameters = Parameters(window=1, total=9, copies=3)
    told = [Feedback(0, limit) for limit in (4, 2, 3, 3)]
    assert heard(parameters, SYSTEM.initial(parameters), *told) == [4, 4, 4, 4]


def test_a_lost_limit_is_told_again_and_heals() -> None:
    state = played(ONE, *LIMIT_LOST, "Remind", "Acknowledge", "Hear", "Send")
    assert (state.sent, state.limit) == (2, 2)


# QUIC (RFC 9000): a limit that does not increase is ignored; what was lost is told again by the current value.


def test_a_limit_that_is_not_larger_is_ignored() -> None:
    parameters = Parameters(window=1_048_576, total=4_194_304, copies=3)
    told = [Feedback(0, limit) for limit in (1_048_577, 1_048_575, 2_097_152, 2_097_152)]
    assert heard(parameters, SYSTEM.initial(parameters), *told) == [1_048_577, 1_048_577, 2_097_152, 2_097_152]


def test_after_a_loss_the_current_limit_is_told_and_not_the_lost_one() -> None:
    parameters = Parameters(window=2, total=9, copies=3)
    lost = played(parameters, "Send", "Send", "Deliver", "Consume", "Acknowledge", "LoseFeedback", "Deliver", "Consume")
    told = played(parameters, "Acknowledge", "Hear", state=lost)
    assert (told.acked, told.limit) == (2, 4)


# Akka's streams over a network, and its reliable delivery: cumulative demand, and a window of 20.


def test_demand_that_is_repeated_changes_nothing() -> None:
    parameters = Parameters(window=10, total=20, copies=3)
    sent = played(parameters, "Send", "Send")
    assert heard(parameters, sent, Feedback(0, 10), Feedback(0, 10)) == [10, 10]


def test_what_is_requested_is_confirmed_and_a_window() -> None:
    parameters = Parameters(window=20, total=60, copies=20)
    state = played(parameters, "Send", "Deliver", "Acknowledge")
    assert state.feedback.last() == Feedback(1, 20)
    state = played(parameters, "Consume", "Acknowledge", "Remind", "Acknowledge", state=state)
    assert list(state.feedback)[1:] == [Feedback(1, 21)] * 2


# AMQP: feedback that crosses data on the way.


def test_a_limit_does_not_forget_what_is_under_way() -> None:
    """The receiver grants 6 from number 20 on, and number 20 crosses: 5 are left, and not 6."""
    parameters = Parameters(window=3, total=99, copies=3)
    state = SYSTEM.initial(parameters)._replace(sent=21, acked=20, limit=23, received=20, consumed=20)
    assert heard(parameters, state, Feedback(20, 20 + 6)) == [21 + 5]


def test_without_reordering_no_copy_is_older_than_a_window() -> None:
    def is_young(state: State, parameters: Parameters) -> bool:
        return all(number >= state.received - parameters.window for number in state.data)

    in_order = Parameters(window=1, total=3, copies=2, reorders=False)
    assert not explore(SYSTEM, in_order, invariants={"Young": is_young}).violations
    reordered = Parameters(window=1, total=3, copies=2)
    assert explore(SYSTEM, reordered, invariants={"Young": is_young}, stop_at_violation=True).violations
