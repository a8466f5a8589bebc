"""How each frame is read from protobuf."""

from collections.abc import Callable, Sequence

from permitflow.errors import UndecodableDataError, printable
from permitflow.protocol.compression import Codec, CompressionAnswer, CompressionOffer
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Address,
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
from permitflow.transports.payloads import EncodedChunks, Marker, WireFrame
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = ["DOWNSTREAM_READERS", "UPSTREAM_READERS", "read_chunks", "read_parameters"]

_CODECS: dict[int, Codec] = {pb.CODEC_LZ4: Codec.LZ4, pb.CODEC_ZSTD: Codec.ZSTD}
_MOST_CODECS = 16  # that are looked at; there are two
_OUTCOMES: dict[int, EndOutcome] = {
    pb.END_OUTCOME_CONSUMED: EndOutcome.CONSUMED,
    pb.END_OUTCOME_ACCEPTED: EndOutcome.ACCEPTED,
}
_OVERSIZE: dict[int, Oversize] = {pb.OVERSIZE_SPLIT: Oversize.SPLIT, pb.OVERSIZE_WHOLE: Oversize.WHOLE}


def _optional(message: pb.Get | pb.Put | pb.Parameters | pb.Agreement, names: Sequence[str]) -> list[int | None]:
    return [getattr(message, name) if message.HasField(name) else None for name in names]


def _address(message: pb.Get | pb.Put) -> Address:
    return Address(message.channel, *_optional(message, Address._fields[1:]))


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
        _address(message),
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
        _address(message),
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
