"""Messages on a TCP connection between processes of a pipeline, or to a log that acknowledges in batches.

They are framed as those of an exchange over TCP, and their kinds are others.  Each ends with a checksum, whose seed is
the message's number in its direction, from 0: an altered, lost or repeated one is found.  Numbers are big-endian.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from enum import IntEnum
from functools import partial
from itertools import count
from struct import Struct
from struct import error as struct_error
from zlib import crc32

from permitflow.carriers.framing import HEADER_BYTES, MessageReader, header, parse_header
from permitflow.errors import InvalidParametersError, UndecodableDataError, printable
from permitflow.mute.graph import Signal
from permitflow.mute.pipeline import Lines
from permitflow.mute.sockets import BufferedConnection
from permitflow.patience import Countdown

_DATA = Struct(">QQH")
_SIGNAL = Struct(">q")
_NUMBER = Struct(">Q")
_CHECKSUM = Struct(">I")
MOST_DATA_BYTES = 256 << 10
"""The most bytes of lines in one message."""
_MOST_SHORT_BYTES = 1_024
"""The most bytes of every other message."""


class LinkMessageKind(IntEnum):
    """What a message says."""

    HELLO = 16
    """The dialler's first message: its name."""
    WELCOME = 17
    """The answer, behind the signals that hold now."""
    DATA = 18
    """Lines, with a number that is one more than that of the message before."""
    ACKNOWLEDGE = 19
    """All messages up to this number are safe: they may be forgotten."""
    SIGNAL = 20
    """Somebody has muted or unmuted."""
    FETCH = 21
    """A reader of a log wants lines from this number on."""
    COMMIT = 22
    """A reader of a log does not want the lines before this number again."""
    REFUSED = 23
    """The last message: why the connection ends."""


_KINDS = {int(kind): kind for kind in LinkMessageKind}


def message(kind: LinkMessageKind, body: bytes = b"", number: int = 0) -> bytes:
    """A message as it is sent: the ``number``-th of its direction."""
    head = header(kind, len(body) + _CHECKSUM.size)
    return head + body + _CHECKSUM.pack(_checksum(body, number))


def _checksum(body: bytes, number: int) -> int:
    return crc32(body, number & 0xFFFF_FFFF)


def number_body(number: int) -> bytes:
    """The body of ``ACKNOWLEDGE``, ``FETCH`` or ``COMMIT``."""
    return _NUMBER.pack(number)


def read_number(body: bytes) -> int:
    """The number in such a body."""
    number: int = _NUMBER.unpack(body)[0]
    return number


def signal_body(signal: Signal) -> bytes:
    """The body of ``SIGNAL``."""
    return _SIGNAL.pack(signal.epoch) + signal.muter.encode()


def read_signal(body: bytes) -> Signal:
    """The signal in such a body."""
    return Signal(body[_SIGNAL.size :].decode(), *_SIGNAL.unpack_from(body))


def data_body(number: int, lines: Lines) -> bytes:
    """The body of ``DATA``."""
    origin = lines.origin.encode()
    return _DATA.pack(number, lines.first, len(origin)) + origin + b"\n".join(lines.lines)


def in_messages(lines: Lines) -> Iterator[Lines]:
    """Lines in portions that fit into a message each.

    Raises:
        InvalidParametersError: a line is too long for any.
    """
    if sum(map(len, lines.lines)) + len(lines.lines) <= MOST_DATA_BYTES:
        yield lines
        return
    begin = size = 0
    for place, line in enumerate(lines.lines):
        if (added := len(line) + 1) > MOST_DATA_BYTES:
            raise InvalidParametersError(name="a line", value=added, rule=f"must be below {MOST_DATA_BYTES:,} bytes")
        if size + added > MOST_DATA_BYTES:
            yield Lines(lines.origin, lines.first + begin, lines.lines[begin:place])
            begin, size = place, 0
        size += added
    yield Lines(lines.origin, lines.first + begin, lines.lines[begin:])


def read_data(body: bytes) -> tuple[int, Lines]:
    """The number and the lines in such a body; there is at least one line."""
    number, first, size = _DATA.unpack_from(body)
    end = _DATA.size + size
    return number, Lines(body[_DATA.size : end].decode(), first, body[end:].split(b"\n"))


class Peer(BufferedConnection):
    """The protocol of a connection that carries messages both ways; what cannot be written at once waits in it.

    A message that is not expected, or is too long, is refused by its header: no stranger fills memory.  Nothing is
    called back within ``send``, whatever has become of the peer.
    """

    def __init__(
        self,
        *,
        expects: Collection[LinkMessageKind],
        on_message: Callable[[LinkMessageKind, bytes], None],
        on_lost: Callable[[str], None],
        on_open: Callable[["Peer"], None] = lambda peer: None,
        handshake_seconds: float | None = None,
    ) -> None:
        """Nothing happens before there is a connection.

        Args:
            expects: kinds of messages that may come.
            on_message: is called with each message.
            on_lost: is called once when the connection has ended, unless it was closed here, with the reason.
            on_open: is called with this when there is a connection.
            handshake_seconds: the deadline for a message after which other kinds are expected.
        """
        self._expects = expects
        self._on_message, self._on_lost, self._on_open = on_message, on_lost, on_open
        self._handshake_seconds = handshake_seconds
        self._late: Countdown | None = None
        self._messages = MessageReader(self._read_header)
        self._reason = ""
        self._sent, self._received = count(), count()
        self.lost = asyncio.Event()
        """Has the connection ended?"""

    def expect(self, *kinds: LinkMessageKind) -> None:
        """Other kinds of messages may come from now on."""
        self._expects = kinds
        if self._late is not None:
            self._late.cancel()

    def send(self, kind: LinkMessageKind, body: bytes = b"") -> None:
        """Write a message; after the end of the connection it is dropped."""
        if (transport := self.open_transport) is not None:
            transport.write(message(kind, body, next(self._sent)))

    def refuse(self, reason: str) -> None:
        """End the connection, and tell the peer why if it takes that at once."""
        if (transport := self.open_transport) is not None:
            self._reason = reason
            self.send(LinkMessageKind.REFUSED, reason.encode(errors="replace")[:_MOST_SHORT_BYTES])
            (transport.abort if transport.get_write_buffer_size() else transport.close)()

    def close(self) -> None:
        """End the connection now; ``on_lost`` is not called any more."""
        self._on_lost = lambda reason: None
        self.break_off()

    def on_made(self, transport: asyncio.Transport) -> None:
        """See ``BufferedConnection``."""
        if self._handshake_seconds is not None:
            reason = f"it has not said within {self._handshake_seconds:g} s who it is"
            self._late = Countdown(self._handshake_seconds, partial(self.refuse, reason))
        self._on_open(self)

    def connection_lost(self, error: Exception | None) -> None:
        """See ``asyncio``."""
        if self._late is not None:
            self._late.cancel()
        self.lost.set()
        self._on_lost(self._reason or str(error or "it has closed the connection"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """See ``asyncio``."""
        return self._messages.room()

    def buffer_updated(self, nbytes: int) -> None:
        """See ``asyncio``."""
        try:
            for kind, content in self._messages.take(nbytes):
                self._take(kind, bytes(content[: -_CHECKSUM.size]), content[-_CHECKSUM.size :])
                if self.open_transport is None:
                    return
        except (UndecodableDataError, UnicodeError, struct_error) as wrong:
            self.refuse(f"it has sent something else than messages: {wrong}")

    def _take(self, kind: LinkMessageKind, body: bytes, checksum: bytes | memoryview) -> None:
        if checksum != _CHECKSUM.pack(_checksum(body, next(self._received))):
            raise UndecodableDataError(what=kind.name, reason="it was altered on the way, or one before it is lost")
        if kind is LinkMessageKind.REFUSED:
            self._reason = f"it refuses: {printable(body.decode(errors='replace'))}"
            self.break_off()
        else:
            self._on_message(kind, body)

    def _read_header(self, data: memoryview) -> tuple[LinkMessageKind, int]:
        found = data[:HEADER_BYTES]
        parsed = parse_header(found)
        if parsed is None or (kind := _KINDS.get(parsed[0])) is None:
            raise UndecodableDataError(what=repr(bytes(found)), reason="it is not a message of a muted pipeline")
        size = parsed[1]
        if kind not in (*self._expects, LinkMessageKind.REFUSED):
            raise UndecodableDataError(what=f"{kind.name}", reason="it does not belong here")
        least, most = _CHECKSUM.size, _CHECKSUM.size + _MOST_SHORT_BYTES
        if kind is LinkMessageKind.DATA:
            most += _DATA.size + MOST_DATA_BYTES
        if not least <= size <= most:
            raise UndecodableDataError(what=f"{kind.name} of {size:,} bytes", reason=f"it has {least} to {most:,}")
        return kind, size
