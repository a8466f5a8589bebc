"""A connection that ends before TLS begins."""

import os
import socket
import struct

import pytest

from permitflow.carriers.tls import begun
from tests.support.certificates import Certificates

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
