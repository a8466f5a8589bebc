"""What the three processes of a schedule do: the producer, the consumer, and the exchange as ``permitflow serve``.

Each end appends what happens to it to a journal, one JSON object a line, before anybody else can know: a consumer
returns the permits of rows that are in its journal already.  So a journal also tells what a killed process had.
"""

import asyncio
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import chain, count, pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from permitflow.channels.gate import AlignedBarrier, GateChunk, InputGate
from permitflow.channels.local import LocalSender
from permitflow.errors import (
    ChannelAbortedError,
    ChannelBusyError,
    ChannelSpentError,
    EndOfStream,
    InputLostError,
    PermitflowError,
)
from permitflow.protocol.gate import GateParameters
from permitflow.transports.same_host import SameHost
from tests.faults.schedules import Carrier, Client, Party, Retention, Schedule, generator

if TYPE_CHECKING:
    from permitflow.channels.statistics import ChannelStatistics

STREAM = "rows"
CHANNEL = "rows/0"
SCHEMA = pa.schema([("number", pa.int64()), ("inverse", pa.int64()), ("multiple", pa.int64())])
INVERSE = 0x5A5A_5A5A_5A5A
MULTIPLE = 3

AGREEMENT_SECONDS = 15.0
# Of a blocking client: for each permit and each chunk; the longest stop is shorter.
WAIT_SECONDS = 20.0
# How each kind of client dials.
DIALLING: dict[str, Any] = {"same_host": SameHost.NEVER, "agreement_timeout_seconds": AGREEMENT_SECONDS}
BLOCKING: dict[str, Any] = {"same_host": SameHost.NEVER, "timeout_seconds": WAIT_SECONDS}
RETRY_SECONDS = 0.3
MOST_TRIES = 4
# Without any progress; black holes and stops take less until they are noticed and over.
PATIENCE_SECONDS = 40.0


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

    def __init__(self, path: Path, life: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._life = life
        earlier = [json.loads(line) for line in path.read_text().splitlines()]
        self.rows = sum(event["rows"] for event in earlier if event["event"] == "took")
        """Rows that were taken in all lives."""
        self.last_progress = time.monotonic()

    def tell(self, event: str, **facts: Any) -> None:
        """Write a line: it is there even if this process is killed now."""
        line = json.dumps({"event": event, "life": self._life, "at": time.monotonic(), **facts})
        os.write(self._file, line.encode() + b"\n")

    def took(self, batch: pa.RecordBatch) -> None:
        runs, altered = rows_in(batch)
        self.tell("took", rows=batch.num_rows, runs=runs, altered=altered)
        self.rows += batch.num_rows
        self.last_progress = time.monotonic()

    def ended(self, outcome: object) -> None:
        """The producer was told that all went well: in this form.

        The one place that knows what ``end`` returns: ``None`` promises what ``consumed`` does.
        """
        self.tell("ended", outcome="consumed" if outcome is None else str(getattr(outcome, "value", outcome)))

    def failed(self, error: PermitflowError) -> None:
        self.tell("failed", type=type(error).__name__, message=str(error))

    def note(self, statistics: "ChannelStatistics") -> None:
        facts = asdict(statistics)
        self.tell("numbers", peaks={name: facts[name] for name in ("peak_inbox_rows", "peak_rows_held")})

    @property
    def has_patience(self) -> bool:
        return time.monotonic() - self.last_progress < PATIENCE_SECONDS


class Role:
    """What both ends know."""

    def __init__(self, schedule: Schedule, party: Party, port: int, journal: Journal) -> None:
        scheme = "tcp://" if schedule.carrier is Carrier.TCP else ""
        self.schedule, self.journal = schedule, journal
        self.own = schedule.producer if party is Party.PRODUCER else schedule.consumer
        self.address = f"{scheme}127.0.0.1:{port}"
        self.dice: Random = generator(schedule.seed, schedule.number, party)
        self.keeps = schedule.retention is Retention.REPLAY
        self.wanted: GateParameters | None = None
        if schedule.is_gate:
            floating = schedule.row_permits - schedule.exclusive
            self.wanted = GateParameters(inputs=2, exclusive=schedule.exclusive, floating=floating)

    def play(self) -> None:
        if self.own.client is Client.ASYNCIO:
            # All tries in one event loop: gRPC keeps the first one of a process.
            asyncio.run(self._play_on())
            return
        while True:
            try:
                self.play_blocking()
            except PermitflowError as error:
                if self._is_over(error):
                    return
                time.sleep(RETRY_SECONDS)
                continue
            self.journal.tell("over")
            return

    async def _play_on(self) -> None:
        while True:
            try:
                await self.play_asyncio()
            except PermitflowError as error:
                if self._is_over(error):
                    return
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self.journal.tell("over")
            return

    def _is_over(self, error: PermitflowError) -> bool:
        self.journal.failed(error)
        return not self.journal.has_patience or self.is_final(error)

    async def play_asyncio(self) -> None:
        raise NotImplementedError

    def play_blocking(self) -> None:
        raise NotImplementedError

    def is_final(self, error: PermitflowError) -> bool:
        """Is there no use in coming again?"""
        raise NotImplementedError


class Producer(Role):
    """Sends rows 0, 1, 2, ...; with a name if the channel keeps them."""

    def chunks(self, first_row: int) -> Iterator[pa.RecordBatch]:
        row = first_row
        while row < self.schedule.rows:
            count = min(self.dice.randint(1, self.own.largest_chunk_rows), self.schedule.rows - row)
            yield chunk(row, count)
            row += count

    def begin(self, first_row: int | None) -> int:
        first_row = first_row or 0
        self.journal.tell("began", row=first_row)
        if first_row:
            self.journal.last_progress = time.monotonic()
        return first_row

    def has_ended(self, positions: Sequence[Any]) -> bool:
        """Was the end confirmed, and the confirmation lost?"""
        (position,) = positions
        if position.state.value != "ended":
            return False
        self.journal.ended(f"kept {position.next_row}")
        return True

    async def play_asyncio(self) -> None:
        from permitflow.transports.grpc_aio import control, put

        if self.keeps:
            async with control(self.address, reply_timeout_seconds=WAIT_SECONDS) as orders:
                if self.has_ended(await orders.positions([CHANNEL])):
                    return
        name = "maker" if self.keeps else ""
        async with put(self.address, CHANNEL, SCHEMA, producer=name, wanted=self.wanted, **DIALLING) as sender:
            try:
                sent, barriers = self.begin(sender.first_row), 0
                for batch in self.chunks(sent):
                    await sender.send(batch)
                    sent += batch.num_rows
                    while self.wanted and sent >= (barriers + 1) * self.schedule.epoch_rows:
                        barriers += 1
                        await sender.send_barrier(barriers)
                    if self.own.pause_seconds:
                        await asyncio.sleep(self.own.pause_seconds)
                await asyncio.sleep(self.own.idle_seconds)
                self.journal.tell("ending")
                outcome: object = await sender.end(closes_channel=True)
                self.journal.ended(outcome)
            finally:
                self.journal.note(sender.statistics())

    def play_blocking(self) -> None:
        from permitflow.transports.grpc_blocking import control, open_sink

        if self.keeps:
            with control(self.address, timeout_seconds=WAIT_SECONDS) as orders:
                if self.has_ended(orders.positions([CHANNEL])):
                    return
        name = "maker" if self.keeps else ""
        with open_sink(self.address, CHANNEL, SCHEMA, producer=name, **BLOCKING) as sink:
            try:
                for batch in self.chunks(self.begin(sink.first_row)):
                    sink.send(batch)
                    if self.own.pause_seconds:
                        time.sleep(self.own.pause_seconds)
                time.sleep(self.own.idle_seconds)
                self.journal.tell("ending")
                outcome: object = sink.end(closes_channel=True)
                self.journal.ended(outcome)
            finally:
                self.journal.note(sink.statistics())

    def is_final(self, error: PermitflowError) -> bool:
        """One without a name cannot know what was taken of its rows."""
        return not self.keeps


class Consumer(Role):
    """Takes rows, writes down which, and only then returns their permits, or acknowledges them."""

    tries = 0

    def begin(self) -> int | None:
        """From which row on: if the channel keeps them, the first that is not written down."""
        self.unacknowledged, self.has_taken = 0, False
        return self.journal.rows if self.keeps else None

    def took(self, batch: pa.RecordBatch) -> bool:
        """Write it down; is it time to acknowledge?"""
        self.journal.took(batch)
        self.has_taken = True
        self.unacknowledged += batch.num_rows
        return self.keeps and self.unacknowledged >= self.own.largest_chunk_rows

    async def play_asyncio(self) -> None:
        from contextlib import AsyncExitStack

        from permitflow.transports.grpc_aio import control, get
        from permitflow.transports.joined import JoinedChunks

        if self.wanted:
            await self.play_gate(self.wanted)
            return
        async with AsyncExitStack() as stack:
            first_row = self.begin()
            if self.keeps:
                orders = await stack.enter_async_context(control(self.address, reply_timeout_seconds=WAIT_SECONDS))
                await orders.acknowledge({CHANNEL: self.journal.rows})
            source = get(self.address, CHANNEL, schema=SCHEMA, from_row=first_row, **DIALLING)
            receiver = await stack.enter_async_context(source)
            self.journal.tell("began", row=first_row or 0)
            await asyncio.sleep(self.own.idle_seconds)
            try:
                while True:
                    taken = await receiver.take_joined() if self.dice.random() < 0.3 else await receiver.take()
                    batch, chunks = (taken.batch, len(taken)) if isinstance(taken, JoinedChunks) else (taken.payload, 1)
                    is_due = self.took(batch)
                    receiver.consume(chunks)
                    if is_due:
                        self.unacknowledged = 0
                        await orders.acknowledge({CHANNEL: self.journal.rows})
                    if self.own.pause_seconds:
                        await asyncio.sleep(self.own.pause_seconds)
            except EndOfStream:
                self.journal.tell("ended")
            finally:
                self.journal.note(receiver.statistics())
            if self.keeps:
                await orders.acknowledge({CHANNEL: self.journal.rows})

    async def play_gate(self, wanted: GateParameters) -> None:
        """Align the channel's barriers with those of an input of this process, which is always ahead."""
        from permitflow.transports.grpc_aio import get

        self.begin()
        gate: InputGate[pa.RecordBatch] = InputGate(wanted)
        async with (
            gate,
            get(self.address, CHANNEL, schema=SCHEMA, wanted=wanted, group=gate.group, **DIALLING) as receiver,
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
                    elif isinstance(item, AlignedBarrier) and CHANNEL in item.payloads:
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
        """Barriers without end; whoever has reached all others ends it."""
        try:
            for number in count(1):
                await sender.send_barrier(number)
        finally:
            with suppress(PermitflowError):
                sender.end_nowait()

    def play_blocking(self) -> None:
        from contextlib import ExitStack

        from permitflow.transports.grpc_blocking import JoinedChunks, control, open_source

        with ExitStack() as stack:
            first_row = self.begin()
            if self.keeps:
                orders = stack.enter_context(control(self.address, timeout_seconds=WAIT_SECONDS))
                orders.acknowledge({CHANNEL: self.journal.rows})
            source = stack.enter_context(open_source(self.address, CHANNEL, from_row=first_row, **BLOCKING))
            self.journal.tell("began", row=first_row or 0)
            time.sleep(self.own.idle_seconds)
            try:
                while True:
                    # This consumes what was received before.
                    taken = source.receive_joined() if self.dice.random() < 0.3 else source.receive()
                    batch = taken.batch if isinstance(taken, JoinedChunks) else taken.payload
                    if self.took(batch):
                        self.unacknowledged = 0
                        orders.acknowledge({CHANNEL: self.journal.rows})
                    if self.own.pause_seconds:
                        time.sleep(self.own.pause_seconds)
            except EndOfStream:
                self.journal.tell("ended")
            finally:
                self.journal.note(source.statistics())
            if self.keeps:
                orders.acknowledge({CHANNEL: self.journal.rows})

    def is_final(self, error: PermitflowError) -> bool:
        """A channel that is read once takes another consumer if the first has taken nothing."""
        if self.keeps or isinstance(error, ChannelBusyError):
            return False
        self.tries += 1
        is_over = isinstance(error, ChannelSpentError | ChannelAbortedError)
        return is_over or self.has_taken or self.tries == MOST_TRIES


def serve_command(schedule: Schedule, address: str, folder: Path) -> Sequence[str]:
    """The arguments of ``permitflow``."""
    replay = ["--retention", "replay", "--store", str(folder / "store")]
    flow: tuple[str, ...] = ("--row-permits", str(schedule.row_permits))
    if schedule.is_gate:
        numbers = (f"exclusive={schedule.exclusive}", f"floating={schedule.row_permits - schedule.exclusive}")
        flow = ("--flow", "gate", *chain.from_iterable(("--parameter", number) for number in numbers))
    return [
        *("serve", "--stream", STREAM, "--address", address, *flow),
        *("--same-host", "never", "--drain-seconds", "0.1", "--json"),
        *(replay if schedule.retention is Retention.REPLAY else ()),
        *(() if schedule.checksums else ("--no-checksums",)),
    ]


def take_part(party: Party, arguments: Sequence[str]) -> None:
    """What a process of its own does: serve as the command line says, or play an end.

    The arguments of an end are the schedule, the port where it finds the exchange, its journal, and how many lives it
    had before.
    """
    if party is Party.EXCHANGE:
        from permitflow.cli import main

        sys.argv = ["permitflow", *arguments]
        main()
        return
    schedule = Schedule.from_json(arguments[0])
    journal = Journal(Path(arguments[2]), int(arguments[3]))
    role: Role = (Producer if party is Party.PRODUCER else Consumer)(schedule, party, int(arguments[1]), journal)
    try:
        role.play()
    except BaseException:
        journal.tell("crashed", traceback=traceback.format_exc())
        raise
