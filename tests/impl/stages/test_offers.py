"""Elements that come when nobody has asked."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from permitflow.errors import BufferOverflowError, LocalProtocolError
from permitflow.stages import Offered, Offers, Overflow, Source, async_callback

TAKEN, DROPPED, CLOSED = Offered.TAKEN, Offered.DROPPED, Offered.CLOSED


Settle = Callable[[], Awaitable[None]]


async def test_v2_15_without_capacity_an_offer_waits_until_it_is_asked_for(settle: Settle) -> None:
    offers: Offers[int] = Offers(0, max_waiting=1)
    first = asyncio.create_task(offers.send(42))
    await settle()
    assert not first.done()
    with pytest.raises(LocalProtocolError, match="1 calls already wait for room"):
        await offers.send(43)
    assert await anext(offers) == 42
    assert await first is TAKEN


async def test_any_number_of_tasks_may_wait_for_room() -> None:
    offers: Offers[int] = Offers(1)
    sends = [asyncio.create_task(offers.send(number)) for number in range(5)]
    assert [await anext(offers) for _ in sends] == [0, 1, 2, 3, 4]
    assert [await send for send in sends] == [TAKEN] * 5


async def test_v2_16_a_full_queue_lets_one_offer_wait(settle: Settle) -> None:
    offers: Offers[int] = Offers(5, max_waiting=1)
    assert [await offers.send(number) for number in range(1, 6)] == [TAKEN] * 5
    sixth = asyncio.create_task(offers.send(6))
    await settle()
    assert not sixth.done()
    with pytest.raises(LocalProtocolError, match="already wait"):
        await offers.send(7)
    assert [await anext(offers) for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert await sixth is TAKEN


def callback(capacity: int) -> tuple[Source[int], Offers[int]]:
    return async_callback(capacity)


async def two_waiting(settle: Settle) -> tuple[Offers[int], list[asyncio.Task[Offered]]]:
    offers: Offers[int] = Offers(5, max_waiting=2)
    for number in range(1, 6):
        await offers.send(number)
    waiting = [asyncio.create_task(offers.send(number)) for number in (6, 7)]
    await settle()
    with pytest.raises(LocalProtocolError, match="2 calls already wait"):
        await offers.send(8)
    return offers, waiting


async def test_v2_17_waiting_offers_are_taken_in_turn(settle: Settle) -> None:
    offers, waiting = await two_waiting(settle)
    assert await anext(offers) == 1
    await settle()
    assert [task.done() for task in waiting] == [True, False]
    assert await waiting[0] is TAKEN
    assert await anext(offers) == 2
    assert await waiting[1] is TAKEN


async def test_v2_17_completing_drains_what_waits(settle: Settle) -> None:
    offers, waiting = await two_waiting(settle)
    offers.complete()
    assert offers.offer(9) is CLOSED
    assert await offers.send(9) is CLOSED
    assert [element async for element in offers] == [1, 2, 3, 4, 5, 6, 7]
    assert [await task for task in waiting] == [TAKEN, TAKEN]
    assert offers.offer(9) is CLOSED


async def test_v2_17_a_consumer_that_goes_closes_the_queue(settle: Settle) -> None:
    offers, waiting = await two_waiting(settle)
    await offers.aclose()
    assert [await task for task in waiting] == [CLOSED, CLOSED]
    assert offers.offer(9) is CLOSED
    assert [element async for element in offers] == [1, 2, 3, 4, 5]


async def test_v2_18_an_evicted_element_was_reported_as_taken() -> None:
    offers: Offers[int] = Offers(2, Overflow.DROP_OLDEST)
    assert [offers.offer(number) for number in (1, 2, 3)] == [TAKEN] * 3
    assert offers.dropped == 1
    assert [await anext(offers), await anext(offers)] == [2, 3]


@pytest.mark.parametrize("overflow", [Overflow.BLOCK, Overflow.DROP_INCOMING])
async def test_v2_19_what_was_taken_is_never_dropped(overflow: Overflow) -> None:
    offers: Offers[int] = Offers(2, overflow)
    assert [offers.offer(number) for number in (1, 2, 3)] == [TAKEN, TAKEN, DROPPED]
    assert await anext(offers) == 1
    assert offers.offer(4) is TAKEN
    offers.complete()
    with pytest.raises(LocalProtocolError, match="it ends once"):
        offers.complete()
    assert [element async for element in offers] == [2, 4]


async def test_what_was_taken_leaves_before_an_error() -> None:
    source, offers = callback(4)
    offers.offer(1)
    offers.fail(OSError("lost"))
    elements = source.open()
    assert await anext(elements) == 1
    with pytest.raises(OSError, match="lost"):
        await anext(elements)


async def test_overflow_fails_the_stream_if_the_strategy_says_so() -> None:
    offers: Offers[int] = Offers(1, Overflow.FAIL)
    assert [offers.offer(number) for number in (1, 2, 3)] == [TAKEN, CLOSED, CLOSED]
    with pytest.raises(BufferOverflowError):
        await anext(offers)


async def test_an_offer_wakes_a_consumer_that_waits(settle: Settle) -> None:
    source, offers = callback(1)
    consumer = asyncio.ensure_future(anext(source.map(lambda number: -number).open()))
    await settle()
    assert offers.offer(5) is TAKEN
    assert await consumer == -5


async def test_other_threads_offer_while_the_consumer_waits() -> None:
    source, offers = callback(8)
    answers: list[Offered] = []

    def produce() -> None:
        sent = 0
        while sent < 500:
            answer = offers.offer(sent)
            answers.append(answer)
            sent += answer is TAKEN
        offers.complete()

    thread = threading.Thread(target=produce)
    thread.start()
    assert [element async for element in source] == [*range(500)]
    thread.join()
    assert answers.count(TAKEN) == 500


async def test_an_offer_does_not_overtake_those_that_wait(settle: Settle) -> None:
    offers: Offers[int] = Offers(1)
    offers.offer(1)
    waiting = asyncio.create_task(offers.send(2))
    await settle()
    assert await anext(offers) == 1
    assert offers.offer(3) is DROPPED
    assert await waiting is TAKEN
    assert await anext(offers) == 2


async def test_a_cancelled_call_has_offered_nothing_and_lets_the_next_go_on(settle: Settle) -> None:
    offers: Offers[int] = Offers(1, max_waiting=2)
    offers.offer(1)
    first, second = (asyncio.create_task(offers.send(number)) for number in (2, 3))
    await settle()
    assert await anext(offers) == 1
    first.cancel()  # it was woken, and has not run
    assert await second is TAKEN
    assert first.cancelled()
    assert await anext(offers) == 3


async def test_a_cancelled_consumer_leaves_the_element_to_its_next_call(settle: Settle) -> None:
    offers: Offers[int] = Offers(1)
    consumer = asyncio.ensure_future(anext(offers))
    await settle()
    offers.offer(1)
    consumer.cancel()  # it was woken, and has not run
    with pytest.raises(asyncio.CancelledError):
        await consumer
    assert offers.offer(2) is TAKEN
    assert [await anext(offers), await anext(offers)] == [1, 2]


async def test_a_completed_queue_whose_last_waiting_offer_is_cancelled_ends(settle: Settle) -> None:
    offers: Offers[int] = Offers(1)
    offers.offer(1)
    waiting = asyncio.create_task(offers.send(2))
    await settle()
    offers.complete()
    waiting.cancel()
    assert [element async for element in offers] == [1]
