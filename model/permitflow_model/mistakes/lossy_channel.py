"""Mistakes on purpose in ``lossy_channel``."""

from permitflow_model.kernel.system import require
from permitflow_model.lossy_channel import SYSTEM, Parameters, State, raised
from permitflow_model.mistakes import Mistake

ONE = Parameters(window=1, total=2, copies=1)

TWO = Parameters(window=2, total=3, copies=1)

ANEW = Parameters(window=1, total=2, copies=1, reconnects=1)


def takes_whatever_comes(state: State, _parameters: Parameters) -> State:
    """Without numbers, duplicates are delivered, and gaps are not noticed."""
    require(not state.data.is_empty())
    number = state.data.head()
    return state._replace(
        data=state.data.without_head(), inbox=state.inbox.push(number), received=state.received + 1, due=True
    )


def takes_what_comes_after_a_gap(state: State, parameters: Parameters) -> State:
    require(not state.data.is_empty())
    number = state.data.head()
    require(number > state.received)
    return SYSTEM.perform("Deliver", state._replace(received=number), parameters)


def acknowledges_what_it_has_refused(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Refuse", state, parameters)._replace(received=state.data.head() + 1)


def grants_on_arrival(state: State, parameters: Parameters) -> State:
    """A limit from what was received, not from what was consumed: the application's pace no longer counts."""
    after = SYSTEM.perform("Acknowledge", state._replace(consumed=state.received), parameters)
    return after._replace(consumed=state.consumed)


def adds_the_limit(state: State, parameters: Parameters) -> State:
    require(not state.feedback.is_empty())
    feedback = state.feedback.head()
    require(raised(state, parameters, feedback) > state.limit)
    return SYSTEM.perform("Hear", state, parameters)._replace(limit=state.limit + feedback.limit)


def sends_beyond_the_limit(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Send", state._replace(limit=state.sent + 1), parameters)._replace(limit=state.limit)


def believes_that_all_arrived(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Hear", state, parameters)._replace(acked=state.sent)


def keeps_its_limit(state: State, parameters: Parameters) -> State:
    """A sender that only the receiver's end has left, and that does not notice."""
    return SYSTEM.perform("Reconnect", state, parameters)._replace(limit=state.limit)


def numbers_from_minus_one(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state._replace(sent=state.sent - 1), parameters)
    return after._replace(sent=state.sent + 1)


MISTAKES = (
    Mistake("Deliver", takes_whatever_comes, "InOrder", ONE),
    Mistake("Deliver", takes_what_comes_after_a_gap, "InOrder", TWO),
    Mistake("Refuse", acknowledges_what_it_has_refused, "InOrder", TWO),
    Mistake("Acknowledge", grants_on_arrival, "LimitGranted", ONE),
    Mistake("Hear", adds_the_limit, "LimitGranted", ONE),
    Mistake("Send", sends_beyond_the_limit, "LimitGranted", ONE),
    Mistake("Hear", believes_that_all_arrived, "NothingInvented", TWO),
    Mistake("Reconnect", keeps_its_limit, "LimitGranted", ANEW),
    Mistake("Send", numbers_from_minus_one, "TypeOK", ONE),
)
