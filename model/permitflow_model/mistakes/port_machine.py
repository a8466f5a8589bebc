"""Mistakes on purpose in ``port_machine``."""

from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.port_machine import SYSTEM, Parameters, State

PARAMETERS = Parameters()


def loses_what_is_on_its_way(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Complete", state, parameters)._replace(element=0)


def fails_at_once(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Fail", state, parameters)
    return after._replace(inlet="failed") if state.inlet == "open" else after


def pushes_without_a_pull(state: State, _parameters: Parameters) -> State:
    require(state.outlet == "open")
    require(state.inlet == "open")
    require(state.token == "InReady")
    return state._replace(token="Pushing", element=state.element + 1, events=state.events + 1, demand=state.demand - 1)


def tells_nobody(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Cancel", state, parameters)._replace(events=state.events)


def ends_first(state: State, parameters: Parameters) -> State:
    require(state.events > 0)
    if state.outlet == "completed" and state.inlet == "open":
        return state._replace(inlet="completed", events=state.events - 1, heard="end")
    return SYSTEM.perform("ProcessEvent", state, parameters)


def mistakes_a_failure_for_the_end(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("ProcessEvent", state, parameters)
    return after._replace(inlet="completed") if after.inlet == "failed" else after


def pushes_two_at_once(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Push", state, parameters)._replace(element=2)


MISTAKES = (
    Mistake("Complete", loses_what_is_on_its_way, "NothingLost", PARAMETERS),
    Mistake("Fail", fails_at_once, "NotOvertaken", PARAMETERS),
    Mistake("Push", pushes_without_a_pull, "Demanded", PARAMETERS),
    Mistake("Cancel", tells_nobody, "CloseReported", PARAMETERS),
    Mistake("ProcessEvent", ends_first, "NotOvertaken", PARAMETERS),
    Mistake("ProcessEvent", mistakes_a_failure_for_the_end, "EndsMatch", PARAMETERS),
    Mistake("Push", pushes_two_at_once, "TypeOK", PARAMETERS),
)
