"""What processes of a schedule do: producer, worker, consumer, and the exchange as ``permitflow serve``.

Each end appends what happens to it to a journal, one JSON object a line, before anybody else can know: a consumer
returns the permits of rows that are in its journal already.  So a journal also tells what a killed process had.
"""

import asyncio
import inspect
import json
import os
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict
from functools import partial
from itertools import chain, count, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from permitflow import AlignedBarrier, GateChunk, GateParameters, InputGate, LocalSender, Message
from permitflow.client import JoinedChunks, SameHost
from permitflow.errors import (
    ChannelAbortedError,
    ChannelBusyError,
    ChannelSpentError,
    EndOfStream,
    InputLostError,
    PermitflowError,
)
from permitflow.stages import Elements, Source
from tests.faults.schedules import Carrier, Client, Party, Pipeline, Retention, Schedule, generator

if TYPE_CHECKING:
    from permitflow import ChannelStatistics

DISK = "disk"
"""The folder of what must outlive its process."""
STREAM = "rows"
CHANNELS = ("rows/0", "rows/1")
"""A worker streams from the first into the second."""
SCHEMA = pa.schema([("number", pa.int64()), ("inverse", pa.int64()), ("multiple", pa.int64())])
INVERSE = 0x5A5A_5A5A_5A5A
MULTIPLE = 3

RETRY_SECONDS = 0.3
ACKNOWLEDGING_SECONDS = 0.05
MOST_TRIES = 4
# Without any progress; black holes and stops take less until they are noticed and over.
PATIENCE_SECONDS = 50.0


def chunk(first: int, rows: int) -> pa.RecordBatch:
    """Rows that say three times who they are."""
    numbers = np.arange(first, first + rows, dtype=np.int64)
    columns = [numbers, numbers ^ INVERSE, numbers * MULTIPLE]
    return pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)


def rows_in(batch: pa.RecordBatch) -> tuple[list[list[int]], int]:
    """Which rows these are, as runs of first number and count, and how many are not as they were sent.

    Two of three columns say which row it is, so that one altered value does not make another row of it.
    """
    number, inverse, multiple = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
    second, third = inverse ^ INVERSE, multiple // MULTIPLE
    who = np.where((number == second) | (number == third), number, second)
    altered = int(np.count_nonzero((number != second) | (number * MULTIPLE != multiple)))
    borders = [0, *(np.flatnonzero(np.diff(who) != 1) + 1).tolist(), len(who)]
    return [[int(who[a]), b - a] for a, b in pairwise(borders) if a < b], altered


class Journal:
    """What happened to one end in all of its lives."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        earlier = [json.loads(line) for line in path.read_text().splitlines()]
        self.pid, self.path = os.getpid(), path
        self.rows = sum(event["rows"] for event in earlier if event["event"] == "took")
        """Rows that were taken in all lives."""
        self.last_progress = time.monotonic()

    def tell(self, event: str, **facts: Any) -> None:
        """Write a line: it is there even if this process is killed now."""
        line = json.dumps({"event": event, "pid": self.pid, "at": time.monotonic(), **facts})
        os.write(self._file, line.encode() + b"\n")

    def took(self, batch: pa.RecordBatch, **facts: Any) -> None:
        runs, altered = rows_in(batch)
        self.tell("took", rows=batch.num_rows, runs=runs, altered=altered, **facts)
        self.rows += batch.num_rows
        self.last_progress = time.monotonic()

    def gave(self, rows: int, **facts: Any) -> None:
        """They leave for the next one now."""
        self.tell("gave", rows=rows, **facts)
        self.last_progress = time.monotonic()

    def ended(self, outcome: object, **facts: Any) -> None:
        """The producer was told that all went well: in this form.

        The one place that knows what ``end`` returns: ``None`` promises what ``consumed`` does.
        """
        self.tell("ended", outcome="consumed" if outcome is None else str(getattr(outcome, "value", outcome)), **facts)

    def failed(self, error: BaseException, **facts: Any) -> None:
        self.tell("failed", type=type(error).__name__, message=str(error), **facts)

    def note(self, statistics: "ChannelStatistics") -> None:
        facts = asdict(statistics)
        self.tell("numbers", peaks={name: facts[name] for name in ("peak_inbox_rows", "peak_rows_held")})

    @property
    def has_patience(self) -> bool:
        return time.monotonic() - self.last_progress < PATIENCE_SECONDS


# Longer than any sleep, with room for a slow machine.
AGREEMENT_SECONDS = 25.0
# Of a blocking client: for each permit and each chunk; the longest stop is shorter.
WAIT_SECONDS = 25.0
# Of both, where a stream may go on: a silent peer is noticed after 20 s, and then there is time for another connection.
RESUMING_SECONDS = 45.0


class Doors(NamedTuple):
    """How a kind of client dials: the ends of both have the same methods, some of which must be awaited."""

    put: Callable[..., Any]
    get: Callable[..., Any]
    control: Callable[..., Any]


def doors_of(client: Client, resume_seconds: float) -> Doors:
    # gRPC is loaded in this process, and not in the one that it was forked off.
    from permitflow import client as asyncio_client
    from permitflow.client import blocking

    dialling: dict[str, Any]
    resuming = {"resume_seconds": resume_seconds} if resume_seconds else {}
    if client is Client.ASYNCIO:
        agreement_seconds = RESUMING_SECONDS if resume_seconds else AGREEMENT_SECONDS
        dialling = {"same_host": SameHost.NEVER, "agreement_timeout_seconds": agreement_seconds, **resuming}
        dialling["connect_timeout_seconds"] = AGREEMENT_SECONDS
        put, get = partial(asyncio_client.put, **dialling), partial(asyncio_client.get, schema=SCHEMA, **dialling)
        return Doors(put, get, partial(asyncio_client.control, reply_timeout_seconds=WAIT_SECONDS))
    wait_seconds = RESUMING_SECONDS if resume_seconds else WAIT_SECONDS
    dialling = {"same_host": SameHost.NEVER, "timeout_seconds": wait_seconds, **resuming}
    open_sink, open_source = (partial(dial, **dialling) for dial in (blocking.open_sink, blocking.open_source))
    return Doors(open_sink, open_source, partial(blocking.control, timeout_seconds=WAIT_SECONDS))


async def entered(stack: AsyncExitStack, end: Any) -> Any:
    return await stack.enter_async_context(end) if hasattr(end, "__aenter__") else stack.enter_context(end)


async def settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class Role:
    """What all ends know."""

    party: Party

    def __init__(self, schedule: Schedule, port: int, journal: Journal) -> None:
        scheme = "tcp://" if schedule.carrier is Carrier.TCP else ""
        self.schedule, self.journal = schedule, journal
        self.own = schedule.producer if self.party is Party.PRODUCER else schedule.consumer
        self.doors = doors_of(self.own.client, schedule.resume_seconds)
        self.address = f"{scheme}127.0.0.1:{port}"
        self.dice: Random = generator(schedule, self.party)
        self.keeps = schedule.retention is Retention.REPLAY
        self.wanted: GateParameters | None = None
        if schedule.is_gate:
            floating = schedule.row_permits - schedule.exclusive
            self.wanted = GateParameters(inputs=2, exclusive=schedule.exclusive, floating=floating)

    async def play(self) -> None:
        """All tries in one event loop: gRPC keeps the first one of a process."""
        while True:
            try:
                await self.play_once()
            except PermitflowError as error:
                self.journal.failed(error)
                if not self.journal.has_patience or self.is_final(error):
                    return
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self.journal.tell("over")
            return

    async def play_once(self) -> None:
        raise NotImplementedError

    def is_final(self, error: PermitflowError) -> bool:
        """Is there no use in coming again?"""
        raise NotImplementedError


class Producer(Role):
    """Sends rows 0, 1, 2, ...; with a name if the channel keeps them."""

    party = Party.PRODUCER

    def chunks(self, first_row: int) -> Iterator[pa.RecordBatch]:
        row = first_row
        while row < self.schedule.rows:
            count = min(self.dice.randint(1, self.own.largest_chunk_rows), self.schedule.rows - row)
            self.journal.gave(count)
            yield chunk(row, count)
            row += count

    async def paced(self, first_row: int) -> AsyncIterator[pa.RecordBatch]:
        """The same for a stream, which asks for them and closes this."""
        self.journal.tell("opened")
        try:
            for batch in self.chunks(first_row):
                yield batch
                await asyncio.sleep(self.own.pause_seconds)
            await asyncio.sleep(self.own.idle_seconds)
        finally:
            self.journal.tell("closed")

    async def play_once(self) -> None:
        names: dict[str, Any] = {"producer": "maker"} if self.keeps else {"wanted": self.wanted} if self.wanted else {}
        async with AsyncExitStack() as stack:
            if self.keeps:
                orders = await entered(stack, self.doors.control(self.address))
                (position,) = await settled(orders.positions(CHANNELS[:1]))
                if position.state.value == "ended":  # that was confirmed, and the confirmation lost
                    self.journal.ended(f"kept {position.next_row}")
                    return
            sender = await entered(stack, self.doors.put(self.address, CHANNELS[0], SCHEMA, **names))
            try:
                sent, barriers = sender.first_row or 0, 0
                self.journal.tell("began", row=sent)
                if sent:
                    self.journal.last_progress = time.monotonic()
                if self.schedule.pipeline:
                    self.journal.ended(await Source(self.paced(sent)).run_to(sender))
                    return
                for batch in self.chunks(sent):
                    await settled(sender.send(batch))
                    sent += batch.num_rows
                    while self.wanted and sent >= (barriers + 1) * self.schedule.epoch_rows:
                        barriers += 1
                        await sender.send_barrier(barriers)
                    if self.own.pause_seconds:
                        await asyncio.sleep(self.own.pause_seconds)
                await asyncio.sleep(self.own.idle_seconds)
                self.journal.tell("ending")
                self.journal.ended(await settled(sender.end(closes_channel=True)))
            finally:
                self.journal.note(sender.statistics())

    def is_final(self, error: PermitflowError) -> bool:
        """One without a name cannot know what was taken of its rows."""
        return not self.keeps


class Taker(Role):
    """What those who take rows share."""

    has_taken = False
    tries = 0

    def is_final(self, error: PermitflowError) -> bool:
        """A channel that is read once takes another consumer if the first has taken nothing."""
        if self.keeps or isinstance(error, ChannelBusyError):
            return False
        self.tries += 1
        is_over = isinstance(error, ChannelSpentError | ChannelAbortedError)
        return is_over or self.has_taken or self.tries == MOST_TRIES


class Consumer(Taker):
    """Takes rows, writes down which, and only then returns their permits, or acknowledges them."""

    party = Party.CONSUMER
    taken_chunks = 0
    """With the last call."""

    def took(self, batch: pa.RecordBatch) -> bool:
        """Write it down; is it time to acknowledge?"""
        self.journal.took(batch)
        self.has_taken = True
        self.unacknowledged += batch.num_rows
        return self.keeps and self.unacknowledged >= self.own.largest_chunk_rows

    async def play_once(self) -> None:
        self.unacknowledged, self.has_taken = 0, False
        self.channel = CHANNELS[1 if self.schedule.pipeline else 0]
        self.elements: Elements[Message[pa.RecordBatch]] | None = None
        if self.wanted:
            await self.play_gate(self.wanted)
            return
        async with AsyncExitStack() as stack:
            # From which row on: if the channel keeps them, the first that is not written down.
            first_row = self.journal.rows if self.keeps else None
            orders: Any = await entered(stack, self.doors.control(self.address)) if self.keeps else None

            async def acknowledge() -> None:
                if orders is not None:
                    self.unacknowledged = 0
                    await settled(orders.acknowledge({self.channel: self.journal.rows}))

            await acknowledge()
            receiver = await entered(stack, self.doors.get(self.address, self.channel, from_row=first_row))
            if self.schedule.pipeline:
                self.elements = Source.receive(receiver).open()
            self.journal.tell("began", row=first_row or 0)
            await asyncio.sleep(self.own.idle_seconds)
            try:
                while True:
                    if self.took(await self.next_rows(receiver)):
                        await acknowledge()
                    if self.own.pause_seconds:
                        await asyncio.sleep(self.own.pause_seconds)
            except EndOfStream:
                self.journal.tell("ended")
            finally:
                self.journal.note(receiver.statistics())
            await acknowledge()

    async def next_rows(self, receiver: Any) -> pa.RecordBatch:
        """What was taken before is consumed now, after it was written down."""
        if self.elements is not None:
            async for message in self.elements:
                return message.payload
            raise EndOfStream
        is_joined = self.dice.random() < 0.3
        if self.own.client is Client.BLOCKING:
            taken = receiver.receive_joined() if is_joined else receiver.receive()
        else:
            if self.has_taken:
                receiver.consume(self.taken_chunks)
            taken = await (receiver.take_joined() if is_joined else receiver.take())
            self.taken_chunks = len(taken) if isinstance(taken, JoinedChunks) else 1
        return taken.batch if isinstance(taken, JoinedChunks) else taken.payload

    async def play_gate(self, wanted: GateParameters) -> None:
        """Align the channel's barriers with those of an input of this process, which is always ahead."""
        gate: InputGate[pa.RecordBatch] = InputGate(wanted)
        async with (
            gate,
            self.doors.get(self.address, self.channel, wanted=wanted, group=gate.group) as receiver,
        ):
            gate.add(receiver)
            ahead = asyncio.create_task(self.run_ahead(gate.open_channel("ahead")))
            self.journal.tell("began", row=0)
            await asyncio.sleep(self.own.idle_seconds)
            rows = unpaused = 0
            try:
                async for item in gate:
                    if isinstance(item, GateChunk):
                        rows += item.payload.num_rows
                        self.took(item.payload)
                    elif isinstance(item, AlignedBarrier) and self.channel in item.payloads:
                        self.journal.tell("aligned", barrier=item.number, rows=rows)
                    elif isinstance(item, AlignedBarrier):
                        ahead.cancel()  # only the input of this process is left
                    if rows - unpaused >= self.own.largest_chunk_rows:
                        unpaused = rows
                        await asyncio.sleep(self.own.pause_seconds)
                self.journal.tell("ended")
            except InputLostError as error:
                raise error.__cause__ or error from None
            finally:
                ahead.cancel()
                self.journal.note(receiver.statistics())

    async def run_ahead(self, sender: LocalSender[pa.RecordBatch]) -> None:
        """Barriers without end; the one that has reached all others ends it."""
        try:
            for number in count(1):
                await sender.send_barrier(number)
        finally:
            with suppress(PermitflowError):
                sender.end_nowait()


class Worker(Taker):
    """Streams rows from one channel into the other; if both keep them, it goes on where the second one ends."""

    party = Party.WORKER

    async def play_once(self) -> None:
        self.has_taken = False
        async with AsyncExitStack() as stack:
            if not self.keeps:
                # In this order: if the second channel has failed, the first one's producer hears of it.
                receiver = await entered(stack, self.doors.get(self.address, CHANNELS[0]))
                sender = await entered(stack, self.doors.put(self.address, CHANNELS[1], SCHEMA))
                self.journal.tell("began", row=0)
                await self.pass_on(receiver, sender)
                return
            orders = await entered(stack, self.doors.control(self.address))
            if await self.acknowledge(orders):
                return
            sender = await entered(stack, self.doors.put(self.address, CHANNELS[1], SCHEMA, producer="worker"))
            first_row = sender.first_row or 0
            receiver = await entered(stack, self.doors.get(self.address, CHANNELS[0], from_row=first_row))
            self.journal.tell("began", row=first_row)
            try:
                async with asyncio.TaskGroup() as group:
                    acknowledging = group.create_task(self.keep_acknowledging(orders))
                    await self.pass_on(receiver, sender)
                    acknowledging.cancel()
            except BaseExceptionGroup as failures:
                if (found := failures.split(PermitflowError)[0]) is None:
                    raise
                raise found.exceptions[0] from None
            await self.acknowledge(orders)

    async def keep_acknowledging(self, orders: Any) -> None:
        while True:
            await asyncio.sleep(ACKNOWLEDGING_SECONDS)
            await self.acknowledge(orders)

    async def acknowledge(self, orders: Any) -> bool:
        """Let the first channel forget what the second one has; has that ended?"""
        (_, position) = await orders.positions(CHANNELS)
        await orders.acknowledge({CHANNELS[0]: position.next_row})
        if position.state.value != "ended":
            return False
        self.journal.ended(f"kept {position.next_row}")
        return True

    async def pass_on(self, receiver: Any, sender: Any) -> None:
        assert self.schedule.pipeline is not None, "of stages"
        try:
            self.journal.ended(await self.passed_on(receiver, self.schedule.pipeline).run_to(sender))
        finally:
            self.journal.note(receiver.statistics())
            self.journal.note(sender.statistics())

    def passed_on(self, receiver: Any, pipeline: Pipeline) -> Source[pa.RecordBatch]:
        rows: Source[pa.RecordBatch] = Source.receive(receiver).map(self.taken).rechunk(pipeline.rechunk_rows)
        given: Source[pa.RecordBatch]
        given = (rows.async_boundary(pipeline.prefetch) if pipeline.prefetch else rows).map(self.given)
        return given

    def taken(self, message: Message[pa.RecordBatch]) -> pa.RecordBatch:
        self.has_taken = True
        self.journal.took(message.payload)
        return message.payload

    def given(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.journal.gave(batch.num_rows)
        return batch


def serve(schedule: Schedule, addresses: Mapping[str, str], folder: Path, _: object) -> None:
    """The exchange, as its command line starts it."""
    from permitflow_tools.cli import main

    scheme = "tcp://" if schedule.carrier is Carrier.TCP else ""
    address = addresses.get("address", f"{scheme}127.0.0.1:0")

    flow: tuple[str, ...] = ("--row-permits", str(schedule.row_permits))
    if schedule.is_gate:
        numbers = (f"exclusive={schedule.exclusive}", f"floating={schedule.row_permits - schedule.exclusive}")
        flow = ("--flow", "gate", *chain.from_iterable(("--parameter", number) for number in numbers))
    replay = ("--retention", "replay", "--store", str(folder / DISK / "store"))
    sys.argv = [
        *("permitflow", "serve", "--stream", f"{STREAM}:{2 if schedule.pipeline else 1}", "--address", address, *flow),
        *("--same-host", "never", "--drain-seconds", "0.1", "--json"),
        *(("--resume-seconds", str(schedule.resume_seconds)) if schedule.resume_seconds else ()),
        *(replay if schedule.retention is Retention.REPLAY else ()),
        *(() if schedule.checksums else ("--no-checksums",)),
    ]
    main()


class Plays(Protocol):
    """An end."""

    async def play(self) -> None:
        """Until it is over."""


class MakesEnd(Protocol):
    """The class of an end."""

    party: Party

    def __call__(self, schedule: Schedule, port: int, journal: Journal) -> Plays:
        """One that finds its server at this port."""


def play(make: MakesEnd, schedule: Schedule, port: int, folder: Path) -> None:
    """An end that finds its server at this port."""
    journal = Journal(folder / f"{make.party}.journal")
    try:
        asyncio.run(make(schedule, port, journal).play())
    except BaseException:
        journal.tell("crashed", traceback=traceback.format_exc())
        raise
