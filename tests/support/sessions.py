"""Both ends of a stream without a carrier, in every state, for tests."""

from collections.abc import Callable
from functools import partial

from permitflow.errors import UnexpectedFrameError
from permitflow.protocol.frames import Data, End, Get, Put, frame_name
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import DownstreamSession, State, UpstreamSession

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
CHANNEL = "orders/0"
CHUNK = Data(Message(Kind.CHUNK, "rows", 3, 3))


def open_upstream(parameters: ChannelParameters = SMALL) -> UpstreamSession[str]:
    """One that was dialled and has agreed."""
    session: UpstreamSession[str] = UpstreamSession()
    session.receive(Get(1, CHANNEL))
    session.accept(parameters, schema=b"schema", stream="orders/0#get1")
    assert [frame_name(frame) for frame in session.take_frames()] == ["Agreement"]
    return session


def open_downstream(parameters: ChannelParameters = SMALL) -> DownstreamSession[str]:
    """One that was dialled and has agreed."""
    session: DownstreamSession[str] = DownstreamSession()
    session.receive(Put(1, CHANNEL))
    session.accept(parameters, schema=b"schema", stream="orders/0#put1")
    assert [frame_name(frame) for frame in session.take_frames()] == ["Agreement"]
    return session


def upstream(state: State) -> UpstreamSession[str]:
    """An upstream session in this state; to one that takes permits, some may come back."""
    match state:
        case State.AWAITING_GET:
            return UpstreamSession()
        case State.AWAITING_AGREEMENT:
            return UpstreamSession(Put(1, CHANNEL))
        case State.DECIDING:
            session: UpstreamSession[str] = UpstreamSession()
            session.receive(Get(1, CHANNEL))
            return session
    session = open_upstream()
    if state in (State.OPEN, State.ENDED):
        session.send_many(["row"], [1])
        session.take_frames()
    if state in (State.ENDED, State.CLOSED):
        session.end()
        session.take_frames()
    if state is State.CLOSED:
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
            return DownstreamSession(Get(1, CHANNEL))
        case State.DECIDING:
            session: DownstreamSession[str] = DownstreamSession()
            session.receive(Put(1, CHANNEL))
            return session
    session = open_downstream()
    if state in (State.ENDED, State.CLOSED):
        session.receive(End(0, 0, 0))
    if state is State.CLOSED:
        session.close()
    if state is State.FAILED:
        _fail(partial(session.receive, Get(1, CHANNEL)))
    return session


def _fail(receive: Callable[[], object]) -> None:
    """Receive what is out of place."""
    try:
        receive()
    except UnexpectedFrameError:
        return
    raise AssertionError("a frame that is out of place was taken")
