"""Values to protobuf messages and back, field by field: a field has the same name in both.

What travels with every chunk is coded by hand, in ``codec``.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from permitflow.errors import InvalidParametersError, UndecodableDataError, printable
from permitflow.protocol import control, frames, traffic
from permitflow.protocol.compression import Codec, CompressionAnswer, CompressionOffer
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import NOTHING_STATED, EndOutcome, StatedParameters
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.transports.arrow import read_schema
from permitflow.transports.texts import TEXT_RULE, sendable
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["read_many", "read_value", "write_value"]

_KINDS: dict[type[Message], type] = {
    pb.Get: frames.Get,
    pb.Put: frames.Put,
    pb.Agreement: frames.Agreement,
    pb.End: frames.End,
    pb.Ended: frames.Ended,
    pb.Abort: frames.Abort,
    pb.Failure: frames.Failure,
    pb.Parameters: StatedParameters,
    pb.SameHostOffer: frames.SameHostOffer,
    pb.SameHostAnswer: frames.SameHostAnswer,
    pb.Staging: frames.Staging,
    pb.CompressionOffer: CompressionOffer,
    pb.CompressionAnswer: CompressionAnswer,
    pb.PositionsRequest: control.AskPositions,
    pb.AcknowledgeRequest: control.Acknowledge,
    pb.PublishRequest: control.Publish,
    pb.DiscardRequest: control.Discard,
    pb.CloseRequest: control.Close,
    pb.StatisticsRequest: control.AskStatistics,
    pb.ChannelRow: control.ChannelRow,
    pb.StagedPart: control.StagedPart,
    pb.Positions: control.Positions,
    pb.ChannelPosition: control.ChannelPosition,
    pb.Published: control.Published,
    pb.Discarded: control.Discarded,
    pb.Statistics: traffic.Statistics,
    pb.ChannelTraffic: traffic.ChannelTraffic,
    pb.Kept: traffic.KeptRows,
}
"""What each message becomes."""

_NUMBERS: dict[str, int] = {
    Codec.LZ4: pb.CODEC_LZ4,
    Codec.ZSTD: pb.CODEC_ZSTD,
    EndOutcome.CONSUMED: pb.END_OUTCOME_CONSUMED,
    EndOutcome.ACCEPTED: pb.END_OUTCOME_ACCEPTED,
    Oversize.SPLIT: pb.OVERSIZE_SPLIT,
    Oversize.WHOLE: pb.OVERSIZE_WHOLE,
    ChannelState.OPEN: pb.CHANNEL_STATE_OPEN,
    ChannelState.ENDED: pb.CHANNEL_STATE_ENDED,
    ChannelState.BROKEN: pb.CHANNEL_STATE_BROKEN,
}
"""Words that travel as numbers."""
_CODECS = {_NUMBERS[codec]: codec for codec in Codec}
_OUTCOMES = {_NUMBERS[outcome]: outcome for outcome in EndOutcome}
_OVERSIZE = {_NUMBERS[oversize]: oversize.value for oversize in Oversize}
_STATES = {_NUMBERS[state]: state for state in ChannelState}
_MOST_CODECS = 16  # of an offer that are looked at; there are two


def _known(what: str, words: str, meanings: dict[int, Any], number: int) -> Any:  # as in the table
    if number not in meanings:
        raise UndecodableDataError(what=what, reason=f"{words.format(number)} is not known")
    return meanings[number]


def _known_codecs(numbers: Iterable[int]) -> tuple[Codec, ...]:
    """Codecs that are not known here are nothing to agree on."""
    return tuple(_CODECS[number] for number in tuple(numbers)[:_MOST_CODECS] if number in _CODECS)


def _checked(stated: StatedParameters) -> ChannelParameters:
    try:
        return stated.checked()
    except InvalidParametersError as error:
        raise UndecodableDataError(what="a position", reason=str(error)) from error


Convert: TypeAlias = Callable[[Any], Any]

_READ: dict[str, Convert] = {
    "Parameters.oversize": partial(_known, "parameters", "oversize = {}", _OVERSIZE),
    "SameHostAnswer.refusal": printable,
    "CompressionOffer.codecs": _known_codecs,
    "CompressionOffer.wanted": _CODECS.get,
    "CompressionAnswer.codec": partial(_known, "an agreement", "compression by codec {}", {0: None} | _CODECS),
    "CompressionAnswer.refusal": printable,
    "End.until": _OUTCOMES.get,
    # An outcome that is not known here says no more than that the peer has everything.
    "Ended.outcome": lambda number: _OUTCOMES.get(number, EndOutcome.ACCEPTED),
    "ChannelPosition.state": partial(_known, "a position", "state = {}", _STATES),
    "ChannelPosition.parameters": _checked,
    "ChannelPosition.schema": read_schema,
}
"""What becomes of what a peer states, where that is not what the value holds."""

_WRITE: dict[str, Convert] = {
    "Abort.reason": sendable,
    "ChannelPosition.reason": sendable,
    "ChannelPosition.parameters": StatedParameters.of,
    "ChannelPosition.schema": lambda schema: schema.serialize().to_pybytes(),
    "ChannelTraffic.reason": sendable,
}
"""What is stated, where that is not what the value holds."""

# Of these a request may hold tens of thousands, and nobody else is served meanwhile.
_OF_MANY: dict[type[Message], Callable[[Any], tuple[Any, ...]]] = {
    pb.ChannelRow: attrgetter(*control.ChannelRow._fields),
    pb.StagedPart: attrgetter(*control.StagedPart._fields),
}

_ABSENT: dict[type[Message], object] = {pb.Parameters: NOTHING_STATED}
"""What a value holds where a message is absent, if not None."""


def write_value(into: Message, value: object) -> None:
    """Write all fields of a value; one that is None is left out.

    Raises:
        InvalidParametersError: the wire cannot hold a number or a text.
    """
    into.SetInParent()
    for field in _FIELDS[type(into)]:
        field.write_into(into, getattr(value, field.name))


def read_value(message: Message) -> Any:  # the caller knows what the message states
    """The value that a message states, of the type in ``_KINDS``.

    Raises:
        UndecodableDataError: a number stands for no word, or what is stated cannot be.
    """
    kind = type(message)
    if (values := _OF_MANY.get(kind)) is not None:
        return _KINDS[kind](*values(message))
    return _KINDS[kind](**{field.name: field.read_from(message) for field in _FIELDS[kind]})


def read_many(items: Sequence[Any]) -> list[Any]:  # as in ``read_value``; or what states itself, as a text
    """The values that these messages state, of one kind, or these texts themselves."""
    return [read_value(item) for item in items] if items and isinstance(items[0], Message) else list(items)


class _Field:
    """A field of a message, and of the value that the message becomes."""

    def __init__(self, message: str, field: Any, empty: object) -> None:  # one of two kinds of descriptor
        """Of messages of this name; ``empty`` is what the field holds in one that states nothing."""
        self.name = field.name
        self._has_presence = field.has_presence
        self._is_map, self._is_repeated = hasattr(empty, "items"), hasattr(empty, "extend")
        self._is_message, self._is_word = field.message_type is not None, field.enum_type is not None
        place = f"{message}.{field.name}"
        self._read_as, self._write_as = _READ.get(place), _WRITE.get(place)
        self._absent = _ABSENT.get(type(empty)) if isinstance(empty, Message) else None
        self._rule = "must fit 64 bits"
        if field.type == FieldDescriptor.TYPE_STRING:
            self._rule = "must be names that UTF-8 can hold" if self._is_repeated else TEXT_RULE

    def read_from(self, message: Message) -> object:
        value: Any
        if self._has_presence and not message.HasField(self.name):
            value = self._absent
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
        if value is None or value == self._absent:
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


def _fields_of(message: type[Message]) -> list[_Field]:
    empty = message()
    descriptor = empty.DESCRIPTOR
    return [_Field(descriptor.name, field, getattr(empty, field.name)) for field in descriptor.fields]


_FIELDS = {message: _fields_of(message) for message in _KINDS}
