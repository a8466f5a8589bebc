"""In every state of small channels, each step is one step of the queue that a user sees, or cannot be seen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from permitflow_model import (
    adaptive_window,
    adaptive_window_refinement,
    bounded_queue,
    bounded_queue_refinement,
    byte_window,
    byte_window_refinement,
    lossy_channel,
    permit_channel,
    permit_channel_refinement,
    resume,
)
from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled, System


@dataclass(frozen=True)
class Refinement:
    """A protocol, and how it is a queue."""

    system: System[Any, Any]
    module: Any
    """With ``queue_parameters`` and ``queue_move``."""
    seen: Callable[[Any], bounded_queue.State]
    moves: Mapping[str, str]
    """Which moves of the queue the steps are."""


def of_chunks(system: System[Any, Any], module: Any, as_chunks: Any, moves: Mapping[str, str]) -> Refinement:
    return Refinement(system, module, partial(bounded_queue.queue_in, as_chunks=as_chunks), moves)


def of_numbers(system: System[Any, Any]) -> Refinement:
    moves = {"Send": "Offer", "Deliver": "Put", "Consume": "Get"}
    return Refinement(system, bounded_queue_refinement, bounded_queue_refinement.queue_in, moves)


MOVES = {"Offer": "Offer", "Withdraw": "Withdraw", "Send": "Put", "Consume": "Get"}
ADAPTIVE = of_chunks(adaptive_window.SYSTEM, adaptive_window_refinement, adaptive_window_refinement.as_chunk, MOVES)
BYTES = of_chunks(byte_window.SYSTEM, byte_window_refinement, byte_window_refinement.as_chunk, MOVES)
PERMITS = of_chunks(
    permit_channel.SYSTEM,
    permit_channel_refinement,
    permit_channel_refinement.as_chunks,
    {"OfferChunk": "Offer", "WithdrawChunk": "Withdraw", "SendChunk": "Put", "Consume": "Get"},
)
LOSSY, RESUME = of_numbers(lossy_channel.SYSTEM), of_numbers(resume.SYSTEM)

CASES: dict[str, tuple[Refinement, Any]] = {
    "adaptive": (
        ADAPTIVE,
        adaptive_window.Parameters(row_permits=3, permit_batch=2, room=1, row_costs=(1, 3), withdrawals=True),
    ),
    "bytes": (
        BYTES,
        byte_window.Parameters(
            row_permits=2,
            permit_batch=1,
            window_bytes=3,
            batch_bytes=2,
            row_costs=(1, 2),
            byte_costs=(1, 5),
            estimates=True,
            withdrawals=True,
        ),
    ),
    "permits": (
        PERMITS,
        permit_channel.Parameters(
            row_permits=2, permit_batch=2, max_chunk_cost=2, sizes=(0, 3), waiters=2, tags=5, withdrawals=True
        ),
    ),
    "all classes": (
        PERMITS,
        permit_channel.Parameters(
            row_permits=1,
            permit_batch=1,
            max_chunk_cost=1,
            sizes=(0, 3),
            barrier_permits=1,
            watermarks=True,
            flush_idle=True,
            withdrawals=True,
            tags=5,
        ),
    ),
    "lossy": (LOSSY, lossy_channel.Parameters(window=2, total=2, copies=1)),
    "resume": (RESUME, resume.Parameters(window=2, every=1, total=2, connections=2, sender_dials=False)),
}

TOO_SMALL: dict[str, list[dict[str, Any]]] = {
    "adaptive": [{"bound": 2}, {"costs": (1,)}, {"ids": (1,)}],
    "bytes": [{"bound": 1}, {"costs": (1,)}, {"ids": (1,)}],
    "permits": [{"bound": 1}, {"costs": (1,)}, {"ids": (0, 1, 2, 3)}, {"line": 1}],
    "lossy": [{"bound": 1}, {"ids": (0,)}, {"line": 1}],
    "resume": [{"bound": 1}, {"ids": (0,)}, {"line": 1}],
}


def moves_of(refinement: Refinement, parameters: Any, queue: bounded_queue.Parameters) -> set[tuple[str, str]]:
    """Which moves of the queue the steps are; fails at the first that is none.

    Raises:
        Disabled: the queue does not allow a move.
    """
    moves = set()
    for before in explore(refinement.system, parameters, invariants={}).states:
        seen = refinement.seen(before)
        for step in refinement.system.successors(before, parameters):
            after = refinement.seen(step.state)
            move = refinement.module.queue_move(step.action, before, parameters, *step.arguments)
            if move is None:
                assert after == seen
                continue
            assert after == QUEUE.perform(move[0], seen, queue, *move[1])
            assert QUEUE.broken_invariants(after, queue) == []
            moves.add((step.action, move[0]))
    return moves


@pytest.mark.parametrize("name", CASES)
def test_each_step_is_a_step_of_the_queue_or_cannot_be_seen(name: str) -> None:
    refinement, parameters = CASES[name]
    queue = refinement.module.queue_parameters(parameters)
    assert refinement.seen(refinement.system.initial(parameters)) == QUEUE.initial(queue)
    assert moves_of(refinement, parameters, queue) == set(refinement.moves.items())


@pytest.mark.parametrize(
    ("name", "smaller"), [(name, each) for name, all_ in TOO_SMALL.items() for each in all_], ids=str
)
def test_a_smaller_queue_would_not_do(name: str, smaller: dict[str, Any]) -> None:
    refinement, parameters = CASES[name]
    with pytest.raises(Disabled):
        moves_of(refinement, parameters, replace(refinement.module.queue_parameters(parameters), **smaller))
