"""Messages between a client and the master: JSON, one a line, over TCP, framed by the library's stage.

A client says who it is, then sends jobs, and confirms results; the master sends results.

    {"client": "c1"}    {"job": 7, "work": 41}    {"confirm": 7}    {"bye": true}
                        {"finished": 7, "result": 82}               {"error": "..."}
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import TypeAlias

from permitflow.errors import FrameTooLongError, PermitflowError, TruncatedFrameError, printable
from permitflow.stages import Elements, Source

MOST_LINE_BYTES = 1_024
_READ_BYTES = 65_536
_SHOWN_BYTES = 80

Line: TypeAlias = Mapping[str, object]


class NoMessageError(PermitflowError):
    """A line that is no message; its sender is told so."""

    line: str
    reason: str
    text = "{line!r} is no message: {reason}"


async def _pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while piece := await reader.read(_READ_BYTES):
        yield piece


def received(reader: asyncio.StreamReader) -> Elements[bytes]:
    """The lines that come, however TCP has cut them, to be decoded by ``message_of``.

    Iterating raises ``NoMessageError`` for a line that is too long, or is cut off by the end of the stream.
    """
    return Source.from_iterator(lambda: _pieces(reader)).frames(b"\n", MOST_LINE_BYTES).open()


async def messages(reader: asyncio.StreamReader) -> AsyncGenerator[Line]:
    """The messages that come, until the peer ends its stream or is gone.

    Raises:
        NoMessageError: a line is none.
    """
    async with received(reader) as lines:
        try:
            async for line in lines:
                yield message_of(line)
        except FrameTooLongError as error:
            raise NoMessageError(line="a line", reason=f"it has more than {MOST_LINE_BYTES:,} bytes") from error
        except (TruncatedFrameError, ConnectionError):
            return  # the peer was killed


def message_of(line: bytes) -> Line:
    """Decode a line.

    Raises:
        NoMessageError: it is no object of JSON.
    """
    shown = printable(line[:_SHOWN_BYTES].decode(errors="replace"))
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NoMessageError(line=shown, reason=f"it is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise NoMessageError(line=shown, reason="it is no object")
    return found


def whole_number(message: Line, name: str) -> int:
    """A whole number of a message, at least 0.

    Raises:
        NoMessageError: it has none of this name.
    """
    value = message.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        line = printable(json.dumps(message)[:_SHOWN_BYTES])
        raise NoMessageError(line=line, reason=f"{name!r} must be a whole number from 0 to 2^62 - 1")
    return value


def line_of(**message: object) -> bytes:
    """Encode a message."""
    return json.dumps(message).encode() + b"\n"
