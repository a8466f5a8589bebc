"""A call of a method whose name is no text is refused, and the exchange goes on taking streams.

Some releases of grpcio (1.84.2 to 1.85.1) end the loop that accepts calls; the range in pyproject.toml leaves them out.
"""

import socket
import struct

from tests.support.served_exchange import numbers, read_all, send_all, served_exchange

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, SETTINGS = 1, 4
END_HEADERS = 4
SECONDS = 5.0


def test_a_method_whose_name_is_no_text_does_not_end_the_exchange() -> None:
    with served_exchange() as exchange, dialled(exchange.address) as stranger:
        stranger.sendall(PREFACE + frame(SETTINGS, b"") + frame(HEADERS, call_of(b"/Ge\xf4Stream"), END_HEADERS, 1))
        answered = stranger.recv(1)
        channel = exchange.channel()
        send_all(exchange, channel, [numbers(0, 64)])
        received = read_all(exchange, channel)
    assert answered
    assert received == list(range(64))


def dialled(address: str) -> socket.socket:
    """A connection that says nothing yet."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SECONDS)


def frame(kind: int, payload: bytes, flags: int = 0, stream: int = 0) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def call_of(path: bytes) -> bytes:
    """The headers of a gRPC call, none of them compressed."""
    headers = {b":method": b"POST", b":scheme": b"http", b":path": path, b":authority": b"it"}
    headers |= {b"content-type": b"application/grpc", b"te": b"trailers"}
    return b"".join(b"\x00%c%b%c%b" % (len(name), name, len(value), value) for name, value in headers.items())
