"""A network that is far away: passes the bytes of TCP connections on after a while, in both directions."""

import asyncio
import socket
from contextlib import suppress
from multiprocessing.connection import Connection

READ_BYTES = 256 << 10


async def serve(pipe: Connection, target: str, delay_seconds: float) -> None:
    """Until the pipe ends; the message is the address at which it listens."""
    host, _, port = target.rpartition(":")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        # A connection cut off at the end is over; asyncio's streams would print a stack for it.
        with suppress(asyncio.CancelledError):
            await asyncio.gather(
                _pass_on(reader, far_writer, delay_seconds),
                _pass_on(far_reader, writer, delay_seconds),
            )
        far_writer.close()
        writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0, limit=READ_BYTES) as server:
        address, listened_port, *_ = server.sockets[0].getsockname()
        pipe.send(f"{address}:{listened_port}")
        await asyncio.to_thread(pipe.recv)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_seconds: float) -> None:
    """One direction.  Reading goes on while bytes are under way: a long way holds many of them."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    loop = asyncio.get_running_loop()
    while content := await _read(reader):
        loop.call_later(delay_seconds, writer.write, content)
    await asyncio.sleep(delay_seconds)
    # The other direction may still be open, unless the peer has gone.
    with suppress(OSError, RuntimeError):
        writer.write_eof()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(READ_BYTES)
    except ConnectionError:
        return b""
