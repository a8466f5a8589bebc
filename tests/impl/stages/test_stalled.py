"""A run in which nothing can happen any more says who waits for whom; one that somebody can move stays silent."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.errors import BufferOverflowError, LocalProtocolError, StalledGraphError, WouldBlock
from permitflow.stages import Offers, Overflow, Source, async_callback, open_run
from tests.support.simulated_time import in_simulated_time


def diamond(size: int) -> Source[tuple[int, int]]:
    every, fourth = Source(range(40)).broadcast(2)
    return fourth.filter(lambda n: n % 4 == 0).zip(every.buffer(size) if size else every)


@pytest.mark.parametrize(
    ("size", "chain"),
    [
        (0, ["Exit waits for an element of Zip", "Broadcast waits until Zip asks for an element"]),
        (2, ["Broadcast waits until Buffer asks for an element", "Buffer waits until Zip asks for an element"]),
    ],
)
async def test_a_diamond_that_cannot_go_on_names_who_waits_for_whom(size: int, chain: list[str]) -> None:
    with pytest.raises(StalledGraphError) as caught:
        async with asyncio.timeout(10):
            [pair async for pair in diamond(size)]
    assert set(chain) <= set(caught.value.chain)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_diamond_with_room_for_the_difference_runs_to_its_end() -> None:
    assert len([pair async for pair in diamond(40)]) == 10


ONE_AFTER_THE_OTHER = """
    async with open_run(*Source(range(9)).broadcast(2)) as (left, right):
        [number async for number in left]
        [number async for number in right]
"""
OWN_QUEUE = """
    source, offers = async_callback(2)
    await offers.send(1)
    async for number in source:
        for _ in range(3):
            await offers.send(number)
"""


ENDLESS = "Filter waits for an element of Broadcast"


@pytest.mark.parametrize(
    ("keep", "error", "told"),
    [
        (lambda others: others.buffer(3, Overflow.DROP_OLDEST), StalledGraphError, ENDLESS),
        (lambda others: others.unbounded(alarm=1_000), StalledGraphError, ENDLESS),
        (lambda others: others.buffer(3, Overflow.FAIL), BufferOverflowError, "the buffer of 3"),
    ],
    ids=["drops", "keeps all", "will fail"],
)
async def test_a_part_that_stands_still_for_ever_is_told_while_others_move(
    keep: Callable[[Source[int]], Source[int]], error: type[Exception], told: str
) -> None:
    moving, others = Source.from_iterator(count).broadcast(2)
    every, fourth = keep(others).broadcast(2)
    stuck = every.buffer(2).zip(fourth.filter(lambda n: n < 0))
    branches: tuple[Source[Any], ...] = moving, stuck
    async with open_run(*branches) as (numbers, pairs):
        waiting = asyncio.create_task(anext(pairs))
        for _ in range(100):
            await anext(numbers)
        with pytest.raises(error, match=told):
            waiting.result()
        assert await anext(numbers) > 0


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (ONE_AFTER_THE_OTHER, "Broadcast waits until Exit asks for an element; nobody asks there"),
        (OWN_QUEUE, "send waits for room in the queue of async_callback"),
    ],
    ids=["one after the other", "own queue"],
)
def test_a_loop_in_which_nothing_can_happen_is_told(body: str, told: str) -> None:
    # In a process of its own: another test's thread might move this one's loop, for all that is known.
    text = "import asyncio\nfrom permitflow.stages import Source, async_callback, open_run\n"
    text += f"async def main():{body}\nasyncio.run(main())"
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stderr.splitlines()[-1].startswith("permitflow.errors.StalledGraphError: the run stands still")
    assert told in ended.stderr


async def later(number: int) -> int:
    await asyncio.sleep(5)
    return number


async def by_a_queue_of_others() -> AsyncIterator[int]:
    queue: asyncio.Queue[int] = asyncio.Queue()
    asyncio.get_running_loop().call_later(5, queue.put_nowait, 1)
    yield await queue.get()


async def by_a_thread() -> AsyncIterator[int]:
    for number in (1,):
        yield await asyncio.to_thread(abs, number)


async def one_of(stream: Source[int]) -> list[int]:
    return [number async for number in stream]


async def branch_that_is_asked_later() -> list[int]:
    async with open_run(*Source([1]).broadcast(2)) as (left, right):

        async def asks_later() -> None:
            await asyncio.sleep(5)
            assert [number async for number in right] == [1]

        task = asyncio.create_task(asks_later())
        found = [number async for number in left]
        await task
    return found


async def room_that_comes_later() -> list[int]:
    source: Source[int]
    offers: Offers[int]
    source, offers = async_callback(1)
    await offers.send(1)
    sending = asyncio.create_task(offers.send(1))
    await asyncio.sleep(5)
    async with source.open() as elements:
        found = [await anext(elements)]
        await sending
    return found


MOVED: dict[str, Callable[[], Any]] = {
    "a call that runs": lambda: one_of(Source([1]).map_async(later, at_most=1)),
    "a timer": lambda: one_of(Source([1]).throttle(1, 5.0, burst=0)),
    "a queue of others": lambda: one_of(Source(by_a_queue_of_others()).buffer(1)),
    "a branch that is asked later": branch_that_is_asked_later,
    "room that comes later": room_that_comes_later,
}


@pytest.mark.parametrize("mover", MOVED)
def test_a_run_that_somebody_will_move_stays_silent(mover: str) -> None:
    assert in_simulated_time(MOVED[mover]()) == [1]


async def test_a_run_that_a_thread_will_move_stays_silent() -> None:
    assert await one_of(Source(by_a_thread()).buffer(1)) == [1]


# Two event loops.


def test_a_channel_in_which_two_loops_wait_is_refused() -> None:
    sender: LocalSender[list[int]]
    receiver: LocalReceiver[list[int]]
    sender, receiver = open_channel(ChannelParameters(row_permits=2), name="orders")

    async def wait_to_receive() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.receive(), 0.01)

    async def wait_to_send() -> None:
        await sender.send([1, 1])
        await sender.send([2])

    asyncio.run(wait_to_receive())
    with pytest.raises(LocalProtocolError, match="channel 'orders' is bound to another event loop"):
        asyncio.run(wait_to_send())
    assert receiver.receive_nowait().payload == [1]
    assert receiver.receive_nowait().payload == [1]
    with pytest.raises(WouldBlock):
        receiver.receive_nowait()
