"""Mistakes on purpose in ``demand``."""

from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

SMALL = Parameters(size=3, batch=2, initial=1, waiters=2, tags=6)


def sends_unrequested(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state._replace(credit=1), parameters)
    return after._replace(credit=state.credit - 1)


def requests_on_arrival(state: State, parameters: Parameters) -> State:
    """The application reads no faster for that: it may hold any number of messages."""
    return SYSTEM.perform("Deliver", state, parameters)._replace(requests=state.requests + 1)


def loses_the_request(state: State, parameters: Parameters, count: int = 1) -> State:
    return SYSTEM.perform("Request", state, parameters, count)._replace(credit=state.credit)


def requests_one_less(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(requests=state.requests)


def keeps_on_collecting(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(requests=state.requests, unrequested=state.unrequested + 1)


def forgets_to_ask(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("RequestWithheld", state, parameters)._replace(requests=state.requests)


def sends_the_newest_first(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state, parameters)
    return after._replace(wire=state.wire.push(state.waiting.last()), waiting=state.waiting.without_last())


MISTAKES = (
    Mistake("Send", sends_unrequested, "TypeOK", SMALL),
    Mistake("Deliver", requests_on_arrival, "Bounded", SMALL, "requested-when-consumed", at_once="Conservation"),
    Mistake("Request", loses_the_request, "Conservation", SMALL, "every-message-requested"),
    Mistake("Consume", requests_one_less, "Conservation", SMALL, "every-message-requested"),
    Mistake("Consume", keeps_on_collecting, "RequestsBatched", SMALL, "batched"),
    Mistake("RequestWithheld", forgets_to_ask, "Conservation", SMALL),
    Mistake("Send", sends_the_newest_first, "ExactlyOnceInOrder", SMALL),
)
