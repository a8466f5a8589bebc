"""Messages on a TCP connection between processes of a pipeline, or to a log that acknowledges in batches.

Each message has a header, its length and its kind.  Numbers are big-endian.
"""

import asyncio
import socket
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from struct import error as struct_error

from permitflow.errors import UndecodableDataError
from permitflow.mute.graph import Signal
from permitflow.mute.pipeline import Lines
from permitflow.mute.sockets import Outlet

_HEADER = Struct(">IB")
_DATA = Struct(">QQH")
_SIGNAL = Struct(">q")
_NUMBER = Struct(">Q")
MOST_MESSAGE_BYTES = 16 << 20
READ_BYTES = 65_536


class Kind(IntEnum):
    """What a message says."""

    HELLO = 1
    """The dialler's first message: its name."""
    WELCOME = 2
    """The answer, behind the signals that hold now."""
    DATA = 3
    """Lines, with a number that is one more than that of the message before."""
    ACKNOWLEDGE = 4
    """All messages up to this number are safe: they may be forgotten."""
    SIGNAL = 5
    """Somebody has muted or unmuted."""
    FETCH = 6
    """A reader of a log wants lines from this number on."""
    COMMIT = 7
    """A reader of a log does not want the lines before this number again."""


def number_body(number: int) -> bytes:
    """Of ``ACKNOWLEDGE``, ``FETCH``, ``COMMIT``."""
    return _NUMBER.pack(number)


def read_number(body: bytes) -> int:
    """The number in such a body."""
    number: int = _NUMBER.unpack(body)[0]
    return number


def signal_body(signal: Signal) -> bytes:
    """Of ``SIGNAL``."""
    return _SIGNAL.pack(signal.epoch) + signal.muter.encode()


def read_signal(body: bytes) -> Signal:
    """The signal in such a body."""
    return Signal(body[_SIGNAL.size :].decode(), *_SIGNAL.unpack_from(body))


def data_body(number: int, lines: Lines) -> bytes:
    """Of ``DATA``."""
    origin = lines.origin.encode()
    return _DATA.pack(number, lines.first, len(origin)) + origin + b"\n".join(lines.lines)


def read_data(body: bytes) -> tuple[int, Lines]:
    """The number and the lines in such a body; there is at least one line."""
    number, first, size = _DATA.unpack_from(body)
    end = _DATA.size + size
    return number, Lines(body[_DATA.size : end].decode(), first, body[end:].split(b"\n"))


class Peer:
    """A connected socket that carries messages both ways; what it cannot write at once waits in it."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        on_message: Callable[[Kind, bytes], None],
        on_lost: Callable[[str], None],
    ) -> None:
        """Take a connected socket over.

        Args:
            connection: belongs to this object.
            on_message: is called with each message.
            on_lost: is called once when the connection has ended, unless it was closed here, with the reason.
        """
        self._socket, self._on_message, self._on_lost = connection, on_message, on_lost
        self._outlet = Outlet(connection, on_rest=lambda rest_bytes: None, on_lost=lambda error: self._lose(str(error)))
        self._received = bytearray()
        self._is_closed = False
        asyncio.get_running_loop().add_reader(connection.fileno(), self._on_readable)

    def send(self, kind: Kind, body: bytes = b"") -> None:
        """Write a message; after the end of the connection it is dropped."""
        if not self._is_closed:
            self._outlet.write(_HEADER.pack(len(body), kind) + body)

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(str(error))
            return
        if not data:
            self._lose("it has closed the connection")
            return
        self._received += data
        try:
            for kind, body in self._messages():
                self._on_message(kind, body)
                if self._is_closed:
                    return
        except (UndecodableDataError, UnicodeError, struct_error) as wrong:
            self._lose(f"it has sent something else than messages: {wrong}")

    def _messages(self) -> Iterator[tuple[Kind, bytes]]:
        start = 0
        try:
            while len(self._received) - start >= _HEADER.size:
                size, kind = _HEADER.unpack_from(self._received, start)
                if size > MOST_MESSAGE_BYTES or kind not in Kind._value2member_map_:
                    raise UndecodableDataError(
                        what=f"a message of kind {kind} and {size} bytes", reason="it is not ours"
                    )
                end = start + _HEADER.size + size
                if end > len(self._received):
                    break
                body = bytes(self._received[start + _HEADER.size : end])
                start = end
                yield Kind(kind), body
        finally:
            del self._received[:start]

    def _lose(self, reason: str) -> None:
        if not self._is_closed:
            self.close()
            self._on_lost(reason)

    def close(self) -> None:
        """End the connection now."""
        self._is_closed = True
        self._outlet.close()
