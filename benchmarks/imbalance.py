"""The experiment from which RisingWave's permits came: bounds that differ starve one of two upstreams.

A join reads two upstreams with the shape of TPC-H's query 12: a strict filter leaves 5 % of the rows of a chunk.  One
upstream is a task beside the join, the other one a process.  A local channel of 16 chunks and a connection with 64 KiB
hold different numbers of rows, and so the join reads different numbers of them in each of its turns.  With permits for
rows on both, it reads the same number.
"""

import asyncio
import math
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa

from benchmarks.field import Settings
from benchmarks.harness import Partner, in_turns
from benchmarks.results import Record, Series
from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.errors import PermitflowError, WouldBlock
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.transports.grpc_aio import get

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
    """The visible rows of a chunk, each of so many bytes."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        since, self._waiting_since = self._waiting_since, None
        assert since is not None, "it has begun"
        self._waited += time.monotonic() - since

    def rate(self) -> float:
        """Between 0 and 1."""
        now, since = time.monotonic(), self._waiting_since
        waiting = self._waited + (now - since if since is not None else 0.0)
        return waiting / (now - self._began)


# The upstream in another process: sends chunks until it is told to stop, then tells its back-pressure rate.

CHANNEL = "remote"
LENGTH_BYTES = 8


def send(pipe: Connection, setup: Setup) -> None:
    """Serve one join; the first message is the address."""
    meter = Meter()
    threading.Thread(target=_obey, args=(pipe, meter), daemon=True).start()
    if setup.uses_permits:
        asyncio.run(send_with_permits(pipe, setup, meter))
    else:
        send_within_window(pipe, setup, meter)


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
    parameters = ChannelParameters(row_permits=ROW_PERMITS, permit_batch=setup.permit_batch)
    exchange = Exchange()
    channel = exchange.add_channel(CHANNEL, parameters, chunk.schema)
    async with ExchangeServer(exchange) as server:
        pipe.send(server.address)
        work.begin()
        while True:
            await work.do_beside_others()
            try:
                channel.sender.send_nowait(chunk)
            except WouldBlock:
                with meter:
                    await channel.sender.send(chunk)
                work.begin()


def send_within_window(pipe: Connection, setup: Setup, meter: Meter) -> None:
    """A window of bytes, as in HTTP/2: the join gives back the bytes that it has read."""
    content, work = bytes(CHUNK_ROWS * setup.row_bytes), Work(setup.remote_seconds)
    window = BYTE_WINDOW
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(str(listener.getsockname()[1]))
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    work.begin()
    while True:
        work.do()
        if window < len(content):
            with meter:
                window += updates(connection, least=len(content) - window)
            work.begin()
        window -= len(content)
        connection.sendall(len(content).to_bytes(LENGTH_BYTES, "little") + content)


def updates(connection: socket.socket, least: int) -> int:
    """Wait until so many bytes have been given back."""
    returned = 0
    while returned < least:
        returned += int.from_bytes(connection.recv(LENGTH_BYTES, socket.MSG_WAITALL), "little")
    return returned


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


def local_upstream(setup: Setup) -> Upstream:
    """A task beside the join, which produces as soon as the join lets it.

    Its chunks wait in an ``asyncio.Queue`` of 16 chunks, or in a local channel with permits.
    """
    meter = Meter()
    if not setup.uses_permits:
        queue: asyncio.Queue[pa.RecordBatch] = asyncio.Queue(LOCAL_CHUNKS)
        _PRODUCING.add(asyncio.create_task(_produce(setup, meter, queue.put_nowait, queue.put)))
        return Upstream(queue.qsize, lambda: queue.get_nowait().num_rows, meter.reset, meter.rate)
    sender: LocalSender[pa.RecordBatch]
    receiver: LocalReceiver[pa.RecordBatch]
    sender, receiver = open_channel(ChannelParameters(row_permits=ROW_PERMITS, permit_batch=setup.permit_batch))
    _PRODUCING.add(asyncio.create_task(_produce(setup, meter, sender.send_nowait, sender.send)))
    # All chunks have the same rows.
    ready = lambda: receiver.statistics().inbox_rows // CHUNK_ROWS  # noqa: E731
    return Upstream(ready, lambda: receiver.receive_nowait().rows, meter.reset, meter.rate)


_PRODUCING: set["asyncio.Task[None]"] = set()
"""Keeps them alive."""


async def _produce(
    setup: Setup,
    meter: Meter,
    send_nowait: Callable[[pa.RecordBatch], None],
    send: Callable[[pa.RecordBatch], Coroutine[None, None, None]],
) -> None:
    chunk, work = filtered_chunk(setup.row_bytes), Work(setup.local_seconds)
    work.begin()
    while True:
        work.do()
        try:
            send_nowait(chunk)
        except (asyncio.QueueFull, WouldBlock):
            with meter:
                await send(chunk)
            work.begin()


def remote_upstream(setup: Setup, process: Partner) -> Upstream:
    """A process whose messages a thread of ours reads, as threads serve the network beside a join."""
    inbox: deque[int] = deque()  # rows of each chunk
    address = process.hears()
    consume = _over_grpc(address, inbox) if setup.uses_permits else _over_a_connection(address, inbox)

    def back_pressure_rate() -> float:
        process.tell()
        rate: float = process.hears()
        return rate

    return Upstream(inbox.__len__, consume, process.tell, back_pressure_rate)


def _over_a_connection(address: str, inbox: deque[int]) -> Callable[[], int]:
    """Read chunks, put their bytes into ``inbox``, and return a function that gives a chunk's bytes back."""
    connection = socket.create_connection(("127.0.0.1", int(address)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def listen() -> None:
        with suppress(ConnectionError), connection.makefile("rb") as file:
            while head := file.read(LENGTH_BYTES):
                length = int.from_bytes(head, "little")
                file.read(length)
                inbox.append(length)

    def consume() -> int:
        connection.sendall(inbox.popleft().to_bytes(LENGTH_BYTES, "little"))
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


class Reader:
    """Reads all chunks that are ready, turn by turn."""

    def __init__(self, setup: Setup, upstreams: tuple[Upstream, Upstream]) -> None:
        """``upstreams`` are asked in this order."""
        self._yields_after_each_chunk = setup.yields_after_each_chunk
        self._upstreams = upstreams
        self._work = Work(setup.join_seconds)
        self.rows = [0, 0]

    async def read_until(self, time_seconds: float) -> None:
        """Run turn after turn; other tasks run between two turns."""
        while time.monotonic() < time_seconds:
            consumed = [await self._drain(number) for number in range(len(self._upstreams))]
            await asyncio.sleep(0 if any(consumed) else IDLE_SECONDS)

    async def _drain(self, number: int) -> int:
        upstream = self._upstreams[number]
        ready = min(upstream.ready(), 1) if self._yields_after_each_chunk else upstream.ready()
        self._work.begin()
        for _ in range(ready):
            self._work.do()
            self.rows[number] += upstream.consume()
        if self._yields_after_each_chunk:
            await asyncio.sleep(0)
        return ready


async def measure(setup: Setup, seconds: float) -> dict[str, list[float]]:
    """Rows per second and back-pressure rate of the local and the remote upstream."""
    with Partner(send, setup) as process:
        upstreams = (local_upstream(setup), remote_upstream(setup, process))
        reader = Reader(setup, upstreams)
        await reader.read_until(time.monotonic() + WARM_UP_SHARE * seconds)
        for upstream in upstreams:
            upstream.begin()
        reader.rows = [0, 0]
        began = time.monotonic()
        await reader.read_until(began + seconds)
        took = time.monotonic() - began
        return {
            "rows_per_second": [rows / took for rows in reader.rows],
            "back_pressure_rates": [upstream.back_pressure_rate() for upstream in upstreams],
        }


def measure_setup(pipe: Connection, setup: Setup, seconds: float) -> None:
    pipe.send(asyncio.run(measure(setup, seconds)))
    # The threads would go on until the end of time.
    os._exit(0)


# All setups, in shuffled rounds.

SECONDS = 0.8
SMOKE_SECONDS = 0.1
# Deadlines make rounds nearly equal; more rounds would add nothing.
MOST_ROUNDS = 3


@dataclass(frozen=True)
class Imbalance(Record):
    """Rows from both upstreams in one setup."""

    setup: str
    local_rows_per_second: Series
    remote_rows_per_second: Series
    local_back_pressure_rate: Series
    remote_back_pressure_rate: Series

    @property
    def ratio(self) -> Series:
        """The faster upstream's rows per second as a multiple of the slower one's; infinite if that one had none."""
        rounds = zip(self.local_rows_per_second.values, self.remote_rows_per_second.values, strict=True)
        return Series.of(max(rates) / min(rates) if min(rates) else math.inf for rates in rounds)


def measure_imbalance(settings: Settings) -> list[Imbalance]:
    seconds = SMOKE_SECONDS if settings.is_smoke else SECONDS
    runs = {setup.name: partial(_run, setup, seconds) for setup in SETUPS}
    found = in_turns(runs, min(settings.rounds, MOST_ROUNDS), random.Random(settings.seed))
    return [_joined(name, runs) for name, runs in found.items()]


def _run(setup: Setup, seconds: float) -> dict[str, list[float]]:
    with Partner(measure_setup, setup, seconds) as join:
        told: dict[str, list[float]] = join.hears()
        return told


def _joined(name: str, runs: list[dict[str, list[float]]]) -> Imbalance:
    def series(what: str, upstream: int) -> Series:
        return Series.of(run[what][upstream] for run in runs)

    return Imbalance(
        setup=name,
        local_rows_per_second=series("rows_per_second", 0),
        remote_rows_per_second=series("rows_per_second", 1),
        local_back_pressure_rate=series("back_pressure_rates", 0),
        remote_back_pressure_rate=series("back_pressure_rates", 1),
    )
