"""In every state of small streams, each step is one step of the queue that a user sees, or cannot be seen."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from permitflow_model import lossy_channel, resume
from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import Parameters as QueueParameters
from permitflow_model.bounded_queue_refinement import queue_in, queue_move, queue_parameters
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled, System

MOVES = {"Send": "Offer", "Deliver": "Put", "Consume": "Get"}
Stream = tuple[System[Any, Any], Any]

STREAMS: dict[str, Stream] = {
    "lossy": (lossy_channel.SYSTEM, lossy_channel.Parameters(window=2, total=2, copies=1)),
    "resume": (resume.SYSTEM, resume.Parameters(window=2, every=1, total=2, connections=2, sender_dials=False)),
}


def moves_of(stream: Stream, queue: QueueParameters) -> Counter[tuple[str, str]]:
    """Which moves of the queue the steps are; fails at the first that is none.

    Raises:
        Disabled: the queue does not allow a move.
    """
    system, parameters = stream
    moves: Counter[tuple[str, str]] = Counter()
    for before in explore(system, parameters, invariants={}).states:
        seen = queue_in(before)
        for step in system.successors(before, parameters):
            after, move = queue_in(step.state), queue_move(step.action, before)
            if move is None:
                assert after == seen
                continue
            assert after == QUEUE.perform(move[0], seen, queue, *move[1])
            moves[step.action, move[0]] += 1
    return moves


@pytest.mark.parametrize("name", STREAMS)
def test_each_step_is_a_step_of_the_queue_or_cannot_be_seen(name: str) -> None:
    system, parameters = STREAMS[name]
    queue = queue_parameters(parameters)
    assert queue_in(system.initial(parameters)) == QUEUE.initial(queue)
    assert set(moves_of(STREAMS[name], queue)) == set(MOVES.items())


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("smaller", [{"bound": 1}, {"ids": (0,)}, {"line": 1}], ids=str)
def test_a_smaller_queue_would_not_do(name: str, smaller: dict[str, Any]) -> None:
    with pytest.raises(Disabled):
        moves_of(STREAMS[name], replace(queue_parameters(STREAMS[name][1]), **smaller))
