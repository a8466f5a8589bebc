"""Chains of control loops: what a stage consumes of one channel, it sends into the next one, or into a socket.

A stage consumes a message only after it has sent it on.  So a slow end of the chain holds up the stage before it, and
that one the stage before, up to the source, and no more is in the chain than its loops together admit:
spec/loop_chain/LoopChain.tla.
"""

import asyncio
import socket
import struct
from contextlib import suppress
from typing import TypeVar

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.errors import ChannelAbortedError, ChannelCancelledError, EndOfStream
from permitflow.protocol.messages import Kind

T = TypeVar("T")


async def hand_on(source: ReceiveEnd[T], target: SendEnd[T]) -> None:
    """Move messages from one channel to the next, one by one, until the source ends; then end the target.

    Neither neighbour is left waiting: if the target's consumer cancels it, the source is cancelled, and that is no
    error; if one of the ends fails, or the call is cancelled, the target is aborted and the source closed.

    Raises:
        ChannelError: the target is closed, or one of the ends failed.
    """
    try:
        while True:
            message = await source.take()
            if message.kind is Kind.CHUNK:
                await target.send(message.payload, message.rows)
            elif message.kind is Kind.BARRIER:
                await target.send_barrier(message.payload)
            else:
                target.send_watermark(message.payload)
            source.consume()
    except EndOfStream:
        await target.end()
    except ChannelCancelledError as error:
        await source.cancel(error.reason)
    except BaseException as error:
        target.abort(error.reason if isinstance(error, ChannelAbortedError) else f"{type(error).__name__}: {error}")
        source.close()
        raise


async def write_out(source: ReceiveEnd[bytes], writer: asyncio.StreamWriter) -> None:
    """Write chunks of bytes into a socket, one by one, until the source ends; then end the socket's stream.

    A chunk is consumed once the kernel has taken all of it, so that one chunk at most waits in this process.  Barriers
    and watermarks are consumed and not written.

    If the source or the connection fails, or the call is cancelled, the source is closed and the connection reset: the
    peer does not take what it has got for all of it.

    Raises:
        ChannelError: the source failed.
        OSError: the peer is gone.
    """
    writer.transport.set_write_buffer_limits(high=0)  # drain waits until nothing is left
    try:
        while True:
            message = await source.take()
            if message.kind is Kind.CHUNK:
                writer.write(message.payload)
                await writer.drain()
            source.consume()
    except EndOfStream:
        writer.write_eof()
    except BaseException:
        source.close()
        _reset(writer)
        raise


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # it is gone already
            # Without this, the peer would see an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
