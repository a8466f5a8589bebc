"""Adapters that are wrong in ways that could make a test of them hang, or blame it for what they do."""

import asyncio
import queue
import sys
import time

from permitflow import ChannelParameters, Kind, RecorderFactory
from permitflow_testing import ChannelAdapter, ReceivedMessage
from permitflow_testing.examples.queues import CountedQueue


class IgnoresCancellation(CountedQueue):
    """A send that is cancelled waits on."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        while True:
            try:
                return await super().offer_chunk(serial, rows)
            except asyncio.CancelledError:
                continue


class IgnoresAll(CountedQueue):
    """A receive that not even the end of its coroutine ends."""

    async def take(self) -> ReceivedMessage:
        while True:
            try:
                return await super().take()
            except BaseException:
                continue


class Swallows(CountedQueue):
    """A cancelled send returns."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        try:
            await super().offer_chunk(serial, rows)
        except asyncio.CancelledError:
            return


class NeverTakes(Swallows):
    """Nor does anybody receive."""

    async def take(self) -> ReceivedMessage:
        await asyncio.sleep(3600)
        raise AssertionError("nobody waits so long")


class Exits(CountedQueue):
    """A send that ends the program, with success."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        sys.exit(0)


class RaisesAGroup(CountedQueue):
    """A send in a group of tasks, one of which fails."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fail())


async def _fail() -> None:
    raise ValueError("from a task")


class NeverCloses(CountedQueue):
    """It waits for an event that never comes, and for no cancellation."""

    async def close(self) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue


class NeverOpens(CountedQueue):
    """Nobody answers."""

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        await asyncio.Event().wait()


class NeverSettles(CountedQueue):
    """It does not come to rest."""

    async def settled(self) -> None:
        await asyncio.Event().wait()


class Busy(CountedQueue):
    """A receive that polls, and never gives up."""

    async def take(self) -> ReceivedMessage:
        while self.queue.empty():
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue
        return await super().take()


class ReturnsNothing(CountedQueue):
    """It forgets its return."""

    async def take(self) -> ReceivedMessage:
        await super().take()
        return None  # type: ignore[return-value]  # the mistake


class ReturnsText(CountedQueue):
    """It returns what it has read from its wire, as text."""

    async def take(self) -> ReceivedMessage:
        kind, value, rows = await super().take()
        return ReceivedMessage(kind, str(value), rows)  # type: ignore[arg-type]  # the mistake


class CancelsItself(CountedQueue):
    """It raises what only a cancellation raises."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        raise asyncio.CancelledError


class CancelsAll(CountedQueue):
    """It takes all tasks for its own."""

    async def close(self) -> None:
        for task in asyncio.all_tasks():
            task.cancel()


class Blocks(ChannelAdapter):
    """A queue for threads, used in an event loop."""

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        self.queue: queue.Queue[tuple[int, int]] = queue.Queue(parameters.row_permits)

    async def offer_chunk(self, serial: int, rows: int) -> None:
        self.queue.put((serial, rows))

    async def take(self) -> ReceivedMessage:
        return ReceivedMessage(Kind.CHUNK, *self.queue.get())


class BlocksForGood(Blocks):
    """It cannot be interrupted; it says when it begins."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        print("sending", flush=True)
        while True:
            try:
                time.sleep(0.1)  # noqa: ASYNC251  # the mistake
            except BaseException:
                continue


class LeavesThreads(Blocks):
    """The same queue in threads: nobody ends them."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        await asyncio.to_thread(self.queue.put, (serial, rows))

    async def take(self) -> ReceivedMessage:
        return ReceivedMessage(Kind.CHUNK, *await asyncio.to_thread(self.queue.get))
