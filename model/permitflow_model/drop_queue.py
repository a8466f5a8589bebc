"""``DropQueue.tla``, action for action: a queue that drops when it is full; how long do those wait who are served?

An optimistic technique: a job that is dropped is sent again.  docs/protocols/optimistic.md explains it.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Strategy = Literal["oldest", "youngest", "incoming"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    capacity: Positive
    """Jobs that wait at most."""

    arrivals: Positive
    """Jobs that come in a tick."""

    services: Positive
    """Jobs that are served in a tick, if this many wait."""

    resend: Positive
    """Ticks after which a client that was not served sends its job again."""

    drops: Strategy
    """The job that a full queue drops: the oldest or the youngest that waits, or the one that comes."""


def fresh_capacity(parameters: Parameters) -> int:
    """The longest queue that serves no job that was sent again meanwhile; ``capacity`` is not looked at.

    A job that waits moves up with each one that is served; if the oldest are dropped, also with each one that comes.
    If you do not know how many come, count only on those that are served: ``arrivals=1``.
    """
    if parameters.drops == "oldest" and parameters.arrivals > parameters.services:
        return parameters.arrivals * parameters.resend
    return parameters.services * parameters.resend


class State(NamedTuple):
    """The variables of the specification."""

    size: int
    came: int
    served: int
    watched: bool
    ahead: int
    waited: int
    outdated: bool


def is_due_to_arrive(state: State, parameters: Parameters) -> bool:
    """Must more jobs come in this tick?"""
    return state.came < parameters.arrivals


def is_due_to_serve(state: State, parameters: Parameters) -> bool:
    """Must more jobs be served in this tick, now that all of it have come?"""
    return not is_due_to_arrive(state, parameters) and state.served < parameters.services and state.size > 0


def initial(_parameters: Parameters) -> State:
    """Nothing waits, and no job is watched."""
    return State(size=0, came=0, served=0, watched=False, ahead=0, waited=0, outdated=False)


def without_watched(state: State) -> State:
    """The watched job is gone."""
    return state._replace(watched=False, ahead=0, waited=0)


def arrive(state: State, parameters: Parameters) -> State:
    """A job comes; a full queue drops one."""
    require(is_due_to_arrive(state, parameters))
    after = state._replace(came=state.came + 1)
    if state.size < parameters.capacity:
        return after._replace(size=state.size + 1)
    if not state.watched or parameters.drops == "incoming":
        return after
    if parameters.drops == "youngest":
        return without_watched(after) if state.ahead == state.size - 1 else after
    return without_watched(after) if state.ahead == 0 else after._replace(ahead=state.ahead - 1)


def arrive_watched(state: State, parameters: Parameters) -> State:
    """A job comes and is let in, and this one is watched from here on; it may be any job."""
    require(not state.watched)
    require(state.size < parameters.capacity or parameters.drops != "incoming")
    after = arrive(state, parameters)
    return after._replace(watched=True, ahead=after.size - 1)


def serve(state: State, parameters: Parameters) -> State:
    """The oldest job is served; was it sent again meanwhile?"""
    require(is_due_to_serve(state, parameters))
    after = state._replace(size=state.size - 1, served=state.served + 1)
    if not state.watched:
        return after
    if state.ahead > 0:
        return after._replace(ahead=state.ahead - 1)
    return without_watched(after)._replace(outdated=state.outdated or state.waited >= parameters.resend)


def tick(state: State, parameters: Parameters) -> State:
    """Time passes: all jobs of the tick have come, and all that can be were served."""
    require(not is_due_to_arrive(state, parameters))
    require(not is_due_to_serve(state, parameters))
    waited = state.waited + 1 if state.watched else 0
    return state._replace(came=0, served=0, waited=waited)


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range; jobs of a tick come before any is served."""
    return (
        0 <= state.size <= parameters.capacity
        and 0 <= state.came <= parameters.arrivals
        and 0 <= state.served <= parameters.services
        and state.ahead >= 0
        and state.waited >= 0
        and (state.served == 0 or state.came == parameters.arrivals)
        and (state.ahead < state.size if state.watched else state.ahead == 0 and state.waited == 0)
    )


def fresh(state: State, _parameters: Parameters) -> bool:
    """No job is served that was sent again meanwhile."""
    return not state.outdated


SYSTEM: System[State, Parameters] = System(
    module="DropQueue",
    initial=initial,
    actions=(
        Action("Arrive", arrive, is_environment=True),
        Action("ArriveWatched", arrive_watched, is_environment=True),
        Action("Tick", tick, is_environment=True),
        Action("Serve", serve),
    ),
    invariants={"TypeOK": type_ok, "Fresh": fresh},
    probes={
        "NeverFullProbe": lambda state, parameters: state.size < parameters.capacity,
        "ServedAtOnceProbe": lambda state, _: state.waited == 0,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.drop_queue:theorems")
