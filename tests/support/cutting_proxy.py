"""A network between those who dial and those who listen: at chosen bytes something happens to its connections."""

import asyncio
import socket
import struct
from abc import ABC, abstractmethod
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from anyio.from_thread import start_blocking_portal

READ_BYTES = (500, 1_500, 65_536)
"""A connection passes on at most so much at once: one of these, so that messages come in pieces."""


class Direction(StrEnum):
    """Of bytes on a link."""

    UP = "up"
    """Towards the one who was dialled."""
    DOWN = "down"


class Event(Protocol):
    """Something that happens on a link."""

    @property
    def direction(self) -> Direction:
        """Of the bytes that are counted."""
        ...

    @property
    def after_bytes(self) -> int:
        """Of this direction, over all connections of the link."""
        ...

    @property
    def flips(self) -> int:
        """The bits of the next byte that change; 0: none."""
        ...


V = TypeVar("V", bound=Event)


class Connection:
    """Two sockets, and what is passed between them."""

    def __init__(self, link: "Link[V]", near: StreamWriter, far: StreamWriter, read_bytes: int) -> None:
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
            for piece, event in self.link.pieces(direction, content):
                await self._write(writer, piece)
                if event is not None and not self.link.suffer(event, writer):
                    return
        await self._vanish()
        if self.is_alive and not writer.is_closing():
            half_close(writer)

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


def half_close(writer: StreamWriter) -> None:
    """Send no more in this direction."""
    with suppress(OSError):
        writer.write_eof()


class Link(ABC, Generic[V]):
    """All connections to one address, and how many bytes have passed over them."""

    def __init__(self, target: tuple[str, int], events: Iterable[V], dice: Random) -> None:
        """Pass on to this address; the events come in the order of their bytes."""
        self.target, self.dice = target, dice
        self.connections: list[Connection] = []
        self.delay_seconds = self.bytes_per_second = 0.0
        ordered = sorted(events, key=attrgetter("after_bytes"))
        self._passed = dict.fromkeys(Direction, 0)
        self._ahead = {
            direction: [event for event in ordered if event.direction is direction] for direction in Direction
        }
        self._open_at = 0.0

    @abstractmethod
    def suffer(self, event: V, writer: StreamWriter) -> bool:
        """Let it happen; may this direction, which ``writer`` serves, go on?"""

    def pieces(self, direction: Direction, content: bytes) -> Iterator[tuple[bytes, V | None]]:
        """What is to be passed on, and the event that comes behind it, if any; bits are flipped already."""
        ahead, begin = self._ahead[direction], self._passed[direction]
        self._passed[direction] += len(content)
        data, start = bytearray(content), 0
        while ahead and ahead[0].after_bytes < self._passed[direction]:
            event = ahead.pop(0)
            place = max(event.after_bytes - begin, start)
            if place < len(data):
                data[place] ^= event.flips
            yield bytes(data[start:place]), event
            start = place
        yield bytes(data[start:]), None

    def cut(self, *, resets: bool) -> None:
        """Cut all connections."""
        for connection in self.connections:
            connection.cut(resets=resets)

    async def close(self) -> None:
        """Close what is left of all connections."""
        for connection in self.connections:
            for writer in (connection.near, connection.far):
                writer.transport.abort()
                with suppress(OSError):
                    await writer.wait_closed()

    def swallow(self, seconds: float) -> None:
        """What is open now never carries anything again; new connections do after so many seconds."""
        for connection in self.connections:
            connection.is_black_hole = True
        self._open_at = asyncio.get_running_loop().time() + seconds

    async def accept(self, near: StreamReader, writer: StreamWriter) -> None:
        """Pass on what comes over a connection."""
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


class Listening:
    """Listens for links, and carries their connections."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._links: list[Link[Any]] = []

    async def listen(self, link: Link[V]) -> int:
        """Serve a link; the port."""
        self._links.append(link)

        def accept(reader: StreamReader, writer: StreamWriter) -> None:
            self._connections.add(asyncio.create_task(link.accept(reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def refuse(self) -> None:
        """Take no connection any more."""
        for server in self._servers:
            server.close()

    async def close(self) -> None:
        """End all connections.

        Raises:
            Exception: a link itself has failed.
        """
        self.refuse()
        for connection in self._connections:
            connection.cancel()
        for found in await asyncio.gather(*self._connections, return_exceptions=True):
            if isinstance(found, Exception):
                raise found
        for link in self._links:
            await link.close()
        for server in self._servers:
            await server.wait_closed()


@dataclass(frozen=True)
class Cut:
    """All connections are cut."""

    after_bytes: int
    direction: Direction = Direction.UP
    resets: bool = True
    """By RST instead of FIN; then bytes on the way are lost."""
    flips: int = 0
    is_last: bool = False
    """Does the network never come back?"""


def _parsed(address: str) -> tuple[str, tuple[str, int]]:
    """The scheme, with its slashes, then host and port."""
    place = address.rfind("/") + 1
    host, _, port = address[place:].rpartition(":")
    return address[:place], (host, int(port))


class CutLink(Link[Cut]):
    """A link that is cut at chosen bytes."""

    def __init__(self, address: str, cuts: Sequence[Cut], listening: Listening) -> None:
        self._scheme, at = _parsed(address)
        super().__init__(at, cuts, Random(0))
        self._next = at
        self.address = ""
        """For those who dial."""
        self.cuts = 0
        """That have come."""
        self.has_cut = asyncio.Event()
        self._listening = listening
        self._loop = asyncio.get_running_loop()

    async def listen(self) -> None:
        """Take connections."""
        port = await self._listening.listen(self)
        self.address = f"{self._scheme}127.0.0.1:{port}"

    def dial(self, address: str) -> None:
        """After the next cut, connections lead to this address."""
        _, self._next = _parsed(address)

    def break_for_ever(self) -> None:
        """Cut now, and take no connection any more; for any thread."""

        def breaks() -> None:
            self._listening.refuse()
            self.cut(resets=True)

        self._loop.call_soon_threadsafe(breaks)

    @property
    def passed_bytes(self) -> dict[Direction, int]:
        """How many bytes have come, over all connections."""
        return dict(self._passed)

    def suffer(self, event: Cut, writer: StreamWriter) -> bool:
        """Cut."""
        self.cuts += 1
        self.has_cut.set()
        self.target = self._next
        if event.is_last:
            self._listening.refuse()
        self.cut(resets=event.resets)
        return False


@asynccontextmanager
async def cutting(address: str, cuts: Sequence[Cut] = ()) -> AsyncIterator[CutLink]:
    """A way to this address, ``HOST:PORT`` or ``tcp://HOST:PORT``, that is cut at these bytes."""
    listening = Listening()
    link = CutLink(address, cuts, listening)
    await link.listen()
    try:
        yield link
    finally:
        await listening.close()


@contextmanager
def cutting_beside(address: str, cuts: Sequence[Cut] = ()) -> Iterator[CutLink]:
    """As ``cutting``, for callers that block: in a thread of its own."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(cutting(address, cuts)) as link:
        yield link
