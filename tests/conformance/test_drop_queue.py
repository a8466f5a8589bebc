"""The stages' queue drops the jobs that the model drops, and those that are served have waited as long as there."""

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import pytest

from permitflow.stages import DropQueue, Overflow
from permitflow_model.drop_queue import SYSTEM, Parameters, Strategy

STRATEGIES: dict[Strategy, Overflow] = {
    "oldest": Overflow.DROP_OLDEST,
    "youngest": Overflow.DROP_YOUNGEST_BUFFERED,
    "incoming": Overflow.DROP_INCOMING,
}
TICKS = 200


class Job(NamedTuple):
    """A job of a run."""

    number: int
    came: int


def overload(capacity: int, drops: Strategy) -> Parameters:
    """Two jobs come in a tick, and one is served."""
    return Parameters(capacity=capacity, arrivals=2, services=1, resend=capacity, drops=drops)


def of_the_queue(parameters: Parameters) -> Iterator[tuple[Job, int]]:
    """Each job that the stages' queue serves, and how long it has waited."""
    queue: DropQueue[Job] = DropQueue(parameters.capacity, STRATEGIES[parameters.drops])
    numbers = count()
    for now in range(TICKS):
        for _ in range(parameters.arrivals):
            queue.offer(Job(next(numbers), now))
        for _ in range(min(parameters.services, len(queue))):
            job = queue.take()
            yield job, now - job.came


def of_the_model(parameters: Parameters, number: int) -> int | None:
    """How long the job of this number waits in the model until it is served; None if it is dropped."""
    state, numbers = SYSTEM.initial(parameters), count()
    for _ in range(TICKS):
        for _ in range(parameters.arrivals):
            is_watched = next(numbers) == number
            if is_watched and not SYSTEM.is_enabled("ArriveWatched", state, parameters):
                return None
            before, state = state, SYSTEM.perform("ArriveWatched" if is_watched else "Arrive", state, parameters)
            if before.watched and not state.watched:
                return None
        while SYSTEM.is_enabled("Serve", state, parameters):
            before, state = state, SYSTEM.perform("Serve", state, parameters)
            if before.watched and not state.watched:
                return before.waited
        state = SYSTEM.perform("Tick", state, parameters)
    return None


@pytest.mark.parametrize("drops", STRATEGIES)
@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_the_same_jobs_are_served_after_the_same_time(drops: Strategy, capacity: int) -> None:
    parameters = overload(capacity, drops)
    served = {job.number: waited for job, waited in of_the_queue(parameters)}
    for number in range(60):
        assert of_the_model(parameters, number) == served.get(number), number


@pytest.mark.parametrize(
    ("capacity", "drops", "waited"),
    [(10, "oldest", 4), (10, "incoming", 9), (40, "oldest", 19), (40, "incoming", 39)],
)
def test_under_overload_the_oldest_is_the_right_one_to_drop(capacity: int, drops: Strategy, waited: int) -> None:
    parameters = overload(capacity, drops)
    waits = [
        waits
        for number in range(2 * capacity, 2 * capacity + 20)
        if (waits := of_the_model(parameters, number)) is not None
    ]
    assert len(waits) >= 5
    assert sum(waits) // len(waits) == waited


def test_the_tail_wastes_most() -> None:
    """The youngest gives way to each job that comes: the oldest have waited longest, and half of the work is theirs."""
    kept = [waited for _, waited in of_the_queue(overload(10, "youngest"))]
    assert kept[-50:] == [9] * 50
