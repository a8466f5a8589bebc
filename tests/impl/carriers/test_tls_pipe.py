"""A connection with TLS: its bytes, and its end before TLS begins."""

import asyncio
import os
import random
import socket
import struct
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import pytest

from permitflow.carriers.pipe import watched
from permitflow.carriers.tls import TlsPipe, begun
from permitflow.carriers.tls_files import client_context, server_context
from tests.support.certificates import Certificates

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def test_a_peer_that_resets_at_once_leaves_no_socket_open(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connection = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    descriptor = connection.fileno()
    far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    far.close()
    with pytest.raises(ConnectionResetError):
        await begun(connection, certificates.client(), "127.0.0.1", who="the exchange", seconds=5.0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


async def test_bytes_that_found_no_room_come_again_in_order(certificates: Certificates) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near, far = socket.create_connection(listener.getsockname()), listener.accept()[0]
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    drawn = random.Random(38)
    data = drawn.randbytes(1 << 20)
    rest, came, space = memoryview(data), bytearray(), memoryview(bytearray(100_000))
    with (
        closing(TlsPipe(near, client_context(certificates.trusting).current(), server_name="127.0.0.1")) as sender,
        closing(TlsPipe(far, server_context(certificates.server).current(), server_name=None)) as receiver,
    ):
        await asyncio.gather(sender.handshake(), receiver.handshake())
        offered = refusals = 0
        while len(came) < len(data):
            offered = min(len(rest), max(offered, drawn.randrange(200_000)))  # what was refused, and perhaps more
            first, second = sorted((drawn.randrange(offered + 1), drawn.randrange(offered + 1)))
            try:
                sent = sender.send([rest[:first], rest[first:second], rest[second:offered]])
            except BlockingIOError:
                refusals += 1
            else:
                rest, offered = rest[sent:], offered - sent
            with suppress(BlockingIOError):
                count = receiver.receive_into(space[: drawn.randrange(1, 100_000)])
                came += space[:count]
        assert came == data
        assert refusals


class Asked(socket.socket):
    """Notes how much each system call was to move."""

    def recv(self, most_bytes: int, flags: int = 0) -> bytes:
        self.received = max(getattr(self, "received", 0), most_bytes)
        return super().recv(most_bytes, flags)

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        self.sent = max(getattr(self, "sent", 0), memoryview(data).nbytes)
        return super().send(data, flags)


LOOPBACK_PACKET_BYTES = 65_483


@pytest.mark.parametrize(
    ("size_bytes", "sent", "asked"), [(1 << 10, 1 << 10, (16 << 10) + 256), (1 << 20, 63 << 10, 64 << 10)]
)
async def test_a_system_call_moves_a_packet_of_large_messages_only(
    size_bytes: int, sent: int, asked: int, certificates: Certificates
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = Asked()
        near.connect(listener.getsockname())
        far = Asked(fileno=listener.accept()[0].detach())
    with (
        closing(TlsPipe(near, client_context(certificates.trusting).current(), server_name="127.0.0.1")) as sender,
        closing(TlsPipe(far, server_context(certificates.server).current(), server_name=None)) as receiver,
    ):
        await asyncio.gather(sender.handshake(), receiver.handshake())
        near.sent = far.received = 0
        sender.send([bytes(size_bytes)])
        await watched(receiver.watch_reading, receiver.unwatch_reading)
        receiver.receive_into(memoryview(bytearray(size_bytes)))
        assert sent < near.sent < min(sent + 256, LOOPBACK_PACKET_BYTES)  # it is encrypted
        assert far.received == asked
