"""What a gate is for: barriers of two inputs are aligned in front of a consumer that is the bottleneck.

Five ways to hold what is behind the barrier of a blocked input, all with the same number of buffers for rows, untuned:

- *permits, stored*: a window of permits for each input; the consumer reads on, and stores what it may not use yet
- *permits, not read*: the same window; the consumer lets it fill
- *gate, own credit*: a sender stops behind its barrier; each input has its own credit
- *gate, own and shared credit*: half of all credit is shared
- *gate, shared credit*: all of it is; what a barrier takes back must be granted again

Inputs produce half as much again as the consumer consumes, in the ratio 1:1, 1:10 or 1:100.  An input that is late
makes up for it.  Barriers are due at fixed times.  Costs are deadlines, spent asleep.  All processes read one clock.
"""

import asyncio
import random
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, product
from multiprocessing.connection import Connection
from typing import Protocol, TypeAlias

import pyarrow as pa

from benchmarks import delay_proxy
from benchmarks.field import Settings
from benchmarks.harness import Partner, in_turns
from benchmarks.imbalance import Work
from benchmarks.results import Record, Series
from permitflow.channels.gate import AlignedBarrier, GateChunk, GateItem, InputGate
from permitflow.channels.interface import SendEnd
from permitflow.channels.local import LocalReceiver, open_channel
from permitflow.errors import EndOfStream, WouldBlock
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.flow import Parameters
from permitflow.protocol.gate import GateParameters
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters
from permitflow.transports.grpc_aio import get
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

CHUNK_ROWS = 16
CHUNK = pa.record_batch({"row": pa.array(range(CHUNK_ROWS), pa.int64())})
INPUTS = ("slow", "fast")
# Of the consumer: 10,000 rows per second, so that a full buffer is 51 ms of work.
ROW_SECONDS = 100e-6
OFFERED_SHARE = 1.5
BUFFER_ROWS = 512
WINDOW_ROWS = BUFFER_ROWS // len(INPUTS)

PERMITS = ChannelParameters(row_permits=WINDOW_ROWS, permit_batch=WINDOW_ROWS // 8)
STORED, UNREAD = "permits, stored", "permits, not read"
OWN, MIXED, SHARED = "gate, own credit", "gate, own and shared credit", "gate, shared credit"
SETTINGS: dict[str, Parameters] = {
    STORED: PERMITS,
    UNREAD: PERMITS,
    OWN: GateParameters(inputs=len(INPUTS), exclusive=WINDOW_ROWS, floating=0),
    MIXED: GateParameters(inputs=len(INPUTS), exclusive=WINDOW_ROWS // 2, floating=BUFFER_ROWS // 2),
    SHARED: GateParameters(inputs=len(INPUTS), exclusive=0, floating=BUFFER_ROWS),
}
RATES = {"1:1": 1, "1:10": 10, "1:100": 100}
LOCAL, NEAR, FAR = "in a process", "gRPC", "gRPC, 10 ms away"
CARRIERS = (LOCAL, NEAR, FAR)
FAR_SECONDS = 0.010


@dataclass(frozen=True, kw_only=True)
class Schedule:
    barriers: int = 12
    warm_up_barriers: int = 2
    interval_seconds: float = 0.2
    begins: float = 0.0

    def due(self, number: int) -> float:
        """Of the barrier with this number, the first of which is 1."""
        return self.begins + number * self.interval_seconds


FULL = Schedule()
SMOKE = Schedule(barriers=4, warm_up_barriers=1, interval_seconds=0.05)


# The inputs.


async def produce(sender: SendEnd[pa.RecordBatch], chunk_seconds: float, schedule: Schedule) -> None:
    """Chunks at a rate, and each barrier in front of the first chunk that leaves after it is due."""
    chunk_due = schedule.begins
    for number in range(1, schedule.barriers + 1):
        barrier_due = schedule.due(number)
        while max(chunk_due, time.monotonic()) < barrier_due:
            await _sleep_until(chunk_due)
            await sender.send(CHUNK)
            chunk_due += chunk_seconds
        await _sleep_until(barrier_due)
        await sender.send_barrier(number)
    await sender.end()


async def _sleep_until(due: float) -> None:
    await asyncio.sleep(max(0.0, due - time.monotonic()))


def chunk_seconds(rates: str) -> dict[str, float]:
    """By input: how often it has a chunk."""
    parts = dict(zip(INPUTS, (1, RATES[rates]), strict=True))
    rows_per_second = OFFERED_SHARE / ROW_SECONDS
    return {name: CHUNK_ROWS * sum(parts.values()) / (part * rows_per_second) for name, part in parts.items()}


def produce_apart(pipe: Connection) -> None:
    """Serve the inputs of one run after the other, from another process; the first message is the address."""
    asyncio.run(_produce_apart(pipe))


async def _produce_apart(pipe: Connection) -> None:
    exchange = Exchange()
    async with ExchangeServer(exchange, "127.0.0.1:0") as server:
        pipe.send(server.address)
        while True:
            prefix, setting, rates = await asyncio.to_thread(pipe.recv)
            senders = {
                name: exchange.add_channel(prefix + name, SETTINGS[setting], CHUNK.schema).sender for name in INPUTS
            }
            pipe.send(None)
            schedule = await asyncio.to_thread(pipe.recv)
            async with asyncio.TaskGroup() as group:
                for name, seconds in chunk_seconds(rates).items():
                    group.create_task(produce(senders[name], seconds, schedule))
            await asyncio.to_thread(pipe.recv)
            for name in INPUTS:
                exchange.remove_channel(prefix + name)


# The consumer's side: a gate, or what a consumer does without one.

Receiver: TypeAlias = LocalReceiver[pa.RecordBatch] | RemoteReceiver


class Aligning(Protocol):
    """Receives from all inputs in turn, and aligns their barriers."""

    async def receive(self) -> GateItem[pa.RecordBatch]: ...
    @property
    def held_rows(self) -> int: ...


class Gate:
    def __init__(self, gate: InputGate[pa.RecordBatch]) -> None:
        self._gate = gate
        self.receive = gate.receive

    @property
    def held_rows(self) -> int:
        """Rows that are here and not consumed."""
        return sum(each.channel.inbox_rows for each in self._gate.statistics().inputs)


@dataclass(eq=False)
class _Input:
    name: str
    receiver: Receiver
    stored: deque[Message[pa.RecordBatch]] = field(default_factory=deque)
    is_blocked: bool = False
    is_over: bool = False

    def next(self) -> Message[pa.RecordBatch] | None:
        """What is stored comes first; a chunk that is not stored is consumed later."""
        if self.stored:
            return self.stored.popleft()
        try:
            return self.receiver.take_nowait()
        except WouldBlock:
            return None
        except EndOfStream:
            self.is_over = True
            return None

    def store(self) -> None:
        """Take in what is here: its permits return."""
        while (message := self._received()) is not None:
            self.stored.append(message)

    def _received(self) -> Message[pa.RecordBatch] | None:
        try:
            return self.receiver.receive_nowait()
        except (WouldBlock, EndOfStream):
            return None


class PermitAligner:
    """A consumer that aligns barriers of channels with permits: nothing from a blocked input before the others come."""

    def __init__(self, receivers: Sequence[Receiver], *, stores: bool) -> None:
        """``stores``: it reads blocked inputs nevertheless."""
        self._inputs = [_Input(name, receiver) for name, receiver in zip(INPUTS, receivers, strict=True)]
        self._stores = stores
        self._turn = 0
        self._unconsumed: _Input | None = None

    @property
    def held_rows(self) -> int:
        """Rows that are here and not consumed."""
        stored = sum(message.rows for each in self._inputs for message in each.stored)
        return stored + sum(each.receiver.statistics().inbox_rows for each in self._inputs)

    async def receive(self) -> GateItem[pa.RecordBatch]:
        """Finish the last item, and wait for the next one.

        Raises:
            EndOfStream: all inputs have ended.
        """
        if self._unconsumed is not None:
            self._unconsumed.receiver.consume()
            self._unconsumed = None
        while True:
            if self._stores:
                for each in self._inputs:
                    if each.is_blocked:
                        each.store()
            if (item := self._next()) is not None:
                return item
            if all(each.is_over for each in self._inputs):
                raise EndOfStream
            await self._until_some()

    def _next(self) -> GateItem[pa.RecordBatch] | None:
        for _ in self._inputs:
            each = self._inputs[self._turn % len(self._inputs)]
            self._turn += 1
            if each.is_blocked or each.is_over:
                continue
            was_stored = bool(each.stored)
            if (message := each.next()) is None:
                continue
            if message.kind is Kind.CHUNK:
                self._unconsumed = None if was_stored else each
                return GateChunk(each.name, message.payload, message.rows)
            if not was_stored:
                each.receiver.consume()
            each.is_blocked = True
            if all(other.is_blocked for other in self._inputs):
                for other in self._inputs:
                    other.is_blocked = False
                assert isinstance(message.payload, int), "barriers have numbers"
                return AlignedBarrier(message.payload, {})
            return self._next()
        return None

    async def _until_some(self) -> None:
        awaited = [each for each in self._inputs if not each.is_over and (self._stores or not each.is_blocked)]
        waits = [asyncio.ensure_future(each.receiver.until_takeable()) for each in awaited]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        # The end of a stream shows when its next message is taken.
        await asyncio.gather(*waits, return_exceptions=True)


@asynccontextmanager
async def aligning_here(setting: str) -> AsyncIterator[tuple[Aligning, dict[str, SendEnd[pa.RecordBatch]]]]:
    senders: dict[str, SendEnd[pa.RecordBatch]] = {}
    if isinstance(parameters := SETTINGS[setting], GateParameters):
        gate: InputGate[pa.RecordBatch]
        async with InputGate(parameters) as gate:
            for name in INPUTS:
                senders[name] = gate.open_channel(name)
            yield Gate(gate), senders
        return
    receivers: list[Receiver] = []
    for name in INPUTS:
        receiver: LocalReceiver[pa.RecordBatch]
        senders[name], receiver = open_channel(parameters, name=name)
        receivers.append(receiver)
    yield PermitAligner(receivers, stores=setting == STORED), senders


@asynccontextmanager
async def aligning_apart(setting: str, address: str, prefix: str) -> AsyncIterator[Aligning]:
    """Inputs of an exchange at the address."""
    async with AsyncExitStack() as stack:
        gate: InputGate[pa.RecordBatch] | None = None
        if isinstance(parameters := SETTINGS[setting], GateParameters):
            gate = await stack.enter_async_context(InputGate(parameters))
        receivers = [
            await stack.enter_async_context(
                get(
                    address,
                    prefix + name,
                    wanted=parameters,
                    same_host=SameHost.NEVER,
                    group=None if gate is None else gate.group,
                )
            )
            for name in INPUTS
        ]
        if gate is None:
            yield PermitAligner(receivers, stores=setting == STORED)
            return
        for receiver in receivers:
            gate.add(receiver)
        yield Gate(gate)


# One run.

# After an alignment: the consumer could consume 200 rows.
START_SECONDS = 0.020


@dataclass(frozen=True, kw_only=True)
class Alignment:
    seconds: float
    """Since it was due."""
    held_rows: int
    first_row_seconds: float
    """From here to the next row."""
    first_rows: int
    """Received within ``START_SECONDS``."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """What a consumer saw in one run, but for the warm-up."""

    alignments: list[Alignment]
    peak_held_rows: int
    rows_per_second: float


async def consume(aligning: Aligning, schedule: Schedule) -> Observed:
    """Receive until the end, at the consumer's rate.

    Raises:
        AssertionError: barriers are missing, or out of order.
    """
    work = Work(CHUNK_ROWS * ROW_SECONDS)
    received: list[float] = []  # when each chunk came
    aligned: list[tuple[float, int]] = []  # when each barrier came, and rows held
    peak_held = 0
    while True:
        # Others run only if the next call has to wait; then the consumer's time is lost.
        others_have_run = asyncio.Event()
        asyncio.get_running_loop().call_soon(others_have_run.set)
        try:
            item = await aligning.receive()
        except EndOfStream:
            break
        now = time.monotonic()
        if others_have_run.is_set():
            work.begin()
        held = aligning.held_rows
        peak_held = max(peak_held, held)
        if isinstance(item, AlignedBarrier):
            aligned.append((now, held))
            assert item.number == len(aligned), f"barrier {item.number} came as number {len(aligned)}"
        else:
            received.append(now)
            await work.do_beside_others()
    assert len(aligned) == schedule.barriers, f"{len(aligned)} of {schedule.barriers} barriers came"
    return _observed(received, aligned, peak_held, schedule)


def _observed(
    received: Sequence[float], aligned: Sequence[tuple[float, int]], peak_held: int, schedule: Schedule
) -> Observed:
    began, ended = aligned[schedule.warm_up_barriers - 1][0], aligned[-1][0]
    alignments = []
    # Behind the last barrier nothing comes.
    for number, (at, held) in list(enumerate(aligned, 1))[schedule.warm_up_barriers : -1]:
        behind = [came - at for came in received if came > at]
        alignments.append(
            Alignment(
                seconds=at - schedule.due(number),
                held_rows=held,
                # Barriers may follow each other if the machine is busy.
                first_row_seconds=min(behind, default=ended - at),
                first_rows=CHUNK_ROWS * sum(after <= START_SECONDS for after in behind),
            )
        )
    rows = CHUNK_ROWS * sum(began < came <= ended for came in received)
    return Observed(alignments=alignments, peak_held_rows=peak_held, rows_per_second=rows / (ended - began))


async def run_here(setting: str, rates: str, schedule: Schedule) -> Observed:
    schedule = _beginning(schedule)
    async with aligning_here(setting) as (aligning, senders), asyncio.TaskGroup() as group:
        for name, seconds in chunk_seconds(rates).items():
            group.create_task(produce(senders[name], seconds, schedule))
        return await consume(aligning, schedule)


async def run_apart(
    producers: Partner, address: str, prefix: str, setting: str, rates: str, schedule: Schedule
) -> Observed:
    """Inputs in another process, through its exchange."""
    producers.tell((prefix, setting, rates))
    producers.hears()
    async with aligning_apart(setting, address, prefix) as aligning:
        schedule = _beginning(schedule)
        producers.tell(schedule)
        observed = await consume(aligning, schedule)
    producers.tell()
    return observed


def _beginning(schedule: Schedule) -> Schedule:
    return Schedule(
        barriers=schedule.barriers,
        warm_up_barriers=schedule.warm_up_barriers,
        interval_seconds=schedule.interval_seconds,
        begins=time.monotonic(),
    )


# All settings, in shuffled rounds.


@dataclass(frozen=True)
class GateRun(Record):
    """One setting at one ratio of rates; of alignments, each round has their median."""

    carrier: str
    rates: str
    setting: str
    alignment_milliseconds: Series
    """From the time at which a barrier is due at all inputs until it is aligned."""
    held_rows: Series
    """At the consumer when a barrier is aligned: all of them are behind it."""
    peak_held_rows: Series
    """The most at the consumer at any time."""
    rows_per_second: Series
    first_row_milliseconds: Series
    """From the alignment to the next row."""
    first_rows: Series
    """Received within the first 20 ms after the alignment."""


def measure_gate(settings: Settings) -> list[GateRun]:
    schedule = SMOKE if settings.is_smoke else FULL
    rates = ["1:10"] if settings.is_smoke else list(RATES)
    with ExitStack() as stack:
        runs = _runs(stack, schedule)
        variants = {key: partial(runs[key[0]], *key[1:]) for key in product(CARRIERS, rates, SETTINGS)}
        found = in_turns(variants, settings.rounds, random.Random(settings.seed))
    return [_record(*key, observed) for key, observed in found.items()]


def _runs(stack: ExitStack, schedule: Schedule) -> dict[str, Callable[[str, str], Observed]]:
    """By carrier: one run at these rates with this setting."""
    producers = stack.enter_context(Partner(produce_apart))
    near = producers.hears()
    proxy = stack.enter_context(Partner(delay_proxy.serve, near, FAR_SECONDS / 2))
    far = proxy.hears()
    prefixes: Iterator[str] = (f"{number}/" for number in count())

    def here(rates: str, setting: str) -> Observed:
        return asyncio.run(run_here(setting, rates, schedule))

    def apart(address: str, rates: str, setting: str) -> Observed:
        return asyncio.run(run_apart(producers, address, next(prefixes), setting, rates, schedule))

    return {LOCAL: here, NEAR: partial(apart, near), FAR: partial(apart, far)}


def _record(carrier: str, rates: str, setting: str, rounds: Sequence[Observed]) -> GateRun:
    def medians(read: Callable[[Alignment], float]) -> Series:
        return Series.of(statistics.median(map(read, each.alignments)) for each in rounds)

    return GateRun(
        carrier=carrier,
        rates=rates,
        setting=setting,
        alignment_milliseconds=medians(lambda each: 1e3 * each.seconds),
        held_rows=medians(lambda each: each.held_rows),
        peak_held_rows=Series.of(each.peak_held_rows for each in rounds),
        rows_per_second=Series.of(each.rows_per_second for each in rounds),
        first_row_milliseconds=medians(lambda each: 1e3 * each.first_row_seconds),
        first_rows=medians(lambda each: each.first_rows),
    )
