"""A chunk that leaves alone, because its caller writes it at once: only if nothing stands before it or keeps it."""

from collections.abc import Callable

import pytest

from permitflow.protocol.frames import End, Get
from permitflow.protocol.session import State, UpstreamSession
from tests.support.sessions import CHANNEL, SMALL, open_upstream, upstream


def first_of_two(session: UpstreamSession[str]) -> None:
    session.send_many(["a"], [1])


def a_barrier(session: UpstreamSession[str]) -> None:
    session.offer_barrier("|")
    session.post(session.sender.send_barrier())


def one_that_waits(session: UpstreamSession[str]) -> None:
    session.send_many(["a", "a"], [3, 3])
    session.offer_chunk("b", 4)
    session.take_posted()


def the_end(session: UpstreamSession[str]) -> None:
    session.end()


@pytest.mark.parametrize("before", [first_of_two, a_barrier, one_that_waits, the_end])
def test_no_chunk_leaves_alone_that_stands_behind_something(before: Callable[[UpstreamSession[str]], None]) -> None:
    session = open_upstream()
    before(session)
    permits = session.sender.permits
    assert not session.send_alone(1)
    assert session.sender.permits == permits


@pytest.mark.parametrize("state", [state for state in State if state not in (State.OPEN, State.AWAITING_PUT)])
def test_no_chunk_leaves_alone_on_a_stream_that_is_not_open(state: State) -> None:
    assert not upstream(state).send_alone(1)


@pytest.mark.parametrize("rows", [-1, 0, SMALL.max_chunk_cost + 1, SMALL.row_permits])
def test_no_unusual_chunk_leaves_alone(rows: int) -> None:
    session = open_upstream()
    assert not session.send_alone(rows)
    assert session.sender.permits.rows == SMALL.row_permits


def test_a_chunk_alone_counts_as_if_it_had_been_posted_and_is_not_written_again() -> None:
    session = open_upstream()
    assert session.send_alone(2)
    assert session.sender.permits.rows == SMALL.row_permits - 2
    session.end()
    assert session.take_posted() == [End(1, 2, 0)]


def test_chunks_leave_alone_as_long_as_there_are_permits() -> None:
    session = open_upstream()
    left = [session.send_alone(1) for _ in range(SMALL.row_permits + 1)]
    assert left == [True] * SMALL.row_permits + [False]


def test_no_chunk_leaves_alone_where_somebody_records_each_action() -> None:
    recorded = list[object]()
    session: UpstreamSession[str] = UpstreamSession(record=lambda *_: lambda *event: recorded.append(event))
    session.receive(Get(1, CHANNEL))
    session.accept(SMALL, schema=b"schema", stream="s")
    session.take_frames()
    assert not session.send_alone(1)
