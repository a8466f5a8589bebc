"""How each frame is written as protobuf."""

from collections.abc import Callable, Sequence

from google.protobuf.message import Message as ProtobufMessage

from permitflow.errors import InvalidParametersError
from permitflow.protocol.compression import Codec, CompressionOffer
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Agreement,
    Data,
    End,
    Ended,
    EndOutcome,
    Failure,
    Get,
    Put,
    Staging,
    StatedParameters,
)
from permitflow.protocol.messages import Kind
from permitflow.protocol.parameters import Oversize
from permitflow.transports.payloads import EncodedChunks, Marker, checked_marker
from permitflow.transports.texts import TEXT_RULE, sendable
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["DOWNSTREAM_WRITERS", "UPSTREAM_WRITERS", "set_number", "set_text", "write_chunks", "write_parameters"]

_CODEC_NUMBERS = {None: pb.CODEC_UNSPECIFIED, Codec.LZ4: pb.CODEC_LZ4, Codec.ZSTD: pb.CODEC_ZSTD}
_OUTCOME_NUMBERS = {
    None: pb.END_OUTCOME_UNSPECIFIED,
    EndOutcome.CONSUMED: pb.END_OUTCOME_CONSUMED,
    EndOutcome.ACCEPTED: pb.END_OUTCOME_ACCEPTED,
}
_OVERSIZE_NUMBERS = {Oversize.SPLIT: pb.OVERSIZE_SPLIT, Oversize.WHOLE: pb.OVERSIZE_WHOLE}


def _write_dialling(into: pb.Get | pb.Put, frame: Get | Put) -> None:
    into.protocol_version = frame.protocol_version
    for name, value in frame.address._asdict().items():
        if value is not None:
            _set(into, name, value, rule=TEXT_RULE if name == "channel" else "must fit 32 bits")
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
