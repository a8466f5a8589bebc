"""The join: a process that reads two upstreams for a while and tells how many rows came from each.

python -m benchmarks.imbalance.join SETUP SECONDS
"""

import asyncio
import json
import os
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress

import pyarrow as pa

from benchmarks.harness import Partner
from benchmarks.imbalance.remote_upstream import CHANNEL, LENGTH_BYTES
from benchmarks.imbalance.setups import (
    CHUNK_ROWS,
    LOCAL_CHUNKS,
    ROW_PERMITS,
    SETUPS,
    Meter,
    Setup,
    Work,
    filtered_chunk,
)
from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.errors import PermitflowError, WouldBlock
from permitflow.transports.grpc_aio import get
from permitflow.transports.remote_receiver import RemoteReceiver

__all__ = ["Reader", "Upstream", "open_upstreams"]


class Upstream(ABC):
    """What is ready can be consumed now, chunk by chunk."""

    @abstractmethod
    def ready(self) -> int:
        """Chunks that are here."""

    @abstractmethod
    def consume(self) -> int:
        """Take the oldest chunk that is here, and let its sender know; how many rows it has."""

    @abstractmethod
    def begin(self) -> None:
        """Measure from now on."""

    @abstractmethod
    def back_pressure_rate(self) -> float:
        """Which share of the time its sender has waited since ``begin``."""

    def close(self) -> None:  # noqa: B027 - a local one has nothing to release
        """Release what would outlive the join."""


class LocalUpstream(Upstream):
    """A task beside the join."""

    def __init__(self, setup: Setup) -> None:
        """Starts producing as soon as the join lets it."""
        self.meter = Meter()
        self.chunk = filtered_chunk(setup.row_bytes)
        self._work = Work(setup.local_seconds)
        self._task = asyncio.create_task(self._produce())

    async def _produce(self) -> None:
        self._work.begin()
        while True:
            self._work.do()
            if not self.try_send():
                with self.meter:
                    await self.send()
                self._work.begin()

    @abstractmethod
    def try_send(self) -> bool:
        """Send a chunk if it may leave now."""

    @abstractmethod
    async def send(self) -> None:
        """Send a chunk as soon as it may leave."""

    def begin(self) -> None:
        """Measure from now on."""
        self.meter.reset()

    def back_pressure_rate(self) -> float:
        """As the meter says."""
        return self.meter.rate()


class BoundedInChunks(LocalUpstream):
    """An ``asyncio.Queue`` of 16 chunks."""

    def __init__(self, setup: Setup) -> None:
        """As its base."""
        self._queue: asyncio.Queue[pa.RecordBatch] = asyncio.Queue(LOCAL_CHUNKS)
        super().__init__(setup)

    def try_send(self) -> bool:
        """Into the queue."""
        try:
            self._queue.put_nowait(self.chunk)
        except asyncio.QueueFull:
            return False
        return True

    async def send(self) -> None:
        """Into the queue."""
        await self._queue.put(self.chunk)

    def ready(self) -> int:
        """In the queue."""
        return self._queue.qsize()

    def consume(self) -> int:
        """From the queue."""
        return int(self._queue.get_nowait().num_rows)


class BoundedInRows(LocalUpstream):
    """A local channel with permits."""

    def __init__(self, setup: Setup) -> None:
        """As its base."""
        parameters = ChannelParameters(row_permits=ROW_PERMITS, permit_batch=setup.permit_batch)
        self._sender: LocalSender[pa.RecordBatch]
        self._receiver: LocalReceiver[pa.RecordBatch]
        self._sender, self._receiver = open_channel(parameters)
        super().__init__(setup)

    def try_send(self) -> bool:
        """Into the channel."""
        try:
            self._sender.send_nowait(self.chunk)
        except WouldBlock:
            return False
        return True

    async def send(self) -> None:
        """Into the channel."""
        await self._sender.send(self.chunk)

    def ready(self) -> int:
        """In the inbox; all chunks have the same rows."""
        return self._receiver.statistics().inbox_rows // CHUNK_ROWS

    def consume(self) -> int:
        """From the channel."""
        return self._receiver.receive_nowait().rows


class RemoteUpstream(Upstream):
    """A process; a thread of ours hears it, as other threads serve the network beside a join."""

    def __init__(self, setup: Setup) -> None:
        """Starts it."""
        self.inbox: deque[int] = deque()
        self._process = Partner("benchmarks.imbalance.remote_upstream", setup.name)
        self.address: str = self._process.hears()["address"]
        threading.Thread(target=self._listen_to_the_end, daemon=True).start()

    def _listen_to_the_end(self) -> None:
        # Which comes when the process has told its rate and is gone.
        with suppress(ConnectionError, PermitflowError):
            self.listen()

    @abstractmethod
    def listen(self) -> None:
        """Fill the inbox with the rows of each chunk, until the end."""

    def ready(self) -> int:
        """In the inbox."""
        return len(self.inbox)

    def begin(self) -> None:
        """Measure from now on."""
        self._process.tell()

    def back_pressure_rate(self) -> float:
        """As the process says."""
        self._process.tell()
        rate: float = self._process.hears()["back_pressure_rate"]
        return rate

    def close(self) -> None:
        """End the process."""
        self._process.kill()


class BoundedInBytes(RemoteUpstream):
    """A window of bytes on a connection."""

    def __init__(self, setup: Setup) -> None:
        """Connects."""
        self._chunk_bytes: deque[int] = deque()
        self._connection: socket.socket
        super().__init__(setup)

    def listen(self) -> None:
        """Read chunks."""
        self._connection = socket.create_connection(("127.0.0.1", int(self.address)))
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._connection.makefile("rb") as file:
            while head := file.read(LENGTH_BYTES):
                length = int.from_bytes(head, "little")
                file.read(length)
                self._chunk_bytes.append(length)
                self.inbox.append(CHUNK_ROWS)

    def consume(self) -> int:
        """Give back the bytes of a chunk."""
        self._connection.sendall(self._chunk_bytes.popleft().to_bytes(LENGTH_BYTES, "little"))
        return self.inbox.popleft()


class BoundedInRowsRemotely(RemoteUpstream):
    """permitflow over gRPC."""

    def __init__(self, setup: Setup) -> None:
        """Connects."""
        self._loop: asyncio.AbstractEventLoop
        self._receiver: RemoteReceiver
        super().__init__(setup)

    def listen(self) -> None:
        """Read chunks, without consuming them."""
        asyncio.run(self._take_all())

    async def _take_all(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with get(self.address, CHANNEL) as self._receiver:
            while True:
                message = await self._receiver.take()
                self.inbox.append(message.rows)

    def consume(self) -> int:
        """Return the permits of a chunk."""
        self._loop.call_soon_threadsafe(self._receiver.consume)
        return self.inbox.popleft()


def open_upstreams(setup: Setup) -> tuple[LocalUpstream, RemoteUpstream]:
    """The local one and the remote one."""
    if setup.uses_permits:
        return BoundedInRows(setup), BoundedInRowsRemotely(setup)
    return BoundedInChunks(setup), BoundedInBytes(setup)


WARM_UP_SHARE = 0.3
# While nothing is ready; neither upstream is as slow as that for long.
IDLE_SECONDS = 0.0005


class Reader:
    """Reads whatever is ready, turn by turn."""

    def __init__(self, setup: Setup, upstreams: tuple[Upstream, Upstream]) -> None:
        """``upstreams`` are asked in this order."""
        self._yields_after_each_chunk = setup.yields_after_each_chunk
        self._upstreams = upstreams
        self._work = Work(setup.join_seconds)
        self.rows = [0, 0]

    async def read_until(self, time_seconds: float) -> None:
        """Turn after turn; between two turns, others run."""
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
    upstreams = open_upstreams(setup)
    try:
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
    finally:
        for upstream in upstreams:
            upstream.close()


def main(name: str, seconds: str) -> None:
    """Measure one setup."""
    (setup,) = (setup for setup in SETUPS if setup.name == name)
    print(json.dumps(asyncio.run(measure(setup, float(seconds)))), flush=True)
    # The upstream beside the join would go on until the end of time.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
