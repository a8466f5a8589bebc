"""What the processes at the ends do: each works on many orders at once, and tells its figures when it is asked."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import numpy as np
import psutil
import pyarrow as pa

from benchmarks.soak.figures import MEBIBYTE, measured
from permitflow import AlignedBarrier, GateChunk, GateParameters, InputGate
from permitflow.client import control, get, put
from permitflow.errors import PermitflowError
from permitflow.stages import Source

Options: TypeAlias = Mapping[str, Any]

NARROW = pa.schema([("n", pa.int64())])
WIDE = pa.schema([(f"n{number}", pa.int64()) for number in range(64)])
BARRIER_ROWS = 500


def chunk(schema: pa.Schema, first: int, rows: int) -> pa.RecordBatch:
    """Numbered rows."""
    column = pa.array(np.arange(first, first + rows, dtype=np.int64))
    return pa.record_batch([column] * len(schema), schema=schema)


class Numbered:
    """Takes rows that must be numbered one after the other."""

    def __init__(self, next_row: int = 0) -> None:
        self.first = self.next_row = next_row

    @property
    def rows(self) -> int:
        return self.next_row - self.first

    def take(self, batch: pa.RecordBatch) -> None:
        numbers = batch.column(0).to_numpy()
        expected = np.arange(self.next_row, self.next_row + len(numbers))
        assert np.array_equal(numbers, expected), f"row {numbers[0]} came in place of {self.next_row}"
        self.next_row += len(numbers)


async def feed(address: str, channel: str, rows: int, chunk_rows: int, *, is_wide: bool, options: Options) -> int:
    """Send rows; those of a named producer go on after the last that is kept."""
    schema = WIDE if is_wide else NARROW
    keeps = "producer" in options
    async with put(address, channel, schema, **options) as sender:
        begin = sender.first_row or 0
        for first in range(begin, begin + rows, chunk_rows):
            await sender.send(chunk(schema, first, min(chunk_rows, begin + rows - first)))
        await sender.end(closes_channel=not keeps)
    return rows


async def feed_with_barriers(address: str, channel: str, rows: int, options: Options) -> int:
    """Send rows, and a barrier after this many."""
    async with put(address, channel, NARROW, **options) as sender:
        for number, first in enumerate(range(0, rows, BARRIER_ROWS), 1):
            for part in range(first, first + BARRIER_ROWS, BARRIER_ROWS // 10):
                await sender.send(chunk(NARROW, part, BARRIER_ROWS // 10))
            await sender.send_barrier(number)
        await sender.end()
    return rows


async def take(address: str, channel: str, pause_seconds: float, leaves_after: int, options: Options) -> int:
    """Take all rows, or this many and leave."""
    taken = Numbered()
    async with get(address, channel, **options) as receiver:
        async for message in receiver:
            taken.take(message.payload)
            if leaves_after and taken.rows >= leaves_after:
                break
            await asyncio.sleep(pause_seconds)
    return taken.rows


async def take_gate(address: str, channels: list[str], wanted: GateParameters, options: Options) -> int:
    """Take the rows of several channels, whose barriers are aligned."""
    gate: InputGate[pa.RecordBatch] = InputGate(wanted)
    taken = {channel: Numbered() for channel in channels}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(gate)
        for channel in channels:
            gate.add(await stack.enter_async_context(get(address, channel, wanted=wanted, group=gate.group, **options)))
        async for item in gate:
            match item:
                case GateChunk(source, payload):
                    taken[source].take(payload)
                case AlignedBarrier(number):
                    due = dict.fromkeys(channels, number * BARRIER_ROWS)
                    assert {channel: each.rows for channel, each in taken.items()} == due, f"at barrier {number}"
    return sum(each.rows for each in taken.values())


async def take_kept(address: str, channel: str, consumer: str, rows: int, options: Options) -> int:
    """Take this many rows of a channel that keeps them, acknowledge them, and leave."""
    async with control(address) as orders:
        (position,) = await orders.positions([channel], consumer=consumer)
        taken = Numbered(position.acknowledged_row)
        async with get(address, channel, consumer=consumer, from_row=taken.next_row, **options) as receiver:
            async for message in receiver:
                taken.take(message.payload)
                if taken.rows >= rows:
                    break
        await orders.acknowledge({channel: taken.next_row}, consumer=consumer)
    return taken.rows


async def take_by_stages(address: str, channel: str, options: Options) -> int:
    """Take the rows by three branches that are joined again."""
    rows = 0
    async with get(address, channel, **options) as receiver:
        batches: Source[pa.RecordBatch] = Source.receive(receiver).map(lambda message: message.payload)
        first, second, third = batches.buffer(8).broadcast(3)
        async with first.merge(second, third.async_boundary(4)).open() as elements:
            async for batch in elements:
                rows += batch.num_rows
    return rows // 3


WORK: Mapping[str, Callable[..., Awaitable[int]]] = {
    each.__name__: each for each in (feed, feed_with_barriers, take, take_gate, take_kept, take_by_stages)
}


class Planted:
    """Growth on purpose, so that a run can show that it is found: so much at each look."""

    def __init__(self) -> None:
        self.kept: list[object] = []

    def grow(self) -> None:
        self.kept += [os.dup(0), os.dup(0), os.urandom(2 * MEBIBYTE), *([] for _ in range(1_000))]
        self.kept += [asyncio.create_task(asyncio.Event().wait()) for _ in range(4)]
        self.kept.append(thread := threading.Thread(target=threading.Event().wait, daemon=True))
        thread.start()


async def work(pipe: Connection, is_growing: bool) -> None:
    """Carry out orders: the number of each, what, and its arguments; answers: the number, rows, and what was told."""
    loop, me, planted = asyncio.get_running_loop(), psutil.Process(), Planted()
    under_way: set[asyncio.Task[None]] = set()
    over = asyncio.Event()

    async def carry_out(number: int, what: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        try:
            rows, told = await WORK[what](*arguments, **options), ""
        except PermitflowError as error:
            rows, told = 0, f"{type(error).__name__}: {error}"
        except Exception as error:
            rows, told = 0, f"failed by {error!r}"
        pipe.send((number, rows, told))

    def hear() -> None:
        try:
            number, what, arguments, options = pipe.recv()
        except EOFError:
            loop.remove_reader(pipe.fileno())
            over.set()
            return
        if what == "measure":
            if is_growing:
                planted.grow()
            pipe.send((number, 0, measured(me)))
            return
        task = loop.create_task(carry_out(number, what, arguments, options))
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    loop.add_reader(pipe.fileno(), hear)
    await over.wait()
    for task in under_way:
        task.cancel()
