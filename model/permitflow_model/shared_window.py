"""``SharedWindow.tla``, action for action: aligned inputs that are streams of one connection, and share its window.

RisingWave's #4505; docs/protocols/gate.md tells it beside the gate that has no such deadlock.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from permitflow_model.kernel.family import Family, family, some
from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Message = Literal["data", "barrier"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    inputs: Positive
    """Streams of the connection."""

    connection: Positive
    """Messages that all streams together may have sent and the consumer has not read."""

    stream: Positive
    """... and each stream."""

    waiters: Positive = 1
    """Messages of a stream that may wait at once."""


class Stream(NamedTuple):
    """One input."""

    waiting: Queue[Message]
    inbox: Queue[Message]
    blocked: bool


class State(NamedTuple):
    """The variables of the specification."""

    streams: Family[Stream]
    room: int


def initial(parameters: Parameters) -> State:
    """Nothing was offered yet."""
    opened = Stream(waiting=Fifo(), inbox=Fifo(), blocked=False)
    return State(streams=family(opened, parameters.inputs), room=parameters.connection)


def _offer(state: State, parameters: Parameters, name: int, kind: Message) -> State:
    stream = state.streams.get(name)
    require(stream.waiting.size() < parameters.waiters)
    return state._replace(streams=state.streams.put(name, stream._replace(waiting=stream.waiting.push(kind))))


def offer_data(state: State, parameters: Parameters, name: int) -> State:
    """The application of an input wants to send data."""
    return _offer(state, parameters, name, "data")


def offer_barrier(state: State, parameters: Parameters, name: int) -> State:
    """A barrier ends the epoch of an input."""
    return _offer(state, parameters, name, "barrier")


def send(state: State, parameters: Parameters, name: int) -> State:
    """Both windows admit the oldest message."""
    stream = state.streams.get(name)
    require(not stream.waiting.is_empty())
    require(stream.inbox.size() < parameters.stream)
    require(state.room > 0)
    message, rest = stream.waiting.head(), stream.waiting.without_head()
    stream = stream._replace(waiting=rest, inbox=stream.inbox.push(message))
    return state._replace(streams=state.streams.put(name, stream), room=state.room - 1)


def read(state: State, _parameters: Parameters, name: int) -> State:
    """Reading makes room in both windows; a barrier blocks its input."""
    stream = state.streams.get(name)
    require(not stream.blocked)
    require(not stream.inbox.is_empty())
    message, rest = stream.inbox.head(), stream.inbox.without_head()
    stream = stream._replace(inbox=rest, blocked=message == "barrier")
    return state._replace(streams=state.streams.put(name, stream), room=state.room + 1)


def is_blocked(stream: Stream) -> bool:
    """Was its barrier read?"""
    return stream.blocked


def resumed(stream: Stream) -> Stream:
    """The input when it is aligned."""
    return stream._replace(blocked=False)


def align(state: State, _parameters: Parameters) -> State:
    """All barriers have been read."""
    require(state.streams.every(is_blocked))
    return state._replace(streams=state.streams.map(resumed))


def stream_type_ok(stream: Stream, parameters: Parameters) -> bool:
    """Is every part of a stream in its range?"""
    return stream.waiting.size() <= parameters.waiters and stream.inbox.size() <= parameters.stream


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    streams = state.streams
    return streams.every(stream_type_ok, parameters) and streams.size() == parameters.inputs and state.room >= 0


def unread(stream: Stream) -> int:
    """Messages that were sent and not read."""
    return stream.inbox.size()


def conservation(state: State, parameters: Parameters) -> bool:
    """Each message that is not read takes one place in the connection's window."""
    return state.room + state.streams.sum_of(unread) == parameters.connection


def window(_stream: Stream, parameters: Parameters) -> int:
    """The most that a stream can have unread."""
    return parameters.stream


def waits(stream: Stream) -> bool:
    """Does something wait that is not blocked?"""
    return not stream.waiting.is_empty() and not stream.blocked


def never_stuck(state: State, parameters: Parameters) -> bool:
    """Where something waits and is not blocked, the protocol can move."""
    return not some(state.streams, waits) or SYSTEM.can_move(state, parameters)


def _names(parameters: Parameters) -> list[tuple[int]]:
    return [(name,) for name in range(parameters.inputs)]


def _streams(state: State) -> Family[Stream]:
    return state.streams


SYSTEM: System[State, Parameters] = System(
    module="SharedWindow",
    initial=initial,
    actions=(
        Action("OfferData", offer_data, _names, is_environment=True, end="sender", members=_streams),
        Action("OfferBarrier", offer_barrier, _names, is_environment=True, end="sender", members=_streams),
        Action("Send", send, _names, end="sender", members=_streams),
        Action("Read", read, _names, end="receiver", members=_streams),
        Action("Align", align, end="receiver"),
    ),
    invariants={"TypeOK": type_ok, "Conservation": conservation, "NeverStuck": never_stuck},
    probes={"RoomProbe": lambda state, _: state.room > 0},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.shared_window:theorems")
