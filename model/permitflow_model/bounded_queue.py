"""``BoundedQueue.tla``, action for action: what a user of a channel sees.

A chunk goes in when there is room for it, and the oldest comes out.  No wires, no permits, no batches.
``permit_channel_refinement`` says how a permit channel is such a queue.
"""

from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require

__all__ = ["SYSTEM", "Chunk", "Parameters", "State", "cost_of", "initial", "total"]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The constants of the specification; its sets are intervals here."""

    bound: int
    """The chunks in the queue cost no more than this together."""

    max_cost: int
    """A chunk costs 1 .. this: ``Costs``."""

    ids: int
    """Chunks are called 0 .. this - 1: ``Ids``."""

    line: int
    """Chunks that may wait to go in at once."""


class Chunk(NamedTuple):
    """What goes in and comes out."""

    id: int
    cost: int


class State(NamedTuple):
    """The variables of the specification."""

    asked: Queue[Chunk]
    """Chunks that wait to go in, oldest first."""

    queue: Queue[Chunk]
    """Chunks that are in the queue, oldest first."""


def cost_of(chunk: Chunk) -> int:
    """What a chunk costs."""
    return chunk.cost


def total(chunks: Queue[Chunk]) -> int:
    """What some chunks cost together."""
    return chunks.sum_of(cost_of, add, 0)


def initial(_parameters: Parameters) -> State:
    """Nothing waits, and nothing is in the queue."""
    return State(Fifo(), Fifo())


def ask(state: State, parameters: Parameters, number: int, cost: int) -> State:
    """Somebody wants to put a chunk in."""
    require(state.asked.size() < parameters.line)
    require(0 <= number < parameters.ids)
    require(1 <= cost <= parameters.max_cost)
    return state._replace(asked=state.asked.push(Chunk(number, cost)))


def give_up(state: State, _parameters: Parameters) -> State:
    """Somebody gives up: the newest chunk that waits is not put in."""
    require(not state.asked.is_empty())
    return state._replace(asked=state.asked.without_last())


def put(state: State, parameters: Parameters) -> State:
    """The oldest chunk that waits goes in."""
    require(not state.asked.is_empty())
    chunk = state.asked.head()
    require(total(state.queue) + chunk.cost <= parameters.bound)
    return State(asked=state.asked.without_head(), queue=state.queue.push(chunk))


def get(state: State, _parameters: Parameters) -> State:
    """The oldest chunk comes out."""
    require(not state.queue.is_empty())
    return state._replace(queue=state.queue.without_head())


def never_above_bound(state: State, parameters: Parameters) -> bool:
    """What is in the queue costs no more than its bound."""
    return total(state.queue) <= parameters.bound


SYSTEM: System[State, Parameters] = System(
    module="BoundedQueue",
    initial=initial,
    actions=(
        Action(
            "Ask",
            ask,
            lambda parameters: [
                (number, cost) for number in range(parameters.ids) for cost in range(1, parameters.max_cost + 1)
            ],
            is_environment=True,
        ),
        Action("GiveUp", give_up, is_environment=True),
        Action("Put", put),
        Action("Get", get),
    ),
    invariants={"NeverAboveBound": never_above_bound},
)
