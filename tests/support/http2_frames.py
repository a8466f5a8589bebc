"""A network that loses one frame of HTTP/2: a flipped bit gives it a kind that its receiver must ignore."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

__all__ = ["Loss", "losing"]

_PREFACE_BYTES = 24
"""What a client writes before its first frame (RFC 9113, 3.4)."""
_HEADER_BYTES = 9
_TYPE_AT = 3
_DATA, _HEADERS = 0, 1
_UNKNOWN = 0x40


class Loss:
    """Which frame of a stream is to be lost, counted among the frames that carry messages or headers."""

    def __init__(self, direction: str, number: int) -> None:
        """``direction``: ``up``, from the client to the server, or ``down``."""
        self.direction, self.number = direction, number
        self.passed = {"up": 0, "down": 0}
        """Frames that have come, by direction."""

    @property
    def is_of_a_request(self) -> bool:
        """Does the server hear nothing of the client's request, or not what it wants?"""
        return self.direction == "up" and self.number in (0, 1)

    async def carry(self, direction: str, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass everything on in one direction, until its end."""
        with suppress(ConnectionError):
            with suppress(asyncio.IncompleteReadError):
                if direction == "up":
                    writer.write(await reader.readexactly(_PREFACE_BYTES))
                while True:
                    header = bytearray(await reader.readexactly(_HEADER_BYTES))
                    body = await reader.readexactly(int.from_bytes(header[:_TYPE_AT], "big"))
                    if header[_TYPE_AT] in (_DATA, _HEADERS):
                        if (direction, self.passed[direction]) == (self.direction, self.number):
                            header[_TYPE_AT] |= _UNKNOWN
                        self.passed[direction] += 1
                    writer.write(header + body)
                    await writer.drain()
            writer.close()


@asynccontextmanager
async def losing(address: str, loss: Loss) -> AsyncIterator[str]:
    """The address of a network in front of a server, which loses this frame; for one connection."""
    host, _, port = address.rpartition(":")

    async def accept(near: StreamReader, near_writer: StreamWriter) -> None:
        far, far_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(loss.carry("up", near, far_writer), loss.carry("down", far, near_writer))

    network = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{network.sockets[0].getsockname()[1]}"
    finally:
        network.close()
