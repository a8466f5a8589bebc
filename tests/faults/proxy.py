"""A network between those who dial and those who listen, in the run's event loop: it does what the schedule says."""

import asyncio
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from tests.faults.schedules import Direction, Fault, Kind, Party, Schedule, generator

READ_BYTES = (500, 1_500, 65_536)
"""A connection hands on at most so much at once: one of these, so that messages come in pieces."""


class Connection:
    """Two sockets, and what is passed between them."""

    def __init__(self, link: "Link", near: StreamWriter, far: StreamWriter, read_bytes: int) -> None:
        self.link, self.near, self.far, self.read_bytes = link, near, far, read_bytes
        self.is_alive = True
        self.is_black_hole = False

    async def carry(self, near: StreamReader, far: StreamReader) -> None:
        """Until both directions are over, or it is cut."""
        ways = ((Direction.UP, near, self.far), (Direction.DOWN, far, self.near))
        try:
            async with asyncio.TaskGroup() as group:
                for way in ways:
                    group.create_task(self._pass_on(*way))
        except* ConnectionError:
            await self._vanish()
            self.cut(resets=True)
        self.cut(resets=False)

    async def _pass_on(self, direction: Direction, reader: StreamReader, writer: StreamWriter) -> None:
        while self.is_alive and (content := await reader.read(self.read_bytes)):
            for piece, fault in self.link.pieces(direction, content):
                await self._write(writer, piece)
                if fault is not None and not self._suffer(fault, writer):
                    return
        await self._vanish()
        if self.is_alive and not writer.is_closing():
            with suppress(OSError):
                writer.write_eof()

    async def _write(self, writer: StreamWriter, piece: bytes) -> None:
        link = self.link
        rate = link.bytes_per_second
        if seconds := link.delay_seconds + (len(piece) / rate if rate else 0.0):
            await asyncio.sleep(seconds)
        await self._vanish()
        if piece and self.is_alive:
            writer.write(piece)
            await writer.drain()

    async def _vanish(self) -> None:
        """Of a black hole nobody ever hears anything, not even that the other side has hung up."""
        if self.is_black_hole:
            await asyncio.Event().wait()

    def _suffer(self, fault: Fault, writer: StreamWriter) -> bool:
        """Let it happen; may this direction go on?"""
        self.link.proxy.tell(fault)
        match fault.kind:
            case Kind.CUT:
                for connection in self.link.connections:
                    connection.cut(resets=fault.resets)
                return False
            case Kind.HALF_CLOSE:
                with suppress(OSError):
                    writer.write_eof()
                return False
            case Kind.BLACK_HOLE:
                self.link.swallow(fault.seconds)
            case Kind.DELAY:
                self.link.delay_seconds = fault.seconds
            case Kind.THROTTLE:
                self.link.bytes_per_second = fault.bytes_per_second
        return True

    def cut(self, *, resets: bool) -> None:
        """Close both sockets, and forget what is on the way if they are reset."""
        self.is_alive = False
        for writer in (self.near, self.far):
            if resets:
                with suppress(OSError):
                    kernel: socket.socket = writer.get_extra_info("socket")
                    kernel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()


class Link:
    """All connections of one end, and how many bytes have come over them."""

    def __init__(self, proxy: "Proxy", party: Party, target: tuple[str, int], dice: Random) -> None:
        schedule = proxy.schedule
        self.proxy, self.target, self.dice = proxy, target, dice
        self.connections: list[Connection] = []
        self.delay_seconds = self.bytes_per_second = 0.0
        self._passed = dict.fromkeys(Direction, 0)
        self._ahead = {
            direction: sorted(
                (fault for fault in schedule.faults if (fault.link, fault.direction) == (party, direction)),
                key=lambda fault: fault.after_bytes,
            )
            for direction in Direction
        }
        self._open_at = 0.0

    def pieces(self, direction: Direction, content: bytes) -> Iterator[tuple[bytes, Fault | None]]:
        """What is to be passed on, and the fault that comes behind it, if any; bits are flipped already."""
        ahead, begin = self._ahead[direction], self._passed[direction]
        self._passed[direction] += len(content)
        data, start = bytearray(content), 0
        while ahead and ahead[0].after_bytes < self._passed[direction]:
            fault = ahead.pop(0)
            place = max(fault.after_bytes - begin, start)
            if fault.kind is Kind.BIT_FLIP and place < len(data):
                data[place] ^= 1 << fault.bit
            yield bytes(data[start:place]), fault
            start = place
        yield bytes(data[start:]), None

    def swallow(self, seconds: float) -> None:
        """What is open now never carries anything again; new connections do after so many seconds."""
        for connection in self.connections:
            connection.is_black_hole = True
        self._open_at = asyncio.get_running_loop().time() + seconds

    async def accept(self, near: StreamReader, writer: StreamWriter) -> None:
        try:
            await asyncio.sleep(self._open_at - asyncio.get_running_loop().time())
            far, far_writer = await asyncio.open_connection(*self.target)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
            return
        connection = Connection(self, writer, far_writer, self.dice.choice(READ_BYTES))
        self.connections.append(connection)
        try:
            await connection.carry(near, far)
        except asyncio.CancelledError:
            connection.cut(resets=True)


class Proxy:
    def __init__(self, schedule: Schedule, tell: Callable[[int], None]) -> None:
        """``tell`` is called with the number of each fault that comes; it stops or kills a process at once."""
        self.schedule = schedule
        self.ports: dict[Party, int] = {}
        """Where each one who dials finds the one who listens."""
        self._tell = tell
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

        self._dice = generator(schedule, "proxy")

    async def listen(self, party: Party, target: str) -> None:
        """Pass on what comes from this party to this address, HOST:PORT."""
        host, _, port = target.rpartition(":")
        link = Link(self, party, (host, int(port)), Random(self._dice.random()))

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            self._connections.add(asyncio.create_task(link.accept(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        self.ports[party] = server.sockets[0].getsockname()[1]

    def tell(self, fault: Fault) -> None:
        self._tell(self.schedule.faults.index(fault))

    async def close(self) -> None:
        """End all connections.

        Raises:
            Exception: the proxy itself has failed.
        """
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        for found in await asyncio.gather(*self._connections, return_exceptions=True):
            if isinstance(found, Exception):
                raise found
        for server in self._servers:
            await server.wait_closed()
