"""Protobuf's fields as they lie in a message: found without decoding what they hold."""

from collections.abc import Iterator

from permitflow.errors import UndecodableDataError
from permitflow.wire.buffers import Buffer

# A field begins with its number and its type, together one byte for the first fifteen numbers.
LENGTH_DELIMITED = 2
_NUMBER, _EIGHT_BYTES, _FOUR_BYTES = 0, 1, 5


def fields(data: Buffer, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Where each field of a message begins, where its content begins, and where it ends.

    Raises:
        UndecodableDataError: a field is cut off, or has a type that no message of permitflow has.
    """
    while start < stop:
        _, content = read_varint(data, start)
        kind = data[start] & 7
        if kind == LENGTH_DELIMITED:
            length, content = read_varint(data, content)
            end = content + length
        elif kind == _NUMBER:
            _, end = read_varint(data, content)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            end = content + (8 if kind == _EIGHT_BYTES else 4)
        else:
            raise _undecodable(data, "it has a field of no known kind")
        if end > stop:
            raise _undecodable(data, "it is cut off")
        yield start, content, end
        start = end


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def read_varint(data: Buffer, start: int) -> tuple[int, int]:
    """The number that begins at ``start``, and where it ends.

    Raises:
        UndecodableDataError: it does not end.
    """
    number = 0
    for count, byte in enumerate(data[start : start + 10]):
        number |= (byte & 0x7F) << 7 * count
        if byte <= 0x7F:
            return number, start + count + 1
    raise _undecodable(data, "a number in it does not end")


def _undecodable(data: Buffer, reason: str) -> UndecodableDataError:
    return UndecodableDataError(what=f"a message of {len(data)} bytes", reason=reason)
