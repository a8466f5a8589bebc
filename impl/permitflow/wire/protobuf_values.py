"""Converts values to protobuf messages and back, field by field: a field has the same name in both.

A flow's feedback and announcements travel as bytes of its own messages.
The description of chunks is coded by hand, in ``codec``.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from permitflow.errors import InvalidParametersError, ParameterMismatchError, UndecodableDataError, printable
from permitflow.flows.seam import AnyAnnouncement, AnyFeedback, Flow, Parameters, Wishes
from permitflow.flows.table import flow_named
from permitflow.stream import control, frames, resuming, traffic
from permitflow.stream.compression import Codec, CompressionAnswer, CompressionOffer
from permitflow.stream.control import ChannelState, Retention
from permitflow.stream.frames import EndOutcome
from permitflow.stream.handshake import own_version
from permitflow.wire.schemas import facts_of, read_schema
from permitflow.wire.texts import TEXT_RULE, sendable
from permitflow.wire.v1 import exchange_pb2 as pb

_KINDS: dict[type[Message], Any] = {  # types that have ``__match_args__``
    pb.Get: frames.Get,
    pb.Put: frames.Put,
    pb.Agreement: frames.Agreement,
    pb.End: frames.End,
    pb.Ended: frames.Ended,
    pb.Cancel: frames.Cancel,
    pb.Abort: frames.Abort,
    pb.Failure: frames.Failure,
    pb.SameHostOffer: frames.SameHostOffer,
    pb.SameHostAnswer: frames.SameHostAnswer,
    pb.Staging: frames.Staging,
    pb.TaskAttempt: frames.TaskAttempt,
    pb.JobTotal: frames.JobTotal,
    pb.CompressionOffer: CompressionOffer,
    pb.CompressionAnswer: CompressionAnswer,
    pb.ResumeOffer: resuming.ResumeOffer,
    pb.ResumeAnswer: resuming.ResumeAnswer,
    pb.Resume: resuming.Resume,
    pb.Resumed: resuming.Resumed,
    pb.Acknowledged: resuming.Acknowledged,
    pb.HalfClose: resuming.HalfClose,
    pb.Leave: resuming.Leave,
    pb.PositionsRequest: control.AskPositions,
    pb.AcknowledgeRequest: control.Acknowledge,
    pb.PrepareRequest: control.Prepare,
    pb.PublishRequest: control.Publish,
    pb.DiscardRequest: control.Discard,
    pb.CloseRequest: control.Close,
    pb.StatisticsRequest: control.AskStatistics,
    pb.ChannelsRequest: control.AskChannels,
    pb.AddStreamRequest: control.AddStream,
    pb.RemoveRequest: control.RemoveChannels,
    pb.ResetRequest: control.ResetChannels,
    pb.PurgeRequest: control.Purge,
    pb.RollbackRequest: control.Rollback,
    pb.PeekRequest: control.Peek,
    pb.ChannelRow: control.ChannelRow,
    pb.StagedPart: control.StagedPart,
    pb.Positions: control.Positions,
    pb.ChannelPosition: control.ChannelPosition,
    pb.KeptBarrier: control.KeptBarrier,
    pb.Published: control.Published,
    pb.Discarded: control.Discarded,
    pb.Statistics: traffic.Statistics,
    pb.ChannelTraffic: traffic.ChannelTraffic,
    pb.Kept: traffic.KeptRows,
    pb.Channels: control.Channels,
    pb.ListedChannel: control.ListedChannel,
    pb.Connection: control.StreamConnection,
    pb.Changed: control.Changed,
    pb.ChangedChannel: control.ChangedChannel,
    pb.Peeked: control.Peeked,
    pb.PeekedBatch: control.PeekedBatch,
}
"""The type of each message's value."""

_NUMBERS: dict[str, int] = {
    Codec.LZ4: pb.CODEC_LZ4,
    Codec.ZSTD: pb.CODEC_ZSTD,
    EndOutcome.CONSUMED: pb.END_OUTCOME_CONSUMED,
    EndOutcome.ACCEPTED: pb.END_OUTCOME_ACCEPTED,
    EndOutcome.CANCELLED: pb.END_OUTCOME_CANCELLED,
    ChannelState.OPEN: pb.CHANNEL_STATE_OPEN,
    ChannelState.ENDED: pb.CHANNEL_STATE_ENDED,
    ChannelState.BROKEN: pb.CHANNEL_STATE_BROKEN,
    Retention.ONCE: pb.RETENTION_ONCE,
    Retention.REPLAY: pb.RETENTION_REPLAY,
}
"""Enumerations that travel as numbers."""
_CODECS = {_NUMBERS[codec]: codec for codec in Codec}
_OUTCOMES = {_NUMBERS[outcome]: outcome for outcome in EndOutcome}
_AWAITED = {_NUMBERS[outcome]: outcome for outcome in (EndOutcome.CONSUMED, EndOutcome.ACCEPTED)}
_STATES = {_NUMBERS[state]: state for state in ChannelState}
_RETENTIONS = {_NUMBERS[retention]: retention for retention in Retention}
_SAID_AGAIN = 64  # returns of permits repeat the same bytes
_MOST_CODECS = 16  # of an offer; further ones are ignored, and two exist


def _known(what: str, words: str, meanings: dict[int, Any], number: int) -> Any:  # as in the table
    if number not in meanings:
        raise UndecodableDataError(what=what, reason=f"{words.format(number)} is not known")
    return meanings[number]


def _known_codecs(numbers: Iterable[int]) -> tuple[Codec, ...]:
    """The known codecs of an offer, without the unknown ones."""
    return tuple(_CODECS[number] for number in tuple(numbers)[:_MOST_CODECS] if number in _CODECS)


# A flow's feedback.


class _FlowMessages(NamedTuple):
    """The protobuf messages of a flow."""

    parameters: type[Message]
    feedback: type[Message]
    announcement: type[Message] | None


@cache
def _messages_of(flow: Flow) -> _FlowMessages:
    wire = flow.wire
    announcement = None if flow.announcement is None else wire.Announcement
    messages = _FlowMessages(wire.Parameters, wire.Feedback, announcement)
    for message, kind in zip(messages, (flow.wishes, flow.feedback, flow.announcement), strict=True):
        if message is not None:
            _learn(message, kind)
    return messages


@lru_cache(maxsize=_SAID_AGAIN)
def encode_feedback(flow: Flow, feedback: AnyFeedback) -> bytes:
    """Encode a receiver's feedback."""
    return _encoded(_messages_of(flow).feedback(), feedback)


def decode_feedback(flow: Flow, encoded: bytes) -> AnyFeedback:
    """Decode a receiver's feedback.

    Raises:
        UndecodableDataError: these bytes are not feedback of this flow.
    """
    return _decoded(_messages_of(flow).feedback(), encoded, flow, "feedback")


def encode_announcement(flow: Flow, announcement: AnyAnnouncement) -> bytes:
    """Encode what a sender tells beside its data."""
    kind = _messages_of(flow).announcement
    assert kind is not None, "a flow without announcements makes none"
    return _encoded(kind(), announcement)


def decode_announcement(flow: Flow, encoded: bytes) -> AnyAnnouncement:
    """Decode what a sender tells beside its data.

    Raises:
        UndecodableDataError: these bytes are not an announcement of this flow.
    """
    kind = _messages_of(flow).announcement
    if kind is None:
        raise UndecodableDataError(what="an announcement", reason=f"flow {flow.name!r} has none")
    return _decoded(kind(), encoded, flow, "an announcement")


def _wishes(name: str, encoded: bytes) -> Wishes:
    flow = flow_named(name)
    return _decoded(_messages_of(flow).parameters(), encoded, flow, "parameters")


def _encoded(into: Message, value: object) -> bytes:
    write_value(into, value)
    return into.SerializeToString()


def _decoded(message: Message, encoded: bytes, flow: Flow, what: str) -> Any:  # as in _KINDS
    try:
        message.ParseFromString(encoded)
    except DecodeError as error:
        raise UndecodableDataError(what=f"{what} of flow {flow.name!r}", reason=str(error)) from error
    return read_value(message)


def _wanted(value: frames.Get | frames.Put) -> bytes | None:
    return None if value.wanted is None else _encoded(_messages_of(flow_named(value.flow)).parameters(), value.wanted)


def _agreed(value: frames.Agreement) -> bytes:
    return _encoded(_messages_of(flow_named(value.flow)).parameters(), value.parameters)


def _of_channel(value: control.ChannelPosition[Any] | control.ListedChannel[Any]) -> bytes:
    return _stated(value.parameters)


def _of_added(value: control.AddStream[Any]) -> bytes | None:
    return None if value.parameters is None else _stated(value.parameters)


def _stated(parameters: Parameters) -> bytes:
    flow = parameters.flow
    return _encoded(_messages_of(flow).parameters(), flow.state(parameters))


def _read_wanted(values: dict[str, Any]) -> None:
    if values["flow"]:
        values["wanted"] = _wishes(values["flow"], values["wanted"])
    elif values["wanted"]:
        raise UndecodableDataError(what="wishes", reason="they do not say of which flow")
    else:
        values["wanted"] = None


def _read_agreed(values: dict[str, Any]) -> None:
    values["parameters"] = _wishes(values["flow"], values["parameters"])


def _read_channel(what: str, values: dict[str, Any]) -> None:
    values["parameters"] = _complete(values.pop("flow"), values["parameters"], what)


def _read_added(values: dict[str, Any]) -> None:
    name, encoded = values.pop("flow"), values["parameters"]
    values["parameters"] = None if encoded is None else _complete(name, encoded, "a stream to add")


def _complete(name: str, encoded: bytes, what: str) -> Parameters:
    try:
        return flow_named(name).complete(_wishes(name, encoded))
    except (InvalidParametersError, ParameterMismatchError) as error:
        raise UndecodableDataError(what=what, reason=str(error)) from error


_READ_TOGETHER: dict[type[Message], Callable[[dict[str, Any]], None]] = {
    pb.Get: _read_wanted,
    pb.Put: _read_wanted,
    pb.Agreement: _read_agreed,
    pb.ChannelPosition: partial(_read_channel, "a position"),
    pb.ListedChannel: partial(_read_channel, "a channel"),
    pb.AddStreamRequest: _read_added,
}
"""Readers of field pairs in which one field decides the other's meaning."""
_WRITE_OF_ALL: dict[str, Callable[[Any], object]] = {
    "Get.wanted": _wanted,
    "Put.wanted": _wanted,
    "Agreement.parameters": _agreed,
    "ChannelPosition.flow": lambda value: value.parameters.flow.name,
    "ChannelPosition.parameters": _of_channel,
    "ListedChannel.flow": lambda value: value.parameters.flow.name,
    "ListedChannel.parameters": _of_channel,
    "AddStreamRequest.flow": lambda value: "" if value.parameters is None else value.parameters.flow.name,
    "AddStreamRequest.parameters": _of_added,
}
"""Conversions of whole values to message fields that no field of the value holds."""


Convert: TypeAlias = Callable[[Any], Any]

_READ: dict[str, Convert] = {
    **{f"{first}.protocol_version": own_version for first in ("Get", "Put", "Agreement")},  # read before other fields
    "SameHostAnswer.refusal": printable,
    "CompressionOffer.codecs": _known_codecs,
    "CompressionOffer.wanted": _CODECS.get,
    "CompressionAnswer.codec": partial(_known, "an agreement", "compression by codec {}", {0: None} | _CODECS),
    "CompressionAnswer.refusal": printable,
    "End.until": partial(_known, "an end", "until = {}", _AWAITED),
    "Ended.outcome": partial(_known, "the answer to an end", "outcome = {}", _OUTCOMES),
    "ChannelPosition.state": partial(_known, "a position", "state = {}", _STATES),
    "ChannelPosition.schema": read_schema,
    "ListedChannel.schema": read_schema,
    "ListedChannel.retention": partial(_known, "a channel", "retention = {}", _RETENTIONS),
    "AddStreamRequest.schema": read_schema,
    "AddStreamRequest.retention": partial(
        _known, "a stream to add", "retention = {}", {0: Retention.ONCE} | _RETENTIONS
    ),
    "Peeked.schema": read_schema,
}
"""Conversions of message fields that differ from the value's content."""

_WRITE: dict[str, Convert] = {
    "Abort.reason": sendable,
    "Cancel.reason": sendable,
    "ChannelPosition.reason": sendable,
    "ChannelPosition.schema": lambda schema: facts_of(schema).encoded,
    "ChannelTraffic.reason": sendable,
    "ListedChannel.schema": lambda schema: facts_of(schema).encoded,
    "AddStreamRequest.schema": lambda schema: facts_of(schema).encoded,
    "Peeked.schema": lambda schema: facts_of(schema).encoded,
}
"""The same in the other direction."""


def write_value(into: Message, value: object) -> None:
    """Write all fields of a value except those that are None.

    Raises:
        InvalidParametersError: the wire cannot hold a number or a text.
    """
    into.SetInParent()
    for field in _FIELDS[type(into)]:
        field.write_into(into, field.of(value))


def read_value(message: Message) -> Any:  # the caller knows what the message states
    """The value that a message states, of the type in ``_KINDS``.

    Raises:
        UndecodableDataError: a number is not a member of its enumeration, or the value is impossible.
    """
    kind = type(message)
    if (names := _PLAIN.get(kind)) is not None:
        return _KINDS[kind](*map(partial(getattr, message), names))
    stated = {field.name: field.read_from(message) for field in _FIELDS[kind]}
    if (together := _READ_TOGETHER.get(kind)) is not None:
        together(stated)
    return _KINDS[kind](**stated)


class _Field:
    """A field of a message, and of its value."""

    def __init__(self, message: str, field: Any, empty: object) -> None:  # one of two kinds of descriptor
        """``message`` names the message type; ``empty`` is the field's content in an empty message."""
        self.name = field.name
        self._has_presence = field.has_presence
        self._is_map, self._is_repeated = hasattr(empty, "items"), hasattr(empty, "extend")
        self._is_message, self._is_word = field.message_type is not None, field.enum_type is not None
        place = f"{message}.{field.name}"
        self._read_as, self._write_as = _READ.get(place), _WRITE.get(place)
        # Does the value hold the stated content unchanged?
        self.is_plain = not (self._has_presence or self._is_map or self._is_repeated or self._is_word or self._read_as)
        self.of: Callable[[Any], Any] = _WRITE_OF_ALL.get(place, attrgetter(field.name))
        self._rule = "must fit 64 bits"
        if field.type == FieldDescriptor.TYPE_STRING:
            self._rule = "must be names that UTF-8 can hold" if self._is_repeated else TEXT_RULE

    def read_from(self, message: Message) -> object:
        value: Any
        if self._has_presence and not message.HasField(self.name):
            value = None
        else:
            value = getattr(message, self.name)
            if self._is_map:
                value = dict(sorted(value.items()))
            elif self._is_repeated:
                value = tuple(map(read_value, value) if self._is_message else value)
            elif self._is_message:
                value = read_value(value)
        return value if self._read_as is None or value is None else self._read_as(value)

    def write_into(self, into: Message, value: Any) -> None:  # of the field's type
        if value is None:
            return
        if self._write_as is not None:
            value = self._write_as(value)
        if self._is_word:
            value = [_NUMBERS[word] for word in value] if self._is_repeated else _NUMBERS[value]
        if self._is_map:
            getattr(into, self.name).update(value)
        elif self._is_message and self._is_repeated:
            add = getattr(into, self.name).add
            for each in value:
                write_value(add(), each)
        elif self._is_message:
            write_value(getattr(into, self.name), value)
        else:
            try:
                getattr(into, self.name).extend(value) if self._is_repeated else setattr(into, self.name, value)
            except (TypeError, ValueError) as error:
                raise InvalidParametersError(name=self.name, value=value, rule=self._rule) from error


_FIELDS: dict[type[Message], list[_Field]] = {}
_PLAIN: dict[type[Message], tuple[str, ...]] = {}
"""The fields of types that are read in bulk: a request may hold tens of thousands, which blocks the loop."""


def _learn(message: type[Message], kind: Any) -> None:  # as in _KINDS
    """Register the conversion of messages to values of this type."""
    empty = message()
    descriptor = empty.DESCRIPTOR
    fields = [_Field(descriptor.name, field, getattr(empty, field.name)) for field in descriptor.fields]
    _KINDS[message], _FIELDS[message] = kind, fields
    if all(field.is_plain for field in fields) and {field.name for field in fields} == {*kind.__match_args__}:
        _PLAIN[message] = kind.__match_args__


for _message, _kind in [*_KINDS.items()]:
    _learn(_message, _kind)
