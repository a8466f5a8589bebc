"""A call of a method whose name is no text is refused, and the exchange goes on taking streams.

Some releases of grpcio (1.84.2 to 1.85.1) end the loop that accepts calls; the range in pyproject.toml leaves them out.
"""

import socket

from tests.hostile.byte_grammar import HEADERS, PREFACE, SETTINGS, call_of, frame
from tests.support.served_exchange import numbers, read_all, send_all, served_exchange

END_HEADERS = 4
SECONDS = 5.0


def test_a_method_whose_name_is_no_text_does_not_end_the_exchange() -> None:
    with served_exchange() as exchange, dialled(exchange.address) as stranger:
        stranger.sendall(PREFACE + frame(SETTINGS, b"") + frame(HEADERS, call_of("/Ge\xf4Stream"), END_HEADERS, 1))
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
