"""Frames to messages of a carrier and back.

Frames that are ready together are encoded as one message, because a message costs a carrier far more than a frame.
The frames carry chunks as bytes; ``permitflow.wire.coalescing`` makes those.

A message is plain protobuf, of which protobuf's own library encodes and decodes only the frames: it would copy the
body twice.  So the body stands last, where it is found without decoding, and begins at a multiple of 64 bytes, as
Arrow requires.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple, TypeAlias

from google.protobuf.message import DecodeError

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Flow
from permitflow.stream.frames import (
    Abort,
    Agreement,
    Announcement,
    Cancel,
    Data,
    DownstreamFrame,
    End,
    Ended,
    Failure,
    Feedback,
    Get,
    Put,
    ReturnedBytes,
)
from permitflow.wire.arrow_metadata import MAX_SCHEMA_BYTES
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.protobuf_fields import LENGTH_DELIMITED, fields, varint
from permitflow.wire.protobuf_values import decode_feedback, encode_feedback, read_value, write_value
from permitflow.wire.v1 import exchange_pb2 as pb

_ALIGNMENT_BYTES = 64
"""The alignment of the body, from the beginning of the message."""
MOST_FRAMES = 8_192
"""Frames of a message.  Each takes two bytes and some microseconds of decoding, which block the event loop."""
# Longer messages gain nothing; a few of them should fit into a ring, the network's buffers and the processor's cache.
FULL_MESSAGE_BYTES = 2 << 20
LONE_BODY_AT = _ALIGNMENT_BYTES
"""Where the body begins in a message of few chunks."""
_LEAST_NUMBER, _MOST_NUMBER = -(2**63), 2**63 - 1
MOST_MARKER_BYTES = 1 << 20  # it must fit among the frames of a message
_FRAME_NAMES: dict[type, str] = {
    Put: "put",
    Get: "get",
    Agreement: "agreement",
    End: "end",
    Ended: "ended",
    Cancel: "cancel",
    Abort: "abort",
    Failure: "failure",
}
"""Frames that are written field by field."""
_FRAMES, _PADDING, _BODY = (
    pb.FromUpstream.DESCRIPTOR.fields_by_name[name].number << 3 | LENGTH_DELIMITED
    for name in ("frames", "padding", "body")
)
# Without the body: the first frame with its schema, and some reserve.  Decoding frames blocks the event loop, and takes
# many times their memory on the wire.
MOST_FRAMES_BYTES = MAX_SCHEMA_BYTES + (64 << 10)
# Of a message.  Each becomes a message of an inbox, which takes some microseconds, and none of the bytes that bound the
# number of other chunks.
MOST_EMPTY_CHUNKS = 8_192
# A frame's bytes besides the chunks' bytes, their rows and the markers' values.
_FRAME_BYTES = 32
# A stream's chunks often have one size: their descriptions are cached, encoded and decoded.
_FRONTS = 64
_ChunkSizes: TypeAlias = tuple[tuple[int, ...], int, int]  # rows of a batch, its bytes, and those before compression
_FEW_CHUNKS = 512
_FEW_CHUNKS_BYTES = 2_048
# Returns of permits repeat the same bytes.
_SHORT_BYTES = 64


Marker: TypeAlias = int | float | str | bytes | None
"""The value of a barrier or watermark."""


class EncodedChunks(NamedTuple):
    """Chunks that travel together, as one record batch in bytes."""

    rows: tuple[int, ...]
    """The rows of each chunk."""
    arrow: Sequence[Buffer]
    """The bytes in pieces; received chunks have one piece."""
    uncompressed_bytes: int = 0
    """The size after decompression; 0: not compressed."""

    @property
    def size_bytes(self) -> int:
        """What the chunks take of the byte window: their bytes, decompressed, which the receiver holds."""
        return self.uncompressed_bytes or sum(map(len, self.arrow))

    @property
    def sizes(self) -> _ChunkSizes:
        """Their description among the frames."""
        return self.rows, sum(map(len, self.arrow)), self.uncompressed_bytes


WireFrame: TypeAlias = Put | Agreement | Data[Marker] | EncodedChunks | Announcement | End | Abort | Failure
"""A frame that an upstream writes."""


def checked_marker(value: object, *, name: str) -> Marker:
    """Refuse a value that a barrier or watermark cannot carry over the wire.

    Raises:
        InvalidParametersError: its type is none of ``Marker``, or it exceeds 64 bits or 1 MiB, or is not valid text.
    """
    if (
        isinstance(value, str | bytes)
        and len(value) > MOST_MARKER_BYTES // 4
        and _marker_bytes(value) > MOST_MARKER_BYTES
    ):
        rule = f"must take at most {MOST_MARKER_BYTES} bytes to travel"
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
    """The bytes of a text or of bytes on the wire; 0 for other values, which are short."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    return len(value) if isinstance(value, bytes) else 0


def encode_upstream(frames: Iterable[WireFrame]) -> Iterator[list[Buffer]]:
    """Encode an upstream's frames: messages of about ``FULL_MESSAGE_BYTES``, or of one larger frame, in pieces.

    An Agreement is alone in its message: what follows counts by its numbers, or takes another path.
    No message exceeds the limits of ``decode_upstream`` for frames, their bytes and empty chunks.

    Raises:
        InvalidParametersError: a barrier's or watermark's value cannot travel over the wire.
    """
    together, body, size, body_bytes, front_bytes = list[WireFrame](), list[Buffer](), 0, 0, 0
    for frame in frames:
        frame_bytes = _frame_bytes(frame)
        arrow = frame.arrow if isinstance(frame, EncodedChunks) else ()
        arrow_bytes = sum(map(len, arrow))
        is_full = size + arrow_bytes > FULL_MESSAGE_BYTES or front_bytes + frame_bytes > MOST_FRAMES_BYTES
        is_full |= len(together) == MOST_FRAMES or (bool(together) and isinstance(together[0], Agreement))
        if size and is_full:
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
    """Estimate a frame's bytes from above, without the chunks' bytes."""
    if isinstance(frame, EncodedChunks):
        # Count an empty chunk as its share of the bytes, since a message limits both.
        empty_bytes = frame.rows.count(0) * (MOST_FRAMES_BYTES // MOST_EMPTY_CHUNKS)
        return _FRAME_BYTES + len(frame.rows) * (max(frame.rows).bit_length() // 7 + 1) + empty_bytes
    return _FRAME_BYTES + _marker_bytes(frame.message.payload) if isinstance(frame, Data) else _FRAME_BYTES


def _message(frames: Sequence[WireFrame], body: Sequence[Buffer], body_bytes: int) -> list[Buffer]:
    chunks = [frame for frame in frames if isinstance(frame, EncodedChunks)]
    if len(chunks) == len(frames) and sum(len(each.rows) for each in chunks) <= _FEW_CHUNKS:
        return [_front_of(tuple(each.sizes for each in chunks)), *body]
    message = pb.FromUpstream()
    for frame in frames:
        _write_upstream(message.frames.add(), frame)
    encoded = message.SerializeToString()
    return [front_of(encoded, body_bytes), *body] if body_bytes else [encoded]


def _made_front(chunks: tuple[_ChunkSizes, ...]) -> bytes:
    """The bytes before the body in a message of chunks alone."""
    message = pb.FromUpstream()
    for sizes in chunks:
        _write_chunks(message.frames.add().chunks, *sizes)
    return front_of(message.SerializeToString(), sum(size_bytes for _, size_bytes, _ in chunks))


_front_of = lru_cache(maxsize=_FRONTS)(_made_front)


def encode_downstream(frames: Sequence[DownstreamFrame], flow: Flow | None) -> list[list[Buffer]]:
    """Encode a downstream's frames: one message, or none if there are no frames."""
    if not frames:
        return []
    message = pb.FromDownstream()
    for frame in frames:
        into = message.frames.add()
        if isinstance(frame, Feedback) and flow is not None:
            into.feedback = encode_feedback(flow, frame.content)
        elif isinstance(frame, ReturnedBytes):
            into.returned_bytes = frame.size_bytes
        else:
            write_value(getattr(into, _FRAME_NAMES[type(frame)]), frame)
    return [[message.SerializeToString()]]


def decode_upstream(message: Received) -> list[WireFrame]:
    """Decode an upstream's message; the chunks refer to it.

    Raises:
        UndecodableDataError: ``message`` holds no frames of this version of the protocol.
    """
    view = memoryview(message)
    head, body = _taken_apart(view)
    if len(head) <= _FEW_CHUNKS_BYTES and _are_all_of(sizes := _chunk_sizes(bytes(head)), body):
        ends = accumulate(size for _, size, _ in sizes)
        return [
            EncodedChunks(rows, (body[end - size : end],), uncompressed_bytes)
            for (rows, size, uncompressed_bytes), end in zip(sizes, ends, strict=True)
        ]
    decoded = pb.FromUpstream()
    _parse(decoded, head)
    _require_no_sign(decoded)
    if decoded.body:  # an encoder placed it elsewhere
        body = memoryview(decoded.body)
    frames: list[WireFrame] = []
    for frame in decoded.frames:
        read = _read_upstream(frame, body)
        if isinstance(read, EncodedChunks):
            body = body[frame.chunks.size_bytes :]
        frames.append(read)
    if len(head) > MOST_EMPTY_CHUNKS:  # one takes a byte
        empty = sum(frame.rows.count(0) for frame in frames if isinstance(frame, EncodedChunks))
        if empty > MOST_EMPTY_CHUNKS:
            raise UndecodableDataError(
                what=f"a message of {empty} empty chunks", reason=f"{MOST_EMPTY_CHUNKS} are the most"
            )
    if body:
        raise UndecodableDataError(what="a message", reason=f"{len(body)} bytes of its body belong to no chunk")
    return frames


@lru_cache(maxsize=_FRONTS)
def lone_chunks(front: bytes, size: int) -> tuple[tuple[int, ...], int] | None:
    """Rows and uncompressed bytes of a message that is one batch of few chunks, as most are; else None.

    Args:
        front: its first ``LONE_BODY_AT`` bytes; the chunks' bytes follow them in such a message.
        size: of the whole message, in bytes.
    """
    place = _body_place(front, size)
    if place is None or place[1] != _ALIGNMENT_BYTES:
        return None
    decoded = pb.FromUpstream()
    _parse(decoded, memoryview(front)[: place[0]])
    if len(decoded.frames) != 1 or decoded.body or decoded.sign:
        return None
    chunks = decoded.frames[0].chunks
    if not chunks.rows or min(chunks.rows) < 0 or chunks.size_bytes != size - place[1]:
        return None
    return tuple(chunks.rows), chunks.uncompressed_bytes


@lru_cache(maxsize=_FRONTS)
def _chunk_sizes(head: bytes) -> tuple[_ChunkSizes, ...]:
    """Decode the descriptions of chunks from a message's encoded frames; empty if another frame is there."""
    decoded = pb.FromUpstream()
    _parse(decoded, memoryview(head))
    if decoded.body or decoded.sign or any(frame.WhichOneof("frame") != "chunks" for frame in decoded.frames):
        return ()
    chunks = [frame.chunks for frame in decoded.frames]
    return tuple((tuple(each.rows), each.size_bytes, each.uncompressed_bytes) for each in chunks)


def _are_all_of(chunks: Sequence[_ChunkSizes], body: memoryview) -> bool:
    """Do these chunks fill the body, each batch non-empty?  If not, ``_read_chunks`` reports why."""
    return (
        all(rows and min(rows) >= 0 and size > 0 for rows, size, _ in chunks)
        and sum(size for _, size, _ in chunks) == len(body) > 0
    )


def decode_downstream(message: Received, flow: Flow | None) -> list[DownstreamFrame]:
    """Decode a downstream's message; without a flow, before the agreement, feedback stays bytes.

    Raises:
        UndecodableDataError: ``message`` holds no frames of this version of the protocol.
    """
    return [*each_downstream(message, flow)]


def each_downstream(message: Received, flow: Flow | None) -> Iterable[DownstreamFrame]:
    """Likewise, frame by frame: who refuses one need not decode thousands behind it.

    Raises:
        UndecodableDataError: perhaps after some frames.
    """
    if len(message) <= _SHORT_BYTES:
        return _short_downstream(bytes(message), flow)
    return _read_downstream(message, flow)


def _read_downstream(message: Received, flow: Flow | None) -> Iterator[DownstreamFrame]:
    decoded = pb.FromDownstream()
    _parse(decoded, memoryview(message))
    _require_no_sign(decoded)
    for frame in decoded.frames:
        name = _name(frame)
        if name == "feedback":
            yield Feedback(frame.feedback if flow is None else decode_feedback(flow, frame.feedback))
        elif name == "returned_bytes":
            yield ReturnedBytes(frame.returned_bytes)
        else:
            yield read_value(getattr(frame, name))


@lru_cache(maxsize=_FRONTS)
def _short_downstream(message: bytes, flow: Flow | None) -> tuple[DownstreamFrame, ...]:
    return tuple(_read_downstream(message, flow))


def _parse(decoded: pb.FromUpstream | pb.FromDownstream, data: memoryview) -> None:
    if len(data) > MOST_FRAMES_BYTES:
        raise UndecodableDataError(
            what=f"a message of {len(data)} bytes of frames",
            reason=f"{MOST_FRAMES_BYTES} bytes are the most, and {MAX_SCHEMA_BYTES} for a schema",
        )
    if len(data) > 2 * MOST_FRAMES and any(islice(fields(data, 0, len(data)), MOST_FRAMES, None)):
        raise UndecodableDataError(
            what=f"a message of {len(data)} bytes of frames", reason=f"{MOST_FRAMES} frames are the most"
        )
    try:
        decoded.ParseFromString(bytes(data))
    except DecodeError as error:
        raise UndecodableDataError(what=f"a message of {len(data)} bytes", reason=str(error)) from error


def _require_no_sign(decoded: pb.FromUpstream | pb.FromDownstream) -> None:
    """Known signs have been taken out before, and come without frames."""
    if decoded.sign:
        raise UndecodableDataError(
            what=f"a message with sign {decoded.sign}",
            reason=f"it has {len(decoded.frames)} frames, and a sign has none" if decoded.frames else "it is not known",
        )


def _write_upstream(into: pb.UpstreamFrame, frame: WireFrame) -> None:
    """Write a frame of an upstream, without the bytes of chunks.

    Raises:
        InvalidParametersError: the wire cannot hold one of its values.
    """
    match frame:
        case EncodedChunks():
            _write_chunks(into.chunks, *frame.sizes)
        case Data(message=message):
            marker = into.barrier if message.kind is Kind.BARRIER else into.watermark
            marker.SetInParent()
            _write_marker(marker, message.payload, message.kind.value)
        case Announcement():
            into.announcement = frame.content
        case _:
            write_value(getattr(into, _FRAME_NAMES[type(frame)]), frame)


def _write_chunks(into: pb.Chunks, rows: Sequence[int], size_bytes: int, uncompressed_bytes: int) -> None:
    """Write the description of chunks that travel together, without their bytes."""
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
        UndecodableDataError: it is not such a frame, or states an impossible value.
    """
    name = _name(frame)
    if name == "chunks":
        return _read_chunks(frame.chunks, body)
    if name == "barrier":
        return Data(Message(Kind.BARRIER, _marker(frame.barrier)))
    if name == "watermark":
        return Data(Message(Kind.WATERMARK, _marker(frame.watermark)))
    if name == "announcement":
        return Announcement(frame.announcement)
    read: WireFrame = read_value(getattr(frame, name))
    return read


def _read_chunks(message: pb.Chunks, body: memoryview) -> EncodedChunks:
    """Read chunks whose record batch is the first one of a body.

    Raises:
        UndecodableDataError: the body is too short, or the batch has no chunk.
    """
    if not message.rows or not 0 < message.size_bytes <= len(body):
        reason = f"they take {message.size_bytes} of the {len(body)} bytes of the body"
        raise UndecodableDataError(what=f"a batch of {len(message.rows)} chunks", reason=reason)
    if min(message.rows) < 0:
        raise UndecodableDataError(
            what=f"a batch of {len(message.rows)} chunks", reason=f"one has {min(message.rows)} rows"
        )
    return EncodedChunks(tuple(message.rows), (body[: message.size_bytes],), message.uncompressed_bytes)


def _marker(message: pb.Marker) -> Marker:
    name = message.WhichOneof("value")
    value: Marker = None if name is None else getattr(message, name)
    if (size := _marker_bytes(value)) > MOST_MARKER_BYTES:
        raise UndecodableDataError(
            what=f"a barrier or watermark that carries {size} bytes", reason=f"{MOST_MARKER_BYTES} are the most"
        )
    return value


def _name(frame: pb.UpstreamFrame | pb.DownstreamFrame) -> str:
    name: str | None = frame.WhichOneof("frame")
    if name is None:
        names = ", ".join(field.name for field in frame.DESCRIPTOR.oneofs_by_name["frame"].fields)
        raise UndecodableDataError(what="a frame", reason=f"it is none of {names}")
    return name


def front_of(frames: bytes, size_bytes: int) -> bytes:
    """The bytes before a body of ``size_bytes`` bytes."""
    body_field = bytes((_BODY,)) + varint(size_bytes)
    padding = -(len(frames) + 2 + len(body_field)) % _ALIGNMENT_BYTES
    return frames + bytes((_PADDING, padding)) + bytes(padding) + body_field


def _taken_apart(message: Buffer) -> tuple[memoryview, memoryview]:
    """Split a message into protobuf's part and its body, if the body lies where this module puts it."""
    view = memoryview(message)
    places = _body_place(view, len(view))
    if places is None:
        return view, view[:0]
    end, start = places
    return view[:end], view[start:]


def _body_place(front: Buffer, size: int) -> tuple[int, int] | None:
    """Where protobuf's part of a message ends and its body begins; None if it has no such place.

    Args:
        front: the message's beginning, or all of it.
        size: of the message, in bytes.
    """
    try:
        for start, content, end in islice(fields(front, 0, size), MOST_FRAMES + 2):  # with padding and body
            if front[start] == _BODY and end == size:
                return start, content
            if front[start] not in (_FRAMES, _PADDING, _BODY):
                break
    except UndecodableDataError:
        pass  # protobuf's own decoder says why
    return None
