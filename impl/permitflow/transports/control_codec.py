"""Requests and replies of the Control method to bytes and back; each is one message of the carrier."""

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from google.protobuf.message import DecodeError

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.protocol.control import (
    Acknowledge,
    AskPositions,
    AskStatistics,
    ChannelPosition,
    ChannelRow,
    ChannelState,
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
from permitflow.protocol.frames import StatedParameters
from permitflow.protocol.traffic import Statistics
from permitflow.transports.arrow import read_schema
from permitflow.transports.carrier import Received
from permitflow.transports.frame_readers import read_parameters
from permitflow.transports.frame_writers import set_number, set_text, write_parameters
from permitflow.transports.texts import sendable
from permitflow.transports.traffic_codec import read_statistics, write_statistics
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = [
    "MOST_ITEMS",
    "MOST_REQUEST_BYTES",
    "decode_reply",
    "decode_request",
    "encode_reply",
    "encode_request",
    "reply_pieces",
]

# Decoded, a message takes many times its size, and nobody else is served meanwhile: of empty items, these bytes take
# 0.1 s.  An acknowledgement of 10,000 channels takes 0.8 MiB.
MOST_REQUEST_BYTES = 4 << 20
MOST_ITEMS = 65_536
"""Channels, rows or parts in a request."""
_MOST_REPLY_BYTES = 32 << 20

_STATES = {
    ChannelState.OPEN: pb.CHANNEL_STATE_OPEN,
    ChannelState.ENDED: pb.CHANNEL_STATE_ENDED,
    ChannelState.BROKEN: pb.CHANNEL_STATE_BROKEN,
}
_STATE_OF: dict[int, ChannelState] = {value: state for state, value in _STATES.items()}


def encode_request(request: ControlRequest) -> bytes:
    """Encode what a client asks.

    Raises:
        InvalidParametersError: a number or a name does not fit the wire.
    """
    message = pb.ControlRequest()
    match request:
        case AskPositions():
            message.positions.SetInParent()
            _write_names(message.positions, request)
        case Close():
            message.close.SetInParent()
            _write_names(message.close, request)
        case Acknowledge():
            _write_acknowledge(message.acknowledge, request)
        case Publish():
            _write_parts(message.publish, request)
        case Discard():
            _write_parts(message.discard, request)
        case AskStatistics():
            message.statistics.SetInParent()
            _write_channels(message.statistics, request)
    return message.SerializeToString()


def _write_names(into: pb.PositionsRequest | pb.CloseRequest, request: AskPositions | Close) -> None:
    set_text(into, "consumer", request.consumer)
    _write_channels(into, request)


def _write_channels(
    into: pb.PositionsRequest | pb.CloseRequest | pb.StatisticsRequest, request: AskPositions | Close | AskStatistics
) -> None:
    try:
        into.channels.extend(request.channels)
    except (TypeError, ValueError) as error:
        rule = "must be names that UTF-8 can hold"
        raise InvalidParametersError(name="channels", value=request.channels, rule=rule) from error


def _write_acknowledge(into: pb.AcknowledgeRequest, request: Acknowledge) -> None:
    into.SetInParent()
    set_text(into, "consumer", request.consumer)
    for channel, row, log_id in request.rows:
        added = into.rows.add()
        set_text(added, "channel", channel)
        set_number(added, "row", row)
        set_text(added, "log_id", log_id)


def _write_parts(into: pb.PublishRequest | pb.DiscardRequest, request: Publish | Discard) -> None:
    into.SetInParent()
    set_text(into, "query", request.query)
    set_number(into, "batch", request.batch)
    for part in request.parts:
        added = into.parts.add()
        set_text(added, "channel", part.channel)
        set_number(added, "partition", part.partition)
        set_text(added, "attempt", part.attempt)
        set_number(added, "rows", part.rows)


def decode_request(data: Received) -> ControlRequest:
    """Decode what a client asks.

    Raises:
        UndecodableDataError: these bytes are no request of this version of the protocol, or too many.
        InvalidParametersError: it names too much at once.
    """
    message = pb.ControlRequest()
    _parse(message, data, MOST_REQUEST_BYTES)
    name = message.WhichOneof("request")
    if name is None:
        raise UndecodableDataError(what="a request", reason=f"it is none of {', '.join(_REQUESTS)}")
    request = getattr(message, name)
    field, items = _ITEMS[name]
    if (count := len(getattr(request, field))) > MOST_ITEMS:
        raise InvalidParametersError(name=items, value=count, rule=f"must be at most {MOST_ITEMS:,} in a request")
    return _REQUESTS[name](request)


def _read_acknowledge(message: pb.AcknowledgeRequest) -> Acknowledge:
    return Acknowledge(tuple(ChannelRow(row.channel, row.row, row.log_id) for row in message.rows), message.consumer)


def _read_publish(message: pb.PublishRequest) -> Publish:
    return Publish(message.query, message.batch, _read_parts(message))


def _read_parts(message: pb.PublishRequest | pb.DiscardRequest) -> tuple[StagedPart, ...]:
    return tuple(StagedPart(part.channel, part.partition, part.attempt, part.rows) for part in message.parts)


_REQUESTS: dict[str, Callable[..., ControlRequest]] = {
    "positions": lambda message: AskPositions(tuple(message.channels), message.consumer),
    "acknowledge": _read_acknowledge,
    "publish": _read_publish,
    "discard": lambda message: Discard(message.query, message.batch, _read_parts(message)),
    "close": lambda message: Close(tuple(message.channels), message.consumer),
    "statistics": lambda message: AskStatistics(tuple(message.channels)),
}
_ITEMS = {
    "positions": ("channels", "channels"),
    "acknowledge": ("rows", "channels"),
    "publish": ("parts", "attempts"),
    "discard": ("parts", "attempts"),
    "close": ("channels", "channels"),
    "statistics": ("channels", "channels"),
}


def encode_reply(reply: ControlReply[pa.Schema]) -> bytes:
    """Encode what the exchange replies.

    Raises:
        InvalidParametersError: it takes more than 32 MiB.
    """
    return b"".join(reply_pieces(reply))


def reply_pieces(reply: ControlReply[pa.Schema]) -> Iterator[bytes]:
    """What the exchange replies, channel by channel: one message, once the pieces are joined.

    Protobuf reads messages that follow each other as one, with the channels of all of them.

    Raises:
        InvalidParametersError: they take more than 32 MiB.
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
    match reply:
        case Positions():
            message.positions.SetInParent()
            for position in reply.channels:
                _write_position(message.positions.channels.add(), position)
        case Published():
            message.published.SetInParent()
            message.published.was_published = reply.was_published
        case Discarded():
            message.discarded.SetInParent()
            message.discarded.rows = reply.rows
        case Statistics():
            message.statistics.SetInParent()
            write_statistics(message.statistics, reply)
    return message.SerializeToString()


def _write_position(into: pb.ChannelPosition, position: ChannelPosition[pa.Schema]) -> None:
    into.channel = position.channel
    into.acknowledged_row = position.acknowledged_row
    into.next_row = position.next_row
    into.state = _STATES[position.state]
    into.reason = sendable(position.reason)
    write_parameters(into.parameters, StatedParameters.of(position.parameters))
    if position.schema is not None:
        into.schema = position.schema.serialize().to_pybytes()
    into.log_id = position.log_id


def decode_reply(data: Received) -> ControlReply[pa.Schema]:
    """Decode what the exchange replies.

    Raises:
        UndecodableDataError: these bytes are no reply of this version of the protocol.
    """
    message = pb.ControlReply()
    _parse(message, data, _MOST_REPLY_BYTES)
    match message.WhichOneof("reply"):
        case "positions":
            return Positions(tuple(_read_position(position) for position in message.positions.channels))
        case "published":
            return Published(message.published.was_published)
        case "discarded":
            return Discarded(message.discarded.rows)
        case "statistics":
            return read_statistics(message.statistics)
    raise UndecodableDataError(what="a reply", reason="it is none that this version knows")


def _read_position(message: pb.ChannelPosition) -> ChannelPosition[pa.Schema]:
    if message.state not in _STATE_OF:
        raise UndecodableDataError(what="a position", reason=f"state = {message.state} is not known")
    try:
        parameters = read_parameters(message.parameters).checked()
    except InvalidParametersError as error:
        raise UndecodableDataError(what="a position", reason=str(error)) from error
    return ChannelPosition(
        channel=message.channel,
        acknowledged_row=message.acknowledged_row,
        next_row=message.next_row,
        state=_STATE_OF[message.state],
        reason=message.reason,
        parameters=parameters,
        schema=read_schema(message.schema) if message.HasField("schema") else None,
        log_id=message.log_id,
    )


def _parse(message: pb.ControlRequest | pb.ControlReply, data: Received, most_bytes: int) -> None:
    if len(data) > most_bytes:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=f"{most_bytes} bytes are the most")
    try:
        message.ParseFromString(bytes(data))
    except DecodeError as error:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=str(error)) from error
