"""Where the parts of a message lie: frames, padding, body.

The message is plain protobuf, of which protobuf's own library encodes and decodes only the frames: it would copy the
body twice.  So the body stands last, where it is found without looking into anything, and begins at a multiple of
64 bytes, as Arrow wants it.
"""

from collections.abc import Sequence

from permitflow.transports.carrier import Buffer
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["ALIGNMENT_BYTES", "laid_out", "taken_apart"]

ALIGNMENT_BYTES = 64
"""Of the body, from the beginning of the message."""

# A field begins with its number and the type "so many bytes", which together take one byte, and its length.
_LENGTH_DELIMITED = 2
_FRAMES, _PADDING, _BODY = (
    pb.FromUpstream.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED
    for name in ("frames", "padding", "body")
)


def laid_out(frames: bytes, body: Sequence[Buffer]) -> list[Buffer]:
    """A message in pieces.

    Args:
        frames: encoded by protobuf.
        body: in pieces.
    """
    size = sum(map(len, body))
    if not size:
        return [frames]
    body_field = bytes((_BODY,)) + _varint(size)
    padding = -(len(frames) + 2 + len(body_field)) % ALIGNMENT_BYTES
    return [frames + bytes((_PADDING, padding)) + bytes(padding) + body_field, *body]


def taken_apart(message: Buffer) -> tuple[memoryview, memoryview]:
    """What protobuf has to decode of a message, and its body if that is where this module puts it."""
    view = memoryview(message)
    position, size = 0, len(view)
    while position < size:
        key = view[position]
        if key not in (_FRAMES, _PADDING, _BODY):
            break
        length, start = _read_varint(view, position + 1)
        if key == _BODY and start + length == size:
            return view[:position], view[start:]
        position = start + length
    return view, view[:0]


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """A number, and where it ends; damaged ones lead beyond the end."""
    value = 0
    for count, byte in enumerate(view[position : position + 10]):
        value |= (byte & 0x7F) << 7 * count
        if byte <= 0x7F:
            return value, position + count + 1
    return len(view), len(view)
