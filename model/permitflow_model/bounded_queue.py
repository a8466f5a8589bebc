"""``BoundedQueue.tla``, action for action: a user's view of a channel.

A chunk goes in when there is room for it, and the oldest comes out.  No wires, no permits, no batches.  Modules named
``..._refinement`` map channels to such a queue.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from operator import add
from typing import NamedTuple, Protocol, TypeVar

from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

T = TypeVar("T")


@dataclass(frozen=True)
class Interval:
    """The numbers from ``least`` to ``most``, which may be symbols."""

    least: int
    most: int

    def __contains__(self, number: int) -> bool:
        return self.least <= number <= self.most

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.least, self.most + 1))


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The constants of the specification."""

    bound: int
    """The most that the chunks in the queue cost together."""

    costs: Interval | tuple[int, ...]
    """The possible costs of a chunk."""

    ids: Interval | tuple[int, ...]
    """The possible numbers of a chunk."""

    line: int
    """Chunks that may wait to go in at once."""


class Chunk(NamedTuple):
    """A chunk: goes in and comes out."""

    id: int
    cost: int


class State(NamedTuple):
    """The variables of the specification."""

    asked: Queue[Chunk]
    """Chunks that wait to go in, oldest first."""

    queue: Queue[Chunk]
    """Chunks that are in the queue, oldest first."""


def cost_of(chunk: Chunk) -> int:
    """The cost of a chunk."""
    return chunk.cost


def total(chunks: Queue[Chunk]) -> int:
    """The cost of some chunks together."""
    return chunks.sum_of(cost_of, add, 0)


def initial(_parameters: Parameters) -> State:
    """Nothing waits, and nothing is in the queue."""
    return State(Fifo(), Fifo())


def offer(state: State, parameters: Parameters, number: int, cost: int) -> State:
    """The user wants to put a chunk in."""
    require(state.asked.size() < parameters.line)
    require(number in parameters.ids)
    require(cost in parameters.costs)
    return state._replace(asked=state.asked.push(Chunk(number, cost)))


def withdraw(state: State, _parameters: Parameters) -> State:
    """The user gives up: the newest waiting chunk is not put in."""
    require(not state.asked.is_empty())
    return state._replace(asked=state.asked.without_last())


def can_put(state: State, parameters: Parameters) -> bool:
    """Is there room for the oldest chunk that waits?"""
    return not state.asked.is_empty() and total(state.queue) + state.asked.head().cost <= parameters.bound


def put(state: State, parameters: Parameters) -> State:
    """The oldest chunk that waits goes in."""
    require(can_put(state, parameters))
    chunk = state.asked.head()
    return State(asked=state.asked.without_head(), queue=state.queue.push(chunk))


def get(state: State, _parameters: Parameters) -> State:
    """The oldest chunk comes out."""
    require(not state.queue.is_empty())
    return state._replace(queue=state.queue.without_head())


def never_above_bound(state: State, parameters: Parameters) -> bool:
    """The chunks in the queue cost no more than its bound."""
    return total(state.queue) <= parameters.bound


def can_means_enabled(state: State, parameters: Parameters) -> bool:
    """The specification's fairness formula is weak fairness."""
    can_get = not state.queue.is_empty()
    return can_put(state, parameters) == SYSTEM.is_enabled("Put", state, parameters) and can_get == SYSTEM.is_enabled(
        "Get", state, parameters
    )


SYSTEM: System[State, Parameters] = System(
    module="BoundedQueue",
    initial=initial,
    actions=(
        Action(
            "Offer",
            offer,
            lambda parameters: product(parameters.ids, parameters.costs),
            is_environment=True,
        ),
        Action("Withdraw", withdraw, is_environment=True),
        Action("Put", put),
        Action("Get", get),
    ),
    invariants={"NeverAboveBound": never_above_bound, "CanMeansEnabled": can_means_enabled},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters)


# How a user sees a channel.

NO_CHUNKS: Fifo[Chunk] = Fifo()

MOVES: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "Withdraw": ("Withdraw", ()),
    "Send": ("Put", ()),
    "Consume": ("Get", ()),
}
"""The queue's actions, with their arguments, for a channel's actions that have none."""


class Channel(Protocol[T]):
    """A state of a channel."""

    @property
    def waiting(self) -> Queue[T]:
        """At the sender."""
        ...

    @property
    def wire(self) -> Queue[T]:
        """On the way."""
        ...

    @property
    def inbox(self) -> Queue[T]:
        """At the receiver."""
        ...


def _joined(ahead: Fifo[Chunk], behind: Fifo[Chunk]) -> Fifo[Chunk]:
    return ahead.join(behind)


def chunks_in(
    messages: Queue[T], as_chunks: Callable[[T], Fifo[Chunk]], nothing: Fifo[Chunk] = NO_CHUNKS
) -> Fifo[Chunk]:
    """Messages in the user's view, oldest first.

    ``nothing`` is an empty queue of the wanted kind; proofs pass their own.
    """
    return messages.sum_of(as_chunks, _joined, nothing)


def queue_in(channel: Channel[T], as_chunks: Callable[[T], Fifo[Chunk]], nothing: Fifo[Chunk] = NO_CHUNKS) -> State:
    """What waits at the sender waits to go in; what is on the wire or in the inbox is in the queue."""
    return State(
        asked=chunks_in(channel.waiting, as_chunks, nothing),
        queue=chunks_in(channel.inbox, as_chunks, nothing).join(chunks_in(channel.wire, as_chunks, nothing)),
    )
