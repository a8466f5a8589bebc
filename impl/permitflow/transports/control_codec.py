"""Statistics of an exchange to the wire and back.

Requests and replies of the Control method to bytes and back; each is one message of the carrier.

What a client of the Control method sends, and how it reads the reply: the same for every kind of client.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from permitflow.protocol.traffic import ChannelTraffic, KeptRows, Statistics
from permitflow.transports.arrow import read_schema
from permitflow.transports.carrier import Received
from permitflow.transports.frame_codec import read_parameters, set_number, set_text, write_parameters
from permitflow.transports.texts import sendable
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = [
    "MOST_ITEMS",
    "MOST_REQUEST_BYTES",
    "Order",
    "Where",
    "acknowledge",
    "close",
    "decode_reply",
    "decode_request",
    "discard",
    "encode_reply",
    "encode_request",
    "positions",
    "publish",
    "read_statistics",
    "reply_pieces",
    "statistics",
    "write_statistics",
]

# The same names on the wire as in our values.
_SAME = (
    "channel",
    "state",
    "row_permits",
    "producers",
    "consumers",
    "rows_in",
    "rows_out",
    "rows_held",
    "peak_rows_held",
    "rows_with_consumers",
    "waiting_seconds",
    "consumer_waiting_seconds",
)


def write_statistics(into: pb.Statistics, statistics: Statistics) -> None:
    """Write all channels."""
    into.at_seconds = statistics.at_seconds
    for traffic in statistics.channels:
        added = into.channels.add()
        for name in _SAME:
            setattr(added, name, getattr(traffic, name))
        added.reason = sendable(traffic.reason)
        added.compressed_streams.update(traffic.compressed_streams)
        if traffic.kept is not None:
            _write_kept(added.kept, traffic.kept)


def _write_kept(into: pb.Kept, kept: KeptRows) -> None:
    into.SetInParent()
    into.next_row = kept.next_row
    into.acknowledged.update(kept.acknowledged)
    into.staged_rows = kept.staged_rows
    into.published_rows = kept.published_rows


def read_statistics(message: pb.Statistics) -> Statistics:
    """Read all channels; what an older exchange does not say is 0."""
    return Statistics(message.at_seconds, tuple(_read_traffic(traffic) for traffic in message.channels))


def _read_traffic(message: pb.ChannelTraffic) -> ChannelTraffic:
    same = {name: getattr(message, name) for name in _SAME}
    compressed = dict(sorted(message.compressed_streams.items()))
    kept = _read_kept(message.kept) if message.HasField("kept") else None
    return ChannelTraffic(**same, reason=message.reason, compressed_streams=compressed, kept=kept)


def _read_kept(message: pb.Kept) -> KeptRows:
    return KeptRows(
        next_row=message.next_row,
        acknowledged=dict(sorted(message.acknowledged.items())),
        staged_rows=message.staged_rows,
        published_rows=message.published_rows,
    )


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


T = TypeVar("T")

Where: TypeAlias = tuple[ChannelPosition[pa.Schema], ...]
"""Where channels stand, in the order in which they were named."""


class Order(Generic[T]):
    """A question or an order: its message, and what its reply means."""

    def __init__(self, request: ControlRequest, answer: Callable[[ControlReply[pa.Schema]], T | None]) -> None:
        """``answer`` takes from a reply what was asked for; None: it replies to something else.

        Raises:
            InvalidParametersError: a number or a name does not fit the wire.
        """
        self.message = encode_request(request)
        self._answer = answer

    def read(self, message: Received) -> T:
        """What the exchange replies.

        Raises:
            UndecodableDataError: it replies to something else.
        """
        reply = decode_reply(message)
        answer = self._answer(reply)
        if answer is None:
            raise UndecodableDataError(what="a reply", reason=f"{type(reply).__name__} is no answer to this question")
        return answer


def positions(channels: Sequence[str], consumer: str) -> Order[Where]:
    """Where do these channels stand?"""
    names = _names(channels)
    return Order(AskPositions(names, consumer), partial(_where, names))


def acknowledge(rows: Mapping[str, int] | Sequence[ChannelRow], consumer: str) -> Order[Where]:
    """A consumer needs no row before these any more."""
    named = tuple(starmap(ChannelRow, rows.items()) if isinstance(rows, Mapping) else rows)

    def answer(reply: ControlReply[pa.Schema]) -> Where | None:
        where = _where([asked.channel for asked in named], reply)
        # A row that the wire has altered to an earlier one changes nothing, and the consumer would wait for ever.
        for asked, stands in zip(named, where or (), strict=where is not None):
            if stands.acknowledged_row < asked.row:
                reason = (
                    f"row {asked.row} of channel {asked.channel!r} was named, row {stands.acknowledged_row} was heard"
                )
                raise UndecodableDataError(what="the reply to an acknowledgement", reason=reason)
        return where

    return Order(Acknowledge(named, consumer), answer)


def close(channels: Sequence[str], consumer: str) -> Order[Where]:
    """Nobody will put into these channels any more."""
    names = _names(channels)
    return Order(Close(names, consumer), partial(_where, names))


def publish(query: str, batch: int, parts: Sequence[StagedPart]) -> Order[Published]:
    """Make these attempts part of their channels, all or none."""
    return Order(Publish(query, batch, tuple(parts)), lambda reply: reply if isinstance(reply, Published) else None)


def discard(query: str, batch: int, parts: Sequence[StagedPart]) -> Order[Discarded]:
    """Forget these attempts, unless they are published."""
    return Order(Discard(query, batch, tuple(parts)), lambda reply: reply if isinstance(reply, Discarded) else None)


def statistics(channels: Sequence[str]) -> Order[Statistics]:
    """What has flowed through these channels, or through all?"""
    return Order(AskStatistics(_names(channels)), lambda reply: reply if isinstance(reply, Statistics) else None)


def _where(names: Sequence[str], reply: ControlReply[pa.Schema]) -> Where | None:
    """Where these channels stand; None if the reply is about something else."""
    if not isinstance(reply, Positions) or [stands.channel for stands in reply.channels] != [*names]:
        return None
    return reply.channels


def _names(channels: Sequence[str]) -> tuple[str, ...]:
    if isinstance(channels, str):
        raise InvalidParametersError(name="channels", value=channels, rule="must be names, not one name")
    return tuple(channels)
