"""``PortMachine.tla``, action for action: one connection between two stages, with an inlet that asks and an outlet.

docs/protocols/ports.md explains it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Token = Literal["InReady", "Pulling", "Pushing", "OutReady"]
Inlet = Literal["open", "cancelled", "completed", "failed"]
Outlet = Literal["open", "completed", "failed", "cancelled"]
Event = Literal["nothing", "asked", "element", "end", "failure", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The constants of the specification."""

    failures: bool = True
    """May the outlet fail?"""


class State(NamedTuple):
    """The variables of the specification."""

    token: Token
    inlet: Inlet
    outlet: Outlet
    element: int
    events: int
    demand: int
    heard: Event


def initial(_parameters: Parameters) -> State:
    """The inlet may pull."""
    return State(token="InReady", inlet="open", outlet="open", element=0, events=0, demand=0, heard="nothing")


def is_at_rest(state: State) -> bool:
    """Is neither a pull nor an element on its way?"""
    return state.token == "InReady" or state.token == "OutReady"


def pull(state: State, _parameters: Parameters) -> State:
    """The inlet asks; an element that was not grabbed is dropped.  A closed outlet is not told."""
    require(state.inlet == "open")
    require(state.token == "InReady")
    events = state.events + 1 if state.outlet == "open" else state.events
    return state._replace(token="Pulling", element=0, events=events, demand=state.demand + 1, heard="nothing")


def grab(state: State, _parameters: Parameters) -> State:
    """The inlet takes the element that has arrived."""
    require(state.element > 0)
    require(state.token == "InReady")
    return state._replace(element=state.element - 1, heard="nothing")


def cancel(state: State, _parameters: Parameters) -> State:
    """The inlet wants no more; an element is dropped.  No effect after the end."""
    if state.inlet != "open":
        return state._replace(heard="nothing")
    events = state.events + 1 if state.outlet == "open" and is_at_rest(state) else state.events
    return state._replace(inlet="cancelled", element=0, events=events, heard="nothing")


def push(state: State, _parameters: Parameters) -> State:
    """The outlet sends an element; a closed inlet is not told, and gets none."""
    require(state.outlet == "open")
    require(state.token == "OutReady")
    after = state._replace(token="Pushing", demand=state.demand - 1, heard="nothing")
    if state.inlet != "open":
        return after
    return after._replace(element=state.element + 1, events=state.events + 1)


def _close_outlet(state: State, how: Outlet) -> State:
    if state.outlet != "open":
        return state._replace(heard="nothing")
    events = state.events + 1 if state.inlet == "open" and is_at_rest(state) else state.events
    return state._replace(outlet=how, events=events, heard="nothing")


def complete(state: State, _parameters: Parameters) -> State:
    """The outlet ends the stream, behind an element on its way.  No effect on a closed outlet."""
    return _close_outlet(state, "completed")


def fail(state: State, parameters: Parameters) -> State:
    """... with an error.  Where the inlet is closed, nobody hears of it."""
    require(parameters.failures)
    return _close_outlet(state, "failed" if state.inlet == "open" else "completed")


def process_event(state: State, _parameters: Parameters) -> State:
    """The island runs the next event."""
    require(state.events > 0)
    after = state._replace(events=state.events - 1)
    if state.inlet == "open" and state.outlet == "open":
        if state.token == "Pushing":
            return after._replace(token="InReady", heard="element")
        if state.token == "Pulling":
            return after._replace(token="OutReady", heard="asked")
        return after._replace(heard="nothing")
    if state.outlet == "open":
        return after._replace(outlet="cancelled", heard="cancelled")
    if state.inlet != "open":
        return after._replace(heard="nothing")
    # The outlet has ended the stream: first the element, in an event of its own.
    if state.token == "Pushing":
        return state._replace(token="InReady", heard="element")
    if state.outlet == "failed":
        return after._replace(inlet="failed", heard="failure")
    return after._replace(inlet="completed", heard="end")


def open_connection(state: State, parameters: Parameters) -> State:
    """Another connection."""
    require(state.inlet != "open")
    require(state.outlet != "open")
    require(state.events == 0)
    require(state.element == 0)
    return initial(parameters)


def type_ok(state: State, _parameters: Parameters) -> bool:
    """There is at most one element, and at most one event."""
    return 0 <= state.element <= 1 and 0 <= state.events <= 1


def demanded(state: State, _parameters: Parameters) -> bool:
    """There is one demand while a pull is on its way or the outlet may push: each push answers one pull."""
    return state.demand == (1 if state.token == "Pulling" or state.token == "OutReady" else 0)


def nothing_lost(state: State, _parameters: Parameters) -> bool:
    """An element on its way to an open inlet is there, and the island will tell of it, even if the stream has ended."""
    return state.token != "Pushing" or state.inlet != "open" or (state.element == 1 and state.events == 1)


def quiet(state: State, _parameters: Parameters) -> bool:
    """An open connection has an event if, and only if, something is on its way; no element is here beside a demand."""
    is_open = state.inlet == "open" and state.outlet == "open"
    if is_open and state.events != (0 if is_at_rest(state) else 1):
        return False
    return state.element == 0 or state.token == "InReady" or state.token == "Pushing"


def not_overtaken(state: State, _parameters: Parameters) -> bool:
    """When the inlet hears the end or a failure, no element is on its way."""
    has_heard = state.inlet == "completed" or state.inlet == "failed"
    return not has_heard or state.token != "Pushing"


def close_reported(state: State, _parameters: Parameters) -> bool:
    """Where one end has closed and the other does not know, the island will tell it."""
    return (state.inlet == "open") == (state.outlet == "open") or state.events == 1


def ends_match(state: State, _parameters: Parameters) -> bool:
    """The inlet hears what the outlet did; the outlet hears a cancellation only if there was one."""
    if state.inlet == "completed":
        return state.outlet == "completed"
    if state.inlet == "failed":
        return state.outlet == "failed"
    return state.outlet != "cancelled" or state.inlet == "cancelled"


def left_to_tell(state: State) -> int:
    """Events that the island will run if nobody does anything more."""
    is_ending = state.inlet == "open" and state.outlet != "open"
    return state.events + 1 if is_ending and state.token == "Pushing" else state.events


SYSTEM: System[State, Parameters] = System(
    module="PortMachine",
    initial=initial,
    actions=(
        Action("Pull", pull, is_environment=True),
        Action("Grab", grab, is_environment=True),
        Action("Cancel", cancel, is_environment=True),
        Action("Push", push, is_environment=True),
        Action("Complete", complete, is_environment=True),
        Action("Fail", fail, is_environment=True),
        Action("OpenConnection", open_connection, is_environment=True),
        Action("ProcessEvent", process_event),
    ),
    invariants={
        "TypeOK": type_ok,
        "Demanded": demanded,
        "NothingLost": nothing_lost,
        "Quiet": quiet,
        "NotOvertaken": not_overtaken,
        "CloseReported": close_reported,
        "EndsMatch": ends_match,
    },
    probes={
        "ClosedAtOnceProbe": lambda state, _: (state.inlet == "open") == (state.outlet == "open"),
        "EndsBetweenElementsProbe": lambda state, _: state.outlet != "completed" or state.token != "Pushing",
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.port_machine:theorems")
