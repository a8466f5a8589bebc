"""Questions, orders and replies survive the wire, and bytes that are none of them are refused in words."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import ChannelParameters, Oversize
from permitflow.client import ChannelPosition, ChannelState, Published, StagedPart
from permitflow.errors import InvalidParametersError, PermitflowError, UndecodableDataError
from permitflow.stream.control import (
    MOST_CHANNELS,
    MOST_PUBLISHED,
    Acknowledge,
    AddStream,
    AskChannels,
    AskPositions,
    AskStatistics,
    Changed,
    ChangedChannel,
    ChannelRow,
    Channels,
    Close,
    ControlRequest,
    Discard,
    Discarded,
    KeptBarrier,
    ListedChannel,
    Peek,
    Peeked,
    PeekedBatch,
    Positions,
    Prepare,
    Publish,
    Purge,
    RemoveChannels,
    ResetChannels,
    Retention,
    Rollback,
    StreamConnection,
)
from permitflow.stream.traffic import ChannelTraffic
from permitflow.wire.checksum import checked
from permitflow.wire.control_codec import (
    MOST_REQUEST_BYTES,
    decode_reply,
    decode_request,
    encode_request,
    read_answer,
    require_short,
)
from permitflow.wire.v1 import exchange_pb2 as pb
from permitflow.wire.v1 import permits_pb2
from tests.support.carriers import encode_reply, message_of

counts = st.integers(-(2**63), 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
channel_names = st.lists(names, max_size=3).map(tuple)
parts = st.lists(st.builds(StagedPart, names, counts, names, counts), max_size=3).map(tuple)
parameters = st.builds(
    ChannelParameters, row_permits=st.integers(8, 1000), permit_batch=st.just(4), oversize=st.sampled_from(Oversize)
)
schemas = st.none() | st.just(pa.schema([("n", pa.int64()), pa.field("s", pa.string(), nullable=False)]))
requests = st.one_of(
    st.builds(AskPositions, channel_names, names),
    st.builds(Acknowledge, st.lists(st.builds(ChannelRow, names, counts, names, counts), max_size=3).map(tuple), names),
    st.builds(Prepare, names, counts, parts),
    st.builds(Publish, names, counts, parts),
    st.builds(Discard, names, counts, parts),
    st.builds(Close, channel_names, names),
    st.builds(AskStatistics, channel_names, counts),
    st.builds(AskChannels, channel_names, counts),
    st.builds(
        AddStream,
        *(names, counts, st.none() | parameters, st.sampled_from(Retention), channel_names),
        kept_rows=st.none() | counts,
        staging_rows=st.none() | counts,
        byte_window=st.none() | counts,
        schema=schemas,
    ),
    st.builds(RemoveChannels, channel_names, st.booleans()),
    st.builds(ResetChannels, channel_names, st.booleans()),
    st.builds(Purge, channel_names, names),
    st.builds(Rollback, channel_names),
    st.builds(Peek, names, counts, names),
)
barriers = st.lists(st.builds(KeptBarrier, counts, counts), max_size=3).map(tuple)
channel_positions = st.builds(
    ChannelPosition,
    *(names, counts, counts, st.sampled_from(ChannelState), names, parameters, schemas, names),
    limit_rows=counts,
    barriers=barriers,
    waiting_rows=counts,
    waiting_seconds=st.floats(0, 1e9),
)
TRAFFIC = ChannelTraffic(
    channel="c",
    state="open",
    reason="",
    window_rows=None,
    producers=1,
    consumers=2,
    rows_in=3,
    rows_out=4,
    rows_held=5,
    peak_rows_held=6,
    rows_with_consumers=7,
    waiting_seconds=8.0,
    consumer_waiting_seconds=9.0,
    purged_rows=10,
)
connections = st.lists(st.builds(StreamConnection, names, names, names, names, st.booleans(), counts), max_size=2).map(
    tuple
)
listed_channels = st.builds(
    ListedChannel,
    *(st.just(TRAFFIC), st.sampled_from(Retention), parameters, schemas, connections, counts, st.booleans()),
)
replies = st.one_of(
    st.builds(Positions, st.lists(channel_positions, max_size=3).map(tuple)),
    st.builds(Published, st.booleans()),
    st.builds(Discarded, counts),
    st.builds(Changed, st.lists(st.builds(ChangedChannel, names, counts, counts, counts), max_size=3).map(tuple)),
    st.builds(Peeked, schemas, st.lists(st.builds(PeekedBatch, counts, st.binary(max_size=5)), max_size=2).map(tuple)),
    st.builds(Channels, st.lists(listed_channels, max_size=2).map(tuple)),
)


@given(requests)
def test_requests_arrive_as_they_were_sent(request: Any) -> None:
    assert decode_request(encode_request(request)) == request


LARGEST = [
    AskPositions(tuple(f"orders/{number}" for number in range(MOST_CHANNELS)), "etl"),
    Publish("q" * 200, 2**62, tuple(StagedPart("orders/0", number, "x" * 100, 1) for number in range(MOST_PUBLISHED))),
    Discard("q", 0, (StagedPart("", 0, "", 0),) * MOST_CHANNELS),
    Close(("x" * 100_000, "", "y"), "z"),
]


@pytest.mark.parametrize("request_", LARGEST, ids=lambda request: type(request).__name__)
def test_the_largest_request_arrives(request_: Any) -> None:
    assert decode_request(encode_request(request_)) == request_
    message = bytes(checked(encode_request(request_)))
    # The last of several requests counts; fields that are not known count for nothing.
    other = bytes(checked(encode_request(AskStatistics(("a",)))))
    assert decode_request(message_of([other, b"\xfa\x01\x03abc", message])) == request_
    for wrong in (message[:-1], message + b"\x0b" * 40_000, message + b"\xff" * 20):
        with pytest.raises(UndecodableDataError, match="bytes"):
            decode_request(message_of([wrong]))


TOO_LARGE: dict[str, list[ControlRequest]] = {
    "must be at most 1,000 in a request: split it": [
        AskPositions(("c",) * (MOST_CHANNELS + 1)),
        Acknowledge((ChannelRow("c", 0),) * (MOST_CHANNELS + 1)),
        Close(("c",) * (MOST_CHANNELS + 1)),
        AskStatistics(("c",) * (MOST_CHANNELS + 1)),
        Discard("q", 0, (StagedPart("c", 0, "", 0),) * (MOST_CHANNELS + 1)),
    ],
    "must be at most 20,000 in a request: write to fewer channels": [
        Publish("q", 0, (StagedPart("c", 0, "", 0),) * (MOST_PUBLISHED + 1))
    ],
}


@pytest.mark.parametrize(("words", "request_"), [(words, each) for words, found in TOO_LARGE.items() for each in found])
def test_a_request_that_is_too_large_is_refused_and_told_what_to_do(words: str, request_: Any) -> None:
    with pytest.raises(InvalidParametersError, match=words):
        decode_request(encode_request(request_))


def test_a_client_refuses_exactly_what_an_exchange_refuses() -> None:
    letters = MOST_REQUEST_BYTES - len(checked(encode_request(AskStatistics(("x" * (3 << 20),))))) + (3 << 20)
    longest, longer = AskStatistics(("x" * letters,)), AskStatistics(("x" * (letters + 1),))
    require_short(longest, encode_request(longest))
    decode_request(encode_request(longest))
    with pytest.raises(InvalidParametersError, match=f"{MOST_REQUEST_BYTES + 1}"):
        require_short(longer, encode_request(longer))
    with pytest.raises(UndecodableDataError):
        decode_request(encode_request(longer))


@given(replies)
def test_replies_arrive_as_they_were_sent(reply: Any) -> None:
    assert decode_reply(encode_reply(reply)) == reply


@pytest.mark.parametrize("data", [b"", bytes(33 << 20)], ids=["nothing", "too much"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        with pytest.raises(UndecodableDataError):
            decode(data)


SENSELESS = permits_pb2.Parameters(row_permits=-1).SerializeToString()


@pytest.mark.parametrize(
    "position",
    [
        pb.ChannelPosition(channel="c"),
        pb.ChannelPosition(state=pb.CHANNEL_STATE_OPEN, flow="permits", parameters=SENSELESS),
    ],
    ids=["state", "parameters"],
)
def test_a_position_without_state_or_parameters_is_refused(position: pb.ChannelPosition) -> None:
    message = pb.ControlReply(positions=pb.Positions(channels=[position]))
    with pytest.raises(UndecodableDataError, match="a position"):
        decode_reply(message_of([message.SerializeToString()]))


@pytest.mark.parametrize(
    "request_",
    [
        AskPositions(("\ud800",)),
        AskPositions((1,)),  # type: ignore[arg-type]  # that is the mistake
        Acknowledge((ChannelRow("c", 2**63),)),
        Publish("q", 1, (StagedPart("c", 0, "\ud800", 1),)),
    ],
)
def test_values_that_the_wire_cannot_hold_are_refused(request_: Any) -> None:
    with pytest.raises(InvalidParametersError):
        encode_request(request_)


@pytest.mark.parametrize("names", [(), ("b",), ("a", "a")])
def test_a_reply_about_other_channels_is_no_answer(names: tuple[str, ...]) -> None:
    def stands(name: str) -> ChannelPosition[pa.Schema]:
        return ChannelPosition(name, 0, 0, ChannelState.OPEN, "", ChannelParameters(row_permits=64), None)

    reply = encode_reply(Positions(tuple(map(stands, names))))
    for kind, channels in ((Positions, ["a"]), (Published, None)):
        with pytest.raises(UndecodableDataError, match="is not an answer to this question"):
            read_answer(reply, kind, channels)


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    for decode in (decode_request, decode_reply):
        try:
            decode(message_of([data]))
        except PermitflowError as error:
            assert isinstance(error, UndecodableDataError)  # noqa: PT017  # most bytes are, some are not
