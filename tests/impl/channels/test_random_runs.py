"""Hundreds of seeded runs of random calls: what was sent arrives once, all else never.

Senders, receivers and cancellations come at random, in any order and at any moment; then the stream is ended, and
everything is accounted for.
"""

import asyncio
import random
from collections import defaultdict, deque

import pytest

from permitflow import (
    ChannelClosedError,
    ChannelParameters,
    EndOfStream,
    Kind,
    LocalReceiver,
    LocalSender,
    Message,
    Oversize,
    WouldBlock,
    open_channel,
)

Task = asyncio.Task[None]


class RandomRun:
    """One run; ``play`` leaves a channel that has ended and books that can be compared."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        draw = self.random.randint
        row_permits = draw(2, 9)
        permit_batch = draw(1, row_permits - 1)
        self.parameters = ChannelParameters(
            row_permits=row_permits,
            permit_batch=permit_batch,
            max_chunk_cost=draw(1, row_permits - permit_batch + 1),
            barrier_permits=draw(1, 2),
            oversize=self.random.choice(list(Oversize)),
        )
        ends: tuple[LocalSender[object], LocalReceiver[object]] = open_channel(self.parameters)
        self.sender, self.receiver = ends
        self.takes = self.random.random() < 0.3
        self.sends: list[Task] = []
        self.receivers: list[Task] = []
        self.sizes: list[int] = []
        """Rows of each send by its number; 0 for a barrier."""
        self.queues: list[deque[object]] = []
        """What ``send_many`` has left over."""
        self.received: list[Message[object]] = []

    async def play(self) -> None:
        moves = [
            self.send,
            self.send,
            self.send_many,
            self.mark,
            self.receive,
            self.receive_now,
            self.cancel,
            self.cancel,
        ]
        for _ in range(self.random.randint(5, 80)):
            self.random.choice(moves)()
            for _ in range(self.random.choice([0, 0, 1, 1, 2, 5])):
                await asyncio.sleep(0)
        await self.sender.end()
        self.receive()
        for result in await asyncio.gather(*self.receivers, return_exceptions=True):
            assert isinstance(result, EndOfStream | asyncio.CancelledError | None), result
        for result in await asyncio.gather(*self.sends, return_exceptions=True):
            assert isinstance(result, ChannelClosedError | asyncio.CancelledError | None), result

    def send(self) -> None:
        number = len(self.sizes)
        rows = self.random.randint(0, self.parameters.max_chunk_cost + 5)
        self.sizes.append(rows)
        work = self.sender.send([(number, row) for row in range(rows)]) if rows else self.sender.send_barrier(number)
        self.sends.append(asyncio.ensure_future(work))

    def send_many(self) -> None:
        """Several chunks in one call: one task for all of them."""
        first, count = len(self.sizes), self.random.randint(2, 5)
        self.sizes += [self.random.randint(1, self.parameters.max_chunk_cost) for _ in range(count)]
        queue: deque[object] = deque(
            [(number, row) for row in range(self.sizes[number])] for number in range(first, first + count)
        )
        self.sends += [asyncio.ensure_future(self.sender.send_many(queue))] * count
        self.queues.append(queue)

    def mark(self) -> None:
        self.sender.send_watermark("watermark")

    def receive(self) -> None:
        ways = (
            [self.by_taking, self.by_taking_many]
            if self.takes
            else [self.by_receiving, self.by_many, self.by_iterating]
        )
        self.receivers.append(asyncio.ensure_future(self.random.choice(ways)()))

    def receive_now(self) -> None:
        if not self.takes:
            try:
                self.received.append(self.receiver.receive_nowait())
            except WouldBlock:
                return

    def cancel(self) -> None:
        tasks = self.sends + self.receivers
        if tasks:
            self.random.choice(tasks).cancel()

    async def by_receiving(self) -> None:
        while True:
            self.received.append(await self.receiver.receive())

    async def by_many(self) -> None:
        while True:
            self.received += await self.receiver.receive_many(self.random.randint(1, 3))

    async def by_iterating(self) -> None:
        async for message in self.receiver:
            self.received.append(message)

    async def by_taking_many(self) -> None:
        while True:
            messages = await self.receiver.take_many(self.random.choice([None, 1, 3]))
            self.received += messages
            try:
                await asyncio.sleep(0)
            finally:
                self.receiver.consume(len(messages))

    async def by_taking(self) -> None:
        while True:
            self.received.append(await self.receiver.take())
            try:
                await asyncio.sleep(0)
            finally:
                self.receiver.consume()

    def left_over(self) -> set[int]:
        """Numbers of the chunks that ``send_many`` did not send."""
        return {number for queue in self.queues for chunk in queue if isinstance(chunk, list) for number, _ in chunk}

    def arrived(self) -> dict[int, list[int]]:
        """Rows that have arrived, by the number of their send; a barrier is a row of -1."""
        rows: dict[int, list[int]] = defaultdict(list)
        for message in self.received:
            if message.kind is Kind.BARRIER:
                assert isinstance(message.payload, int)
                rows[message.payload].append(-1)
            elif message.kind is Kind.CHUNK:
                assert isinstance(message.payload, list)
                for number, row in message.payload:
                    rows[number].append(row)
        return rows


@pytest.mark.parametrize("first_seed", range(0, 400, 50))
async def test_all_that_was_sent_arrives_once_and_all_that_was_cancelled_never(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        run = RandomRun(seed)
        await run.play()
        assert_accounted_for(run, seed)


def assert_accounted_for(run: RandomRun, seed: int) -> None:
    arrived, left_over = run.arrived(), run.left_over()
    for number, (rows, send) in enumerate(zip(run.sizes, run.sends, strict=True)):
        everything = list(range(rows)) if rows else [-1]
        is_split = run.parameters.oversize is Oversize.SPLIT and rows > run.parameters.max_chunk_cost
        was_refused = not send.cancelled() and send.exception() is not None  # it came after the end
        allowed = [everything] if not (send.cancelled() or was_refused) else [[]]
        if run.sends.count(send) > 1:
            allowed = [[]] if number in left_over else [everything]
        if is_split and send.cancelled():
            allowed = [[], everything]
        assert sorted(arrived[number]) in allowed, f"seed {seed}: send {number} of {rows} rows, {send}"
    now = run.sender.statistics()
    assert now.gauges["row_permits_here"] == run.parameters.row_permits, f"seed {seed}"
    assert (now.waiting_sends, now.inbox_rows, now.gauges["unreturned_permits"]) == (0, 0, 0), f"seed {seed}"
    assert (now.sent_chunks, now.sent_rows) == (now.consumed_chunks, now.consumed_rows), f"seed {seed}"
    if run.parameters.oversize is Oversize.SPLIT:
        assert now.peak_inbox_rows <= run.parameters.row_permits, f"seed {seed}"
