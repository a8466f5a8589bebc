"""Whatever frame comes in whatever state is taken, or named in an error; so is every misuse."""

from collections.abc import Callable

import pytest

from permitflow.errors import (
    LocalProtocolError,
    ParameterMismatchError,
    UnexpectedFrameError,
)
from permitflow.protocol.frames import (
    Abort,
    AddPermits,
    Agreement,
    Chunks,
    Data,
    End,
    Ended,
    EndOutcome,
    Failure,
    Frame,
    Get,
    Put,
    StatedParameters,
    frame_name,
)
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import DownstreamSession, State, UpstreamSession
from tests.support.sessions import CHANNEL, CHUNK, SMALL, downstream, open_downstream, open_upstream, upstream

FRAMES: list[Frame[str]] = [
    Get(1, CHANNEL),
    Put(1, CHANNEL),
    Agreement(1, StatedParameters.of(SMALL), b"schema"),
    CHUNK,
    Chunks(["rows", "row"], [3, 1], 4),
    AddPermits(Permits(1)),
    End(0, 0, 0),
    Ended(EndOutcome.CONSUMED),
    Abort("tired"),
    Failure(b"why"),
]


UPSTREAM_TAKES = {
    State.AWAITING_GET: {"Get": State.DECIDING},
    State.DECIDING: {},
    State.AWAITING_AGREEMENT: {"Agreement": State.OPEN},
    State.OPEN: {"AddPermits": State.OPEN},
    State.ENDED: {"AddPermits": State.ENDED, "Ended": State.ENDED},
    State.CLOSED: {},
    State.FAILED: {},
}


DOWNSTREAM_TAKES = {
    State.AWAITING_PUT: {"Put": State.DECIDING},
    State.DECIDING: {},
    State.AWAITING_AGREEMENT: {"Agreement": State.OPEN},
    State.OPEN: {
        "Data": State.OPEN,
        "Chunks": State.OPEN,
        "End": State.ENDED,
        "Abort": State.ENDED,
    },
    State.ENDED: {},
    State.CLOSED: {},
    State.FAILED: {},
}


@pytest.mark.parametrize("state", list(UPSTREAM_TAKES))
def test_an_upstream_takes_a_frame_or_names_it(state: State) -> None:
    for frame in FRAMES:
        check(upstream(state), state, frame, UPSTREAM_TAKES)


@pytest.mark.parametrize("state", list(DOWNSTREAM_TAKES))
def test_a_downstream_takes_a_frame_or_names_it(state: State) -> None:
    for frame in FRAMES:
        check(downstream(state), state, frame, DOWNSTREAM_TAKES)


def check(
    session: UpstreamSession[str] | DownstreamSession[str],
    state: State,
    frame: Frame[str],
    takes: dict[State, dict[str, State]],
) -> None:
    assert session.state is state
    name = frame_name(frame)
    if name in takes[state]:
        # An End that follows a chunk would not add up; here none came.
        session.receive(frame)
        assert session.state is takes[state][name]
        return
    with pytest.raises(UnexpectedFrameError) as caught:
        session.receive(frame)
    assert caught.value.frame == name
    assert caught.value.expected == (" or ".join(takes[state]) or "nothing")
    assert session.state is State.FAILED


def test_every_state_and_every_frame_is_tried() -> None:
    assert {*UPSTREAM_TAKES, *DOWNSTREAM_TAKES} == set(State)
    assert {frame_name(frame) for frame in FRAMES} == {
        frame_name(kind) for kind in (Get, Put, Agreement, Data, Chunks, AddPermits, End, Ended, Abort, Failure)
    }


@pytest.mark.parametrize(
    "session",
    [UpstreamSession[str](Put(1, CHANNEL)), DownstreamSession[str](Get(1, CHANNEL))],
    ids=["upstream", "downstream"],
)
def test_only_an_acceptor_may_break_off_with_a_failure(session: UpstreamSession[str] | DownstreamSession[str]) -> None:
    """Those that have dialled take it; the sessions above were dialled, and refuse it."""
    session.receive(Agreement(1, StatedParameters.of(SMALL), b"schema"))
    session.receive(Failure(b"why"))
    assert (session.state, session.failure) == (State.FAILED, b"why")


def test_the_dialler_writes_its_wishes_first() -> None:
    put = Put(1, CHANNEL)
    get = Get(1, CHANNEL)
    assert UpstreamSession[str](put).take_frames() == [put]
    assert DownstreamSession[str](get).take_frames() == [get]


def test_both_ends_count_by_the_agreement() -> None:
    put = Put(1, CHANNEL, StatedParameters.of(ChannelParameters(row_permits=6)), b"schema")
    sender: UpstreamSession[str] = UpstreamSession(put)
    receiver: DownstreamSession[str] = DownstreamSession()
    receiver.receive(put)
    receiver.accept(SMALL, schema=b"schema", stream="orders/0#put1")
    (agreement,) = receiver.take_frames()
    sender.receive(agreement)
    assert sender.parameters == receiver.parameters == ChannelParameters(row_permits=6, max_chunk_cost=4)
    assert sender.agreement.stream == "orders/0#put1"
    assert (sender.channel, receiver.channel) == ("orders/0", "orders/0")


def test_an_agreement_above_the_wishes_is_refused() -> None:
    session: DownstreamSession[str] = DownstreamSession(Get(1, CHANNEL, StatedParameters.of(SMALL)))
    with pytest.raises(ParameterMismatchError, match="row_permits must not exceed"):
        session.receive(Agreement(1, StatedParameters.of(ChannelParameters()), b""))
    assert session.state is State.FAILED


MISUSE: dict[str, Callable[[], object]] = {
    "request before Get": lambda: UpstreamSession[str]().request,
    "agreement before Get": lambda: UpstreamSession[str]().agreement,
    "parameters before Get": lambda: UpstreamSession[str]().parameters,
    "sender before Get": lambda: UpstreamSession[str]().sender,
    "receiver before Put": lambda: DownstreamSession[str]().receiver,
    "accept before Get": lambda: UpstreamSession[str]().accept(SMALL, schema=b""),
    "chunk before Get": lambda: UpstreamSession[str]().offer_chunk("", 1),
    "end before Get": lambda: UpstreamSession[str]().end(),
    "abort before Get": lambda: UpstreamSession[str]().abort("tired"),
    "second accept": lambda: open_upstream().accept(SMALL, schema=b""),
    "upstream closed before the peer": lambda: open_upstream().close(),
    "downstream closed before the end": lambda: open_downstream().close(),
    "chunk after the end": lambda: upstream(State.ENDED).offer_chunk("", 1),
    "second end": lambda: upstream(State.ENDED).end(),
    "abort after the end": lambda: upstream(State.ENDED).abort("tired"),
}


@pytest.mark.parametrize("deed", MISUSE)
def test_an_end_that_is_used_too_early_or_too_late_says_so(deed: str) -> None:
    with pytest.raises(LocalProtocolError):
        MISUSE[deed]()
