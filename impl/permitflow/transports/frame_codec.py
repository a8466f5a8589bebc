"""Frames to protobuf and back."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Agreement,
    Data,
    DownstreamFrame,
    End,
    Ended,
    Failure,
    Get,
    Put,
)
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.transports.carrier import Buffer
from permitflow.transports.protobuf_values import read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = [
    "EncodedChunks",
    "Marker",
    "WireFrame",
    "checked_marker",
    "marker_bytes",
    "read_chunks",
    "read_downstream",
    "read_upstream",
    "write_chunks",
    "write_downstream",
    "write_upstream",
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
_FIELDS: dict[type, str] = {
    Put: "put",
    Get: "get",
    Agreement: "agreement",
    End: "end",
    Ended: "ended",
    Abort: "abort",
    Failure: "failure",
}
"""Frames that are written field by field."""


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


def write_upstream(into: pb.UpstreamFrame, frame: WireFrame) -> None:
    """Write a frame of an upstream; the bytes of chunks are no part of it.

    Raises:
        InvalidParametersError: the wire cannot hold something of it.
    """
    match frame:
        case EncodedChunks():
            write_chunks(into.chunks, frame.rows, frame.permits, sum(map(len, frame.arrow)))
        case Data(message=message):
            into.data.permits = message.cost
            marker = into.data.barrier if message.kind is Kind.BARRIER else into.data.watermark
            marker.SetInParent()
            _write_marker(marker, message.payload, message.kind.value)
        case _:
            write_value(getattr(into, _FIELDS[type(frame)]), frame)


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


def write_downstream(into: pb.DownstreamFrame, frame: DownstreamFrame) -> None:
    """Write a frame of a downstream.

    Raises:
        InvalidParametersError: the wire cannot hold something of it.
    """
    if isinstance(frame, AddPermits):
        permits = into.add_permits.permits
        permits.SetInParent()  # even if all are 0
        permits.rows, permits.barriers, permits.watermarks = frame.permits
    else:
        write_value(getattr(into, _FIELDS[type(frame)]), frame)


def read_upstream(frame: pb.UpstreamFrame, body: memoryview) -> WireFrame:
    """Read a frame of an upstream; the bytes of chunks are the first ones of a body.

    Raises:
        UndecodableDataError: it is none, or states something that cannot be.
    """
    name = _name(frame)
    if name == "chunks":
        return read_chunks(frame.chunks, body)
    if name == "data":
        return _read_data(frame.data)
    read: WireFrame = read_value(getattr(frame, name))
    return read


def read_chunks(message: pb.Chunks, body: memoryview) -> EncodedChunks:
    """Read chunks whose record batch is the first one of a body.

    Raises:
        UndecodableDataError: it is not there, or no chunk is in it.
    """
    if not message.rows or not 0 < message.size_bytes <= len(body):
        reason = f"they take {message.size_bytes} of the {len(body)} bytes of the body"
        raise UndecodableDataError(what=f"a batch of {len(message.rows)} chunks", reason=reason)
    return EncodedChunks(tuple(message.rows), message.permits, (body[: message.size_bytes],))


def _read_data(message: pb.Data) -> Data[Marker]:
    match message.WhichOneof("message"):
        case "barrier":
            return Data(Message(Kind.BARRIER, _marker(message.barrier), 0, message.permits))
        case "watermark":
            return Data(Message(Kind.WATERMARK, _marker(message.watermark), 0, message.permits))
    raise UndecodableDataError(what="Data", reason="it holds neither barrier nor watermark")


def _marker(message: pb.Marker) -> Marker:
    name = message.WhichOneof("value")
    value: Marker = None if name is None else getattr(message, name)
    return value


def read_downstream(frame: pb.DownstreamFrame) -> DownstreamFrame:
    """Read a frame of a downstream.

    Raises:
        UndecodableDataError: it is none, or states something that cannot be.
    """
    name = _name(frame)
    if name == "add_permits":
        permits = frame.add_permits.permits
        return AddPermits(Permits(permits.rows, permits.barriers, permits.watermarks))
    read: DownstreamFrame = read_value(getattr(frame, name))
    return read


def _name(frame: pb.UpstreamFrame | pb.DownstreamFrame) -> str:
    name: str | None = frame.WhichOneof("frame")
    if name is None:
        names = ", ".join(field.name for field in frame.DESCRIPTOR.oneofs_by_name["frame"].fields)
        raise UndecodableDataError(what="a frame", reason=f"it is none of {names}")
    return name
