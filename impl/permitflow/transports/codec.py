"""Frames to messages of a carrier and back.

What is ready together is encoded together, as one message, because a message costs a carrier far more than a frame.
The frames carry chunks as bytes; ``permitflow.transports.coalescing`` makes those.

A message is plain protobuf, of which protobuf's own library encodes and decodes only the frames: it would copy the
body twice.  So the body stands last, where it is found without looking into anything, and begins at a multiple of
64 bytes, as Arrow wants it.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.protocol.flow import Flow
from permitflow.protocol.frames import Abort, Agreement, Data, DownstreamFrame, End, Ended, Failure, Feedback, Get, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.transports.arrow_compression import MAX_SCHEMA_BYTES
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.protobuf_values import decode_feedback, encode_feedback, read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

__all__ = [
    "FULL_MESSAGE_BYTES",
    "LONE_BODY_AT",
    "EncodedChunks",
    "Marker",
    "WireFrame",
    "checked_marker",
    "decode_downstream",
    "decode_upstream",
    "encode_batch",
    "encode_downstream",
    "encode_upstream",
    "front_of",
    "lone_chunks",
]

_ALIGNMENT_BYTES = 64
"""Of the body, from the beginning of the message."""
_MOST_FRAMES = 8_192
"""Of a message.  A frame takes two bytes of it and some microseconds here, during which nobody else is served."""
# Longer messages gain nothing; a few of them should fit into a ring, into the buffers on the way, and into the
# processor's cache.
FULL_MESSAGE_BYTES = 2 << 20
LONE_BODY_AT = _ALIGNMENT_BYTES
"""Where the body begins in a message of few chunks."""
_LEAST_NUMBER, _MOST_NUMBER = -(2**63), 2**63 - 1
_MARKER_BYTES = 1 << 20  # it has to fit among the frames of a message
_FRAME_NAMES: dict[type, str] = {
    Put: "put",
    Get: "get",
    Agreement: "agreement",
    End: "end",
    Ended: "ended",
    Abort: "abort",
    Failure: "failure",
}
"""Frames that are written field by field."""
# Of a number that does not end: behind the end of any message.
_BEYOND = 1 << 62
# A field begins with its number and the type "so many bytes", which together take one byte, and its length.
_LENGTH_DELIMITED = 2
_FRAMES, _PADDING, _BODY = (
    pb.FromUpstream.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED
    for name in ("frames", "padding", "body")
)
# Without the body: the first frame with its schema, and some room.  While frames are decoded nobody else is served,
# and they take many times the memory that they take on the wire.
_MOST_FRAMES_BYTES = MAX_SCHEMA_BYTES + (64 << 10)
# Of a message.  Each is a message of its own in an inbox, which takes some microseconds, and none of the bytes that
# bound how many other chunks there are.
_MOST_EMPTY_CHUNKS = 8_192
# What a frame takes besides the chunks' bytes, their rows and what markers carry.
_FRAME_BYTES = 32
# A stream's chunks are often of one size.  What was said of the last ones need not be encoded or decoded again.
_FRONTS = 64
_Said: TypeAlias = tuple[tuple[int, ...], int, int]  # rows of a batch, its bytes, and those before compression
_FEW_CHUNKS = 512
_FEW_CHUNKS_BYTES = 2_048
# What permits that return say is the same again and again.
_SHORT_BYTES = 64


Marker: TypeAlias = int | float | str | bytes | None
"""What a barrier or watermark carries."""


class EncodedChunks(NamedTuple):
    """Chunks that travel together, as one record batch in bytes."""

    rows: tuple[int, ...]
    """Of each of them."""
    arrow: Sequence[Buffer]
    """In pieces; what was read is one."""
    uncompressed_bytes: int = 0
    """What it takes decompressed; 0: it is not compressed."""

    @property
    def said(self) -> _Said:
        """What stands of them among the frames."""
        return self.rows, sum(map(len, self.arrow)), self.uncompressed_bytes


WireFrame: TypeAlias = Put | Agreement | Data[Marker] | EncodedChunks | End | Abort | Failure
"""What an upstream writes."""


def checked_marker(value: object, *, name: str) -> Marker:
    """Refuse what a barrier or watermark cannot carry over the wire.

    Raises:
        InvalidParametersError: it is none of these types, or too large for 64 bits or 1 MiB, or no proper text.
    """
    if isinstance(value, str | bytes) and len(value) > _MARKER_BYTES // 4 and _marker_bytes(value) > _MARKER_BYTES:
        rule = f"must take at most {_MARKER_BYTES} bytes to travel"
        raise InvalidParametersError(name=name, value=f"{len(value)} of {type(value).__name__}", rule=rule)
    match value:
        case bool():
            pass
        case int() if _LEAST_NUMBER <= value <= _MOST_NUMBER:
            return value
        case str() if not any("\ud800" <= character <= "\udfff" for character in value):
            return value
        case float() | bytes() | None:
            return value
    rule = "must be a whole number of 64 bits, a float, a str, bytes or None to travel"
    raise InvalidParametersError(name=name, value=value, rule=rule)


def _marker_bytes(value: object) -> int:
    """How many bytes a text, or bytes, take on the wire; 0 for everything else, which takes few."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    return len(value) if isinstance(value, bytes) else 0


def encode_upstream(frames: Iterable[WireFrame]) -> Iterator[list[Buffer]]:
    """Encode what an upstream writes: messages of about ``FULL_MESSAGE_BYTES``, or of one larger frame, in pieces.

    None has more frames, bytes of them, or empty chunks than ``decode_upstream`` takes.

    Raises:
        InvalidParametersError: a barrier or watermark carries something that the wire does not.
    """
    together, body, size, body_bytes, front_bytes = list[WireFrame](), list[Buffer](), 0, 0, 0
    for frame in frames:
        frame_bytes = _frame_bytes(frame)
        arrow = frame.arrow if isinstance(frame, EncodedChunks) else ()
        arrow_bytes = sum(map(len, arrow))
        is_full = size + arrow_bytes > FULL_MESSAGE_BYTES or front_bytes + frame_bytes > _MOST_FRAMES_BYTES
        if size and (is_full or len(together) == _MOST_FRAMES):
            yield _message(together, body, body_bytes)
            together, body, size, body_bytes, front_bytes = [], [], 0, 0, 0
        together.append(frame)
        body.extend(arrow)
        body_bytes += arrow_bytes
        size += arrow_bytes + _FRAME_BYTES
        front_bytes += frame_bytes
    if size:
        yield _message(together, body, body_bytes)


def _frame_bytes(frame: WireFrame) -> int:
    """About what a frame takes, rather more, without the chunks' bytes."""
    if isinstance(frame, EncodedChunks):
        # As if an empty one took its share of what a message may have of either.
        empty_bytes = frame.rows.count(0) * (_MOST_FRAMES_BYTES // _MOST_EMPTY_CHUNKS)
        return _FRAME_BYTES + len(frame.rows) * (max(frame.rows).bit_length() // 7 + 1) + empty_bytes
    return _FRAME_BYTES + _marker_bytes(frame.message.payload) if isinstance(frame, Data) else _FRAME_BYTES


def encode_batch(chunks: EncodedChunks) -> list[Buffer]:
    """Encode chunks that travel alone, as the rows of one batch: as ``encode_upstream`` does."""
    said = (chunks.said,)
    return [_front_of(said) if len(chunks.rows) <= _FEW_CHUNKS else _made_front(said), *chunks.arrow]


def _message(frames: Sequence[WireFrame], body: Sequence[Buffer], body_bytes: int) -> list[Buffer]:
    chunks = [frame for frame in frames if isinstance(frame, EncodedChunks)]
    if len(chunks) == len(frames) and sum(len(each.rows) for each in chunks) <= _FEW_CHUNKS:
        return [_front_of(tuple(each.said for each in chunks)), *body]
    message = pb.FromUpstream()
    for frame in frames:
        _write_upstream(message.frames.add(), frame)
    encoded = message.SerializeToString()
    return [front_of(encoded, body_bytes), *body] if body_bytes else [encoded]


def _made_front(chunks: tuple[_Said, ...]) -> bytes:
    """What stands before the body in a message of nothing but chunks."""
    message = pb.FromUpstream()
    for said in chunks:
        _write_chunks(message.frames.add().chunks, *said)
    return front_of(message.SerializeToString(), sum(size_bytes for _, size_bytes, _ in chunks))


_front_of = lru_cache(maxsize=_FRONTS)(_made_front)


def encode_downstream(frames: Sequence[DownstreamFrame], flow: Flow | None) -> list[list[Buffer]]:
    """Encode what a downstream writes: one message, or none if there are no frames."""
    if not frames:
        return []
    message = pb.FromDownstream()
    for frame in frames:
        into = message.frames.add()
        if isinstance(frame, Feedback) and flow is not None:
            into.feedback = encode_feedback(flow, frame.said)
        else:
            write_value(getattr(into, _FRAME_NAMES[type(frame)]), frame)
    return [[message.SerializeToString()]]


def decode_upstream(message: Received) -> list[WireFrame]:
    """Decode what an upstream wrote; the chunks refer to the message.

    Raises:
        UndecodableDataError: these bytes are no frames of this version of the protocol.
    """
    view = memoryview(message)
    head, body = _taken_apart(view)
    if len(head) <= _FEW_CHUNKS_BYTES and _are_all_of(said := _chunks_said(bytes(head)), body):
        ends = accumulate(size for _, size, _ in said)
        return [
            EncodedChunks(rows, (body[end - size : end],), uncompressed_bytes)
            for (rows, size, uncompressed_bytes), end in zip(said, ends, strict=True)
        ]
    decoded = pb.FromUpstream()
    _parse(decoded, head)
    if decoded.body:  # by an encoder that does not know where it should be
        body = memoryview(decoded.body)
    frames: list[WireFrame] = []
    for frame in decoded.frames:
        read = _read_upstream(frame, body)
        if isinstance(read, EncodedChunks):
            body = body[frame.chunks.size_bytes :]
        frames.append(read)
    if len(head) > _MOST_EMPTY_CHUNKS:  # one takes a byte
        empty = sum(frame.rows.count(0) for frame in frames if isinstance(frame, EncodedChunks))
        if empty > _MOST_EMPTY_CHUNKS:
            raise UndecodableDataError(
                what=f"a message of {empty} empty chunks", reason=f"{_MOST_EMPTY_CHUNKS} are the most"
            )
    if body:
        raise UndecodableDataError(what="a message", reason=f"{len(body)} bytes of its body belong to no chunk")
    return frames


@lru_cache(maxsize=_FRONTS)
def lone_chunks(front: bytes, size: int) -> tuple[tuple[int, ...], int] | None:
    """Rows and uncompressed bytes, if a message is nothing but a few chunks as one batch; most messages are.

    Args:
        front: its first ``LONE_BODY_AT`` bytes; behind them follow the chunks' bytes, if it is.
        size: of all of it, in bytes.
    """
    place = _body_place(front, size)
    if place is None or place[1] != _ALIGNMENT_BYTES:
        return None
    decoded = pb.FromUpstream()
    _parse(decoded, memoryview(front)[: place[0]])
    if len(decoded.frames) != 1 or decoded.body:
        return None
    chunks = decoded.frames[0].chunks
    if not chunks.rows or min(chunks.rows) < 0 or chunks.size_bytes != size - place[1]:
        return None
    return tuple(chunks.rows), chunks.uncompressed_bytes


@lru_cache(maxsize=_FRONTS)
def _chunks_said(head: bytes) -> tuple[_Said, ...]:
    """What a message whose frames are encoded like this says of its chunks; nothing, if not all of them are chunks."""
    decoded = pb.FromUpstream()
    _parse(decoded, memoryview(head))
    if decoded.body or any(frame.WhichOneof("frame") != "chunks" for frame in decoded.frames):
        return ()
    chunks = [frame.chunks for frame in decoded.frames]
    return tuple((tuple(each.rows), each.size_bytes, each.uncompressed_bytes) for each in chunks)


def _are_all_of(chunks: Sequence[_Said], body: memoryview) -> bool:
    """Is the body theirs, with some bytes and chunks for each batch?  Else ``_read_chunks`` says why not."""
    return (
        all(rows and min(rows) >= 0 and size > 0 for rows, size, _ in chunks)
        and sum(size for _, size, _ in chunks) == len(body) > 0
    )


def decode_downstream(message: Received, flow: Flow | None) -> list[DownstreamFrame]:
    """Decode what a downstream wrote; without a flow, because there is no agreement, feedback stays bytes.

    Raises:
        UndecodableDataError: these bytes are no frames of this version of the protocol.
    """
    if len(message) <= _SHORT_BYTES:
        return [*_short_downstream(bytes(message), flow)]
    return _read_downstream(message, flow)


def _read_downstream(message: Received, flow: Flow | None) -> list[DownstreamFrame]:
    decoded = pb.FromDownstream()
    _parse(decoded, memoryview(message))
    frames: list[DownstreamFrame] = []
    for frame in decoded.frames:
        name = _name(frame)
        if name == "feedback":
            frames.append(Feedback(frame.feedback if flow is None else decode_feedback(flow, frame.feedback)))
        else:
            frames.append(read_value(getattr(frame, name)))
    return frames


_short_downstream = lru_cache(maxsize=_FRONTS)(_read_downstream)


def _parse(decoded: pb.FromUpstream | pb.FromDownstream, data: memoryview) -> None:
    if len(data) > _MOST_FRAMES_BYTES:
        raise UndecodableDataError(
            what=f"a message of {len(data)} bytes of frames",
            reason=f"{_MOST_FRAMES_BYTES} bytes are the most, and {MAX_SCHEMA_BYTES} for a schema",
        )
    if len(data) > 2 * _MOST_FRAMES and not _has_few_fields(data):
        raise UndecodableDataError(
            what=f"a message of {len(data)} bytes of frames", reason=f"{_MOST_FRAMES} frames are the most"
        )
    try:
        decoded.ParseFromString(bytes(data))
    except DecodeError as error:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=str(error)) from error


def _write_upstream(into: pb.UpstreamFrame, frame: WireFrame) -> None:
    """Write a frame of an upstream; the bytes of chunks are no part of it.

    Raises:
        InvalidParametersError: the wire cannot hold something of it.
    """
    match frame:
        case EncodedChunks():
            _write_chunks(into.chunks, *frame.said)
        case Data(message=message):
            marker = into.data.barrier if message.kind is Kind.BARRIER else into.data.watermark
            marker.SetInParent()
            _write_marker(marker, message.payload, message.kind.value)
        case _:
            write_value(getattr(into, _FRAME_NAMES[type(frame)]), frame)


def _write_chunks(into: pb.Chunks, rows: Sequence[int], size_bytes: int, uncompressed_bytes: int) -> None:
    """Write what is said of chunks that travel together; their bytes are no part of it."""
    into.rows.extend(rows)
    into.size_bytes = size_bytes
    into.uncompressed_bytes = uncompressed_bytes


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


def _read_upstream(frame: pb.UpstreamFrame, body: memoryview) -> WireFrame:
    """Read a frame of an upstream; the bytes of chunks are the first ones of a body.

    Raises:
        UndecodableDataError: it is none, or states something that cannot be.
    """
    name = _name(frame)
    if name == "chunks":
        return _read_chunks(frame.chunks, body)
    if name == "data":
        return _read_data(frame.data)
    read: WireFrame = read_value(getattr(frame, name))
    return read


def _read_chunks(message: pb.Chunks, body: memoryview) -> EncodedChunks:
    """Read chunks whose record batch is the first one of a body.

    Raises:
        UndecodableDataError: it is not there, or no chunk is in it.
    """
    if not message.rows or not 0 < message.size_bytes <= len(body):
        reason = f"they take {message.size_bytes} of the {len(body)} bytes of the body"
        raise UndecodableDataError(what=f"a batch of {len(message.rows)} chunks", reason=reason)
    if min(message.rows) < 0:
        raise UndecodableDataError(
            what=f"a batch of {len(message.rows)} chunks", reason=f"one has {min(message.rows)} rows"
        )
    return EncodedChunks(tuple(message.rows), (body[: message.size_bytes],), message.uncompressed_bytes)


def _read_data(message: pb.Data) -> Data[Marker]:
    match message.WhichOneof("message"):
        case "barrier":
            return Data(Message(Kind.BARRIER, _marker(message.barrier)))
        case "watermark":
            return Data(Message(Kind.WATERMARK, _marker(message.watermark)))
    raise UndecodableDataError(what="Data", reason="it holds neither barrier nor watermark")


def _marker(message: pb.Marker) -> Marker:
    name = message.WhichOneof("value")
    value: Marker = None if name is None else getattr(message, name)
    return value


def _name(frame: pb.UpstreamFrame | pb.DownstreamFrame) -> str:
    name: str | None = frame.WhichOneof("frame")
    if name is None:
        names = ", ".join(field.name for field in frame.DESCRIPTOR.oneofs_by_name["frame"].fields)
        raise UndecodableDataError(what="a frame", reason=f"it is none of {names}")
    return name


def front_of(frames: bytes, size_bytes: int) -> bytes:
    """What stands before a body of so many bytes."""
    body_field = bytes((_BODY,)) + _varint(size_bytes)
    padding = -(len(frames) + 2 + len(body_field)) % _ALIGNMENT_BYTES
    return frames + bytes((_PADDING, padding)) + bytes(padding) + body_field


def _taken_apart(message: Buffer) -> tuple[memoryview, memoryview]:
    """What protobuf has to decode of a message, and its body if that is where this module puts it."""
    view = memoryview(message)
    places = _body_place(view, len(view))
    if places is None:
        return view, view[:0]
    end, start = places
    return view[:end], view[start:]


def _body_place(front: Buffer, size: int) -> tuple[int, int] | None:
    """Where protobuf's part of a message ends and where its body begins; None if that does not show.

    Args:
        front: how the message begins, or all of it.
        size: of the message, in bytes.
    """
    position, here = 0, len(front)
    for _ in range(_MOST_FRAMES + 2):  # with padding and body
        if position >= here:
            break
        key = front[position]
        if key not in (_FRAMES, _PADDING, _BODY):
            break
        length, start = _read_varint(front, position + 1)
        if key == _BODY and start + length == size:
            return position, start
        position = start + length
    return None


def _has_few_fields(message: memoryview) -> bool:
    """Does a message have at most ``_MOST_FRAMES`` fields and no groups?  Nothing is decoded to see that."""
    position = 0
    for _ in range(_MOST_FRAMES):
        key, position = _read_varint(message, position)
        match key & 7:
            case 0:
                _, position = _read_varint(message, position)
            case 1:
                position += 8
            case 2:
                length, position = _read_varint(message, position)
                position += length
            case 5:
                position += 4
            case _:
                return False
        if position >= len(message):
            return True
    return False


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(view: Buffer, position: int) -> tuple[int, int]:
    """A number, and where it ends; damaged ones lead beyond the end."""
    value = 0
    for count, byte in enumerate(view[position : position + 10]):
        value |= (byte & 0x7F) << 7 * count
        if byte <= 0x7F:
            return value, position + count + 1
    return _BEYOND, _BEYOND
