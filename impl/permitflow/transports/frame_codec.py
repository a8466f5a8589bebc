"""What a message carries on the wire.

How each frame is read from protobuf.

How each frame is written as protobuf.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from google.protobuf.message import Message as ProtobufMessage

from permitflow.errors import InvalidParametersError, UndecodableDataError, printable
from permitflow.protocol.compression import Codec, CompressionAnswer, CompressionOffer
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Agreement,
    Data,
    DownstreamFrame,
    End,
    Ended,
    EndOutcome,
    Failure,
    Get,
    Put,
    SameHostAnswer,
    SameHostOffer,
    Staging,
    StatedParameters,
)
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.protocol.parameters import Oversize
from permitflow.transports.carrier import Buffer
from permitflow.transports.texts import TEXT_RULE, sendable
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = [
    "DOWNSTREAM_READERS",
    "DOWNSTREAM_WRITERS",
    "UPSTREAM_READERS",
    "UPSTREAM_WRITERS",
    "EncodedChunks",
    "Marker",
    "WireFrame",
    "checked_marker",
    "marker_bytes",
    "read_chunks",
    "read_parameters",
    "set_number",
    "set_text",
    "write_chunks",
    "write_parameters",
]

Marker: TypeAlias = int | float | str | bytes | None
"""What a barrier or watermark carries."""


class EncodedChunks(NamedTuple):
    """Chunks that travel together, as one record batch in bytes."""

    rows: tuple[int, ...]
    """Of each of them."""
    permits: int
    """Those of all of them."""
    arrow: Sequence[Buffer]
    """In pieces; what was read is one."""


WireFrame: TypeAlias = Put | Agreement | Data[Marker] | EncodedChunks | End | Abort | Failure
"""What an upstream writes."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_MOST_BYTES = 1 << 20  # it has to fit among the frames of a message


def checked_marker(value: object, *, name: str) -> Marker:
    """Refuse what a barrier or watermark cannot carry over the wire.

    Raises:
        InvalidParametersError: it is none of these types, or too large for 64 bits or 1 MiB, or no proper text.
    """
    if isinstance(value, str | bytes) and len(value) > _MOST_BYTES // 4 and marker_bytes(value) > _MOST_BYTES:
        rule = f"must take at most {_MOST_BYTES} bytes to travel"
        raise InvalidParametersError(name=name, value=f"{len(value)} of {type(value).__name__}", rule=rule)
    match value:
        case bool():
            pass
        case int() if _LEAST <= value <= _MOST:
            return value
        case str() if not any("\ud800" <= character <= "\udfff" for character in value):
            return value
        case float() | bytes() | None:
            return value
    rule = "must be a whole number of 64 bits, a float, a str, bytes or None to travel"
    raise InvalidParametersError(name=name, value=value, rule=rule)


def marker_bytes(value: object) -> int:
    """How many bytes a text, or bytes, take on the wire; 0 for everything else, which takes few."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    return len(value) if isinstance(value, bytes) else 0


_CODECS: dict[int, Codec] = {pb.CODEC_LZ4: Codec.LZ4, pb.CODEC_ZSTD: Codec.ZSTD}
_MOST_CODECS = 16  # that are looked at; there are two
_OUTCOMES: dict[int, EndOutcome] = {
    pb.END_OUTCOME_CONSUMED: EndOutcome.CONSUMED,
    pb.END_OUTCOME_ACCEPTED: EndOutcome.ACCEPTED,
}
_OVERSIZE: dict[int, Oversize] = {pb.OVERSIZE_SPLIT: Oversize.SPLIT, pb.OVERSIZE_WHOLE: Oversize.WHOLE}


def _optional(message: pb.Get | pb.Put | pb.Parameters | pb.Agreement, names: Sequence[str]) -> list[int | None]:
    return [getattr(message, name) if message.HasField(name) else None for name in names]


def read_parameters(message: pb.Parameters) -> StatedParameters:
    """Read parameters as a peer states them.

    Raises:
        UndecodableDataError: its word for ``oversize`` is not known.
    """
    row_permits, permit_batch, max_chunk_cost, barrier_permits = _optional(message, StatedParameters._fields[:4])
    return StatedParameters(row_permits, permit_batch, max_chunk_cost, barrier_permits, _oversize(message))


def _oversize(message: pb.Parameters) -> str | None:
    if not message.HasField("oversize"):
        return None
    if message.oversize not in _OVERSIZE:
        raise UndecodableDataError(what="parameters", reason=f"oversize = {message.oversize} is not known")
    return _OVERSIZE[message.oversize].value


def _schema(message: pb.Get | pb.Put) -> bytes | None:
    return message.schema if message.HasField("schema") else None


def _offer(message: pb.Get | pb.Put) -> SameHostOffer | None:
    if not message.HasField("same_host"):
        return None
    return SameHostOffer(message.same_host.socket, message.same_host.required)


def _answer(message: pb.Agreement) -> SameHostAnswer | None:
    if not message.HasField("same_host"):
        return None
    return SameHostAnswer(message.same_host.proof, printable(message.same_host.refusal))


def _compression_offer(message: pb.Get | pb.Put) -> CompressionOffer | None:
    """Codecs that are not known here are nothing to agree on."""
    if not message.HasField("compression"):
        return None
    offer = message.compression
    codecs = tuple(_CODECS[number] for number in offer.codecs[:_MOST_CODECS] if number in _CODECS)
    return CompressionOffer(codecs, _CODECS.get(offer.wanted))


def _compression_answer(message: pb.Agreement) -> CompressionAnswer | None:
    if not message.HasField("compression"):
        return None
    answer = message.compression
    if answer.codec != pb.CODEC_UNSPECIFIED and answer.codec not in _CODECS:
        raise UndecodableDataError(what="an agreement", reason=f"compression by codec {answer.codec} is not known")
    return CompressionAnswer(_CODECS.get(answer.codec), printable(answer.refusal))


def _read_get(message: pb.Get) -> Get:
    wanted, offer = read_parameters(message.wanted), _offer(message)
    from_row, to_row = _optional(message, ("from_row", "to_row"))
    return Get(
        message.protocol_version,
        message.channel,
        wanted,
        _schema(message),
        message.probe,
        offer,
        from_row,
        to_row,
        message.consumer,
        message.log_id,
        _compression_offer(message),
    )


def _read_put(message: pb.Put) -> Put:
    wanted, offer = read_parameters(message.wanted), _offer(message)
    return Put(
        message.protocol_version,
        message.channel,
        wanted,
        _schema(message),
        offer,
        message.producer,
        _staging(message),
        _compression_offer(message),
    )


def _staging(message: pb.Put) -> Staging | None:
    if not message.HasField("staging"):
        return None
    staging = message.staging
    return Staging(staging.query, staging.batch, staging.partition, staging.attempt)


def _read_agreement(message: pb.Agreement) -> Agreement:
    parameters, answer = read_parameters(message.parameters), _answer(message)
    (first_row,) = _optional(message, ("first_row",))
    compression = _compression_answer(message)
    return Agreement(
        message.protocol_version, parameters, message.schema, message.stream, answer, first_row, compression
    )


def _read_data(message: pb.Data) -> Data[Marker]:
    match message.WhichOneof("message"):
        case "barrier":
            return Data(Message(Kind.BARRIER, _marker(message.barrier), 0, message.permits))
        case "watermark":
            return Data(Message(Kind.WATERMARK, _marker(message.watermark), 0, message.permits))
    raise UndecodableDataError(what="Data", reason="it holds neither barrier nor watermark")


def read_chunks(message: pb.Chunks, body: memoryview) -> EncodedChunks:
    """Read chunks whose record batch is the first one of a body.

    Raises:
        UndecodableDataError: it is not there, or no chunk is in it.
    """
    if not message.rows or not 0 < message.size_bytes <= len(body):
        reason = f"they take {message.size_bytes} of the {len(body)} bytes of the body"
        raise UndecodableDataError(what=f"a batch of {len(message.rows)} chunks", reason=reason)
    return EncodedChunks(tuple(message.rows), message.permits, (body[: message.size_bytes],))


def _marker(message: pb.Marker) -> Marker:
    name = message.WhichOneof("value")
    if name is None:
        return None
    value: Marker = getattr(message, name)
    return value


def _read_add_permits(message: pb.AddPermits) -> AddPermits:
    permits = message.permits
    return AddPermits(Permits(permits.rows, permits.barriers, permits.watermarks))


def _read_end(message: pb.End) -> End:
    return End(message.chunks, message.rows, message.barriers, message.closes_channel, _OUTCOMES.get(message.until))


def _read_ended(message: pb.Ended) -> Ended:
    """An outcome that is not known here says no more than that the peer has everything."""
    return Ended(_OUTCOMES.get(message.outcome, EndOutcome.ACCEPTED))


def _read_abort(message: pb.Abort) -> Abort:
    return Abort(message.reason)


def _read_failure(message: pb.Failure) -> Failure:
    return Failure(message.error)


UPSTREAM_READERS: dict[str, Callable[..., WireFrame]] = {
    "put": _read_put,
    "agreement": _read_agreement,
    "data": _read_data,
    "chunks": read_chunks,
    "end": _read_end,
    "abort": _read_abort,
    "failure": _read_failure,
}
DOWNSTREAM_READERS: dict[str, Callable[..., DownstreamFrame]] = {
    "get": _read_get,
    "agreement": _read_agreement,
    "add_permits": _read_add_permits,
    "ended": _read_ended,
    "failure": _read_failure,
}


_CODEC_NUMBERS = {None: pb.CODEC_UNSPECIFIED, Codec.LZ4: pb.CODEC_LZ4, Codec.ZSTD: pb.CODEC_ZSTD}
_OUTCOME_NUMBERS = {
    None: pb.END_OUTCOME_UNSPECIFIED,
    EndOutcome.CONSUMED: pb.END_OUTCOME_CONSUMED,
    EndOutcome.ACCEPTED: pb.END_OUTCOME_ACCEPTED,
}
_OVERSIZE_NUMBERS = {Oversize.SPLIT: pb.OVERSIZE_SPLIT, Oversize.WHOLE: pb.OVERSIZE_WHOLE}


def _write_dialling(into: pb.Get | pb.Put, frame: Get | Put) -> None:
    into.protocol_version = frame.protocol_version
    set_text(into, "channel", frame.channel)
    write_parameters(into.wanted, frame.wanted)
    if frame.schema is not None:
        into.schema = frame.schema
    if frame.same_host is not None:
        into.same_host.socket = frame.same_host.socket
        into.same_host.required = frame.same_host.is_required
    if frame.compression is not None:
        _write_offer(into.compression, frame.compression)


def _write_offer(into: pb.CompressionOffer, offer: CompressionOffer) -> None:
    into.SetInParent()
    into.codecs.extend(_CODEC_NUMBERS[codec] for codec in offer.codecs)
    into.wanted = _CODEC_NUMBERS[offer.wanted]


def write_parameters(into: pb.Parameters, stated: StatedParameters) -> None:
    """Write what one end states.

    Raises:
        InvalidParametersError: a number does not fit.
    """
    for name, value in stated._asdict().items():
        if value is not None:
            wire = _OVERSIZE_NUMBERS[Oversize(value)] if name == "oversize" else value
            set_number(into, name, wire)


def set_number(into: ProtobufMessage, name: str, value: int | None) -> None:
    """Set a field of 64 bits; None leaves it out.

    Raises:
        InvalidParametersError: it does not fit, or is no whole number.
    """
    if value is not None:
        _set(into, name, value, rule="must fit 64 bits")


def set_text(into: ProtobufMessage, name: str, value: str) -> None:
    """Set a field of text.

    Raises:
        InvalidParametersError: UTF-8 cannot hold it.
    """
    _set(into, name, value, rule=TEXT_RULE)


def _set(into: ProtobufMessage, name: str, value: object, *, rule: str) -> None:
    try:
        setattr(into, name, value)
    except (TypeError, ValueError) as error:
        raise InvalidParametersError(name=name, value=value, rule=rule) from error


def _write_get(into: pb.DownstreamFrame, frame: Get) -> None:
    _write_dialling(into.get, frame)
    into.get.probe = frame.probe
    set_number(into.get, "from_row", frame.from_row)
    set_number(into.get, "to_row", frame.to_row)
    set_text(into.get, "consumer", frame.consumer)
    set_text(into.get, "log_id", frame.log_id)


def _write_put(into: pb.UpstreamFrame, frame: Put) -> None:
    _write_dialling(into.put, frame)
    set_text(into.put, "producer", frame.producer)
    if frame.staging is not None:
        _write_staging(into.put.staging, frame.staging)


def _write_staging(into: pb.Staging, staging: Staging) -> None:
    into.SetInParent()
    set_text(into, "query", staging.query)
    set_number(into, "batch", staging.batch)
    set_number(into, "partition", staging.partition)
    set_text(into, "attempt", staging.attempt)


def _write_agreement(into: pb.UpstreamFrame | pb.DownstreamFrame, frame: Agreement) -> None:
    into.agreement.protocol_version = frame.protocol_version
    write_parameters(into.agreement.parameters, frame.parameters)
    into.agreement.schema = frame.schema
    into.agreement.stream = frame.stream
    set_number(into.agreement, "first_row", frame.first_row)
    if frame.same_host is not None:
        into.agreement.same_host.proof = frame.same_host.proof
        into.agreement.same_host.refusal = frame.same_host.refusal
    if frame.compression is not None:
        into.agreement.compression.SetInParent()
        into.agreement.compression.codec = _CODEC_NUMBERS[frame.compression.codec]
        into.agreement.compression.refusal = frame.compression.refusal


def _write_data(into: pb.UpstreamFrame, frame: Data[Marker]) -> None:
    message = frame.message
    into.data.permits = message.cost
    marker = into.data.barrier if message.kind is Kind.BARRIER else into.data.watermark
    marker.SetInParent()
    _write_marker(marker, message.payload, message.kind.value)


def _write_chunks(into: pb.UpstreamFrame, frame: EncodedChunks) -> None:
    write_chunks(into.chunks, frame.rows, frame.permits, sum(map(len, frame.arrow)))


def write_chunks(into: pb.Chunks, rows: Sequence[int], permits: int, size_bytes: int) -> None:
    """Write what is said of chunks that travel together; their bytes are no part of it."""
    into.rows.extend(rows)
    into.permits = permits
    into.size_bytes = size_bytes


def _write_marker(into: pb.Marker, payload: Marker, what: str) -> None:
    match checked_marker(payload, name=what):
        case int() as value:
            into.integer = value
        case float() as value:
            into.number = value
        case str() as value:
            into.text = value
        case bytes() as value:
            into.data = value


def _write_add_permits(into: pb.DownstreamFrame, frame: AddPermits) -> None:
    permits = into.add_permits.permits
    # Set even if all are 0, so that the frame is there.
    permits.SetInParent()
    permits.rows, permits.barriers, permits.watermarks = frame.permits


def _write_end(into: pb.UpstreamFrame, frame: End) -> None:
    into.end.SetInParent()
    into.end.chunks = frame.chunks
    into.end.rows = frame.rows
    into.end.barriers = frame.barriers
    into.end.closes_channel = frame.closes_channel
    into.end.until = _OUTCOME_NUMBERS[frame.until]


def _write_ended(into: pb.DownstreamFrame, frame: Ended) -> None:
    into.ended.outcome = _OUTCOME_NUMBERS[frame.outcome]


def _write_abort(into: pb.UpstreamFrame, frame: Abort) -> None:
    into.abort.SetInParent()
    into.abort.reason = sendable(frame.reason)


def _write_failure(into: pb.UpstreamFrame | pb.DownstreamFrame, frame: Failure) -> None:
    into.failure.SetInParent()
    into.failure.error = frame.error


UPSTREAM_WRITERS: dict[type[object], Callable[..., None]] = {
    Put: _write_put,
    Agreement: _write_agreement,
    Data: _write_data,
    EncodedChunks: _write_chunks,
    End: _write_end,
    Abort: _write_abort,
    Failure: _write_failure,
}
DOWNSTREAM_WRITERS: dict[type[object], Callable[..., None]] = {
    Get: _write_get,
    Agreement: _write_agreement,
    AddPermits: _write_add_permits,
    Ended: _write_ended,
    Failure: _write_failure,
}
