"""How a stream ends, at both ends: in order, too early, given up, broken off."""

import pytest

from permitflow.errors import (
    ChannelAbortedError,
    EndOfStream,
    LedgerError,
    LocalProtocolError,
    PeerGoneError,
)
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    End,
    Failure,
    frame_name,
)
from permitflow.protocol.messages import Permits
from permitflow.protocol.session import DownstreamSession, State, UpstreamSession
from tests.support.sessions import CHUNK, downstream, open_downstream, open_upstream, upstream


def ended_pair() -> tuple[UpstreamSession[str], DownstreamSession[str]]:
    """Two sessions of one stream after a chunk, a barrier and the end; nothing consumed yet."""
    sender, receiver = open_upstream(), open_downstream()
    sender.offer_chunk("rows", 3)
    sender.offer_barrier("e")
    sender.end()
    for frame in sender.take_frames():
        receiver.receive(frame)
    return sender, receiver


def test_the_end_brings_everything_back_and_both_books_agree() -> None:
    sender, receiver = ended_pair()
    assert receiver.end == End(1, 3, 1)
    for _ in range(2):
        assert not receiver.is_finished
        receiver.take()
        receiver.consume()
    with pytest.raises(EndOfStream):
        receiver.take()
    assert not receiver.is_finished  # the residue is not written yet
    for frame in receiver.take_frames():
        sender.receive(frame)
    assert receiver.is_finished
    receiver.close()
    sender.peer_closed()
    sender.close()
    assert (sender.state, receiver.state) == (State.CLOSED, State.CLOSED)


def test_end_follows_everything_that_waits() -> None:
    session = open_upstream()
    for _ in range(3):
        session.offer_chunk("rows", 4)
    session.end(closes_channel=True)
    assert [frame_name(frame) for frame in session.take_frames()] == ["Data", "Data"]
    session.receive(AddPermits(Permits(rows=4)))
    *_, end = session.take_frames()
    assert end == End(3, 12, 0, closes_channel=True)
    assert session.take_frames() == []


def test_nothing_may_be_sent_after_the_end() -> None:
    session = open_upstream()
    session.end()
    with pytest.raises(LocalProtocolError, match="told to end"):
        session.offer_watermark("w")


@pytest.mark.parametrize("totals", [End(2, 3, 0), End(1, 4, 0), End(1, 3, 1), End(0, 0, 0), End(-1, 3, 0)])
def test_totals_that_do_not_add_up_are_refused(totals: End) -> None:
    session = open_downstream()
    session.receive(CHUNK)
    with pytest.raises(LedgerError):
        session.receive(totals)
    assert session.state is State.FAILED


def test_a_downstream_that_keeps_permits_at_the_end_is_found_out() -> None:
    sender, _ = ended_pair()
    with pytest.raises(LedgerError, match="unreturned rows permits: 3 here"):
        sender.peer_closed()
    assert sender.state is State.FAILED


@pytest.mark.parametrize("state", [State.AWAITING_GET, State.AWAITING_AGREEMENT, State.DECIDING, State.OPEN])
def test_a_downstream_that_leaves_before_the_end_is_gone(state: State) -> None:
    with pytest.raises(PeerGoneError, match="the receiver is gone"):
        upstream(state).peer_closed()


@pytest.mark.parametrize("state", [State.AWAITING_PUT, State.AWAITING_AGREEMENT, State.DECIDING, State.OPEN])
def test_an_upstream_that_leaves_before_the_end_is_gone(state: State) -> None:
    session = downstream(state)
    with pytest.raises(PeerGoneError, match="the sender is gone"):
        session.peer_closed()
    assert session.state is State.FAILED


def test_an_upstream_may_leave_after_its_end() -> None:
    _, receiver = ended_pair()
    receiver.peer_closed()
    assert receiver.take().payload == "rows"


def test_an_abort_overtakes_what_waits_and_hides_what_was_not_taken() -> None:
    sender, receiver = open_upstream(), open_downstream()
    for _ in range(3):
        sender.offer_chunk("rows", 4)
    frames = sender.take_frames()
    sender.abort("tired")
    for frame in (*frames, *sender.take_frames()):
        receiver.receive(frame)
    with pytest.raises(ChannelAbortedError, match=r"'orders/0' was aborted by its sender: tired"):
        receiver.take()
    assert receiver.is_finished
    sender.peer_closed()  # permits do not matter any more
    sender.close()


def test_an_abort_takes_an_announced_end_back() -> None:
    session = open_upstream()
    session.offer_chunk("rows", 4)
    session.end()
    session.abort("tired")
    assert session.take_frames() == [Abort("tired")]
    assert not session.is_ending


@pytest.mark.parametrize("session", [open_upstream(), open_downstream()], ids=["upstream", "downstream"])
def test_an_acceptor_breaks_off_with_its_reason(session: UpstreamSession[str] | DownstreamSession[str]) -> None:
    session.fail(b"why")
    assert session.take_frames() == [Failure(b"why")]
    assert session.state is State.FAILED
    assert session.take_frames() == []
