"""The experiment from which RisingWave's permits came: bounds that differ starve one of two upstreams.

A join reads two upstreams with the shape of TPC-H's query 12: a strict filter leaves 5 % of the rows of a chunk.  One
upstream is a task beside the join, the other one a process.  A local channel of 16 chunks and a connection with 64 KiB
hold different numbers of rows, and so the join reads different numbers of them in each of its turns.  With permits for
rows on both, it reads the same number.
"""

import asyncio
import math
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NamedTuple, Self

import pyarrow as pa

from benchmarks.field import Settings
from benchmarks.harness import Partner, in_turns
from benchmarks.results import Row, Series
from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.client import get
from permitflow.errors import PermitflowError, WouldBlock
from permitflow.exchange import Exchange, ExchangeServer

# The bounds before there were permits: chunks in a local channel, and HTTP/2's initial window.
LOCAL_CHUNKS = 16
BYTE_WINDOW = 64 << 10
# RisingWave's ROW_COUNT since 2023.
ROW_PERMITS = 2_048
# A receiver keeps back up to permit_batch - 1 rows, which the join's next turn lacks: here at most one chunk.
PERMIT_BATCH = 64
# RisingWave's.
LARGE_PERMIT_BATCH = 256

SLIM_ROW_BYTES = 20
WIDE_ROW_BYTES = 500


@dataclass(frozen=True, kw_only=True)
class Setup:
    name: str
    uses_permits: bool
    permit_batch: int = PERMIT_BATCH
    row_bytes: int = SLIM_ROW_BYTES
    join_seconds: float = 425e-6
    """The cost of a chunk for the join."""
    local_seconds: float = 94e-6
    """The cost of a chunk for the upstream beside the join; the join stands still meanwhile."""
    remote_seconds: float = 485e-6
    """The cost of a chunk for the upstream in another process."""
    yields_after_each_chunk: bool = False
    """Does the join let other tasks run after each chunk, not only after all that are ready?"""


EQUAL_SECONDS = 485e-6
BOUNDS = Setup(name="16 chunks and 64 KiB", uses_permits=False)
PERMITS = Setup(name="row permits", uses_permits=True)
LARGE_BATCH = Setup(name="row permits, returned by 256", uses_permits=True, permit_batch=LARGE_PERMIT_BATCH)
EQUAL_COSTS = Setup(name="row permits, equal producers", uses_permits=True, local_seconds=EQUAL_SECONDS)
WIDE_BOUNDS = Setup(name="16 chunks and 64 KiB, rows of 500 bytes", uses_permits=False, row_bytes=WIDE_ROW_BYTES)
WIDE_PERMITS = Setup(name="row permits, rows of 500 bytes", uses_permits=True, row_bytes=WIDE_ROW_BYTES)
CONTROL = Setup(name="control: 16 chunks and 64 KiB, join yields", uses_permits=False, yields_after_each_chunk=True)
SETUPS = (BOUNDS, PERMITS, LARGE_BATCH, EQUAL_COSTS, WIDE_BOUNDS, WIDE_PERMITS, CONTROL)


SCANNED_ROWS = 1_024
VISIBLE_SHARE = 0.05
CHUNK_ROWS = round(SCANNED_ROWS * VISIBLE_SHARE)


def filtered_chunk(row_bytes: int) -> pa.RecordBatch:
    """The visible rows of a chunk, each of this many bytes."""
    rows = pa.record_batch({"row": pa.array([bytes(row_bytes)] * SCANNED_ROWS, pa.binary(row_bytes))})
    is_visible = [number % (SCANNED_ROWS // CHUNK_ROWS) == 0 for number in range(SCANNED_ROWS)]
    return rows.filter(pa.array(is_visible)).slice(0, CHUNK_ROWS)


class Work:
    """A cost for each piece, as time asleep.

    A piece ends when it is due: what one sleep takes too long, the next ones make up for.  So a noisy machine changes
    the order of events a little, and rates hardly at all.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = 0.0

    def begin(self) -> None:
        self._due = time.monotonic()

    def do(self) -> None:
        """A piece, during which nothing else in this thread runs."""
        self._due += self._seconds
        time.sleep(max(0.0, self._due - time.monotonic()))

    async def do_alone(self) -> None:
        """The same for those that await it."""
        self.do()

    async def do_beside_others(self) -> None:
        """A piece, during which other tasks run."""
        self._due += self._seconds
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))


class Meter:
    """The back-pressure rate: the share of the time for which a sender waits.  ``with meter: send()``."""

    def __init__(self) -> None:
        self._waiting_since: float | None = None
        self.reset()

    def reset(self) -> None:
        self._began = time.monotonic()
        self._waited = 0.0
        if self._waiting_since is not None:
            self._waiting_since = self._began

    def __enter__(self) -> Self:
        self._waiting_since = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        since, self._waiting_since = self._waiting_since, None
        assert since is not None, "it has begun"
        self._waited += time.monotonic() - since

    def rate(self) -> float:
        """Between 0 and 1."""
        now, since = time.monotonic(), self._waiting_since
        waiting = self._waited + (now - since if since is not None else 0.0)
        return waiting / (now - self._began)


async def produce(
    chunk: pa.RecordBatch,
    work: Callable[[], Awaitable[None]],
    begin: Callable[[], None],
    meter: Meter,
    ways: tuple[Callable[[pa.RecordBatch], None], Callable[[pa.RecordBatch], Awaitable[None]]],
) -> None:
    """Make a chunk and send it, without end; ``ways`` are one that does not wait, and one that does."""
    send_nowait, send = ways
    begin()
    while True:
        await work()
        try:
            send_nowait(chunk)
        except (asyncio.QueueFull, WouldBlock):
            with meter:
                await send(chunk)
            begin()


def parameters_of(setup: Setup) -> ChannelParameters:
    return ChannelParameters(row_permits=ROW_PERMITS, permit_batch=setup.permit_batch)


# The upstream in another process: sends chunks until it is told to stop, then tells its back-pressure rate.

CHANNEL = "remote"


async def send(pipe: Connection, setup: Setup) -> None:
    """Serve one join; the first message is the address."""
    meter = Meter()
    threading.Thread(target=_obey, args=(pipe, meter), daemon=True).start()
    await (send_with_permits if setup.uses_permits else send_within_window)(pipe, setup, meter)


def _obey(pipe: Connection, meter: Meter) -> None:
    """The first message starts the measurement; the second one, or the end of the pipe, ends the process."""
    with suppress(EOFError):
        pipe.recv()
        meter.reset()
        pipe.recv()
        pipe.send(meter.rate())
    # The other thread sends until the end of time.
    os._exit(0)


async def send_with_permits(pipe: Connection, setup: Setup, meter: Meter) -> None:
    chunk, work = filtered_chunk(setup.row_bytes), Work(setup.remote_seconds)
    exchange = Exchange()
    sender = exchange.add_channel(CHANNEL, parameters_of(setup), chunk.schema).sender
    async with ExchangeServer(exchange) as server:
        pipe.send(server.address)
        await produce(chunk, work.do_beside_others, work.begin, meter, (sender.send_nowait, sender.send))


async def send_within_window(pipe: Connection, setup: Setup, meter: Meter) -> None:
    """A window of bytes, as in HTTP/2: the join gives back the bytes that it has read."""
    work, window = Work(setup.remote_seconds), BYTE_WINDOW
    with Listener(family="AF_UNIX") as listener:
        pipe.send(listener.address)
        connection = listener.accept()

    def send_nowait(chunk: pa.RecordBatch) -> None:
        nonlocal window
        if window < CHUNK_ROWS * setup.row_bytes:
            raise WouldBlock
        window -= CHUNK_ROWS * setup.row_bytes
        connection.send_bytes(bytes(CHUNK_ROWS * setup.row_bytes))

    async def send(chunk: pa.RecordBatch) -> None:
        nonlocal window
        while window < CHUNK_ROWS * setup.row_bytes:
            window += int.from_bytes(connection.recv_bytes(), "little")
        send_nowait(chunk)

    # A loop would sleep for whole milliseconds.
    await produce(filtered_chunk(setup.row_bytes), work.do_alone, work.begin, meter, (send_nowait, send))


# The join: a process that reads two upstreams for a while and tells how many rows came from each.


class Upstream(NamedTuple):
    """Chunks that are ready can be consumed now, one by one."""

    ready: Callable[[], int]
    """Chunks that are here."""
    consume: Callable[[], int]
    """Take the oldest chunk that is here, and return its permits; its rows."""
    begin: Callable[[], None]
    """Measure from now on."""
    back_pressure_rate: Callable[[], float]
    """The share of the time since then for which its sender has waited."""


_PRODUCING: set["asyncio.Task[None]"] = set()
"""Keeps them alive."""


def local_upstream(setup: Setup) -> Upstream:
    """A task beside the join, which produces as soon as the join lets it.

    Its chunks wait in an ``asyncio.Queue`` of 16 chunks, or in a local channel with permits.
    """
    chunk, work, meter = filtered_chunk(setup.row_bytes), Work(setup.local_seconds), Meter()

    def upstream(
        ready: Callable[[], int], consume: Callable[[], int], *ways: Callable[[pa.RecordBatch], Any]
    ) -> Upstream:
        _PRODUCING.add(asyncio.create_task(produce(chunk, work.do_alone, work.begin, meter, (ways[0], ways[1]))))
        return Upstream(ready, consume, meter.reset, meter.rate)

    if not setup.uses_permits:
        queue: asyncio.Queue[pa.RecordBatch] = asyncio.Queue(LOCAL_CHUNKS)
        return upstream(queue.qsize, lambda: queue.get_nowait().num_rows, queue.put_nowait, queue.put)
    sender: LocalSender[pa.RecordBatch]
    receiver: LocalReceiver[pa.RecordBatch]
    sender, receiver = open_channel(parameters_of(setup))
    # All chunks have the same rows.
    ready = lambda: receiver.statistics().inbox_rows // CHUNK_ROWS  # noqa: E731
    return upstream(ready, lambda: receiver.receive_nowait().rows, sender.send_nowait, sender.send)


def remote_upstream(setup: Setup, process: Partner) -> Upstream:
    """A process whose messages a thread of ours reads, as threads serve the network beside a join."""
    inbox: deque[int] = deque()  # rows of each chunk, or its bytes
    address = process.hears()
    consume = _over_grpc(address, inbox) if setup.uses_permits else _over_a_connection(address, inbox)

    def back_pressure_rate() -> float:
        process.tell()
        rate: float = process.hears()
        return rate

    return Upstream(inbox.__len__, consume, process.tell, back_pressure_rate)


def _over_a_connection(address: str, inbox: deque[int]) -> Callable[[], int]:
    """Read chunks, put their bytes into ``inbox``, and return a function that gives a chunk's bytes back."""
    connection = Client(address, family="AF_UNIX")

    def listen() -> None:
        with suppress(EOFError, ConnectionError):
            while True:
                inbox.append(len(connection.recv_bytes()))

    def consume() -> int:
        connection.send_bytes(inbox.popleft().to_bytes(8, "little"))
        return CHUNK_ROWS

    threading.Thread(target=listen, daemon=True).start()
    return consume


def _over_grpc(address: str, inbox: deque[int]) -> Callable[[], int]:
    """Take chunks, put their rows into ``inbox``, and return a function that returns a chunk's permits."""
    return_permits: list[Callable[[], object]] = []

    async def take_all() -> None:
        loop = asyncio.get_running_loop()
        async with get(address, CHANNEL) as receiver:
            return_permits.append(lambda: loop.call_soon_threadsafe(receiver.consume))
            while True:
                inbox.append((await receiver.take()).rows)

    def listen() -> None:
        # The process tells its rate, and is gone.
        with suppress(PermitflowError):
            asyncio.run(take_all())

    def consume() -> int:
        return_permits[0]()
        return inbox.popleft()

    threading.Thread(target=listen, daemon=True).start()
    return consume


WARM_UP_SHARE = 0.3
# While nothing is ready; neither upstream is as slow as that for long.
IDLE_SECONDS = 0.0005


async def read(setup: Setup, upstreams: Sequence[Upstream], seconds: float) -> list[int]:
    """Read all chunks that are ready, turn by turn, for so long; other tasks run between two turns.

    Upstreams are asked in this order; the rows of each.
    """
    work, rows, until = Work(setup.join_seconds), [0] * len(upstreams), time.monotonic() + seconds
    while time.monotonic() < until:
        is_idle = True
        for number, upstream in enumerate(upstreams):
            ready = upstream.ready()
            is_idle = is_idle and not ready
            work.begin()
            for _ in range(min(ready, 1) if setup.yields_after_each_chunk else ready):
                work.do()
                rows[number] += upstream.consume()
            if setup.yields_after_each_chunk:
                await asyncio.sleep(0)
        await asyncio.sleep(IDLE_SECONDS if is_idle else 0)
    return rows


Pair = tuple[float, float]
Found = tuple[Pair, Pair]


async def measure(setup: Setup, seconds: float) -> Found:
    """Rows per second and back-pressure rate of the local and the remote upstream."""
    with Partner(send, setup) as process:
        local, remote = upstreams = (local_upstream(setup), remote_upstream(setup, process))
        await read(setup, upstreams, WARM_UP_SHARE * seconds)
        for upstream in upstreams:
            upstream.begin()
        began = time.monotonic()
        rows = await read(setup, upstreams, seconds)
        took = time.monotonic() - began
        return (rows[0] / took, rows[1] / took), (local.back_pressure_rate(), remote.back_pressure_rate())


async def measure_setup(pipe: Connection, setup: Setup, seconds: float) -> None:
    pipe.send(await measure(setup, seconds))
    # The threads would go on until the end of time.
    os._exit(0)


# All setups, in shuffled rounds.

SECONDS = 0.8
SMOKE_SECONDS = 0.1
# Deadlines make rounds nearly equal; more rounds would add nothing.
MOST_ROUNDS = 3


def measure_imbalance(settings: Settings) -> list[Row]:
    seconds = SMOKE_SECONDS if settings.is_smoke else SECONDS
    runs = {setup.name: partial(_run, setup, seconds) for setup in SETUPS}
    found = in_turns(runs, min(settings.rounds, MOST_ROUNDS))
    return [row_of(name, runs) for name, runs in found.items()]


def _run(setup: Setup, seconds: float) -> Found:
    with Partner(measure_setup, setup, seconds) as join:
        found: Found = join.hears()
        return found


def row_of(name: str, runs: Sequence[Found]) -> Row:
    """The ratio is that of the faster upstream to the slower one; infinite if that one had no rows."""
    (local, remote), (local_waits, remote_waits) = (zip(*each, strict=True) for each in zip(*runs, strict=True))
    pairs = [(max(rates), min(rates)) for rates, _ in runs]
    return {
        "": name,
        "local rows/s": Series.of(local),
        "remote rows/s": Series.of(remote),
        "ratio": Series.of(fast / slow if slow else math.inf for fast, slow in pairs),
        "local waits": Series.of(local_waits, "{:.1%}"),
        "remote waits": Series.of(remote_waits, "{:.1%}"),
    }
