"""The two sessions of a stream: which frame is taken in which state, what travels between them, and how it ends."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from permitflow import ChannelParameters, Kind, Message, Permits
from permitflow.client import EndOutcome
from permitflow.errors import (
    EndOfStream,
    LedgerError,
    LocalProtocolError,
    PeerGoneError,
    UnexpectedFrameError,
)
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import (
    Abort,
    Agreement,
    Announcement,
    Cancel,
    Chunks,
    Data,
    End,
    Ended,
    Failure,
    Feedback,
    Frame,
    Get,
    Put,
    UpstreamFrame,
    frame_name,
)
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.session import DOWNSTREAM, UPSTREAM, DownstreamSession, Session, State, UpstreamSession

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
CHANNEL = "orders/0"
CHUNK = Chunks(["rows"], [3])
BARRIER = Data[str](Message(Kind.BARRIER, "e"))


def open_upstream() -> UpstreamSession[str]:
    """One that was dialled and has agreed."""
    session: UpstreamSession[str] = UpstreamSession()
    session.receive(Get(PROTOCOL_VERSION, CHANNEL))
    session.accept(SMALL, schema=b"schema", stream="orders/0#get1")
    assert [frame_name(frame) for frame in session.take_posted()] == ["Agreement"]
    return session


def open_downstream() -> DownstreamSession[str]:
    """One that was dialled and has agreed."""
    session: DownstreamSession[str] = DownstreamSession()
    session.receive(Put(PROTOCOL_VERSION, CHANNEL))
    session.accept(SMALL, schema=b"schema", stream="orders/0#put1")
    assert [frame_name(frame) for frame in session.take_frames()] == ["Agreement"]
    return session


def sent(session: UpstreamSession[str]) -> list[UpstreamFrame[str]]:
    """All frames to write when every message has left that may."""
    for message in session.outbound.take_sendable():
        session.post(message)
    return session.take_posted()


def upstream(state: State) -> UpstreamSession[str]:
    """An upstream session in this state; to one that takes permits, some may come back."""
    match state:
        case State.AWAITING_GET:
            return UpstreamSession()
        case State.AWAITING_AGREEMENT:
            return UpstreamSession(Put(PROTOCOL_VERSION, CHANNEL))
        case State.DECIDING:
            session: UpstreamSession[str] = UpstreamSession()
            session.receive(Get(PROTOCOL_VERSION, CHANNEL))
            return session
    session = open_upstream()
    if state in (State.OPEN, State.ENDED):
        session.send_many(["row"], [1])
        session.take_posted()
    if state in (State.ENDED, State.CLOSED):
        session.end()
        session.take_posted()
    if state is State.CLOSED:
        session.receive(Ended(EndOutcome.CONSUMED))
        session.peer_closed()
        session.close()
    if state is State.FAILED:
        _fail(partial(session.receive, CHUNK))
    return session


def downstream(state: State) -> DownstreamSession[str]:
    """A downstream session in this state."""
    match state:
        case State.AWAITING_PUT:
            return DownstreamSession()
        case State.AWAITING_AGREEMENT:
            return DownstreamSession(Get(PROTOCOL_VERSION, CHANNEL))
        case State.DECIDING:
            session: DownstreamSession[str] = DownstreamSession()
            session.receive(Put(PROTOCOL_VERSION, CHANNEL))
            return session
    session = open_downstream()
    if state in (State.ENDED, State.CLOSED):
        session.receive(End(0, 0, 0))
    if state is State.CLOSED:
        session.take_frames()
        session.close()
    if state is State.FAILED:
        _fail(partial(session.receive, Get(PROTOCOL_VERSION, CHANNEL)))
    return session


def _fail(receive: Callable[[], object]) -> None:
    """Receive what is out of place."""
    try:
        receive()
    except UnexpectedFrameError:
        return
    raise AssertionError("a frame that is out of place was taken")


AGREEMENT = Agreement(PROTOCOL_VERSION, "permits", PERMITS.state(SMALL), b"schema")
FRAMES: list[Frame[str]] = [
    Get(PROTOCOL_VERSION, CHANNEL),
    Put(PROTOCOL_VERSION, CHANNEL),
    AGREEMENT,
    BARRIER,
    Chunks(["rows", "row"], [3, 1]),
    Feedback(Permits(1)),
    End(0, 0, 0),
    Ended(EndOutcome.CONSUMED),
    Cancel("enough"),
    Abort("tired"),
    Failure(b"why"),
]


TABLES: dict[Callable[[State], Session[str]], Mapping[tuple[State, type], State]] = {
    upstream: UPSTREAM,
    downstream: DOWNSTREAM,
}
"""What they take is the model's: tests/conformance/test_stream_life.py."""
OVER = (State.ENDED, State.CLOSED, State.FAILED)
ENDS = [(end, state) for end, table in TABLES.items() for state in dict.fromkeys([*(at for at, _ in table), *OVER])]


@pytest.mark.parametrize(("end", "state"), ENDS)
def test_an_end_takes_a_frame_or_names_it(end: Callable[[State], Session[str]], state: State) -> None:
    takes = {frame_name(kind): after for (at, kind), after in TABLES[end].items() if at is state}
    for frame in FRAMES:
        session, name = end(state), frame_name(frame)
        if name in takes:
            # An End that follows a chunk would not add up; here none came.
            session.receive(frame)
            assert session.state is takes[name]
            continue
        with pytest.raises(UnexpectedFrameError) as caught:
            session.receive(frame)
        assert (caught.value.frame, caught.value.expected) == (name, " or ".join(takes) or "nothing")
        assert session.state is State.FAILED


def test_an_announcement_of_a_flow_without_any_is_refused() -> None:
    with pytest.raises(UnexpectedFrameError, match="this flow has no announcements"):
        downstream(State.OPEN).receive(Announcement("said"))


MISUSE: dict[str, Callable[[], object]] = {
    "request before Get": lambda: UpstreamSession[str]().request,
    "inbound before Put": lambda: DownstreamSession[str]().inbound,
    "accept before Get": lambda: UpstreamSession[str]().accept(SMALL, schema=b""),
    "chunk before Get": lambda: UpstreamSession[str]().offer(Kind.CHUNK, "", 1),
    "second accept": lambda: open_upstream().accept(SMALL, schema=b""),
    "upstream closed before the peer": lambda: open_upstream().close(),
    "downstream closed before the end": lambda: open_downstream().close(),
    "chunk after the end": lambda: upstream(State.ENDED).offer(Kind.CHUNK, "", 1),
    "second end": lambda: upstream(State.ENDED).end(),
}


@pytest.mark.parametrize("deed", MISUSE)
def test_an_end_that_is_used_too_early_or_too_late_says_so(deed: str) -> None:
    with pytest.raises(LocalProtocolError):
        MISUSE[deed]()


# Data and permits.


def test_chunks_that_leave_together_travel_together_in_their_place() -> None:
    session = open_upstream()
    session.take_posted()
    assert session.send_many(["a", "bb"], [1, 2]) == 2
    assert session.send_many(["c"], [1]) == 1
    session.offer(Kind.BARRIER, "|")
    session.post(session.outbound.send_oldest())
    assert session.send_many(["d", "too many"], [1, 99]) == 1
    session.end()
    frames = session.take_posted()
    assert frames == [
        Chunks(["a", "bb", "c"], [1, 2, 1]),
        Data(Message(Kind.BARRIER, "|")),
        Chunks(["d"], [1]),
        End(4, 5, 1),
    ]
    assert session.take_posted() == []


# How a stream ends: in order, too early, given up, broken off.


def ended_pair() -> tuple[UpstreamSession[str], DownstreamSession[str]]:
    """Two sessions of one stream after a chunk, a barrier and the end; nothing consumed yet."""
    sender, receiver = open_upstream(), open_downstream()
    sender.offer(Kind.CHUNK, "rows", 3)
    sender.offer(Kind.BARRIER, "e")
    sender.end()
    for frame in sent(sender):
        receiver.receive(frame)
    return sender, receiver


def test_the_end_brings_everything_back_and_both_books_agree() -> None:
    sender, receiver = ended_pair()
    assert receiver.end == End(1, 3, 1)
    for _ in range(2):
        assert not receiver.is_finished
        receiver.inbound.take()
        receiver.inbound.consume_many(1)
    assert isinstance(receiver.ending(), EndOfStream)
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
        session.offer(Kind.CHUNK, "rows", 4)
    session.end(closes_channel=True)
    assert [frame_name(frame) for frame in sent(session)] == ["Chunks"]
    session.receive(Feedback(Permits(rows=4)))
    *_, end = sent(session)
    assert end == End(3, 12, 0, closes_channel=True)
    assert sent(session) == []


@pytest.mark.parametrize("totals", [End(2, 3, 0), End(1, 4, 0), End(1, 3, 1), End(0, 0, 0), End(-1, 3, 0)])
def test_totals_that_do_not_add_up_are_refused(totals: End) -> None:
    session = open_downstream()
    session.receive(CHUNK)
    with pytest.raises(LedgerError):
        session.receive(totals)
    assert session.state is State.FAILED


def test_a_downstream_that_keeps_permits_at_the_end_is_found_out() -> None:
    sender, _ = ended_pair()
    with pytest.raises(LedgerError, match=r"before it had consumed all .*unreturned rows permits: 3 here"):
        sender.peer_closed()
    assert sender.state is State.FAILED


@pytest.mark.parametrize(("end", "state"), [(end, state) for end, state in ENDS if state not in OVER])
def test_a_peer_that_leaves_before_the_end_is_gone(
    end: Callable[[State], UpstreamSession[str] | DownstreamSession[str]], state: State
) -> None:
    session = end(state)
    with pytest.raises(PeerGoneError, match=f"the {'receiver' if end is upstream else 'sender'} is gone"):
        session.peer_closed()
    assert session.state is State.FAILED


def test_an_abort_takes_an_announced_end_back() -> None:
    session = open_upstream()
    for _ in range(2):
        session.offer(Kind.CHUNK, "rows", 4)
    assert [frame_name(frame) for frame in sent(session)] == ["Chunks"], "the second one waits"
    session.end()
    session.abort("tired")
    assert sent(session) == [Abort("tired")]
    session.peer_closed()  # permits do not matter any more
    session.close()
