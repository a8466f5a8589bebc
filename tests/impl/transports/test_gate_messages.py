"""What the ends of a gate's input say to each other, as bytes."""

import pytest

from permitflow.errors import UndecodableDataError
from permitflow.protocol.frames import Announcement
from permitflow.protocol.gate import GATE, Backlog, Grant
from permitflow.protocol.permits import PERMITS
from permitflow.transports.codec import decode_upstream, encode_upstream
from permitflow.transports.protobuf_values import (
    decode_announcement,
    decode_feedback,
    encode_announcement,
    encode_feedback,
)
from permitflow.wire.v1 import exchange_pb2, gate_pb2

SAID = Grant(credit=5, resume=True, revoke=True, watermarks=1, consumed=7, barriers=2)


@pytest.mark.parametrize("said", [SAID, Grant(credit=1), Grant()])
def test_a_grant_arrives_as_it_left(said: Grant) -> None:
    encoded = encode_feedback(GATE, said)
    assert decode_feedback(GATE, encoded) == said
    message = gate_pb2.Feedback.FromString(encoded)
    assert (message.credit, message.resume) == (said.credit, said.resume)


def test_an_announcement_is_a_frame_with_bytes_of_the_flow() -> None:
    said = Backlog(1_000, returned=3)
    (message,) = encode_upstream([Announcement(encode_announcement(GATE, said))])
    encoded = b"".join(map(bytes, message))
    (frame,) = exchange_pb2.FromUpstream.FromString(encoded).frames
    assert gate_pb2.Announcement.FromString(frame.announcement).backlog == 1_000
    (read,) = decode_upstream(encoded)
    assert isinstance(read, Announcement)
    assert decode_announcement(GATE, read.said) == said


def test_bytes_that_are_no_announcement_are_refused() -> None:
    with pytest.raises(UndecodableDataError, match="flow 'gate'"):
        decode_announcement(GATE, b"\xff")
    with pytest.raises(UndecodableDataError, match="flow 'permits' has none"):
        decode_announcement(PERMITS, b"")
