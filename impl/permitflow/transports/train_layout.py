"""Where the parts of a message lie: frames, padding, body.

The message is plain protobuf, of which protobuf's own library encodes and decodes only the frames: it would copy the
body twice.  So the body stands last, where it is found without looking into anything, and begins at a multiple of
64 bytes, as Arrow wants it.
"""

from collections.abc import Sequence

from permitflow.transports.carrier import Buffer
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["ALIGNMENT_BYTES", "MOST_FRAMES", "body_place", "front_of", "has_few_fields", "laid_out", "taken_apart"]

ALIGNMENT_BYTES = 64
"""Of the body, from the beginning of the message."""
MOST_FRAMES = 8_192
"""Of a message.  A frame takes two bytes of it and some microseconds here, during which nobody else is served."""

# Of a number that does not end: behind the end of any message.
_BEYOND = 1 << 62
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
    return [front_of(frames, size), *body] if size else [frames]


def front_of(frames: bytes, size_bytes: int) -> bytes:
    """What stands before a body of so many bytes."""
    body_field = bytes((_BODY,)) + _varint(size_bytes)
    padding = -(len(frames) + 2 + len(body_field)) % ALIGNMENT_BYTES
    return frames + bytes((_PADDING, padding)) + bytes(padding) + body_field


def taken_apart(message: Buffer) -> tuple[memoryview, memoryview]:
    """What protobuf has to decode of a message, and its body if that is where this module puts it."""
    view = memoryview(message)
    places = body_place(view, len(view))
    if places is None:
        return view, view[:0]
    end, start = places
    return view[:end], view[start:]


def body_place(front: Buffer, size: int) -> tuple[int, int] | None:
    """Where protobuf's part of a message ends and where its body begins; None if that does not show.

    Args:
        front: how the message begins, or all of it.
        size: of the message, in bytes.
    """
    position, here = 0, len(front)
    for _ in range(MOST_FRAMES + 2):  # with padding and body
        if position >= here:
            break
        key = front[position]
        if key not in (_FRAMES, _PADDING, _BODY):
            break
        length, start = _read_varint(front, position + 1)
        if key == _BODY and start + length == size:
            return position, start
        position = start + length
    return None


def has_few_fields(message: memoryview) -> bool:
    """Does a message have at most ``MOST_FRAMES`` fields and no groups?  Nothing is decoded to see that."""
    if len(message) <= 2 * MOST_FRAMES:
        return True
    position = 0
    for _ in range(MOST_FRAMES):
        key, position = _read_varint(message, position)
        match key & 7:
            case 0:
                _, position = _read_varint(message, position)
            case 1:
                position += 8
            case 2:
                length, position = _read_varint(message, position)
                position += length
            case 5:
                position += 4
            case _:
                return False
        if position >= len(message):
            return True
    return False


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(view: Buffer, position: int) -> tuple[int, int]:
    """A number, and where it ends; damaged ones lead beyond the end."""
    value = 0
    for count, byte in enumerate(view[position : position + 10]):
        value |= (byte & 0x7F) << 7 * count
        if byte <= 0x7F:
            return value, position + count + 1
    return _BEYOND, _BEYOND
