"""Data and permits between both ends of a stream, and what is refused of them; chunks that travel together."""

from typing import Any

import pytest

from permitflow.errors import (
    MispricedError,
    OverspendError,
    PermitflowError,
    PermitOverrunError,
    WouldBlock,
)
from permitflow.protocol.frames import (
    AddPermits,
    Chunks,
    Data,
    End,
    Get,
)
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.recording import Recorder
from permitflow.protocol.session import State, UpstreamSession
from tests.support.sessions import CHANNEL, CHUNK, SMALL, downstream, open_downstream, open_upstream


def test_permits_come_back_in_one_frame_for_all_that_was_consumed() -> None:
    session = open_downstream()
    for _ in range(2):
        session.receive(CHUNK)
    session.receive(Data(Message(Kind.BARRIER, "e", 0, 1)))
    for _ in range(3):
        session.take()
        session.consume()
    assert session.owes
    assert session.take_frames() == [AddPermits(Permits(rows=6, barriers=1))]
    assert session.take_frames() == []


def test_batches_that_were_consumed_one_by_one_come_back_in_one_frame() -> None:
    session = open_downstream()
    for _ in range(2):
        session.receive_chunks(["a batch"], [SMALL.permit_batch], SMALL.permit_batch)
    for _ in range(2):
        session.take()
        session.consume()
    assert session.owed_rows == 2 * SMALL.permit_batch
    assert session.take_frames() == [AddPermits(Permits(rows=2 * SMALL.permit_batch))]


@pytest.mark.parametrize("held", [0, 1, 2])
def test_who_has_consumed_nothing_may_say_so(held: int) -> None:
    session = open_downstream()
    session.receive_chunks(["a", "b"], [1, 1], 2)
    for _ in range(held):
        session.take()
    session.consume(0)
    assert session.receiver.consumed_chunks == 0
    session.consume(held)
    assert session.receiver.consumed_chunks == held


def test_a_residue_waits_for_a_batch_or_for_an_idle_consumer() -> None:
    session = open_downstream()
    session.receive(CHUNK)
    assert session.receive_message() == CHUNK.message
    assert session.take_frames() == []
    session.flush()
    assert session.take_frames() == [AddPermits(Permits(rows=3))]


def test_nothing_can_be_taken_where_nothing_is() -> None:
    with pytest.raises(WouldBlock):
        open_downstream().take()
    assert open_downstream().receive_message() is None


def test_more_permits_than_the_peer_holds_are_refused() -> None:
    session = open_upstream()
    session.offer_chunk("rows", 3)
    session.take_frames()
    with pytest.raises(PermitOverrunError) as caught:
        session.receive(AddPermits(Permits(rows=4)))
    assert (caught.value.returned, caught.value.outstanding) == (4, 3)
    assert session.state is State.FAILED


@pytest.mark.parametrize(
    "permits", [Permits(rows=-1), Permits(barriers=1), Permits(watermarks=1), Permits(barriers=-1)]
)
def test_permits_out_of_thin_air_are_refused(permits: Permits) -> None:
    with pytest.raises(PermitOverrunError):
        open_upstream().receive(AddPermits(permits))


def test_data_without_permits_are_refused() -> None:
    session = open_downstream()
    for _ in range(2):
        session.receive(CHUNK)
    with pytest.raises(OverspendError) as caught:
        session.receive(CHUNK)
    assert (caught.value.cost, caught.value.available) == (3, 2)
    assert session.state is State.FAILED


@pytest.mark.parametrize(
    "message",
    [
        Message(Kind.CHUNK, "cheap", 3, 1),
        Message(Kind.CHUNK, "dear", 3, 4),
        Message(Kind.CHUNK, "free", 3, 0),
        Message(Kind.CHUNK, "paid for", 3, -3),
        Message(Kind.CHUNK, "empty and free", 0, 0),
        Message(Kind.CHUNK, "less than nothing", -1, 1),
        Message(Kind.CHUNK, "not split", 5, 4),
        Message(Kind.BARRIER, "free", 0, 0),
        Message(Kind.BARRIER, "dear", 0, 2),
        Message(Kind.WATERMARK, "free", 0, 0),
    ],
    ids=lambda message: f"{message.kind}-{message.payload}",
)
def test_a_message_for_other_permits_than_it_costs_is_refused(message: Message[str]) -> None:
    with pytest.raises(MispricedError) as caught:
        open_downstream().receive(Data(message))
    assert (caught.value.rows, caught.value.permits) == (message.rows, message.cost)


def test_a_whole_chunk_passes_for_the_clamp_where_that_was_agreed() -> None:
    whole = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4, oversize=Oversize.WHOLE)
    session = open_downstream(whole)
    session.receive(Data(Message(Kind.CHUNK, "large", 100, 4)))
    assert session.receiver.inbox_rows == 100


def test_messages_may_be_posted_one_by_one() -> None:
    session = open_upstream()
    session.offer_chunk("rows", 3)
    assert session.take_posted() == []
    session.post(session.sender.send_chunk())
    assert session.take_posted() == [CHUNK]


def test_recorders_are_opened_under_the_name_that_both_ends_know() -> None:
    opened: list[tuple[str, str, ChannelParameters]] = []
    actions: list[str] = []

    def recorder(channel: str, end: Any, parameters: ChannelParameters) -> Recorder:
        opened.append((channel, end, parameters))
        return lambda action, rows, permits, counters=None: actions.append(action)

    session: UpstreamSession[str] = UpstreamSession(record=recorder)
    session.receive(Get(1, CHANNEL))
    session.accept(SMALL, schema=b"", stream="orders/0#get1")
    session.offer_chunk("rows", 3)
    session.take_frames()
    assert opened == [("orders/0#get1", "sender", SMALL)]
    assert actions == ["OfferChunk", "SendChunk"]


def chunks(*rows: int, permits: int | None = None) -> Chunks[str]:
    return Chunks([f"{count} rows" for count in rows], rows, sum(rows) if permits is None else permits)


def test_chunks_that_travel_together_count_as_if_each_had_come_alone() -> None:
    session = downstream(State.OPEN)
    session.receive(chunks(1, 2, 1))
    assert [message.rows for message in session.receiver.inbox] == [1, 2, 1]
    assert [message.cost for message in session.receiver.inbox] == [1, 2, 1]
    assert session.receiver.granted.rows == session.parameters.row_permits - 4
    session.receive(End(3, 4, 0))
    assert session.state is State.ENDED


def test_an_empty_chunk_among_others_costs_one_permit() -> None:
    session = downstream(State.OPEN)
    session.receive(chunks(1, 0, 2, permits=4))
    assert [message.cost for message in session.receiver.inbox] == [1, 1, 2]
    session.receive(End(3, 3, 0))


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (chunks(1, 2, permits=2), MispricedError),
        (chunks(1, 2, permits=4), MispricedError),
        (chunks(1, -1, 2), MispricedError),
        (chunks(1, 0), MispricedError),
        (chunks(1, 99), MispricedError),
        (chunks(*[1] * 99), OverspendError),
    ],
    ids=["too few permits", "too many", "negative rows", "an empty one for nothing", "not split", "more than granted"],
)
def test_chunks_that_travel_together_pay_together(frame: Chunks[str], error: type[Exception]) -> None:
    session = downstream(State.OPEN)
    with pytest.raises(error):
        session.receive(frame)
    assert session.state is State.FAILED


def test_chunks_that_leave_together_travel_together_in_their_place() -> None:
    session = open_upstream()
    session.take_posted()
    assert session.send_many(["a", "bb"], [1, 2]) == 2
    assert session.send_many(["c"], [1]) == 1
    session.offer_barrier("|")
    session.post(session.sender.send_barrier())
    assert session.send_many(["d", "too many"], [1, 99]) == 1
    session.end()
    frames = session.take_posted()
    assert frames == [
        Chunks(["a", "bb", "c"], [1, 2, 1], 4),
        Data(Message(Kind.BARRIER, "|", 0, 1)),
        Chunks(["d"], [1], 1),
        End(4, 5, 1),
    ]
    assert session.take_posted() == []


def taken(state: State, came_rows: list[int], deed: str, rows: list[int], permits: int) -> object:
    """What becomes of a session to which some chunks have come, then these by one of its methods, and then the end."""
    session, refusal = downstream(state), None
    payloads = [str(position) for position in range(len(rows))]
    try:
        for count in came_rows:
            session.receive(Chunks(["before"], [count], count))
        if deed == "receive":
            session.receive(Chunks(payloads, rows, permits))
        else:
            session.receive_chunks(payloads, rows, permits)
        if session.state is State.OPEN:
            session.receive(End(len(rows) + len(came_rows), sum(rows) + sum(came_rows), 0))
    except PermitflowError as error:
        refusal = error
    books = (session.receiver.inbox, session.receiver.granted) if state in (State.OPEN, State.ENDED) else ()
    return session.state, books, type(refusal), str(refusal)


@pytest.mark.parametrize("state", [State.AWAITING_PUT, State.DECIDING, State.OPEN, State.ENDED, State.FAILED])
@pytest.mark.parametrize(
    ("rows", "permits"), [([3], 3), ([1, 2], 3), ([], 0), ([3], 2), ([1, 2], 2), ([0, 2], 3), ([-1], 1), ([9], 9)]
)
def test_chunks_without_a_frame_are_taken_and_refused_as_their_frame_is(
    state: State, rows: list[int], permits: int
) -> None:
    assert taken(state, [], "receive_chunks", rows, permits) == taken(state, [], "receive", rows, permits)
