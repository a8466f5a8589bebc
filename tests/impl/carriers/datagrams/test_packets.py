"""Packets become bytes and the same packets again; everything else is no packet, whatever it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.carriers.datagrams.link import MOST_RANGES, LinkFeedback
from permitflow.carriers.datagrams.packets import (
    COOKIE_BYTES,
    DATA_BYTES,
    HELLO_BYTES,
    MOST_WINDOW,
    RANGE_BYTES,
    Accept,
    Challenge,
    Data,
    Gone,
    Hello,
    Open,
    Packet,
    decode,
    encode,
    encode_data,
)

numbers = st.integers(0, 2**64 - 1)
windows = st.integers(1, MOST_WINDOW)
cookies = st.binary(min_size=COOKIE_BYTES, max_size=COOKIE_BYTES)


@st.composite
def feedbacks(draw: st.DrawFn) -> LinkFeedback:
    acknowledged = draw(st.integers(0, 2**63))
    edges = sorted(draw(st.sets(st.integers(1, MOST_WINDOW), max_size=2 * MOST_RANGES)))
    beyond = zip(edges[::2], edges[1::2], strict=False)
    ranges = tuple((acknowledged + first, acknowledged + end) for first, end in beyond)
    return LinkFeedback(draw(numbers), acknowledged, draw(numbers), ranges)


short = st.one_of(
    st.builds(Hello, numbers),
    st.builds(Challenge, numbers, cookies),
    st.builds(Open, numbers, cookies, windows),
    st.builds(Accept, numbers, numbers, windows),
    st.builds(Gone, numbers),
    feedbacks(),
)
data = st.builds(Data, numbers, feedbacks(), st.binary(max_size=1_000))


def whole(packet: Packet) -> bytes:
    """A packet as one datagram."""
    return b"".join(encode_data(*packet)) if isinstance(packet, Data) else encode(packet)


@given(st.one_of(short, data))
def test_a_packet_becomes_bytes_and_itself_again(packet: Packet) -> None:
    assert decode(whole(packet)) == packet


@given(st.one_of(short, data), st.data())
def test_a_packet_with_a_flipped_bit_is_none(packet: Packet, dice: st.DataObject) -> None:
    datagram = bytearray(whole(packet))
    bit = dice.draw(st.integers(0, 8 * len(datagram) - 1))
    datagram[bit // 8] ^= 1 << bit % 8
    assert decode(bytes(datagram)) is None


@given(st.one_of(short, data), st.data())
def test_a_packet_that_was_cut_or_extended_is_none(packet: Packet, dice: st.DataObject) -> None:
    datagram = whole(packet)
    assert decode(datagram[: dice.draw(st.integers(0, len(datagram) - 1))]) is None
    assert decode(datagram + dice.draw(st.binary(min_size=1, max_size=9))) is None


@given(st.binary(max_size=100))
def test_what_a_stranger_sends_is_none(datagram: bytes) -> None:
    assert decode(bytes(datagram)) is None


@pytest.mark.parametrize("window", [0, MOST_WINDOW + 1])
def test_a_window_that_would_need_much_memory_is_refused(window: int) -> None:
    assert decode(encode(Open(1, bytes(COOKIE_BYTES), window))) is None
    assert decode(encode(Accept(1, 2, window))) is None


def test_no_answer_to_a_hello_is_longer_than_it() -> None:
    hello = encode(Hello(1))
    assert len(hello) == HELLO_BYTES
    for answer in (Challenge(1, bytes(COOKIE_BYTES)), Accept(1, 2, 3), Gone(1)):
        assert len(encode(answer)) < len(encode(Open(1, bytes(COOKIE_BYTES), 1)))


def test_the_size_of_a_packet_with_data_is_known_before() -> None:
    feedback = LinkFeedback(1, 10, 20, ((11, 12), (13, 14)))
    assert len(b"".join(encode_data(0, feedback, b"x" * 7))) == DATA_BYTES + 2 * RANGE_BYTES + 7
