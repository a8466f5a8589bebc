"""Query 12 as RisingWave plans it: two upstreams, dispatched to k joiners, dispatched again to m aggregators.

    lineitem: scan, filter --+--> joiner 0 --+--> aggregator 0
                              \\-> joiner 1 --+--> aggregator 1
    orders:   scan ----------+--> ...

Each upstream spreads its rows over the joiners by the order's key, and each joiner its own over the aggregators by the
shipping mode.  Barriers go through all of it: a part that reads several inputs waits until all have come to a barrier,
then passes it on.

There are two processes, with an exchange between them: the scan of orders and every second aggregator are in the one,
all other parts in the other.  A channel between parts of one process is local.  So each joiner reads a local and a
remote channel, as in the RFC, and writes into local and remote ones.

    python -m examples.tpch.q12_plan NUMBER SETTINGS     is one of the two processes; examples.tpch.q12 starts them
"""

import asyncio
import json
import sys
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from permitflow import ChannelParameters, Demand, EndOfStream, Kind, Message, Parameters, WouldBlock, open_channel
from permitflow.channels.interface import BulkReceive, SendEnd
from permitflow.client import get, put
from permitflow.dispatch import HashDispatcher, Splitter

from ..child_process import ChildSettings
from .tables import ANSWER_MODES, ANSWER_YEAR

PROCESSES = 2
LINE_ITEM, ORDERS = SIDES = ("lineitem", "orders")

LATE_ITEM = pa.schema([("l_orderkey", pa.int64()), ("l_shipmode", pa.string())])
PRIORITY = pa.schema([("o_orderkey", pa.int64()), ("is_high", pa.bool_())])
JOINED = pa.schema([("l_shipmode", pa.string()), ("is_high", pa.bool_())])
SCHEMAS = {LINE_ITEM: LATE_ITEM, ORDERS: PRIORITY}

Receiver: TypeAlias = BulkReceive[pa.RecordBatch]
Sender: TypeAlias = SendEnd[pa.RecordBatch]


class Bounds(StrEnum):
    """What bounds a channel."""

    ROWS = "rows"
    """Permits for rows on all channels, local and remote ones."""
    CHUNKS_AND_BYTES = "chunks and bytes"
    """16 chunks on local channels, 64 KiB on those between processes: RisingWave's bounds before it had permits."""


OLD_CHUNKS = 16
OLD_WINDOW_BYTES = 64 << 10
_NO_BOUND = 1 << 24


class ChannelBounds(NamedTuple):
    """The parameters of a channel, and its window in bytes."""

    parameters: Parameters
    byte_window: int


@dataclass(frozen=True, kw_only=True)
class PlanSettings(ChildSettings):
    """The settings of the whole plan; both processes get the same."""

    address: str
    """The address of the exchange between the processes."""
    tables: str
    """The folder of the Parquet files."""
    start: float
    """When the scans begin, on the clock that both processes share."""
    joiners: int = 4
    aggregators: int = 2
    barrier_seconds: float = 1.0
    chunk_rows: int = 1_024
    """Rows that are scanned at once."""
    bounds: Bounds = Bounds.ROWS
    row_permits: int = 2_048
    slice_rows: int = 256
    """The most rows of a chunk in a channel; permits return by half of it."""
    turn_rows: int = 1_024
    """A part that reads several inputs reads about this many rows of one, then of the next one."""
    measured_seconds: float = 0.0
    """0: the tables are read once, for the answer.  Else again and again, for so long, and chunks of both have about
    as many rows as in the experiment of the RFC: those of line items without the filter's year, so that 3.5 % of the
    rows are left, and those of orders as many."""
    join_seconds: float = 0.0
    """The cost of a row for a joiner, as time asleep."""

    @classmethod
    def _values(cls, found: dict[str, Any]) -> dict[str, Any]:
        return found | {"bounds": Bounds(found["bounds"])}

    def channel_bounds(self, *, is_local: bool) -> ChannelBounds:
        """The bounds of each channel."""
        if self.bounds is Bounds.ROWS:
            # As many rows may be under way on all channels: through an exchange there are three windows, one behind the
            # other.
            rows = self.row_permits if is_local else self.row_permits // 3
            permits = ChannelParameters(
                row_permits=rows, max_chunk_cost=self.slice_rows, permit_batch=max(1, self.slice_rows // 2)
            )
            return ChannelBounds(permits, _NO_BOUND)
        if is_local:
            return ChannelBounds(Demand(size=OLD_CHUNKS, batch=1), _NO_BOUND)
        return ChannelBounds(ChannelParameters(row_permits=_NO_BOUND, permit_batch=1), OLD_WINDOW_BYTES)

    # Where the parts are.

    def process_of(self, part: tuple[str, int]) -> int:
        """The process of a part, given its kind and its number among them."""
        kind, number = part
        return 0 if kind == "join" else number % PROCESSES

    def channels(self) -> Iterator["PlannedChannel"]:
        """All of the plan."""
        for joiner in range(self.joiners):
            for number, side in enumerate(SIDES):
                yield PlannedChannel(("scan", number), ("join", joiner), SCHEMAS[side])
            for aggregator in range(self.aggregators):
                yield PlannedChannel(("join", joiner), ("group", aggregator), JOINED)

    def is_local(self, channel: "PlannedChannel") -> bool:
        """Are both of its ends in one process?"""
        return self.process_of(channel.upstream) == self.process_of(channel.downstream)


class PlannedChannel(NamedTuple):
    """A channel between two parts."""

    upstream: tuple[str, int]
    downstream: tuple[str, int]
    schema: pa.Schema

    @property
    def name(self) -> str:
        """As in the exchange."""
        return "/".join(f"{kind}-{number}" for kind, number in (self.upstream, self.downstream))


# The upstreams.


def late_items(batch: pa.RecordBatch, *, any_year: bool) -> pa.RecordBatch:
    """The filter of query 12."""
    late = pc.and_(
        pc.is_in(modes := batch["l_shipmode"].cast(pa.string()), pa.array(ANSWER_MODES)),
        pc.and_(
            pc.less(batch["l_commitdate"], batch["l_receiptdate"]), pc.less(batch["l_shipdate"], batch["l_commitdate"])
        ),
    )
    if not any_year:
        late = pc.and_(late, pc.equal(pc.year(batch["l_receiptdate"]), ANSWER_YEAR))
    return pa.record_batch([batch["l_orderkey"], modes], LATE_ITEM).filter(late)


def priorities(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Whether each order is urgent or of high priority."""
    is_high = pc.is_in(batch["o_orderpriority"].cast(pa.string()), pa.array(["1-URGENT", "2-HIGH"]))
    return pa.record_batch([batch["o_orderkey"], is_high], PRIORITY)


VISIBLE_SHARE = 0.035
"""The share of the line items that is left without the filter's year."""

COLUMNS = {
    LINE_ITEM: ["l_orderkey", "l_shipmode", "l_shipdate", "l_commitdate", "l_receiptdate"],
    ORDERS: ["o_orderkey", "o_orderpriority"],
}


def scanned(settings: PlanSettings, side: str) -> Iterator[pa.RecordBatch]:
    """The chunks of a table, filtered; some may be empty."""
    path = Path(settings.tables) / f"{side}.parquet"
    is_thin = settings.measured_seconds > 0 and side == ORDERS
    rows = round(settings.chunk_rows * VISIBLE_SHARE) if is_thin else settings.chunk_rows
    for _ in repeat(None) if settings.measured_seconds else range(1):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(rows, columns=COLUMNS[side]):
                is_measured = settings.measured_seconds > 0
                yield late_items(batch, any_year=is_measured) if side == LINE_ITEM else priorities(batch)


async def scan(settings: PlanSettings, number: int, outputs: Sequence[Sender]) -> None:
    """Read a table, and spread it by the order's key, with a barrier at the start and after each interval."""
    side = SIDES[number]
    schema = SCHEMAS[side]
    dispatcher = HashDispatcher(outputs, Splitter(schema, schema.names[:1]).split)
    await asyncio.sleep(max(0.0, settings.start - time.monotonic()))
    barriers, until = 0, settings.start + settings.measured_seconds
    for batch in scanned(settings, side):
        now = time.monotonic()
        while now >= settings.start + barriers * settings.barrier_seconds:
            barriers += 1
            await dispatcher.send_barrier(barriers)
        if settings.measured_seconds and now >= until:
            break
        await dispatcher.send(batch)
        await asyncio.sleep(0)  # a scan that never waits leaves the others their turns
    await dispatcher.end()


# Parts that read several inputs.


class Turn(NamedTuple):
    """Chunks of one input that were there, none of them behind a barrier that others have not come to."""

    source: int
    chunks: Sequence[pa.RecordBatch]


class Aligned(NamedTuple):
    """All inputs that are not over have come to this barrier."""

    number: int


async def aligned(inputs: Sequence[Receiver], turn_rows: int) -> AsyncIterator[Turn | Aligned]:
    """Read inputs in turn, about this many rows of each, and align their barriers.  Permits return after each turn."""
    taken: list[deque[Message[pa.RecordBatch]]] = [deque() for _ in inputs]
    over: set[int] = set()
    while True:
        is_idle = True
        for source, receiver in enumerate(inputs):
            if source in over or _is_at_barrier(taken[source]):
                continue
            try:
                while True:
                    taken[source].append(receiver.take_nowait())
            except WouldBlock:
                pass
            except EndOfStream:
                if not taken[source]:
                    over.add(source)
            chunks, rows = [], 0
            while taken[source] and not _is_at_barrier(taken[source]) and rows < turn_rows:
                message = taken[source].popleft()
                chunks.append(message.payload)
                rows += message.rows
            if chunks:
                is_idle = False
                yield Turn(source, chunks)
                receiver.consume(len(chunks))
            await asyncio.sleep(0)
        waiting = [source for source in range(len(inputs)) if source not in over]
        if not waiting:
            return
        if all(_is_at_barrier(taken[source]) for source in waiting):
            numbers = {taken[source].popleft().payload for source in waiting}
            assert len(numbers) == 1, f"barriers {numbers} at once"
            yield Aligned(*numbers)
            for source in waiting:
                inputs[source].consume()
        elif is_idle:
            await _until_one_has_more([inputs[source] for source in waiting if not taken[source]])


def _is_at_barrier(taken: deque[Message[pa.RecordBatch]]) -> bool:
    return bool(taken) and taken[0].kind is Kind.BARRIER


async def _until_one_has_more(inputs: Sequence[Receiver]) -> None:
    async def has_more(receiver: Receiver) -> None:
        try:
            await receiver.until_takeable()
        except EndOfStream:
            return

    tasks = [asyncio.create_task(has_more(receiver)) for receiver in inputs]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


WARM_UP_SHARE = 0.3


async def join(
    settings: PlanSettings, inputs: Sequence[Receiver], outputs: Sequence[Sender], measured: Counter[str]
) -> int:
    """Join both inputs by the order's key, and spread what is found by the shipping mode; the barriers passed on.

    ``measured`` counts the rows of each side that the joiners of this process have read while the measurement lasts.
    """
    dispatcher = HashDispatcher(outputs, Splitter(JOINED, ["l_shipmode"]).split)
    is_high: dict[int, bool] = {}
    early: defaultdict[int, list[str]] = defaultdict(list)
    """The modes of line items whose order has not come."""
    barriers, due = 0, time.monotonic()
    measured_from = settings.start + WARM_UP_SHARE * settings.measured_seconds
    measured_to = settings.start + settings.measured_seconds
    async for item in aligned(inputs, settings.turn_rows):
        if isinstance(item, Aligned):
            assert item.number == barriers + 1, "each barrier comes once, in order"
            barriers = item.number
            await dispatcher.send_barrier(barriers)
            continue
        side, rows = SIDES[item.source], sum(chunk.num_rows for chunk in item.chunks)
        if settings.join_seconds:
            due = max(due, time.monotonic()) + rows * settings.join_seconds
            await asyncio.sleep(due - time.monotonic())
        if measured_from <= time.monotonic() < measured_to:
            measured[side] += rows
        found: list[tuple[str, bool]] = []
        for first, second in chain.from_iterable(_pairs(chunk) for chunk in item.chunks):
            if side == ORDERS:
                is_high[first] = second
                found.extend((mode, second) for mode in early.pop(first, ()))
            elif first in is_high:
                found.append((second, is_high[first]))
            else:
                early[first].append(second)
        if found:
            modes, highs = zip(*found, strict=True)
            await dispatcher.send(pa.record_batch([pa.array(modes), pa.array(highs)], JOINED))
    await dispatcher.end()
    return barriers


def _pairs(chunk: pa.RecordBatch) -> Iterator[tuple[int, Any]]:
    return zip(chunk.column(0).to_pylist(), chunk.column(1).to_pylist(), strict=True)


async def group(settings: PlanSettings, inputs: Sequence[Receiver]) -> tuple[Counter[tuple[str, bool]], int]:
    """Count rows by mode and priority; and the barriers that have come through."""
    counts, barriers = Counter[tuple[str, bool]](), 0
    async for item in aligned(inputs, settings.turn_rows):
        if isinstance(item, Aligned):
            assert item.number == barriers + 1, "each barrier comes once, in order"
            barriers = item.number
        else:
            for chunk in item.chunks:
                counts.update(zip(chunk.column(0).to_pylist(), chunk.column(1).to_pylist(), strict=True))
    return counts, barriers


# One process.


async def run_part(settings: PlanSettings, process: int) -> Mapping[str, object]:
    """Run all parts of a process to their ends; what they found."""
    senders: dict[PlannedChannel, Sender] = {}
    receivers: dict[PlannedChannel, Receiver] = {}
    measured = Counter[str]()
    async with AsyncExitStack() as stack:
        for channel in settings.channels():
            is_local = settings.is_local(channel)
            parameters, window = settings.channel_bounds(is_local=is_local)
            is_upstream, is_downstream = (
                settings.process_of(end) == process for end in (channel.upstream, channel.downstream)
            )
            if is_local and is_upstream:
                senders[channel], receivers[channel] = open_channel(parameters, name=channel.name, byte_window=window)
            elif is_upstream:
                opening = put(settings.address, channel.name, channel.schema, wanted=parameters, byte_window=window)
                senders[channel] = await stack.enter_async_context(opening)
            elif is_downstream:
                reading = get(settings.address, channel.name, wanted=parameters, byte_window=window)
                receivers[channel] = await stack.enter_async_context(reading)

        def outputs_of(part: tuple[str, int]) -> list[Sender]:
            return [end for channel, end in senders.items() if channel.upstream == part]

        def inputs_of(part: tuple[str, int]) -> list[Receiver]:
            return [end for channel, end in receivers.items() if channel.downstream == part]

        def mine(kind: str, count: int) -> Iterator[tuple[str, int]]:
            return ((kind, number) for number in range(count) if settings.process_of((kind, number)) == process)

        async with asyncio.TaskGroup() as tasks:
            groups = [
                tasks.create_task(group(settings, inputs_of(part))) for part in mine("group", settings.aggregators)
            ]
            joins = [
                tasks.create_task(join(settings, inputs_of(part), outputs_of(part), measured))
                for part in mine("join", settings.joiners)
            ]
            for part in mine("scan", len(SIDES)):
                tasks.create_task(scan(settings, part[1], outputs_of(part)))
    counts = Counter[tuple[str, bool]]()
    for task in groups:
        counts.update(task.result()[0])
    return {
        "event": "done",
        "counts": [[mode, is_high, rows] for (mode, is_high), rows in sorted(counts.items())],
        "barriers": [task.result()[1] for task in groups] + [task.result() for task in joins],
        "rows": dict(measured),
    }


if __name__ == "__main__":
    result = asyncio.run(run_part(PlanSettings.from_command_line(), int(sys.argv[1])))
    print(json.dumps(result), flush=True)
