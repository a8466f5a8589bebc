"""Questions and orders of the Control method: encoding, decoding, and the reading of replies.

Each request and each reply is one message of the carrier.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import Generic, TypeAlias, TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.protocol.control import (
    Acknowledge,
    AskPositions,
    AskStatistics,
    ChannelPosition,
    ChannelRow,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    Positions,
    Publish,
    Published,
    StagedPart,
)
from permitflow.protocol.traffic import Statistics
from permitflow.transports.carrier import Received
from permitflow.transports.checksum import CHECKSUM_BYTES, checked, with_checksum
from permitflow.transports.protobuf_values import read_many, read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

T = TypeVar("T")

Where: TypeAlias = tuple[ChannelPosition[pa.Schema], ...]
"""The channels' positions, in the order of the request."""

# Decoded, a message takes many times its size.  An acknowledgement of 10,000 channels takes 0.8 MiB.
MOST_REQUEST_BYTES = 4 << 20
MOST_ITEMS = 65_536
"""Channels, rows or parts in a request."""
_MOST_REPLY_BYTES = 32 << 20
# A larger request is decoded in steps of this many fields or items each.
_BYTES_AT_ONCE = 16 << 10
_FIELDS_AT_ONCE = 512
_REQUEST_KEYS = frozenset(field.number << 3 | 2 for field in pb.ControlRequest.DESCRIPTOR.fields)

_REQUESTS: dict[type, str] = {
    AskPositions: "positions",
    Acknowledge: "acknowledge",
    Publish: "publish",
    Discard: "discard",
    Close: "close",
    AskStatistics: "statistics",
}
# A request's repeated fields, each with a noun for its items.
_ITEMS = {"acknowledge": ("rows", "channels"), "publish": ("parts", "attempts"), "discard": ("parts", "attempts")}
_CHANNELS = ("channels", "channels")
_REPLIES: dict[type, str] = {
    Positions: "positions",
    Published: "published",
    Discarded: "discarded",
    Statistics: "statistics",
}


def encode_request(request: ControlRequest) -> bytes:
    """Encode a client's request.

    Raises:
        InvalidParametersError: a number or a name does not fit the wire.
    """
    message = pb.ControlRequest()
    write_value(getattr(message, _REQUESTS[type(request)]), request)
    return b"".join(with_checksum([message.SerializeToString()]))


def decode_request(data: Received) -> ControlRequest:
    """Decode a client's request at once; see ``decoding``."""
    steps = decoding(data)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            request: ControlRequest = end.value
            return request


def decoding(data: Received) -> Generator[None, None, ControlRequest]:
    """Decode a client's request in short steps; one that asks too much is refused before most is decoded.

    Raises:
        UndecodableDataError: ``data`` is no request of this version of the protocol, or too long.
        AlteredMessageError: the bytes were altered on their path.
        InvalidParametersError: it names too many items.
    """
    content = _content(data, MOST_REQUEST_BYTES)
    message, items = pb.ControlRequest(), None
    for piece in _pieces(content):
        try:
            message.MergeFromString(piece)
        except DecodeError as error:
            raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=str(error)) from error
        if (name := message.WhichOneof("request")) is not None:
            field, what = _ITEMS.get(name, _CHANNELS)
            items = getattr(getattr(message, name), field)
            if len(items) > MOST_ITEMS:
                rule = f"must be at most {MOST_ITEMS:,} in a request"
                raise InvalidParametersError(name=what, value=len(items), rule=rule)
        yield
    if name is None or items is None:
        raise UndecodableDataError(what="a request", reason=f"it is none of {', '.join(_REQUESTS.values())}")
    read = []
    for start in range(0, len(items), _FIELDS_AT_ONCE):
        read += read_many(items[start : start + _FIELDS_AT_ONCE])
        yield
    request = getattr(message, name)
    request.ClearField(field)
    whole: ControlRequest = replace(read_value(request), **{field: tuple(read)})
    return whole


def _pieces(data: bytes) -> Iterator[bytes]:
    """Split a message into messages of one decoding step each; merged in order, they equal it."""
    if len(data) <= _BYTES_AT_ONCE:
        yield data
        return
    begin = count = 0
    for start, content, stop in _fields(data, 0, len(data)):
        count += 1
        is_cut = stop - start > _BYTES_AT_ONCE and data[start] in _REQUEST_KEYS
        if is_cut or count == _FIELDS_AT_ONCE or stop - begin > _BYTES_AT_ONCE:
            yield data[begin : start if is_cut else stop]
            begin, count = stop, 0
        if is_cut:
            yield from _pieces_of_field(data, start, content, stop)
    yield data[begin:]


def _pieces_of_field(data: bytes, key: int, start: int, stop: int) -> Iterator[bytes]:
    """Split the message at this place, whose key takes one byte, into messages with some of its fields."""
    count = 0
    for _, _, end in _fields(data, start, stop):
        count += 1
        if count == _FIELDS_AT_ONCE or end == stop:
            yield data[key : key + 1] + _varint(end - start) + data[start:end]
            start, count = end, 0


# Protobuf's wire type for fields with a length.
_NUMBER, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5


def _fields(data: bytes, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """For each field of a message: where the field begins, where its content begins, and where it ends."""
    while start < stop:
        content = _after_varint(data, start)
        kind = data[start] & 7
        if kind == _MESSAGE:
            length, content = _read_varint(data, content)
            end = content + length
        elif kind == _NUMBER:
            end = _after_varint(data, content)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            end = content + (8 if kind == _EIGHT_BYTES else 4)
        else:
            raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason="it has a field of no known kind")
        if end > stop:
            raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason="it is cut off")
        yield start, content, end
        start = end


def _after_varint(data: bytes, start: int) -> int:
    """The position behind the number that begins at ``start``."""
    return start + 1 if start < len(data) and data[start] < 0x80 else _read_varint(data, start)[1]


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    number = shift = 0
    for at in range(start, min(start + 10, len(data))):
        number |= (data[at] & 0x7F) << shift
        if data[at] < 0x80:
            return number, at + 1
        shift += 7
    raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason="it has a number that does not end")


def _varint(number: int) -> bytes:
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    content.append(number)
    return bytes(content)


def encode_reply(reply: ControlReply[pa.Schema]) -> bytes:
    """Encode the exchange's reply.

    Raises:
        InvalidParametersError: the reply takes more than 32 MiB.
    """
    return b"".join(with_checksum([*reply_pieces(reply)]))


def reply_pieces(reply: ControlReply[pa.Schema]) -> Iterator[bytes]:
    """Encode the exchange's reply channel by channel: joined, the pieces are one message with its checksum.

    Protobuf reads concatenated messages as one, with the channels of all.

    Raises:
        InvalidParametersError: the reply takes more than 32 MiB.
    """
    size = 0
    for part in _parts_of(reply):
        piece = _encode_part(part)
        size += len(piece)
        if size > _MOST_REPLY_BYTES:
            rule = f"must be fewer at a time: the reply takes more than {_MOST_REPLY_BYTES >> 20} MiB"
            raise InvalidParametersError(name="channels", value=_channels_in(reply), rule=rule)
        yield piece


def _parts_of(reply: ControlReply[pa.Schema]) -> Iterable[ControlReply[pa.Schema]]:
    match reply:
        case Positions() if reply.channels:
            return (Positions((position,)) for position in reply.channels)
        case Statistics() if reply.channels:
            return (Statistics(reply.at_seconds, (traffic,)) for traffic in reply.channels)
    return (reply,)


def _channels_in(reply: ControlReply[pa.Schema]) -> int:
    return len(reply.channels) if isinstance(reply, Positions | Statistics) else 0


def _encode_part(reply: ControlReply[pa.Schema]) -> bytes:
    message = pb.ControlReply()
    write_value(getattr(message, _REPLIES[type(reply)]), reply)
    return message.SerializeToString()


def decode_reply(data: Received) -> ControlReply[pa.Schema]:
    """Decode the exchange's reply.

    Raises:
        UndecodableDataError: ``data`` is no reply of this version of the protocol.
        AlteredMessageError: the bytes were altered on their path.
    """
    content = _content(data, _MOST_REPLY_BYTES)
    message = pb.ControlReply()
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=str(error)) from error
    name = message.WhichOneof("reply")
    if name is None:
        raise UndecodableDataError(what="a reply", reason="it is none that this version knows")
    read: ControlReply[pa.Schema] = read_value(getattr(message, name))
    return read


def _content(data: Received, most_bytes: int) -> bytes:
    """Check a message; return its content without the checksum."""
    if len(data) > most_bytes + CHECKSUM_BYTES:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=f"{most_bytes} bytes are the most")
    return bytes(checked(data))


class Order(Generic[T]):
    """A question or an order: its message, and the reading of its reply."""

    def __init__(self, request: ControlRequest, answer: Callable[[ControlReply[pa.Schema]], T | None]) -> None:
        """``answer`` extracts the answer from a reply; None: the reply is to another request.

        Raises:
            InvalidParametersError: a number or a name does not fit the wire.
        """
        self.message = encode_request(request)
        self._answer = answer

    def read(self, message: Received) -> T:
        """Decode the exchange's answer.

        Raises:
            UndecodableDataError: the reply is to another request.
        """
        reply = decode_reply(message)
        answer = self._answer(reply)
        if answer is None:
            raise UndecodableDataError(what="a reply", reason=f"{type(reply).__name__} is no answer to this question")
        return answer


def positions(channels: Sequence[str], consumer: str) -> Order[Where]:
    """Ask for the positions of these channels."""
    names = _names(channels)
    return Order(AskPositions(names, consumer), partial(_where, names))


def acknowledge(rows: Mapping[str, int] | Sequence[ChannelRow], consumer: str) -> Order[Where]:
    """Acknowledge all rows before these for a consumer."""
    named = tuple(starmap(ChannelRow, rows.items()) if isinstance(rows, Mapping) else rows)
    return Order(Acknowledge(named, consumer), partial(_where, [asked.channel for asked in named]))


def close(channels: Sequence[str], consumer: str) -> Order[Where]:
    """Close these channels: no producer will put into them any more."""
    names = _names(channels)
    return Order(Close(names, consumer), partial(_where, names))


def publish(query: str, batch: int, parts: Sequence[StagedPart]) -> Order[Published]:
    """Make these attempts part of their channels, all or none."""
    return Order(Publish(query, batch, tuple(parts)), lambda reply: reply if isinstance(reply, Published) else None)


def discard(query: str, batch: int, parts: Sequence[StagedPart]) -> Order[Discarded]:
    """Forget these attempts, unless they are published."""
    return Order(Discard(query, batch, tuple(parts)), lambda reply: reply if isinstance(reply, Discarded) else None)


def statistics(channels: Sequence[str]) -> Order[Statistics]:
    """Ask for the traffic counts of these channels, or of all."""
    return Order(AskStatistics(_names(channels)), lambda reply: reply if isinstance(reply, Statistics) else None)


def _where(names: Sequence[str], reply: ControlReply[pa.Schema]) -> Where | None:
    """The positions of these channels; None if the reply is to another request."""
    if not isinstance(reply, Positions) or [stands.channel for stands in reply.channels] != [*names]:
        return None
    return reply.channels


def _names(channels: Sequence[str]) -> tuple[str, ...]:
    if isinstance(channels, str):
        raise InvalidParametersError(name="channels", value=channels, rule="must be names, not one name")
    return tuple(channels)
