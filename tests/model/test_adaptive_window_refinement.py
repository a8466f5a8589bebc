"""In every state of a small channel whose window adapts, each step is one of the queue that the whole window is."""

from dataclasses import replace
from typing import Any

import pytest

from permitflow_model.adaptive_window import SYSTEM, Parameters
from permitflow_model.adaptive_window_refinement import queue_in, queue_move, queue_parameters
from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import Parameters as QueueParameters
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled

CHANNEL = Parameters(row_permits=3, permit_batch=2, room=1, row_costs=(1, 3), withdrawals=True)


def moves_of(queue: QueueParameters) -> set[tuple[str, str]]:
    """Which moves of the queue the steps are; fails at the first that is none.

    Raises:
        Disabled: the queue does not allow a move.
    """
    moves = set()
    for before in explore(SYSTEM, CHANNEL, invariants={}).states:
        seen = queue_in(before)
        for step in SYSTEM.successors(before, CHANNEL):
            move = queue_move(step.action, before, CHANNEL, *step.arguments)
            after = seen if move is None else QUEUE.perform(move[0], seen, queue, *move[1])
            assert queue_in(step.state) == after
            if move is not None:
                moves.add((step.action, move[0]))
    return moves


def test_each_step_is_a_step_of_the_queue_or_cannot_be_seen() -> None:
    assert moves_of(queue_parameters(CHANNEL)) == {
        ("Offer", "Offer"),
        ("Withdraw", "Withdraw"),
        ("Send", "Put"),
        ("Consume", "Get"),
    }


@pytest.mark.parametrize("smaller", [{"bound": 2}, {"costs": (1,)}, {"ids": (1,)}], ids=str)
def test_a_smaller_queue_would_not_do(smaller: dict[str, Any]) -> None:
    with pytest.raises(Disabled):
        moves_of(replace(queue_parameters(CHANNEL), **smaller))
