"""In every state of small channels, each step is one step of the queue that a user sees, or cannot be seen."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import Parameters as QueueParameters
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_model.permit_channel_refinement import queue_in, queue_move, queue_parameters

MOVES = {"OfferChunk": "Offer", "WithdrawChunk": "Withdraw", "SendChunk": "Put", "Consume": "Get"}

CHANNELS = {
    "two waiters": Parameters(
        row_permits=2, permit_batch=2, max_chunk_cost=2, sizes=(0, 3), waiters=2, tags=5, withdrawals=True
    ),
    "all classes": Parameters(
        row_permits=1,
        permit_batch=1,
        max_chunk_cost=1,
        sizes=(0, 3),
        barrier_permits=1,
        watermarks=True,
        flush_idle=True,
        withdrawals=True,
        waiters=1,
        tags=5,
    ),
}


def moves_of(parameters: Parameters, queue: QueueParameters) -> Counter[tuple[str, str]]:
    """Which moves of the queue the steps of the channel are; fails at the first that is none.

    Raises:
        Disabled: the queue does not allow a move.
    """
    moves: Counter[tuple[str, str]] = Counter()
    for before in explore(SYSTEM, parameters, invariants={}).states:
        seen = queue_in(before)
        for action in SYSTEM.actions:
            for arguments in action.arguments(parameters):
                if not SYSTEM.is_enabled(action.name, before, parameters, *arguments):
                    continue
                after = queue_in(SYSTEM.perform(action.name, before, parameters, *arguments))
                move = queue_move(action.name, before, parameters, *arguments)
                if move is None:
                    assert after == seen
                    continue
                assert after == QUEUE.perform(move[0], seen, queue, *move[1])
                assert QUEUE.broken_invariants(after, queue) == []
                moves[action.name, move[0]] += 1
    return moves


@pytest.mark.parametrize("name", CHANNELS)
def test_each_step_is_a_step_of_the_queue_or_cannot_be_seen(name: str) -> None:
    parameters = CHANNELS[name]
    assert queue_in(SYSTEM.initial(parameters)) == QUEUE.initial(queue_parameters(parameters))
    assert set(moves_of(parameters, queue_parameters(parameters))) == set(MOVES.items())


@pytest.mark.parametrize("smaller", [{"bound": 1}, {"costs": (1,)}, {"ids": (0, 1, 2, 3)}, {"line": 1}], ids=str)
def test_a_smaller_queue_would_not_do(smaller: dict[str, Any]) -> None:
    parameters = CHANNELS["two waiters"]
    with pytest.raises(Disabled):
        moves_of(parameters, replace(queue_parameters(parameters), **smaller))
