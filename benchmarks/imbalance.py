"""The experiment from which RisingWave's permits came: bounds that differ starve one of two upstreams.

``python -m benchmarks.imbalance`` pastes the table into docs/reference/measurements.md.  The ends of flows are the real
ones, in simulated time.  A join reads two upstreams with the shape of TPC-H's query 12: a strict filter leaves 5 % of
the rows of a chunk.  One upstream is a task beside the join, the other one a process.  A local channel of 16 chunks and
a connection with 64 KiB hold different numbers of rows, and so the join reads different numbers of them in each of its
turns.  With permits for rows on both, it reads the same number.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import typer

from benchmarks.documents import paste
from benchmarks.results import Row
from permitflow import ChannelParameters, Demand, Parameters
from permitflow.flows.messages import Kind
from permitflow.flows.seam import Inbound, Outbound
from tests.support.simulated_time import in_simulated_time

# 5 % of 1,024.
CHUNK_ROWS = 51
# The cost of a chunk for the join, and for the upstream in another process.
JOIN_SECONDS, REMOTE_SECONDS = 425e-6, 485e-6
WARM_UP_SECONDS, SECONDS = 1.0, 4.0


def chunks(number: int) -> Parameters:
    """A bound of chunks, as there was before there were permits."""
    return Demand(size=number, batch=1)


def permits(batch: int = 64) -> Parameters:
    """As many as RisingWave's ROW_COUNT since 2023; a receiver keeps back up to a batch less one row."""
    return ChannelParameters(row_permits=2_048, permit_batch=batch)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What bounds the channels, and how fast the upstream beside the join is."""

    bounds: tuple[Parameters, Parameters]
    """Of the local channel and of the remote one."""
    local_seconds: float = 94e-6
    """The cost of a chunk for the upstream beside the join; the join stands still meanwhile."""
    yields: bool = False
    """Does the join let other tasks run after each chunk, not only after all that are ready?"""


# 64 KiB, HTTP/2's initial window, hold 64 chunks of rows of 20 bytes, and 2 of rows of 500 bytes.
SETUPS = {
    "16 chunks and 64 KiB": Setup(bounds=(chunks(16), chunks(64))),
    "row permits": Setup(bounds=(permits(), permits())),
    # RisingWave's batch.
    "row permits, returned by 256": Setup(bounds=(permits(256), permits(256))),
    "row permits, equal producers": Setup(bounds=(permits(), permits()), local_seconds=REMOTE_SECONDS),
    "16 chunks and 64 KiB, rows of 500 bytes": Setup(bounds=(chunks(16), chunks(2))),
    "control: 16 chunks and 64 KiB, join yields": Setup(bounds=(chunks(16), chunks(64)), yields=True),
}


class Channel:
    """The ends of a flow, and nothing between them."""

    def __init__(self, parameters: Parameters) -> None:
        """Nobody waits."""
        self.read_rows = 0
        self.waited_seconds = 0.0
        """Its upstream, for room."""
        self.receiver: Inbound[None] = parameters.flow.receiving(parameters, record=None)
        self._sender: Outbound[None] = parameters.flow.outbound(parameters, record=None)
        self._has_room = asyncio.Event()

    async def send(self, process: asyncio.Lock) -> None:
        """Send a chunk; others of the process run while it waits."""
        self._sender.offer(Kind.CHUNK, None, CHUNK_ROWS)
        while not (ready := self._sender.take_sendable()):
            began = asyncio.get_running_loop().time()
            process.release()
            self._has_room.clear()
            await self._has_room.wait()
            await process.acquire()
            self.waited_seconds += asyncio.get_running_loop().time() - began
        self.receiver.deliver(ready[0])

    def read(self) -> None:
        """Take a chunk that is here, and let its permits return."""
        self.receiver.try_receive()
        self.read_rows += CHUNK_ROWS
        if (feedback := self.receiver.take_feedback()) is not None:
            self._sender.on_feedback(feedback)
            self._has_room.set()


async def produce(channel: Channel, seconds: float, process: asyncio.Lock) -> None:
    """Make chunks and send them; the rest of the process stands still while one is made."""
    await process.acquire()
    while True:
        await asyncio.sleep(seconds)
        await channel.send(process)


async def join(channels: list[Channel], process: asyncio.Lock, *, yields: bool) -> None:
    """Read all chunks that are ready, upstream by upstream; the rest of the process runs between two turns."""
    while True:
        is_idle = True
        for channel in channels:
            if ready := channel.receiver.untaken:
                is_idle = False
                async with process:
                    for _ in range(1 if yields else ready):
                        await asyncio.sleep(JOIN_SECONDS)
                        channel.read()
        await asyncio.sleep(REMOTE_SECONDS if is_idle else 0)


class Found(NamedTuple):
    """What the join has read of both upstreams, the local one first."""

    rows_per_second: tuple[float, float]
    waits: tuple[float, float]
    """The back-pressure rates: the share of the time for which each upstream has waited."""

    @property
    def ratio(self) -> float:
        """Of the faster upstream to the slower one."""
        return max(self.rows_per_second) / min(self.rows_per_second)


async def run(setup: Setup) -> Found:
    """Measure once the channels are as full as they get."""
    local, remote = map(Channel, setup.bounds)
    here, elsewhere = asyncio.Lock(), asyncio.Lock()
    # They run until the loop is closed.
    _running = [
        asyncio.create_task(produce(local, setup.local_seconds, here)),
        asyncio.create_task(produce(remote, REMOTE_SECONDS, elsewhere)),
        asyncio.create_task(join([local, remote], here, yields=setup.yields)),
    ]
    await asyncio.sleep(WARM_UP_SECONDS)
    for channel in (local, remote):
        channel.read_rows, channel.waited_seconds = 0, 0.0
    await asyncio.sleep(SECONDS)
    return Found(
        (local.read_rows / SECONDS, remote.read_rows / SECONDS),
        (local.waited_seconds / SECONDS, remote.waited_seconds / SECONDS),
    )


def rows() -> Iterator[Row]:
    """The table."""
    for name, setup in SETUPS.items():
        found = in_simulated_time(run(setup))
        local, remote = found.rows_per_second
        local_waits, remote_waits = (f"{each:.1%}" for each in found.waits)
        row: Row = {"": name, "local rows/s": local, "remote rows/s": remote, "ratio": f"{found.ratio:.2f}"}
        yield row | {"local waits": local_waits, "remote waits": remote_waits}


def main() -> None:
    """Paste the table."""
    paste("reference/measurements.md", "an imbalance", rows())


if __name__ == "__main__":
    typer.run(main)
