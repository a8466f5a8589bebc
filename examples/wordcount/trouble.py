"""Trouble for the demo of a word count: its workers are killed, its readers come and go, and strangers connect."""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from permitflow.carriers.framing import header
from permitflow.mute.messages import Kind
from permitflow.mute.sockets import MOST_CONNECTIONS, RECONNECT_SECONDS, Address

from ..child_process import address_of
from .outside import CountReader
from .workers import WorkerProcess

MOST_GROWTH_BYTES = 8 << 20
"""The most by which a worker's memory may grow, between the second quarter of the time and the last one."""
CROWD = MOST_CONNECTIONS + 6
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_CONNECT_SECONDS = 5.0
_RESET_AT_ONCE = struct.pack("ii", 1, 0)
_SILENT, _RESET = None, b""
# What strangers say at each port; none of it is counted.
_SAYINGS: Mapping[str, Sequence[bytes | None]] = {
    "listen": (_SILENT, _RESET, b"x" * 4_096),
    "out1": (_SILENT, _RESET, b"GET / HTTP/1.1\r\n\r\n"),
    "inlet": (_SILENT, _RESET, b"GET / HTTP/1.1\r\n\r\n", header(Kind.HELLO, 16 << 20) + bytes(65_536)),
    "orders": (_SILENT, _RESET, b"nothing\n", b'{"order": "drain", "seconds": NaN}\n'),
}


@dataclass(frozen=True, kw_only=True)
class TroubleReport:
    """What was done to the pipeline, and what its processes have made of it."""

    seconds: float
    kills: int
    """How often workers were killed."""
    left_readers: int
    """Connections that a reader has broken off."""
    strangers: int
    """Connections of those who do not belong to the pipeline."""
    growth_bytes: int
    """The most that the memory of a worker has grown by, between the second quarter of the time and the last one."""
    tracebacks: int
    """In the logs of all workers."""

    def problems(self) -> list[str]:
        """The failed checks."""
        found = []
        if self.growth_bytes > MOST_GROWTH_BYTES:
            found.append(f"a worker's memory has grown by {self.growth_bytes:,} bytes")
        if self.tracebacks:
            found.append(f"the logs of the workers have {self.tracebacks:,} tracebacks: --keep DIR shows them")
        return found


@dataclass
class Trouble:
    """Makes trouble for some workers, as often as chance has it."""

    workers: Sequence[WorkerProcess]
    """All of them, which strangers visit."""
    mortal: Sequence[WorkerProcess]
    """The workers that may be killed: the sender to a killed source does not know what was counted."""
    readers: Sequence[CountReader]
    folder: Path
    """The folder of the logs."""
    kills: int = 0
    left_readers: int = 0
    strangers: int = 0
    _chance: Random = field(default_factory=lambda: Random(1))
    _peaks: dict[tuple[str, int], int] = field(default_factory=dict)
    """Bytes of memory by worker and quarter of the time."""

    async def make(self, seconds: float, is_ended_within: Callable[[float], Awaitable[bool]]) -> TroubleReport:
        """Make trouble for so long, or until the run is asked to end."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._again(2.0, 5.0, self._kill)),
                group.create_task(self._again(0.5, 2.0, self._leave)),
                group.create_task(self._again(0.02, 0.2, lambda: self._visit(group))),
                group.create_task(self._again(0.2, 0.4, lambda: self._measure((loop.time() - began) / seconds))),
            ]
            await is_ended_within(seconds)
            for task in tasks:
                task.cancel()
        return TroubleReport(
            seconds=loop.time() - began,
            kills=self.kills,
            left_readers=self.left_readers,
            strangers=self.strangers,
            growth_bytes=max(
                self._peaks.get((worker.name, 3), 0) - self._peaks.get((worker.name, 1), 0) for worker in self.workers
            ),
            tracebacks=sum(log.read_text().count("Traceback") for log in self.folder.glob("*.log")),
        )

    async def _again(self, least_seconds: float, most_seconds: float, act: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(least_seconds, most_seconds))
            act()

    def _kill(self) -> None:
        worker = self._chance.choice(self.mortal)
        if worker.pid is not None:
            self.kills += 1
            worker.kill()

    def _leave(self) -> None:
        self.left_readers += 1
        self._chance.choice(self.readers).hang_up()

    def _measure(self, share: float) -> None:
        for worker in self.workers:
            with suppress(OSError, TypeError):  # it was killed just now, or this is not Linux
                rss_bytes = int(Path(f"/proc/{worker.pid}/statm").read_text().split()[1]) * _PAGE_BYTES
                place = worker.name, min(3, int(4 * share))
                self._peaks[place] = max(self._peaks.get(place, 0), rss_bytes)

    def _visit(self, group: asyncio.TaskGroup) -> None:
        ports = [
            (address_of(address), _SAYINGS[port])
            for worker in self.workers
            for port, address in worker.addresses.items()
            if port in _SAYINGS
        ]
        address, sayings = self._chance.choice(ports)
        said = self._chance.choice(sayings)
        # Sometimes they come as a crowd, which takes all places for a while.
        for _ in range(CROWD if self._chance.random() < 1 / CROWD else 1):
            self.strangers += 1
            group.create_task(self._connect(address, said, self._chance.uniform(0.0, 2.0)))

    async def _connect(self, address: Address, said: bytes | None, seconds: float) -> None:
        with suppress(OSError, TimeoutError):  # the worker was killed, or has hung up
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(*address)
            try:
                if said == _RESET:
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_ONCE)
                    return
                writer.write(said or b"")
                async with asyncio.timeout(seconds):
                    while await reader.read(65_536):
                        pass
            finally:
                writer.transport.abort()


@asynccontextmanager
async def visiting(reader: CountReader, address: Callable[[], Address]) -> AsyncIterator[None]:
    """Let a reader connect to a sink that listens, again whenever its connection is lost."""

    async def keep_visiting() -> None:
        while True:
            with suppress(OSError):
                await reader.visit(address())
                await reader.ended.wait()
            await asyncio.sleep(RECONNECT_SECONDS)

    task = asyncio.create_task(keep_visiting())
    try:
        yield
    finally:
        task.cancel()
