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
import statistics
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, product
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

import pyarrow as pa

from benchmarks import delay_proxy
from benchmarks.field import Settings
from benchmarks.harness import Partner, in_turns
from benchmarks.imbalance import Work
from benchmarks.results import COMPACT, RANGE, Row, Series
from permitflow import (
    AlignedBarrier,
    ChannelParameters,
    GateChunk,
    GateParameters,
    InputGate,
    Kind,
    LocalReceiver,
    Message,
    Parameters,
    SendEnd,
    open_channel,
)
from permitflow.channels.gate import GateItem
from permitflow.client import RemoteReceiver, SameHost, get
from permitflow.errors import EndOfStream, WouldBlock
from permitflow.exchange import Exchange, ExchangeServer

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
        """When the barrier with this number is due; the first one is 1."""
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


async def produce_apart(pipe: Connection) -> None:
    """Serve the inputs of one run after the other, from another process; the first message is the address."""
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
Senders: TypeAlias = dict[str, SendEnd[pa.RecordBatch]]


class PermitAligner:
    """A consumer that aligns barriers of channels with permits: nothing from a blocked input before the others come."""

    def __init__(self, receivers: Sequence[Receiver], *, stores: bool) -> None:
        """``stores``: it reads blocked inputs nevertheless, so that their permits return."""
        self.receivers = dict(zip(INPUTS, receivers, strict=True))
        self.stored: dict[str, deque[Message[pa.RecordBatch]]] = {name: deque() for name in INPUTS}
        self._stores = stores
        self._turns = [*INPUTS]
        self._blocked: set[str] = set()
        self._ended: set[str] = set()

    async def receive(self) -> GateItem[pa.RecordBatch]:
        """Wait for the next item.

        Raises:
            EndOfStream: all inputs have ended.
        """
        while len(self._ended) < len(INPUTS) or any(self.stored.values()):
            for name in self._blocked if self._stores else ():
                while (message := self._read(name)) is not None:
                    self.stored[name].append(message)
            for name in [each for each in self._turns if each not in self._blocked]:
                stored = self.stored[name]
                if (message := stored.popleft() if stored else self._read(name)) is None:
                    continue
                self._turns.remove(name)
                self._turns.append(name)
                if message.kind is Kind.CHUNK:
                    return GateChunk(name, message.payload, message.rows)
                self._blocked.add(name)
                if len(self._blocked) == len(INPUTS):
                    self._blocked.clear()
                    assert isinstance(message.payload, int), "barriers have numbers"
                    return AlignedBarrier(message.payload, {})
                break
            else:
                await self._until_some()
        raise EndOfStream

    def _read(self, name: str) -> Message[pa.RecordBatch] | None:
        try:
            return self.receivers[name].receive_nowait()
        except WouldBlock:
            return None
        except EndOfStream:
            self._ended.add(name)
            return None

    async def _until_some(self) -> None:
        left = (self._blocked if not self._stores else set()) | self._ended
        waits = [asyncio.ensure_future(self.receivers[name].until_takeable()) for name in INPUTS if name not in left]
        if waits:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        # The end of a stream shows when its next message is taken.
        await asyncio.gather(*waits, return_exceptions=True)


Aligning: TypeAlias = PermitAligner | InputGate[pa.RecordBatch]


def held_rows(aligning: Aligning) -> int:
    """Rows that are here and not consumed."""
    if isinstance(aligning, InputGate):
        return sum(each.channel.inbox_rows for each in aligning.statistics().inputs)
    stored = sum(message.rows for messages in aligning.stored.values() for message in messages)
    return stored + sum(receiver.statistics().inbox_rows for receiver in aligning.receivers.values())


@asynccontextmanager
async def aligning_inputs(setting: str, address: str = "", prefix: str = "") -> AsyncIterator[tuple[Aligning, Senders]]:
    """Inputs of an exchange at the address; without one those of this process, with their senders."""
    parameters, receivers, senders = SETTINGS[setting], list[Receiver](), Senders()
    async with AsyncExitStack() as stack:
        gate: InputGate[pa.RecordBatch] | None = None
        if isinstance(parameters, GateParameters):
            gate = await stack.enter_async_context(InputGate(parameters))
        for name in INPUTS:
            if address:
                group = None if gate is None else gate.group
                end = get(address, prefix + name, wanted=parameters, same_host=SameHost.NEVER, group=group)
                receivers.append(await stack.enter_async_context(end))
            elif gate is not None:
                senders[name] = gate.open_channel(name)
            else:
                ends: tuple[SendEnd[pa.RecordBatch], LocalReceiver[pa.RecordBatch]] = open_channel(
                    parameters, name=name
                )
                senders[name], receiver = ends
                receivers.append(receiver)
        if gate is None:
            yield PermitAligner(receivers, stores=setting == STORED), senders
            return
        for each in receivers:
            gate.add(each)
        yield gate, senders


# One run.

# After an alignment: the consumer could consume 200 rows.
START_SECONDS = 0.020
COLUMNS = {
    "alignment, ms": RANGE,
    "rows held then": COMPACT,
    "most rows held": COMPACT,
    "rows/s": RANGE,
    "first row, ms": COMPACT,
    "rows in 20 ms": COMPACT,
}
"""What a consumer sees in one run but for the warm-up, and how it is shown; of alignments, the median.

Rows that are held when a barrier is aligned are all behind it.
"""
Observed: TypeAlias = dict[str, float]


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
        held = held_rows(aligning)
        peak_held = max(peak_held, held)
        if isinstance(item, AlignedBarrier):
            aligned.append((now, held))
            assert item.number == len(aligned), f"barrier {item.number} came as number {len(aligned)}"
        else:
            received.append(now)
            await work.do_beside_others()
    assert len(aligned) == schedule.barriers, f"{len(aligned)} of {schedule.barriers} barriers came"
    began, ended = aligned[schedule.warm_up_barriers - 1][0], aligned[-1][0]
    # Behind the last barrier nothing comes.
    judged = list(enumerate(aligned, 1))[schedule.warm_up_barriers : -1]
    behind = [[came - at for came in received if came > at] for _, (at, _) in judged]
    return {
        "alignment, ms": 1e3 * statistics.median(at - schedule.due(number) for number, (at, _) in judged),
        "rows held then": statistics.median(held for _, (_, held) in judged),
        "most rows held": peak_held,
        "rows/s": CHUNK_ROWS * sum(began < came <= ended for came in received) / (ended - began),
        # Barriers may follow each other if the machine is busy.
        "first row, ms": 1e3 * statistics.median(min(after, default=ended - began) for after in behind),
        "rows in 20 ms": CHUNK_ROWS * statistics.median(sum(s <= START_SECONDS for s in after) for after in behind),
    }


async def run_here(setting: str, rates: str, schedule: Schedule) -> Observed:
    schedule = replace(schedule, begins=time.monotonic())
    async with aligning_inputs(setting) as (aligning, senders), asyncio.TaskGroup() as group:
        for name, seconds in chunk_seconds(rates).items():
            group.create_task(produce(senders[name], seconds, schedule))
        return await consume(aligning, schedule)


async def run_apart(
    producers: Partner, address: str, prefix: str, setting: str, rates: str, schedule: Schedule
) -> Observed:
    """Inputs in another process, through its exchange."""
    producers.tell((prefix, setting, rates))
    producers.hears()
    async with aligning_inputs(setting, address, prefix) as (aligning, _):
        schedule = replace(schedule, begins=time.monotonic())
        producers.tell(schedule)
        observed = await consume(aligning, schedule)
    producers.tell()
    return observed


# All settings, in shuffled rounds.


def measure_gate(settings: Settings) -> list[Row]:
    """Each setting at each ratio of rates; some figures also as multiples of the fixed window's, round by round."""
    schedule = SMOKE if settings.is_smoke else FULL
    rates = ["1:10"] if settings.is_smoke else list(RATES)
    with ExitStack() as stack:
        producers = stack.enter_context(Partner(produce_apart))
        near = producers.hears()
        far = stack.enter_context(Partner(delay_proxy.serve, near, FAR_SECONDS / 2)).hears()
        addresses = {LOCAL: "", NEAR: near, FAR: far}
        prefixes: Iterator[str] = (f"{number}/" for number in count())

        def run(carrier: str, rates: str, setting: str) -> Observed:
            if carrier == LOCAL:
                return asyncio.run(run_here(setting, rates, schedule))
            return asyncio.run(run_apart(producers, addresses[carrier], next(prefixes), setting, rates, schedule))

        variants = {key: partial(run, *key) for key in product(CARRIERS, rates, SETTINGS)}
        found = in_turns(variants, settings.rounds)
    series = {
        key: {name: Series.of((each[name] for each in rounds), shown) for name, shown in COLUMNS.items()}
        for key, rounds in found.items()
    }
    return [_row(*key, columns, series[key[0], key[1], UNREAD]) for key, columns in series.items()]


def _row(carrier: str, rates: str, setting: str, columns: dict[str, Series], fixed: dict[str, Series]) -> Row:
    row: dict[str, Any] = {"rates, setting": f"{rates}, {setting}"}
    for name, series in columns.items():
        row[name] = series
        if series.shown == RANGE:
            row[f"{name.removesuffix(', ms')} ÷ not read"] = series.ratio_to(fixed[name], "{:.2f}")
    return row | {"_carrier": carrier, "_rates": rates, "_setting": setting}
