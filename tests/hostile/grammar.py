"""What hostile peers say: valid messages, drawn from the definition of the wire, and what becomes of them by a mistake.

The messages follow the definition in ``proto/``, so that a new frame or request is drawn as soon as it is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.resuming import TOKEN_BYTES
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.checksum import CHECKSUM_BYTES, Checksums
from permitflow.wire.connection_frames import CONNECTION_KEY
from permitflow.wire.v1 import exchange_pb2 as pb
from permitflow.wire.v1 import permits_pb2

ONCE, KEPT = "c", "kept"
"""The channels that are attacked: one is read once, the other keeps its rows."""
PARAMETERS = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})
CODEC = BatchCodec(BATCH.schema)
ENCODED = b"".join(CODEC.encode([BATCH]))
COMPRESSED = pa.compress(ENCODED, codec="zstd", asbytes=True)
TOKEN = bytes(range(TOKEN_BYTES))
WANTED = permits_pb2.Parameters(row_permits=8).SerializeToString()
FEEDBACK = permits_pb2.Feedback(rows=3).SerializeToString()

_KIND: Final = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_DOUBLE: st.sampled_from([0.0, 1.0, -1.0, 30.0, 1e300, float("inf"), float("nan")]),
}
_NUMBERS: Final = (0, 1, 2, 3, 4, 7, 8, 1_000, 2**31 - 1, 2**32 - 1, 2**53, 2**63 - 1, -1, -3, -(2**63))
_TEXTS: Final = (ONCE, KEPT, "", "unknown", "default", "permits", "demand", "p", "x" * 300, "\x1b[2J", "ö\u2028")
_BYTES: Final = (b"", WANTED, FEEDBACK, CODEC.schema_bytes, TOKEN, ENCODED, b"\x08", b"\xff" * 40, bytes(200))
_MOST_REPEATED = 3
_DEEPEST = 4


def _number(least: int, most: int) -> st.SearchStrategy[int]:
    return st.sampled_from([number for number in _NUMBERS if least <= number <= most]) | st.integers(least, most)


_RANGES: Final = {
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32), 31),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64), 63),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), -32),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), -64),
    FieldDescriptor.TYPE_ENUM: 31,
}
"""Bits; below 0: without a sign."""


def _value(field: FieldDescriptor, depth: int) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        assert field.message_type is not None, "that is its kind"
        return message_of(field.message_type, depth + 1)
    if field.type == FieldDescriptor.TYPE_STRING:
        return st.sampled_from(_TEXTS) | st.text(max_size=5)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.sampled_from(_BYTES) | st.binary(max_size=20)
    if (bits := _RANGES.get(field.type)) is not None:
        return _number(-(2**bits), 2**bits - 1) if bits > 0 else _number(0, 2**-bits - 1)
    return _KIND[field.type]


@cache
def message_of(descriptor: Descriptor, depth: int = 0) -> st.SearchStrategy[Message]:
    """Messages of this kind: any of its fields, each with a likely or an unlikely value."""
    fields = [field for field in descriptor.fields if depth < _DEEPEST or field.message_type is None]

    @st.composite
    def drawn(draw: st.DrawFn) -> Message:
        made = GetMessageClass(descriptor)()
        if not fields:
            return made
        for field in draw(st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda each: each.name)):
            value = _value(field, depth)
            if field.is_repeated:
                values = draw(st.lists(value, max_size=_MOST_REPEATED))
                getattr(made, field.name).extend(values)
            elif field.message_type is not None:
                getattr(made, field.name).CopyFrom(draw(value))
            else:
                setattr(made, field.name, draw(value))
        return made

    return drawn()


# Messages that are right, of which most sessions are made: who is refused at once says little.


def upstream(*frames: pb.UpstreamFrame, body: bytes = b"") -> bytes:
    """A message of a producer."""
    return pb.FromUpstream(frames=frames, body=body).SerializeToString()


def downstream(*frames: pb.DownstreamFrame) -> bytes:
    """A message of a consumer."""
    return pb.FromDownstream(frames=frames).SerializeToString()


def _put(channel: str, **stated: Any) -> bytes:
    return upstream(
        pb.UpstreamFrame(
            put=pb.Put(protocol_version=PROTOCOL_VERSION, channel=channel, schema=CODEC.schema_bytes, **stated)
        )
    )


def _get(channel: str, **stated: Any) -> bytes:
    return downstream(pb.DownstreamFrame(get=pb.Get(protocol_version=PROTOCOL_VERSION, channel=channel, **stated)))


_RESUME: Final = pb.ResumeOffer(token=TOKEN, seconds=30.0)
_ZSTD: Final = pb.CompressionOffer(codecs=[pb.CODEC_ZSTD], wanted=pb.CODEC_ZSTD)
_CHUNK: Final = pb.UpstreamFrame(chunks=pb.Chunks(rows=[3], size_bytes=len(ENCODED)))
_PRESSED: Final = pb.UpstreamFrame(
    chunks=pb.Chunks(rows=[3], size_bytes=len(COMPRESSED), uncompressed_bytes=len(ENCODED))
)

FIRST: Final = {
    PUT_STREAM: (
        _put(ONCE),
        _put(KEPT),
        _put(KEPT, producer="p"),
        _put(KEPT, staging=pb.Staging(query="q", attempt="a")),
        _put(ONCE, flow=PERMITS.name, wanted=WANTED, compression=_ZSTD),
        _put(ONCE, resume=_RESUME),
        _put(KEPT, resume=_RESUME, producer="p"),
    ),
    GET_STREAM: (
        _get(ONCE),
        _get(KEPT),
        _get(KEPT, from_row=0, to_row=9),
        _get(ONCE, probe=True),
        _get(ONCE, resume=_RESUME),
        _get(ONCE, flow=PERMITS.name, wanted=WANTED, compression=_ZSTD, schema=CODEC.schema_bytes),
    ),
    CONTROL: (),
}
"""By method: the messages by which a stream may begin."""
OVERSPENT: Final = upstream(*[_CHUNK] * 4, body=4 * ENCODED)
"""More rows than a producer has permits."""
LATER: Final = {
    PUT_STREAM: (
        upstream(_CHUNK, body=ENCODED),
        upstream(_CHUNK, _CHUNK, body=2 * ENCODED),
        OVERSPENT,
        upstream(_PRESSED, body=COMPRESSED),
        upstream(pb.UpstreamFrame(barrier=pb.Marker(integer=1))),
        upstream(pb.UpstreamFrame(watermark=pb.Marker(text="w"))),
        upstream(pb.UpstreamFrame(end=pb.End(chunks=1, rows=3, until=pb.END_OUTCOME_ACCEPTED))),
        upstream(pb.UpstreamFrame(end=pb.End(until=pb.END_OUTCOME_CONSUMED, closes_channel=True))),
        upstream(pb.UpstreamFrame(abort=pb.Abort(reason="r"))),
        upstream(pb.UpstreamFrame(failure=pb.Failure(error=b'{"message": "m"}'))),
    ),
    GET_STREAM: (
        downstream(pb.DownstreamFrame(feedback=FEEDBACK)),
        downstream(*[pb.DownstreamFrame(feedback=FEEDBACK)] * 4),
        downstream(pb.DownstreamFrame(ended=pb.Ended(outcome=pb.END_OUTCOME_CONSUMED))),
        downstream(pb.DownstreamFrame(cancel=pb.Cancel(reason="r"))),
        downstream(pb.DownstreamFrame(failure=pb.Failure(error=b"{}"))),
    ),
    CONTROL: (
        pb.ControlRequest(channels=pb.ChannelsRequest()).SerializeToString(),
        pb.ControlRequest(add=pb.AddStreamRequest(stream="new", channels=2)).SerializeToString(),
        pb.ControlRequest(remove=pb.RemoveRequest(channels=["new/0"])).SerializeToString(),
        pb.ControlRequest(reset=pb.ResetRequest(channels=[ONCE])).SerializeToString(),
        pb.ControlRequest(rollback=pb.RollbackRequest(channels=[KEPT])).SerializeToString(),
        pb.ControlRequest(purge=pb.PurgeRequest(channels=[ONCE, KEPT])).SerializeToString(),
        pb.ControlRequest(peek=pb.PeekRequest(channel=KEPT, rows=3)).SerializeToString(),
        pb.ControlRequest(positions=pb.PositionsRequest(channels=[KEPT], consumer="default")).SerializeToString(),
        pb.ControlRequest(statistics=pb.StatisticsRequest()).SerializeToString(),
        pb.ControlRequest(close=pb.CloseRequest(channels=[KEPT], consumer="default")).SerializeToString(),
    ),
}
"""By method: what may follow."""
OF_CONNECTIONS: Final = tuple(
    pb.FromUpstream(connection=frame).SerializeToString()
    for frame in (
        pb.ConnectionFrame(resume=pb.Resume(token=TOKEN, attempt=1)),
        pb.ConnectionFrame(resume=pb.Resume(token=TOKEN, attempt=2, received=1)),
        pb.ConnectionFrame(resume=pb.Resume(token=bytes(TOKEN_BYTES), attempt=1, received=5)),
        pb.ConnectionFrame(acknowledged=pb.Acknowledged(received=1)),
        pb.ConnectionFrame(acknowledged=pb.Acknowledged(received=2**40)),
        pb.ConnectionFrame(half_close=pb.HalfClose()),
        pb.ConnectionFrame(leave=pb.Leave()),
        pb.ConnectionFrame(resumed=pb.Resumed(received=0)),
    )
)
SIGNS: Final = tuple(pb.FromUpstream(sign=sign).SerializeToString() for sign in (1, 2, 3))  # type: ignore[arg-type]
ROOTS: Final = {
    PUT_STREAM: pb.FromUpstream.DESCRIPTOR,
    GET_STREAM: pb.FromDownstream.DESCRIPTOR,
    CONTROL: pb.ControlRequest.DESCRIPTOR,
}


@st.composite
def mutated(draw: st.DrawFn, of: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with a mistake or some: flipped, cut, repeated, inserted or moved."""
    data = bytearray(draw(of))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 16)))
        match draw(st.sampled_from(("flip", "set", "cut", "end", "repeat", "insert"))):
            case "flip" if start < len(data):
                data[start] ^= 1 << draw(st.integers(0, 7))
            case "set" if start < len(data):
                data[start] = draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)))
            case "cut":
                del data[start:end]
            case "end":
                del data[start:]
            case "repeat":
                data[start:start] = data[start:end] * draw(st.integers(1, 4))
            case "insert":
                data[start:start] = draw(st.binary(max_size=8) | st.sampled_from((b"\xff" * 9, b"\x80" * 10 + b"\x01")))
    return bytes(data)


class Check(Enum):
    """The checksum of a message."""

    RIGHT = "as it should be"
    NONE = "the message says that there is none"
    MISSING = "there is none, and nothing says so"
    WRONG = "one bit of it is flipped"


@dataclass(frozen=True)
class Says:
    """A message leaves."""

    content: bytes
    check: Check = Check.RIGHT


@dataclass(frozen=True)
class Waits:
    """Some time passes."""

    seconds: float


class Does(Enum):
    """What else a peer does."""

    HALF_CLOSES = "it says that nothing follows"
    CUTS = "its connection is lost, and it dials again, by the same method"


Step = Says | Waits | Does


class Checked:
    """The messages of one connection, each with its checksum."""

    def __init__(self, method: str) -> None:
        self._counts = method != CONTROL
        self._checksums = Checksums(wanted=True)

    def message(self, says: Says) -> bytes:
        """The next one; requests and frames of a connection count no messages."""
        if says.check is Check.MISSING:
            return says.content
        if says.check is Check.NONE:
            return b"".join(Checksums(wanted=False).add([says.content]))
        counts = self._counts and says.content[:1] != bytes((CONNECTION_KEY,))
        checksums = self._checksums if counts else Checksums(wanted=True)
        made = bytearray(b"".join(checksums.add([says.content])))
        made[-CHECKSUM_BYTES + 1] ^= says.check is Check.WRONG
        return bytes(made)


@dataclass(frozen=True)
class Session:
    """What a peer does, one thing after the other; in the end it is gone."""

    method: str
    steps: Sequence[Step]


_SELDOM: Final = 10


@cache
def _contents(method: str, *, is_first: bool) -> st.SearchStrategy[bytes]:
    right = st.sampled_from(FIRST[method] if is_first and FIRST[method] else LATER[method])
    stranger = message_of(ROOTS[method]).map(lambda message: message.SerializeToString())
    others = st.sampled_from(OF_CONNECTIONS + SIGNS)
    wrong = (mutated(right), stranger, mutated(others | stranger), others)

    @st.composite
    def drawn(draw: st.DrawFn) -> bytes:
        # Who is refused at once says little.
        kind = draw(st.integers(0, 2 * _SELDOM if is_first else len(wrong) + 5))
        return draw(wrong[kind] if kind < len(wrong) else right)

    return drawn()


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """What a peer of any method does: the right thing, the right thing at the wrong time, and what is never right."""
    method = draw(st.sampled_from([PUT_STREAM, GET_STREAM, CONTROL]))
    steps = list[Step]()
    for number in range(draw(st.integers(1, 8))):
        kind = draw(st.integers(0, _SELDOM)) if number else _SELDOM
        if kind < len(Does):
            steps.append(tuple(Does)[kind])
        elif kind == len(Does):
            steps.append(Waits(draw(st.sampled_from((0.0, 1.0, 100.0)))))
        else:
            check = draw(st.sampled_from(Check)) if draw(st.integers(0, 2 * _SELDOM)) == 0 else Check.RIGHT
            says = Says(draw(_contents(method, is_first=not number)), check)
            steps += [says] * (draw(st.sampled_from((1, 1, 1, 4))) if number else 1)
        if not number and draw(st.integers(0, _SELDOM)):
            steps.append(Waits(1.0))  # until it is answered: who goes on before that is refused
    return Session(method, tuple(steps))
