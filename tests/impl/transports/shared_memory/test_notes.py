"""However the bytes of messages arrive, the messages are those that were sent; other bytes are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.link import NoteReader, inline_header, place_note
from permitflow.transports.shared_memory.ring import Place

MOST_NOTE_BYTES = 1 << 20


def encoded(message: bytes | Place) -> bytes:
    return place_note(message) if isinstance(message, Place) else inline_header(len(message)) + message


def read_notes(reader: NoteReader, data: bytes, most_at_once: int) -> list[bytes | Place]:
    messages: list[bytes | Place] = []
    while data:
        room = reader.room()
        count = min(len(room), most_at_once, len(data))
        room[:count] = data[:count]
        taken = reader.take(count)
        messages += [message if isinstance(message, Place) else bytes(message) for message in taken]
        data = data[count:]
    return messages


MESSAGES = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.integers(60_000, 300_000).map(lambda size: bytes([size % 251]) * size),
        st.builds(Place, *[st.integers(0, 2**32 - 1)] * 3),
    ),
    max_size=6,
)


@given(MESSAGES, st.sampled_from([1 << 20, 65_536, 4_099, 1_001]))
def test_messages_arrive_however_their_bytes_do(messages: list[bytes | Place], most_at_once: int) -> None:
    reader = NoteReader(MOST_NOTE_BYTES)
    assert read_notes(reader, b"".join(map(encoded, messages)), most_at_once) == messages
    assert reader.is_between_messages


def test_a_message_arrives_byte_by_byte() -> None:
    messages: list[bytes | Place] = [b"", b"ab", Place(1, 2, 3), b"c" * 100]
    assert read_notes(NoteReader(MOST_NOTE_BYTES), b"".join(map(encoded, messages)), 1) == messages


@pytest.mark.parametrize("wrong", [b"\0" * 16, b"pf:x" + b"\1" * 12, inline_header(MOST_NOTE_BYTES + 1)])
def test_what_is_no_message_is_refused(wrong: bytes) -> None:
    with pytest.raises(UndecodableDataError):
        read_notes(NoteReader(MOST_NOTE_BYTES), wrong, 16)
