"""``BlockingEcho.tla``, action for action: a client that writes its whole request before it reads."""

from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    writes: Positive
    """Elements that the client writes."""

    server_buffer: Positive
    """Elements that the server's receive buffer takes."""

    hand: Natural
    """Elements that the server has taken and not yet sent back, at most."""

    client_buffer: Natural
    """Elements that the client's receive buffer takes."""

    reads_meanwhile: bool = False
    """Does the client read while it writes?"""


class State(NamedTuple):
    """The variables of the specification."""

    unwritten: int
    server: int
    hand: int
    client: int
    read: int


def initial(parameters: Parameters) -> State:
    """Nothing was written."""
    return State(unwritten=parameters.writes, server=0, hand=0, client=0, read=0)


def is_reading(state: State, parameters: Parameters) -> bool:
    """Does the client read?"""
    return parameters.reads_meanwhile or state.unwritten == 0


def places(state: State, parameters: Parameters) -> int:
    """A client that reads has one place more, in the read that waits for an element."""
    return parameters.client_buffer + 1 if is_reading(state, parameters) else parameters.client_buffer


def write(state: State, parameters: Parameters) -> State:
    """The client writes an element; it waits while the server's buffer is full."""
    require(state.unwritten > 0)
    require(state.server < parameters.server_buffer)
    return state._replace(unwritten=state.unwritten - 1, server=state.server + 1)


def take(state: State, parameters: Parameters) -> State:
    """The server takes an element out of its buffer."""
    require(state.server > 0)
    require(state.hand < parameters.hand)
    return state._replace(server=state.server - 1, hand=state.hand + 1)


def echo(state: State, parameters: Parameters) -> State:
    """The server sends one back: from its hand, or from its buffer if it takes only what it can send."""
    require(state.client < places(state, parameters))
    after = state._replace(client=state.client + 1)
    if parameters.hand == 0:
        require(state.server > 0)
        return after._replace(server=state.server - 1)
    require(state.hand > 0)
    return after._replace(hand=state.hand - 1)


def read(state: State, parameters: Parameters) -> State:
    """The client reads an element of the answer."""
    require(is_reading(state, parameters))
    require(state.client > 0)
    return state._replace(client=state.client - 1, read=state.read + 1)


def begin_request(state: State, parameters: Parameters) -> State:
    """The client has its answer, and begins its next request."""
    require(state.read == parameters.writes)
    return state._replace(unwritten=parameters.writes, read=0)


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.unwritten <= parameters.writes
        and 0 <= state.read <= parameters.writes
        and 0 <= state.server <= parameters.server_buffer
        and 0 <= state.hand <= parameters.hand
        and 0 <= state.client <= places(state, parameters)
    )


def conservation(state: State, parameters: Parameters) -> bool:
    """Each element of the request is somewhere, once."""
    return state.unwritten + state.server + state.hand + state.client + state.read == parameters.writes


def reads_last(state: State, parameters: Parameters) -> bool:
    """A client that blocks reads nothing before it has written everything."""
    return is_reading(state, parameters) or state.read == 0


def fits(parameters: Parameters) -> bool:
    """Is there room for the request while the client does not read?"""
    held = parameters.server_buffer + parameters.hand + parameters.client_buffer
    return parameters.reads_meanwhile or parameters.writes <= held


def never_written(state: State, parameters: Parameters) -> bool:
    """A longer request is never written to its end."""
    return fits(parameters) or state.unwritten > 0


def never_stuck(state: State, parameters: Parameters) -> bool:
    """Something moves; needs a request that fits."""
    return any(SYSTEM.is_enabled(action.name, state, parameters) for action in SYSTEM.actions)


SYSTEM: System[State, Parameters] = System(
    module="BlockingEcho",
    initial=initial,
    actions=(
        Action("Write", write, is_environment=True),
        Action("Read", read, is_environment=True),
        Action("BeginRequest", begin_request, is_environment=True),
        Action("Take", take),
        Action("Echo", echo),
    ),
    invariants={
        "TypeOK": type_ok,
        "Conservation": conservation,
        "ReadsLast": reads_last,
        "NeverWritten": never_written,
        "NeverStuck": never_stuck,
    },
    probes={"NeverAnsweredProbe": lambda state, parameters: state.read < parameters.writes},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.blocking_echo:theorems")
