"""Mistakes on purpose in ``feedback_loop``."""

from permitflow_model.feedback_loop import SYSTEM, Parameters, State, after, filled
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake

PERMITS = Parameters(stations=2, places=2, back_places=2, merge="permits", permits=3)

DROPPING = Parameters(stations=2, places=1, back_places=1, most=2, drops=True)


def hands_on_what_nobody_asked_for(state: State, parameters: Parameters, name: int, more: int) -> State:
    station, following = state.stations.get(name), after(name, parameters)
    require(station.held > 0)
    require(more == 0)
    taken = state.stations.put(name, station._replace(held=station.held - 1))
    return State(taken.put(following, filled(taken.get(following), 1)))


def takes_what_it_has_no_place_for(state: State, _parameters: Parameters, more: int) -> State:
    first = state.stations.get(0)
    require(more == 0)
    return State(state.stations.put(0, filled(first, 1)))


def keeps_what_it_should_drop(state: State, parameters: Parameters, name: int, more: int) -> State:
    SYSTEM.perform("HandOn", state, parameters, name, more)
    station, following = state.stations.get(name), after(name, parameters)
    taken = state.stations.put(name, station._replace(held=station.held - 1))
    stage = taken.get(following)
    return State(taken.put(following, stage._replace(held=stage.held + stage.least + more)))


MISTAKES = (
    Mistake("HandOn", hands_on_what_nobody_asked_for, "TypeOK", PERMITS),
    Mistake("Feed", takes_what_it_has_no_place_for, "NeverFull", PERMITS, at_once="TypeOK"),
    Mistake("HandOn", keeps_what_it_should_drop, "TypeOK", DROPPING),
)
