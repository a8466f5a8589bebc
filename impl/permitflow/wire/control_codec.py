"""Questions and orders of the Control method: encoding, decoding, and the reading of replies.

Each request and each reply is one message of the carrier.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import pyarrow as pa
from google.protobuf.message import DecodeError, Message

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.stream.control import (
    MOST_CHANNELS,
    MOST_PUBLISHED,
    Acknowledge,
    AddStream,
    AskChannels,
    AskPositions,
    AskStatistics,
    Changed,
    Channels,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    Peek,
    Peeked,
    Positions,
    Prepare,
    Publish,
    Published,
    Purge,
    RemoveChannels,
    ResetChannels,
    Rollback,
)
from permitflow.stream.traffic import Statistics
from permitflow.wire.buffers import Received
from permitflow.wire.checksum import CHECKSUM_BYTES, checked, with_checksum
from permitflow.wire.protobuf_values import read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

R = TypeVar("R", bound=ControlReply[pa.Schema])

# Attempts with long names, as many as a publication may have.
MOST_REQUEST_BYTES = 4 << 20
MOST_REPLY_BYTES = 32 << 20

_REQUESTS: dict[type, str] = {
    AskPositions: "positions",
    Acknowledge: "acknowledge",
    Prepare: "prepare",
    Publish: "publish",
    Discard: "discard",
    Close: "close",
    AskStatistics: "statistics",
    AskChannels: "channels",
    AddStream: "add",
    RemoveChannels: "remove",
    ResetChannels: "reset",
    Purge: "purge",
    Rollback: "rollback",
    Peek: "peek",
}
# A request's repeated fields, each with a noun for its items, and the most of them.
_CHANNELS = ("channels", "channels", MOST_CHANNELS)
_ITEMS: Mapping[str, tuple[str, str, int] | None] = {
    "acknowledge": ("rows", "channels", MOST_CHANNELS),
    "prepare": ("parts", "attempts", MOST_PUBLISHED),
    "publish": ("parts", "attempts", MOST_PUBLISHED),
    "discard": ("parts", "attempts", MOST_CHANNELS),
    "add": ("consumers", "consumers", MOST_CHANNELS),
    "peek": None,
}
_SPLIT = dict.fromkeys(("prepare", "publish"), "write to fewer channels, or in fewer partitions")
_REPLIES: dict[type, str] = {
    Positions: "positions",
    Published: "published",
    Discarded: "discarded",
    Statistics: "statistics",
    Channels: "channels",
    Changed: "changed",
    Peeked: "peeked",
}


def encode_request(request: ControlRequest) -> bytes:
    """Encode a client's request.

    Raises:
        InvalidParametersError: a number or a name does not fit the wire.
    """
    message = pb.ControlRequest()
    write_value(getattr(message, _REQUESTS[type(request)]), request)
    return b"".join(with_checksum([message.SerializeToString()]))


def require_short(request: ControlRequest, message: bytes) -> None:
    """Refuse to send what each exchange refuses; over gRPC one hangs up before it has all of it.

    Raises:
        InvalidParametersError: the encoded request is too long.
    """
    if (size := len(message) - CHECKSUM_BYTES) > MOST_REQUEST_BYTES:
        rule = f"must be at most {MOST_REQUEST_BYTES:,}: {_SPLIT.get(_REQUESTS[type(request)], 'split it')}"
        raise InvalidParametersError(name="the bytes of a request", value=size, rule=rule)


def decode_request(data: Received) -> ControlRequest:
    """Decode a client's request; one that asks too much is refused before most is decoded.

    Raises:
        UndecodableDataError: ``data`` is not a request of this version of the protocol, or too long.
        AlteredMessageError: the bytes were altered on their path.
        InvalidParametersError: it names too many items.
    """
    message = pb.ControlRequest()
    _parse(data, message, MOST_REQUEST_BYTES)
    name = message.WhichOneof("request")
    if name is None:
        raise UndecodableDataError(what="a request", reason=f"it is none of {', '.join(_REQUESTS.values())}")
    request = getattr(message, name)
    if (items := _ITEMS.get(name, _CHANNELS)) is not None:
        field, what, most = items
        if (count := len(getattr(request, field))) > most:
            rule = f"must be at most {most:,} in a request: {_SPLIT.get(name, 'split it')}"
            raise InvalidParametersError(name=what, value=count, rule=rule)
    read: ControlRequest = read_value(request)
    return read


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
        case Channels() if reply.channels:
            return (Channels((channel,)) for channel in reply.channels)
    return (reply,)


def _channels_in(reply: ControlReply[pa.Schema]) -> int:
    return len(reply.channels) if isinstance(reply, Positions | Statistics | Channels) else 0


def _encode_part(reply: ControlReply[pa.Schema]) -> bytes:
    message = pb.ControlReply()
    write_value(getattr(message, _REPLIES[type(reply)]), reply)
    return message.SerializeToString()


def decode_reply(data: Received) -> ControlReply[pa.Schema]:
    """Decode the exchange's reply.

    Raises:
        UndecodableDataError: ``data`` is not a reply of this version of the protocol.
        AlteredMessageError: the bytes were altered on their path.
    """
    message = pb.ControlReply()
    _parse(data, message, MOST_REPLY_BYTES)
    name = message.WhichOneof("reply")
    if name is None:
        raise UndecodableDataError(what="a reply", reason="this version does not know its kind")
    read: ControlReply[pa.Schema] = read_value(getattr(message, name))
    return read


def _parse(data: Received, into: Message, most_bytes: int) -> None:
    """Check a message, and read its content, which is without the checksum."""
    what = f"a message of {len(data)} bytes"
    if len(data) > most_bytes + CHECKSUM_BYTES:
        raise UndecodableDataError(what=what, reason=f"{most_bytes} bytes are the most")
    try:
        into.ParseFromString(bytes(checked(data)))
    except DecodeError as error:
        raise UndecodableDataError(what=what, reason=str(error)) from error


def read_answer(data: Received, kind: type[R], channels: Sequence[str] | None) -> R:
    """Decode the exchange's reply to a request for a reply of this kind, about these channels if it is ``Positions``.

    Raises:
        UndecodableDataError: the reply is none, or to another request.
        AlteredMessageError: the bytes were altered on their path.
    """
    reply = decode_reply(data)
    is_about_others = isinstance(reply, Positions) and [stands.channel for stands in reply.channels] != channels
    if not isinstance(reply, kind) or is_about_others:
        raise UndecodableDataError(what="a reply", reason=f"{type(reply).__name__} is not an answer to this question")
    return reply
