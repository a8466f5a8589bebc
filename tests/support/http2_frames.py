"""A network that flips one bit of HTTP/2, where HTTP/2 and gRPC do not notice it."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from enum import Enum

_PREFACE_BYTES = 24
"""What a client writes before its first frame (RFC 9113, 3.4)."""
_HEADER_BYTES = 9
_TYPE_AT = 3
_DATA, _HEADERS = 0, 1
_UNKNOWN = 0x40
_LENGTH_AT, _MORE_64_KIB = 2, 0x01
"""In front of each message gRPC writes a byte, and the message's length in four bytes."""


class Damage(Enum):
    """What a flipped bit does."""

    LOSES = "a frame has a kind that its receiver must ignore"
    HIDES = "a message is said to be longer than it is, so that it and all that follow are waited for as its rest"


class Flip:
    """In which frame of a stream a bit is flipped, counted among the frames that carry messages or headers."""

    def __init__(self, damage: Damage, direction: str, number: int) -> None:
        """``direction``: ``up``, from the client to the server, or ``down``."""
        self.damage, self.direction, self.number = damage, direction, number
        self.passed = {"up": 0, "down": 0}
        """Frames that have come, by direction."""

    @property
    def is_of_a_request(self) -> bool:
        """Does the server hear nothing of the client's request, or not what it wants?"""
        return self.direction == "up" and self.number in (0, 1)

    async def carry(self, direction: str, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass everything on in one direction until it ends or a connection is lost, then hang up."""
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                if direction == "up":
                    writer.write(await reader.readexactly(_PREFACE_BYTES))
                while True:
                    header = bytearray(await reader.readexactly(_HEADER_BYTES))
                    body = bytearray(await reader.readexactly(int.from_bytes(header[:_TYPE_AT], "big")))
                    if header[_TYPE_AT] in (_DATA, _HEADERS):
                        if (direction, self.passed[direction]) == (self.direction, self.number):
                            if self.damage is Damage.LOSES:
                                header[_TYPE_AT] |= _UNKNOWN
                            elif header[_TYPE_AT] == _DATA and body:
                                body[_LENGTH_AT] ^= _MORE_64_KIB
                        self.passed[direction] += 1
                    writer.write(header + body)
                    await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def flipping(address: str, flip: Flip) -> AsyncIterator[str]:
    """The address of a network in front of a server, which flips this bit; for one connection."""
    host, _, port = address.rpartition(":")

    async def accept(near: StreamReader, near_writer: StreamWriter) -> None:
        with closing(near_writer):
            far, far_writer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(flip.carry("up", near, far_writer), flip.carry("down", far, near_writer))

    network = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{network.sockets[0].getsockname()[1]}"
    finally:
        network.close()
