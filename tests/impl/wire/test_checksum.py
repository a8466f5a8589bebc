"""A message that was altered on a network is noticed, whichever bit it was; what was not altered is left as it is."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import AlteredMessageError, UndecodableDataError
from permitflow.wire.checksum import CHECKSUM_BYTES, Checksums, checked, with_checksum
from permitflow.wire.codec import EncodedChunks, decode_upstream, encode_upstream
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.support.carriers import message_of


def flipped(message: bytes, bit: int) -> bytes:
    altered = bytearray(message)
    altered[bit // 8] ^= 1 << bit % 8
    return bytes(altered)


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=4), st.data())
def test_any_bit_that_is_flipped_is_noticed(pieces: list[bytes], data: st.DataObject) -> None:
    message = message_of(pieces)
    assert checked(message) == b"".join(pieces)
    bit = data.draw(st.integers(0, 8 * len(message) - 1))
    with pytest.raises((AlteredMessageError, UndecodableDataError)):
        checked(flipped(message, bit))


def test_no_flipped_bit_makes_a_checksum_look_like_none() -> None:
    message = message_of([b"content"])
    for bit in range(8 * CHECKSUM_BYTES):
        with pytest.raises((AlteredMessageError, UndecodableDataError)):
            Checksums(wanted=None).check(flipped(message, 8 * (len(message) - CHECKSUM_BYTES) + bit))


@pytest.mark.parametrize("message", [b"", b"y1234567", b"a message of an older release"])
def test_a_message_without_a_checksum_is_refused(message: bytes) -> None:
    with pytest.raises(UndecodableDataError, match="it carries no checksum"):
        checked(message)


def test_an_acceptor_that_makes_no_checksums_is_followed() -> None:
    without, dialler = Checksums(wanted=False), Checksums(wanted=None)
    first = b"".join(dialler.add([b"Get"]))
    assert bytes(checked(first)) == b"Get"
    assert bytes(without.check(first)) == b"Get"
    answer = b"".join(without.add([b"Agreement"]))
    assert answer == b"Agreement\x71" + bytes(8)
    assert bytes(dialler.check(answer)) == b"Agreement"
    assert b"".join(dialler.add([b"AddPermits"])) == b"AddPermits\x71" + bytes(8)
    with pytest.raises(UndecodableDataError, match="makes none, and here one is always due"):
        checked(answer)


def test_a_dialler_that_makes_no_checksums_is_followed() -> None:
    acceptor = Checksums(wanted=True)
    assert bytes(acceptor.check(b"Get\x71" + bytes(8))) == b"Get"
    assert b"".join(acceptor.add([b"Agreement"])) == b"Agreement\x71" + bytes(8)


def test_a_stream_that_has_checksums_keeps_them() -> None:
    acceptor = Checksums(wanted=True)
    acceptor.check(message_of([b"Get"]))
    with pytest.raises(UndecodableDataError, match="has made some before"):
        acceptor.check(b"AddPermits\x71" + bytes(8))


@pytest.mark.parametrize("came", [[1], [0, 2], [0, 0]], ids=["the first is lost", "one is lost", "one is repeated"])
def test_a_lost_or_repeated_message_is_noticed_at_the_next_one(came: list[int]) -> None:
    sender, receiver = Checksums(wanted=True), Checksums(wanted=True)
    sent = [b"".join(sender.add([b"the same"])) for _ in range(3)]
    *good, bad = (sent[number] for number in came)
    for message in good:
        assert bytes(receiver.check(message)) == b"the same"
    with pytest.raises(AlteredMessageError, match="or one before it was lost"):
        receiver.check(bad)


def test_the_checksum_is_the_one_of_the_definition() -> None:
    """XXH3 of nothing, from its authors' own tests; and protobuf reads it as the field that is declared."""
    assert message_of([b""]) == b"\x79" + (0x2D06800538D394C2).to_bytes(8, "little")
    for kind in (pb.FromUpstream, pb.FromDownstream, pb.ControlRequest, pb.ControlReply):
        assert kind.FromString(message_of([b""])).checksum == 0x2D06800538D394C2


def test_a_body_stays_where_arrow_reads_it_and_is_not_copied() -> None:
    body = memoryview(pa.py_buffer(bytes(64)))
    (pieces,) = encode_upstream([EncodedChunks((1,), (body,))])
    summed = with_checksum(pieces)
    assert summed[1] is pieces[1]
    message = b"".join(summed)
    ((chunks,),) = (frame.arrow for frame in decode_upstream(checked(message)) if isinstance(frame, EncodedChunks))
    assert isinstance(chunks, memoryview)
    assert chunks.obj is message
    assert message.index(bytes(chunks)) % 64 == 0
