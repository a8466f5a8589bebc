"""Buffers and their six strategies, as Pekko's own tests expect."""

from collections.abc import Awaitable, Callable, Iterator
from itertools import repeat

import pytest

from permitflow.errors import BufferOverflowError
from permitflow.stages import DropQueue, Overflow, Source
from permitflow.stages.core.rates import Buffer
from tests.support.stage_probe import Probe

DROPPING = [Overflow.DROP_OLDEST, Overflow.DROP_YOUNGEST_BUFFERED, Overflow.CLEAR]


@pytest.mark.parametrize(
    ("overflow", "sent", "kept"),
    [
        (Overflow.BLOCK, 100, [*range(1, 101)]),
        (Overflow.DROP_OLDEST, 200, [*range(101, 201)]),
        (Overflow.DROP_YOUNGEST_BUFFERED, 200, [*range(1, 100), 200]),
        (Overflow.CLEAR, 150, [*range(101, 151)]),
        (Overflow.DROP_INCOMING, 150, [*range(1, 101)]),
    ],
)
def test_v2_10_a_full_buffer_gives_way_as_its_strategy_says(overflow: Overflow, sent: int, kept: list[int]) -> None:
    probe = Probe(Buffer[int](100, overflow))
    probe.upstream.send_all(range(1, sent + 1))
    assert probe.upstream.outlet.is_asked is (overflow is not Overflow.BLOCK)
    assert [element for _ in kept for element in probe.downstream.request()] == kept
    assert probe.downstream.request() == []
    probe.upstream.send(-1)
    assert probe.downstream.received() == [-1]


def test_v2_11_overflow_fails_the_stream_and_cancels_the_source() -> None:
    probe = Probe(Buffer[int](100, Overflow.FAIL))
    probe.upstream.send_all(range(1, 101))
    assert probe.downstream.request(10) == [*range(1, 11)]
    probe.upstream.send_all(range(101, 112))
    assert probe.upstream.is_cancelled
    assert isinstance(probe.downstream.failure, BufferOverflowError)
    assert probe.downstream.failure.capacity == 100
    assert probe.downstream.request(1) == []


@pytest.mark.parametrize("overflow", DROPPING)
def test_v2_12_the_newest_element_stays_in_a_buffer_of_one(overflow: Overflow) -> None:
    probe = Probe(Buffer[int](1, overflow))
    probe.upstream.send_all(range(1, 201))
    assert probe.downstream.request() == [200]


@pytest.mark.parametrize("overflow", Overflow)
@pytest.mark.parametrize("error", [None, OSError("lost")])
def test_buffered_elements_leave_before_the_end_and_before_an_error(overflow: Overflow, error: OSError | None) -> None:
    probe = Probe(Buffer[int](4, overflow))
    probe.upstream.send(1, 2, 3)
    if error is None:
        probe.upstream.complete()
    else:
        probe.upstream.fail(error)
    assert probe.downstream.request(2) == [1, 2]
    assert not probe.downstream.has_ended
    assert probe.downstream.request() == [3]
    assert (probe.downstream.is_completed, probe.downstream.failure) == (error is None, error)


def test_a_blocking_buffer_asks_for_no_more_than_it_can_keep() -> None:
    probe = Probe(Buffer[int](3, Overflow.BLOCK))
    probe.upstream.send(1, 2, 3)
    assert (probe.upstream.asked, probe.upstream.outlet.is_asked) == (3, False)
    probe.downstream.request()
    assert probe.upstream.asked == 4


def test_what_gives_way_is_counted() -> None:
    counts = {}
    for overflow in Overflow:
        queue: DropQueue[int] = DropQueue(2, overflow)
        try:
            assert [queue.offer(number) for number in range(3)][:2] == [True, True]
        except BufferOverflowError:
            assert len(queue) == 0
        counts[overflow.name] = (queue.dropped, len(queue))
    assert counts == {
        "BLOCK": (0, 2),
        "DROP_OLDEST": (1, 2),
        "DROP_YOUNGEST_BUFFERED": (1, 2),
        "DROP_INCOMING": (1, 2),
        "CLEAR": (2, 1),
        "FAIL": (3, 0),
    }


@pytest.mark.parametrize(
    ("overflow", "dropped"),
    [
        (Overflow.DROP_OLDEST, [1, 2]),
        (Overflow.DROP_YOUNGEST_BUFFERED, [2, 3]),
        (Overflow.DROP_INCOMING, [3, 4]),
        (Overflow.CLEAR, [1, 2]),
        (Overflow.FAIL, [1, 2, 3]),
    ],
)
def test_each_element_that_gives_way_is_told(overflow: Overflow, dropped: list[int]) -> None:
    told: list[int] = []
    probe = Probe(Buffer[int](2, overflow, when_dropped=told.append))
    for number in (1, 2, 3, 4):
        if not probe.upstream.is_cancelled:
            probe.upstream.send(number)
    assert told == dropped


# Job queues that drop: two jobs come in a tick, one is served.


def waits(overflow: Overflow, capacity: int, ticks: int = 1_000) -> Iterator[int]:
    """How many ticks each served job has waited."""
    queue: DropQueue[int] = DropQueue(capacity, overflow)
    for tick in range(ticks):
        queue.offer(tick)
        queue.offer(tick)
        yield tick - queue.take()


@pytest.mark.parametrize(
    ("overflow", "capacity", "ticks"),
    [
        (Overflow.DROP_OLDEST, 10, 4),
        (Overflow.DROP_INCOMING, 10, 9),
        (Overflow.DROP_YOUNGEST_BUFFERED, 10, 9),
        (Overflow.DROP_OLDEST, 40, 19),
        (Overflow.DROP_INCOMING, 40, 39),
        (Overflow.DROP_YOUNGEST_BUFFERED, 40, 39),
    ],
)
def test_8_3_dropping_the_oldest_halves_the_wait_of_what_is_served(
    overflow: Overflow, capacity: int, ticks: int
) -> None:
    assert set([*waits(overflow, capacity)][-100:]) == {ticks}


@pytest.mark.parametrize(
    ("ahead_of", "ahead"),
    [
        (lambda numbers: numbers.buffer(5), 5),
        (lambda numbers: numbers.batch(4, max), 5),
        (lambda numbers: numbers.expand(repeat), 1),
    ],
    ids=["buffer", "batch", "expand"],
)
async def test_a_stage_reads_ahead_while_its_consumer_does_something_else(
    settle: Callable[[], Awaitable[None]], ahead_of: Callable[[Source[int]], Source[int]], ahead: int
) -> None:
    given: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            given.append(number)
            yield number

    async with ahead_of(Source(numbers())).open() as elements:
        assert await anext(elements) == 0
        await settle()
        assert given == [*range(ahead + 1)]
