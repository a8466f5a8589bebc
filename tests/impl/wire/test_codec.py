"""Frames survive the wire, and bytes that are no frames are refused in words."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import Kind, Message, Permits
from permitflow.client import JobTotal, Staging, TaskAttempt
from permitflow.errors import (
    InvalidParametersError,
    ParameterMismatchError,
    PermitflowError,
    UndecodableDataError,
    VersionMismatchError,
)
from permitflow.flows.gate.core import GATE
from permitflow.flows.permits.agreement import PERMITS
from permitflow.flows.permits.parameters import StatedParameters
from permitflow.stream.frames import (
    Abort,
    Agreement,
    Data,
    End,
    Failure,
    Feedback,
    Get,
    Put,
    SameHostAnswer,
    SameHostOffer,
)
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.wire.codec import (
    LONE_BODY_AT,
    EncodedChunks,
    decode_downstream,
    decode_upstream,
    encode_downstream,
    encode_upstream,
    front_of,
    lone_chunks,
)
from permitflow.wire.protobuf_values import decode_announcement
from permitflow.wire.v1 import exchange_pb2 as pb

counts = st.integers(-(2**63), 2**63 - 1)
versions = st.just(PROTOCOL_VERSION)
markers = (
    st.none()
    | counts
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.binary(max_size=5)
)
channels = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
number = st.none() | counts
oversize = st.sampled_from([None, "split", "whole"])
wishes = st.builds(StatedParameters, *[number for _ in range(4)], oversize, initial_permits=number)
# An end that states parameters says of which flow they are.
flows: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.fixed_dictionaries(
    {"flow": st.just(PERMITS.name), "wanted": wishes}
)
schemas = st.none() | st.binary(max_size=5)
offers = st.none() | st.builds(SameHostOffer, st.text("abc", max_size=3), st.booleans())
answers = st.none() | st.builds(SameHostAnswer, st.binary(max_size=5), st.text("abc", max_size=3))
rows = st.none() | counts
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
attempts = st.none() | st.builds(TaskAttempt, names, counts, counts)
totals = st.none() | st.builds(JobTotal, names, counts)
stagings = st.none() | st.builds(Staging, names, counts, counts, names)
agreements = st.builds(
    Agreement, versions, st.just(PERMITS.name), wishes, st.binary(max_size=5), st.text("abc", max_size=3), answers, rows
)
messages = st.builds(Message, st.sampled_from([Kind.BARRIER, Kind.WATERMARK]), markers)
chunks = st.builds(
    EncodedChunks,
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3).map(tuple),
    st.tuples(st.binary(min_size=1, max_size=9)),
    st.just(0) | counts,
)
failures = st.builds(Failure, st.binary(max_size=5))
first = {"protocol_version": versions, "channel": channels, "schema": schemas, "same_host": offers}
ranges = {
    "probe": st.booleans(),
    "from_row": rows,
    "to_row": rows,
    "consumer": names,
    "log_id": names,
    "columns": st.lists(names, max_size=2).map(tuple),
}
puts = {
    "producer": names,
    "staging": stagings,
    "attempt": attempts,
    "total": totals,
    "failed_job": names,
    "job_channels": st.lists(names, max_size=2).map(tuple),
}
upstream_frames = st.one_of(
    st.builds(lambda flow, **rest: Put(**flow, **rest), flows, **first, **puts),
    agreements,
    st.builds(Data, messages),
    chunks,
    st.builds(End, counts, counts, counts, st.booleans()),
    st.builds(Abort, st.text("abc", max_size=3)),
    failures,
)
downstream_frames = st.one_of(
    st.builds(lambda flow, **rest: Get(**flow, **rest), flows, **first, **ranges),
    agreements,
    st.builds(Feedback, st.builds(Permits, counts, counts, counts)),
    failures,
)


def messages_of(frames: list[Any]) -> list[bytes]:
    return [b"".join(pieces) for pieces in encode_upstream(frames)]


@given(st.lists(upstream_frames, max_size=6))
def test_frames_of_an_upstream_arrive_as_they_were_written(frames: list[Any]) -> None:
    assert [frame for train in messages_of(frames) for frame in decode_upstream(train)] == frames


@given(st.lists(downstream_frames, max_size=6))
def test_frames_of_a_downstream_arrive_as_they_were_written(frames: list[Any]) -> None:
    trains = encode_downstream(frames, PERMITS)
    assert [frame for train in trains for frame in decode_downstream(b"".join(train), PERMITS)] == frames


@given(agreements, upstream_frames)
def test_an_agreement_is_alone_in_its_message(agreement: Agreement, following: Any) -> None:
    assert len(messages_of([agreement, following])) == 2


@given(st.binary(max_size=64))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    for decode in (decode_upstream, lambda data: decode_downstream(data, PERMITS)):
        try:
            decode(data)
        except PermitflowError as error:
            assert isinstance(error, UndecodableDataError)  # noqa: PT017  # most bytes are, some are not


@given(st.lists(upstream_frames, min_size=1, max_size=3), st.data())
def test_damaged_frames_are_frames_or_refused(frames: list[Any], data: st.DataObject) -> None:
    train = data.draw(st.sampled_from([*messages_of(frames)]))
    position = data.draw(st.integers(0, len(train) - 1))
    damaged = train[:position] + bytes([train[position] ^ data.draw(st.integers(1, 255))]) + train[position + 1 :]
    try:
        decode_upstream(damaged)
    except PermitflowError as error:
        # A damaged name of a flow, or number of a version, is of one that this end does not know.
        known = UndecodableDataError | ParameterMismatchError | VersionMismatchError
        assert isinstance(error, known)  # noqa: PT017


@pytest.mark.parametrize("stated_bytes", [0, 8, 63, 65])
def test_a_lone_batch_that_is_not_all_of_its_body_is_refused(stated_bytes: int) -> None:
    train, body = pb.FromUpstream(), bytes(64)
    train.frames.add().chunks.MergeFrom(pb.Chunks(rows=[3], size_bytes=stated_bytes))
    message = front_of(train.SerializeToString(), len(body)) + body
    assert lone_chunks(message[:LONE_BODY_AT], len(message)) is None
    with pytest.raises(UndecodableDataError):
        decode_upstream(message)


def test_frames_that_would_fill_the_memory_are_refused_undecoded() -> None:
    rows = pb.FromUpstream(frames=[pb.UpstreamFrame(chunks=pb.Chunks(rows=[1] * (2 << 20)))]).SerializeToString()
    with pytest.raises(UndecodableDataError, match="1114112 bytes are the most"):
        decode_upstream(rows)


def test_a_body_that_does_not_come_last_is_found_all_the_same() -> None:
    (frames,) = messages_of([End(1, 2, 3)])
    body = pb.FromUpstream(body=b"xyz").SerializeToString()
    chunks = pb.FromUpstream(frames=[pb.UpstreamFrame(chunks=pb.Chunks(rows=[2], size_bytes=3))])
    arrived = decode_upstream(body + chunks.SerializeToString() + frames)
    assert arrived == [EncodedChunks((2,), (memoryview(b"xyz"),)), End(1, 2, 3)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\xff", "a message of 3 bytes cannot be decoded"),
        (
            pb.FromUpstream(frames=[pb.UpstreamFrame()]).SerializeToString(),
            "it is none of put, agreement, failure, chunks",
        ),
        (
            pb.FromUpstream(
                frames=[
                    pb.UpstreamFrame(
                        agreement=pb.Agreement(
                            protocol_version=PROTOCOL_VERSION, flow="permits", compression={"codec": 7}
                        )
                    )
                ]
            ).SerializeToString(),
            "compression by codec 7 is not known",
        ),
        (
            pb.FromUpstream(
                frames=[pb.UpstreamFrame(put=pb.Put(protocol_version=PROTOCOL_VERSION, wanted=b"\x08\x01"))]
            ).SerializeToString(),
            "they do not say of which flow",
        ),
        (
            pb.FromUpstream(
                frames=[pb.UpstreamFrame(put=pb.Put(protocol_version=PROTOCOL_VERSION, flow="permits", wanted=b"?"))]
            ).SerializeToString(),
            "parameters of flow 'permits' cannot be decoded",
        ),
    ],
    ids=["no protobuf", "no frame", "unknown number", "wishes without a flow", "damaged wishes"],
)
def test_an_undecodable_frame_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(UndecodableDataError, match=reason):
        decode_upstream(data)


def test_an_announcement_is_bytes_of_a_flow_that_has_some() -> None:
    with pytest.raises(UndecodableDataError, match="flow 'gate'"):
        decode_announcement(GATE, b"\xff")
    with pytest.raises(UndecodableDataError, match="flow 'permits' has none"):
        decode_announcement(PERMITS, b"")


def test_before_the_agreement_feedback_stays_bytes() -> None:
    """The session refuses it, and says which frame came too early."""
    ((message,),) = encode_downstream([Feedback(Permits(1))], PERMITS)
    assert decode_downstream(message, None) == [Feedback(b"\x08\x01")]


@pytest.mark.parametrize("name", ["carrier-pigeons", "", "os.path", "x" * 10_000])
def test_a_flow_that_is_not_known_here_is_refused_by_its_name(name: str) -> None:
    message = pb.FromUpstream(
        frames=[pb.UpstreamFrame(agreement=pb.Agreement(protocol_version=PROTOCOL_VERSION, flow=name))]
    ).SerializeToString()
    with pytest.raises(ParameterMismatchError, match="must be one that both ends know") as caught:
        decode_upstream(message)
    assert (caught.value.name, caught.value.theirs) == ("flow", name[:200])


@pytest.mark.parametrize("theirs", [0, PROTOCOL_VERSION + 1, 2**32 - 1])
def test_another_version_is_refused_whatever_else_is_said(theirs: int) -> None:
    stated: Any = {"protocol_version": theirs, "flow": "carrier-pigeons"}
    agreement = pb.UpstreamFrame(agreement=pb.Agreement(**stated, parameters=b"\xff", compression={"codec": 7}))
    dialled = pb.UpstreamFrame(put=pb.Put(**stated, wanted=b"\xff"))
    for frame in (agreement, dialled):
        with pytest.raises(VersionMismatchError) as caught:
            decode_upstream(pb.FromUpstream(frames=[frame]).SerializeToString())
        assert (caught.value.ours, caught.value.theirs) == (PROTOCOL_VERSION, theirs)
    asked = pb.FromDownstream(frames=[pb.DownstreamFrame(get=pb.Get(**stated))])
    with pytest.raises(VersionMismatchError):
        decode_downstream(asked.SerializeToString(), None)


@pytest.mark.parametrize("rows", [(-1,), (2, -1)])
def test_chunks_of_fewer_rows_than_none_are_refused(rows: tuple[int, ...]) -> None:
    (message,) = messages_of([EncodedChunks(rows, (b"abc",))])
    with pytest.raises(UndecodableDataError, match="one has -1 rows"):
        decode_upstream(message)


TOO_LONG = {"text": "x" * ((1 << 20) + 1), "bytes": b"x" * ((1 << 20) + 1), "snowmen": "\N{SNOWMAN}" * 400_000}


@pytest.mark.parametrize("payload", [True, 2**63, -(2**63) - 1, object(), "\ud800", *TOO_LONG.values()], ids=range(8))
@pytest.mark.parametrize("kind", [Kind.BARRIER, Kind.WATERMARK])
def test_a_marker_that_cannot_travel_is_refused(kind: Kind, payload: Any) -> None:
    rule = "at most 1048576 bytes" if payload in TOO_LONG.values() else "a whole number of 64 bits"
    with pytest.raises(InvalidParametersError, match=rule) as caught:
        messages_of([Data(Message(kind, payload))])
    assert caught.value.name == kind.value


@pytest.mark.parametrize("value", [{"text": "☃" * 350_000}, {"data": TOO_LONG["bytes"]}], ids=["text", "data"])
def test_a_marker_that_is_too_long_is_its_writers_fault(value: Any) -> None:
    """Else it would travel on to the consumer's stream, which cannot carry it."""
    message = pb.FromUpstream(frames=[pb.UpstreamFrame(watermark=pb.Marker(**value))])
    with pytest.raises(UndecodableDataError, match="1048576 are the most"):
        decode_upstream(message.SerializeToString())


def test_many_frames_are_cut_into_messages_that_are_accepted() -> None:
    """However many frames are ready together, and whatever they carry."""
    watermark = Data(Message(Kind.WATERMARK, b"x" * 1_000))
    for frame, count in [
        (watermark, 2_000),
        (Data(Message(Kind.BARRIER, None)), 10_000),
        (EncodedChunks((0,) * 8_192, (b"abc",)), 9),
        (EncodedChunks((1,) * 8_192, (b"abc",)), 300),
    ]:
        messages = messages_of([frame] * count)
        assert len(messages) > 1
        assert [frame for message in messages for frame in decode_upstream(message)] == [frame] * count


def test_few_unknown_fields_are_skipped_and_many_are_refused() -> None:
    known = b"".join(encode_downstream([Feedback(Permits(1))], PERMITS)[0])
    for unknown in (b"\x20\x01", b"\x21" + bytes(8), b"\x22\x01x", b"\x25" + bytes(4)):
        assert decode_downstream(known + unknown * 8_000, PERMITS) == [Feedback(Permits(1))]
        with pytest.raises(UndecodableDataError, match="8192 frames are the most"):
            decode_downstream(unknown * 9_000, PERMITS)
    with pytest.raises(UndecodableDataError, match="a field of no known kind"):
        decode_downstream(b"\x23\x24" * 9_000, PERMITS)


# Numbers of enumerations.


def upstream_of(**end: int) -> bytes:
    return pb.FromUpstream(frames=[pb.UpstreamFrame(end=pb.End(**end))]).SerializeToString()  # type: ignore[arg-type]


def downstream_of(outcome: int) -> bytes:
    ended = pb.Ended(outcome=outcome)  # type: ignore[arg-type]
    return pb.FromDownstream(frames=[pb.DownstreamFrame(ended=ended)]).SerializeToString()


@pytest.mark.parametrize(
    ("decode", "words"),
    [
        (lambda: decode_upstream(upstream_of(until=99)), "an end cannot be decoded: until = 99 is not known"),
        (lambda: decode_upstream(upstream_of(until=0)), "until = 0 is not known"),
        (lambda: decode_upstream(upstream_of(until=3)), "until = 3 is not known"),
        (lambda: decode_downstream(downstream_of(99), PERMITS), "outcome = 99 is not known"),
        (lambda: decode_downstream(downstream_of(0), PERMITS), "outcome = 0 is not known"),
        (lambda: decode_upstream(pb.FromUpstream(sign=77).SerializeToString()), "a message with sign 77"),  # type: ignore[arg-type]
        (lambda: decode_downstream(pb.FromDownstream(sign=77).SerializeToString(), PERMITS), "sign 77"),  # type: ignore[arg-type]
        (
            lambda: decode_upstream(upstream_of(until=1) + pb.FromUpstream(sign=pb.SIGN_ASK).SerializeToString()),
            "1 frames",
        ),
    ],
    ids=[
        "until 99",
        "until 0",
        "until cancelled",
        "outcome 99",
        "outcome 0",
        "sign 77 upstream",
        "sign 77 downstream",
        "sign with a frame",
    ],
)
def test_a_number_without_a_meaning_is_refused(decode: Callable[[], object], words: str) -> None:
    with pytest.raises(UndecodableDataError, match=words):
        decode()
