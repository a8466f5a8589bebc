"""Mistakes on purpose in ``conflate``."""

from permitflow_model.conflate import NOTHING, SYSTEM, Parameters, State, Summary
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake

SMALL = Parameters(elements=3, largest=2)


def forgets_at_the_end(state: State, _parameters: Parameters) -> State:
    require(state.completed)
    require(not state.ended)
    return state._replace(ended=True, asked=False, held=NOTHING)


def gives_twice(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Pull", state, parameters)._replace(held=state.held)


def replaces_what_is_held(state: State, parameters: Parameters, size: int) -> State:
    after = SYSTEM.perform("Push", state, parameters, size)
    return after if state.asked else after._replace(held=Summary(1, size, size))


def holds_although_somebody_waits(state: State, parameters: Parameters, size: int) -> State:
    after = SYSTEM.perform("Push", state._replace(asked=False), parameters, size)
    return after._replace(asked=state.asked)


def keeps_the_peak_of_what_it_has_given(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Pull", state, parameters)._replace(held=Summary(0, 0, state.held.peak))


MISTAKES = (
    Mistake("OnComplete", forgets_at_the_end, "AllGiven", SMALL),
    Mistake("Pull", gives_twice, "Conservation", SMALL),
    Mistake("Push", replaces_what_is_held, "Conservation", SMALL),
    Mistake("Push", holds_although_somebody_waits, "HeldForNobody", SMALL),
    Mistake("Pull", keeps_the_peak_of_what_it_has_given, "TypeOK", SMALL),
)
