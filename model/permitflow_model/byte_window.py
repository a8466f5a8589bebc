"""``ByteWindow.tla``, action for action: a channel with two ledgers, permits for rows and a window of bytes.

docs/protocols/byte-window.md explains it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from operator import add
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    row_permits: Positive
    """Row permits of the channel."""

    permit_batch: Positive
    """The receiver returns row permits once it has collected this many."""

    window_bytes: Positive
    """Bytes that may be outstanding, but for the exception."""

    batch_bytes: int
    """The receiver returns bytes once it has collected this many."""

    row_costs: tuple[int, ...]
    """How many row permits a chunk may cost."""

    byte_costs: tuple[int, ...]
    """How many bytes it may cost."""

    estimates: bool = False
    """May a sender expect more bytes of a chunk than it turns out to have?"""

    together: bool = True
    """Do row permits take the collected bytes along when they return?"""

    waiters: Positive = 1
    """Chunks that may wait at once."""

    withdrawals: bool = False
    """May the sender give up waiting?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if not 1 <= self.batch_bytes <= self.window_bytes:
            raise ValueError(f"batch_bytes must be in 1 .. window_bytes = {self.window_bytes}, not {self.batch_bytes}")
        for name, least in (("row_costs", 1), ("byte_costs", 0)):
            costs = getattr(self, name)
            if not costs or any(cost < least for cost in costs):
                raise ValueError(f"{name} must be numbers of at least {least}, not {costs}")


class Chunk(NamedTuple):
    """What it costs."""

    rows: int
    """Row permits."""

    expected: int
    """Bytes that the sender takes it for until it is sent: at least as many."""

    bytes: int
    """Bytes that both ends count."""


class State(NamedTuple):
    """The variables of the specification."""

    waiting: Queue[Chunk]
    permits: int
    outstanding: int
    wire: Queue[Chunk]
    inbox: Queue[Chunk]
    unreturned_rows: int
    unreturned_bytes: int
    returned_rows: int
    returned_bytes: int


def initial(parameters: Parameters) -> State:
    """Nothing was offered yet: all row permits are at the sender, and no bytes are outstanding."""
    return State(
        waiting=Fifo(),
        permits=parameters.row_permits,
        outstanding=0,
        wire=Fifo(),
        inbox=Fifo(),
        unreturned_rows=0,
        unreturned_bytes=0,
        returned_rows=0,
        returned_bytes=0,
    )


def most_bytes(parameters: Parameters) -> int:
    """The most bytes that are ever outstanding."""
    return max(parameters.window_bytes, parameters.batch_bytes - 1 + max(parameters.byte_costs))


def admits(others: int, size_bytes: int, parameters: Parameters) -> bool:
    """Does the window admit this many bytes where others are outstanding?"""
    return others + size_bytes <= parameters.window_bytes or others < parameters.batch_bytes


def admits_bytes(state: State, parameters: Parameters, size_bytes: int) -> bool:
    """Does it now?"""
    return admits(state.outstanding, size_bytes, parameters)


def offer(state: State, parameters: Parameters, rows: int, expected: int, size_bytes: int) -> State:
    """The application wants to send a chunk."""
    require(state.waiting.size() < parameters.waiters)
    require(size_bytes <= expected)
    require(parameters.estimates or size_bytes == expected)
    return state._replace(waiting=state.waiting.push(Chunk(rows, expected, size_bytes)))


def withdraw(state: State, parameters: Parameters) -> State:
    """The application gives up waiting with its newest chunk."""
    require(parameters.withdrawals)
    require(not state.waiting.is_empty())
    return state._replace(waiting=state.waiting.without_last())


def send(state: State, parameters: Parameters) -> State:
    """Both ledgers admit the oldest chunk: it leaves."""
    require(not state.waiting.is_empty())
    chunk = state.waiting.head()
    require(chunk.rows <= state.permits)
    require(admits_bytes(state, parameters, chunk.expected))
    return state._replace(
        permits=state.permits - chunk.rows,
        outstanding=state.outstanding + chunk.bytes,
        wire=state.wire.push(chunk),
        waiting=state.waiting.without_head(),
    )


def deliver(state: State, _parameters: Parameters) -> State:
    """A chunk arrives at the receiver."""
    require(not state.wire.is_empty())
    return state._replace(inbox=state.inbox.push(state.wire.head()), wire=state.wire.without_head())


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed a chunk: each ledger returns a batch that is complete."""
    require(not state.inbox.is_empty())
    chunk = state.inbox.head()
    rows = state.unreturned_rows + chunk.rows
    size_bytes = state.unreturned_bytes + chunk.bytes
    returns_rows = rows >= parameters.permit_batch
    returns_bytes = size_bytes >= parameters.batch_bytes or (parameters.together and returns_rows)
    return state._replace(
        inbox=state.inbox.without_head(),
        unreturned_rows=0 if returns_rows else rows,
        returned_rows=state.returned_rows + rows if returns_rows else state.returned_rows,
        unreturned_bytes=0 if returns_bytes else size_bytes,
        returned_bytes=state.returned_bytes + size_bytes if returns_bytes else state.returned_bytes,
    )


def return_rows(state: State, _parameters: Parameters, rows: int = 1) -> State:
    """This many row permits arrive at the sender."""
    require(rows <= state.returned_rows)
    return state._replace(permits=state.permits + rows, returned_rows=state.returned_rows - rows)


def return_bytes(state: State, _parameters: Parameters, size_bytes: int = 1) -> State:
    """This many bytes do."""
    require(size_bytes <= state.returned_bytes)
    return state._replace(outstanding=state.outstanding - size_bytes, returned_bytes=state.returned_bytes - size_bytes)


def _offers(parameters: Parameters) -> Iterator[tuple[int, int, int]]:
    return product(parameters.row_costs, parameters.byte_costs, parameters.byte_costs)


def _rows(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((rows,) for rows in range(1, parameters.row_permits + 1))


def _bytes(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((size_bytes,) for size_bytes in range(1, most_bytes(parameters) + 1))


def is_chunk(chunk: Chunk, parameters: Parameters) -> bool:
    """May a chunk cost this?"""
    return (
        chunk.rows in parameters.row_costs
        and chunk.expected in parameters.byte_costs
        and chunk.bytes in parameters.byte_costs
        and chunk.bytes <= chunk.expected
    )


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        state.waiting.size() <= parameters.waiters
        and all(queue.every(is_chunk, parameters) for queue in (state.waiting, state.wire, state.inbox))
        and state.permits >= 0
        and state.outstanding >= 0
        and state.unreturned_rows >= 0
        and state.unreturned_bytes >= 0
        and state.returned_rows >= 0
        and state.returned_bytes >= 0
    )


def rows_of(chunk: Chunk) -> int:
    """Row permits that it holds."""
    return chunk.rows


def bytes_of(chunk: Chunk) -> int:
    """Bytes that it holds."""
    return chunk.bytes


def rows_in(state: State) -> int:
    """Row permits that chunks in the channel hold."""
    return state.wire.sum_of(rows_of, add, 0) + state.inbox.sum_of(rows_of, add, 0)


def bytes_in(state: State) -> int:
    """Bytes of chunks in the channel."""
    return state.wire.sum_of(bytes_of, add, 0) + state.inbox.sum_of(bytes_of, add, 0)


def rows_conserved(state: State, parameters: Parameters) -> bool:
    """Row permits are at the sender, held by a chunk, collected, or on their way back."""
    return state.permits + rows_in(state) + state.unreturned_rows + state.returned_rows == parameters.row_permits


def bytes_conserved(state: State, _parameters: Parameters) -> bool:
    """What the sender counts is in the channel, collected, or on its way back."""
    return state.outstanding == bytes_in(state) + state.unreturned_bytes + state.returned_bytes


def rows_bounded(state: State, parameters: Parameters) -> bool:
    """Chunks in the channel hold at most the permits that there are."""
    return rows_in(state) <= parameters.row_permits


def bytes_bounded(state: State, parameters: Parameters) -> bool:
    """What was sent and not returned, and so what a receiver may have to keep."""
    return state.outstanding <= most_bytes(parameters)


def window_holds(state: State, parameters: Parameters) -> bool:
    """Chunks that are small enough need no exception: the window is the bound."""
    if max(parameters.byte_costs) > parameters.window_bytes - parameters.batch_bytes + 1:
        return True
    return state.outstanding <= parameters.window_bytes


def rows_batched(state: State, parameters: Parameters) -> bool:
    """Less than a batch of row permits is collected."""
    return state.unreturned_rows < parameters.permit_batch


def bytes_batched(state: State, parameters: Parameters) -> bool:
    """Less than a batch of bytes is collected."""
    return state.unreturned_bytes < parameters.batch_bytes


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A chunk that waits can still be served; rows need a condition, and bytes none."""
    return state.waiting.is_empty() or SYSTEM.can_move(state, parameters)


def window_admits(state: State, parameters: Parameters) -> bool:
    """Where no chunk is under way and no bytes are, the window admits any chunk, whatever the permits say."""
    if not (state.wire.is_empty() and state.inbox.is_empty() and state.returned_bytes == 0):
        return True
    # If it admits the largest, it admits all.
    return admits_bytes(state, parameters, max(parameters.byte_costs))


def receiver_admits(state: State, parameters: Parameters) -> bool:
    """A receiver that asks the same of what it holds refuses no chunk that comes."""
    if state.wire.is_empty():
        return True
    held = state.inbox.sum_of(bytes_of, add, 0) + state.unreturned_bytes
    return admits(held, state.wire.head().bytes, parameters)


def _sender_moves(state: State, parameters: Parameters) -> bool:
    return any(SYSTEM.is_enabled(action, state, parameters) for action in ("Send", "Deliver", "Consume"))


SYSTEM: System[State, Parameters] = System(
    module="ByteWindow",
    initial=initial,
    actions=(
        Action("Offer", offer, _offers, is_environment=True, end="sender"),
        Action("Withdraw", withdraw, is_environment=True, end="sender"),
        Action("Send", send, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("ReturnRows", return_rows, _rows, is_arrival=True, end="sender"),
        Action("ReturnBytes", return_bytes, _bytes, is_arrival=True, end="sender"),
    ),
    invariants={
        "TypeOK": type_ok,
        "RowsConserved": rows_conserved,
        "BytesConserved": bytes_conserved,
        "RowsBounded": rows_bounded,
        "BytesBounded": bytes_bounded,
        "WindowHolds": window_holds,
        "RowsBatched": rows_batched,
        "BytesBatched": bytes_batched,
        "NeverStuck": never_stuck,
        "WindowAdmits": window_admits,
        "ReceiverAdmits": receiver_admits,
    },
    probes={
        "PermitsSufficeProbe": lambda state, parameters: (
            state.waiting.is_empty()
            or state.waiting.head().rows > state.permits
            or admits_bytes(state, parameters, state.waiting.head().expected)
        ),
        "WindowSufficesProbe": lambda state, parameters: (
            state.waiting.is_empty()
            or not admits_bytes(state, parameters, state.waiting.head().expected)
            or state.waiting.head().rows <= state.permits
        ),
        "WithinWindowProbe": lambda state, parameters: state.outstanding <= parameters.window_bytes,
        "AloneProbe": lambda state, parameters: (
            state.outstanding <= parameters.window_bytes or state.outstanding <= max(parameters.byte_costs)
        ),
        "NothingWithheldProbe": lambda state, _: (
            state.outstanding == 0 or state.wire.size() + state.inbox.size() + state.returned_bytes > 0
        ),
        "BoundNotReachedProbe": lambda state, parameters: state.outstanding < most_bytes(parameters),
        "ChannelNeverIdleProbe": lambda state, parameters: state.waiting.is_empty() or _sender_moves(state, parameters),
    },
    counters={
        "sender": lambda state: (state.permits, state.outstanding),
        "receiver": lambda state: (state.inbox.size(), state.unreturned_rows, state.unreturned_bytes),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.byte_window:theorems",
)
