"""``FeedbackLoop.tla``, action for action: a loop of stages, from a merge back to it, under back-pressure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    stations: Positive
    """Stations of the loop: stages, each with the places behind it."""

    places: Positive
    """Places of each station but the last."""

    back_places: Positive
    """Places of the last station."""

    least: Natural = 1
    """Elements that the first station gives for one, at least; the others give one."""

    most: Positive = 1
    """... at most."""

    start: Natural = 0
    """Elements in the last station at the start."""

    merge: Literal["any", "preferred", "permits"] = "any"
    """What the merge takes: any element, from outside only if none has come back, or by permits."""

    permits: Natural = 0
    """Elements in the loop with which a merge by permits takes no more from outside."""

    drops: bool = False
    """Does the last station drop what it has no place for?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        for name, bound in (("least", "most"), ("start", "back_places")):
            if getattr(self, name) > getattr(self, bound):
                raise ValueError(f"{name} must be at most {bound}, not {getattr(self, name)}")


class Station(NamedTuple):
    """A stage, and the places behind it."""

    least: int
    most: int
    places: int
    drops: bool
    held: int


class State(NamedTuple):
    """The variables of the specification."""

    stations: Family[Station]


def opened(name: int, parameters: Parameters) -> Station:
    """A station at the start."""
    is_first, is_last = name == 0, name == parameters.stations - 1
    return Station(
        least=parameters.least if is_first else 1,
        most=parameters.most if is_first else 1,
        places=parameters.back_places if is_last else parameters.places,
        drops=parameters.drops if is_last else False,
        held=parameters.start if is_last else 0,
    )


def initial(parameters: Parameters) -> State:
    """Elements are in the last station only."""
    others = Station(least=1, most=1, places=parameters.places, drops=False, held=0)
    stations = family(others, parameters.stations).put(0, opened(0, parameters))
    last = parameters.stations - 1
    return State(stations.put(last, opened(last, parameters)))


def after(name: int, parameters: Parameters) -> int:
    """The next station."""
    return name + 1 if name < parameters.stations - 1 else 0


def takes(station: Station) -> bool:
    """Does a station ask for an element?"""
    return station.drops or station.held < station.places


def filled(station: Station, given: int) -> Station:
    """A station after its stage has taken an element and given this many."""
    held = station.held + given
    return station._replace(held=station.places if station.drops and held > station.places else held)


def held(station: Station) -> int:
    """Elements that wait at a station."""
    return station.held


def admits(state: State, parameters: Parameters) -> bool:
    """May an element from outside come in, as far as the merge is concerned?"""
    if parameters.merge == "preferred":
        return state.stations.get(parameters.stations - 1).held == 0
    return parameters.merge == "any" or state.stations.sum_of(held) < parameters.permits


def feed(state: State, parameters: Parameters, more: int = 0) -> State:
    """The merge takes an element from outside; for it ``more`` than the least are given."""
    first = state.stations.get(0)
    require(admits(state, parameters))
    require(takes(first))
    require(0 <= more <= first.most - first.least)
    return State(state.stations.put(0, filled(first, first.least + more)))


def hand_on(state: State, parameters: Parameters, name: int, more: int = 0) -> State:
    """An element goes through the stage of the next station, which gives ``more`` than the least for it."""
    station = state.stations.get(name)
    following = after(name, parameters)
    stage = state.stations.get(following)
    require(station.held > 0)
    require(takes(stage))
    require(0 <= more <= stage.most - stage.least)
    taken = state.stations.put(name, station._replace(held=station.held - 1))
    return State(taken.put(following, filled(taken.get(following), stage.least + more)))


def station_ok(station: Station) -> bool:
    """Are the numbers of a station in their ranges?"""
    is_station = station.places >= 1 and station.most >= 1 and 0 <= station.least <= station.most
    is_in_range = 0 <= station.held < station.places + station.most
    return is_station and is_in_range and (not station.drops or station.held <= station.places)


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return state.stations.every(station_ok) and state.stations.size() == parameters.stations


def is_full(station: Station) -> bool:
    """Does it ask for nothing?"""
    return not takes(station)


def is_empty(station: Station) -> bool:
    """Does nothing wait at it?"""
    return station.held == 0


def never_full(state: State, _parameters: Parameters) -> bool:
    """Some station asks for an element."""
    return not state.stations.every(is_full)


def never_stuck(state: State, parameters: Parameters) -> bool:
    """As long as elements are in the loop, one goes on."""
    return bool(state.stations.every(is_empty)) or SYSTEM.can_move(state, parameters)


def _stations(state: State) -> Family[Station]:
    return state.stations


def _given(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((more,) for more in range(parameters.most - parameters.least + 1))


def _names(parameters: Parameters) -> Iterator[tuple[int, int]]:
    return ((name, more) for name in range(parameters.stations) for (more,) in _given(parameters))


SYSTEM: System[State, Parameters] = System(
    module="FeedbackLoop",
    initial=initial,
    actions=(
        Action("Feed", feed, _given, is_environment=True),
        Action("HandOn", hand_on, _names, members=_stations),
    ),
    invariants={"TypeOK": type_ok, "NeverFull": never_full, "NeverStuck": never_stuck},
    probes={"NeverEmptyProbe": lambda state, _: not state.stations.every(is_empty)},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.feedback_loop:theorems")
