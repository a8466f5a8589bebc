"""Questions and orders of the Control method: encoding, decoding, and the reading of replies.

Each request and each reply is one message of the carrier.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.stream.control import (
    Acknowledge,
    AskPositions,
    AskStatistics,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    Positions,
    Publish,
    Published,
)
from permitflow.stream.traffic import Statistics
from permitflow.wire.buffers import Received
from permitflow.wire.checksum import CHECKSUM_BYTES, checked, with_checksum
from permitflow.wire.protobuf_fields import LENGTH_DELIMITED, fields, varint
from permitflow.wire.protobuf_values import read_many, read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

R = TypeVar("R", bound=ControlReply[pa.Schema])

# Decoded, a message takes many times its size.  An acknowledgement of 10,000 channels takes 0.8 MiB.
MOST_REQUEST_BYTES = 4 << 20
MOST_ITEMS = 65_536
"""Channels, rows or parts in a request."""
MOST_REPLY_BYTES = 32 << 20
# A larger request is decoded in steps of this many fields or items each.
_BYTES_AT_ONCE = 16 << 10
_FIELDS_AT_ONCE = 512
_REQUEST_KEYS = frozenset(field.number << 3 | LENGTH_DELIMITED for field in pb.ControlRequest.DESCRIPTOR.fields)

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
    for start, content, stop in fields(data, 0, len(data)):
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
    for _, _, end in fields(data, start, stop):
        count += 1
        if count == _FIELDS_AT_ONCE or end == stop:
            yield data[key : key + 1] + varint(end - start) + data[start:end]
            start, count = end, 0


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
        if size > MOST_REPLY_BYTES:
            rule = f"must be fewer at a time: the reply takes more than {MOST_REPLY_BYTES >> 20} MiB"
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
    content = _content(data, MOST_REPLY_BYTES)
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


def read_answer(data: Received, kind: type[R], channels: Sequence[str] | None) -> R:
    """Decode the exchange's reply to a request for a reply of this kind, about these channels if it is ``Positions``.

    Raises:
        UndecodableDataError: the reply is none, or to another request.
        AlteredMessageError: the bytes were altered on their path.
    """
    reply = decode_reply(data)
    is_about_others = isinstance(reply, Positions) and [stands.channel for stands in reply.channels] != channels
    if not isinstance(reply, kind) or is_about_others:
        raise UndecodableDataError(what="a reply", reason=f"{type(reply).__name__} is no answer to this question")
    return reply
