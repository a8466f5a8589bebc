"""The receiver: which permits go back and when; what it refuses to accept; and both ends together."""

import itertools

import pytest

from permitflow.errors import LocalProtocolError, OverspendError, WouldBlock
from permitflow.protocol.messages import NO_PERMITS, Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.sender import PermitSender

RISINGWAVE = ChannelParameters(row_permits=2_048, permit_batch=256)


def chunk(rows: int, cost: int | None = None) -> Message[str]:
    return Message(Kind.CHUNK, "", rows, max(1, rows) if cost is None else cost)


def receiver_of(*messages: Message[str], parameters: ChannelParameters = RISINGWAVE) -> PermitReceiver[str]:
    receiver: PermitReceiver[str] = PermitReceiver(parameters)
    for message in messages:
        receiver.deliver(message)
    return receiver


def consume(receiver: PermitReceiver[str]) -> Permits | None:
    receiver.take()
    return receiver.consume()


def test_rows_go_back_once_a_batch_is_together() -> None:
    receiver = receiver_of(chunk(100), chunk(155), chunk(1), chunk(256), chunk(255))

    returned = [consume(receiver) for _ in range(5)]

    assert returned == [None, None, Permits(rows=256), Permits(rows=256), None]
    assert receiver.unreturned == 255


def test_a_residue_leaves_room_for_the_largest_chunk() -> None:
    """V1.5: this is why the clamp is the window less the batch."""
    sender: PermitSender[str] = PermitSender(RISINGWAVE)
    receiver = receiver_of()
    sender.offer_chunk("", 255)
    receiver.deliver(sender.send_chunk())
    assert consume(receiver) is None
    assert (receiver.unreturned, sender.permits.rows) == (255, 1_793)

    sender.offer_chunk("", 1_792)
    receiver.deliver(sender.send_chunk())
    assert sender.permits.rows == 1
    assert consume(receiver) == Permits(rows=2_047)


def test_barriers_and_watermarks_go_back_at_once() -> None:
    """V1.6."""
    receiver = receiver_of(chunk(10), Message(Kind.BARRIER, "b", 0, 1), Message(Kind.WATERMARK, "w", 0, 1), chunk(20))

    assert [consume(receiver) for _ in range(3)] == [None, Permits(barriers=1), Permits(watermarks=1)]
    assert receiver.unreturned == 10


def is_stuck_for_some_sizes(batch_up: int, batch_down: int, row_permits: int) -> bool:
    """Is there a sequence of at most four chunks after which the next one waits for ever?"""
    up = ChannelParameters(row_permits=row_permits, permit_batch=batch_up)
    down = ChannelParameters(row_permits=row_permits, permit_batch=batch_down)
    for costs in itertools.product(range(1, up.max_chunk_cost + 1), repeat=4):
        sender: PermitSender[str] = PermitSender(up)
        receiver: PermitReceiver[str] = PermitReceiver(down)
        for cost in costs:
            sender.offer_chunk("", cost)
            for message in sender.take_sendable():
                receiver.deliver(message)
                if (returned := consume(receiver)) is not None:
                    sender.add_permits(returned)
        if sender.has_waiting:
            flushed = receiver.flush()
            assert flushed is not None, "an idle consumer returns the residue"
            sender.add_permits(flushed)
            assert sender.take_sendable() != [], "and that always helps"
            return True
    return False


@pytest.mark.parametrize("row_permits", [6, 8])
def test_different_batches_at_the_two_ends_live_exactly_up_to_one_more(row_permits: int) -> None:
    """V1.7: a receiver that batches more than the sender's clamp allows for gets stuck, until it flushes."""
    for batch_up, batch_down in itertools.product(range(1, row_permits), repeat=2):
        expected = batch_down > batch_up + 1
        assert is_stuck_for_some_sizes(batch_up, batch_down, row_permits) == expected, (batch_up, batch_down)


def test_the_published_mismatch_ends_as_published() -> None:
    """V1.7, its numbers: clamp 4, batches of 7 where 8 cannot be configured; 4 and 3 rows sent, 4 wait."""
    sender: PermitSender[str] = PermitSender(ChannelParameters(row_permits=8, permit_batch=4))
    receiver = receiver_of(parameters=ChannelParameters(row_permits=9, permit_batch=8))
    for rows in (4, 3):
        sender.offer_chunk("", rows)
        receiver.deliver(sender.send_chunk())
        assert consume(receiver) is None
    sender.offer_chunk("", 4)

    assert (receiver.unreturned, sender.permits.rows) == (7, 1)
    assert sender.take_sendable() == []
    assert receiver.is_empty


def test_the_permits_of_a_message_go_back_verbatim() -> None:
    """The receiver would have counted 5 for it; it returns the 3 that the sender spent."""
    parameters = ChannelParameters(row_permits=8, permit_batch=1)
    receiver = receiver_of(chunk(rows=5, cost=3), parameters=parameters)

    assert receiver.inbox_rows == 5
    assert consume(receiver) == Permits(rows=3)
    assert receiver.consumed_rows == 5


def test_an_idle_consumer_returns_the_residue_and_only_once() -> None:
    receiver = receiver_of(chunk(10), chunk(20))
    assert consume(receiver) is None
    assert not receiver.is_idle
    assert receiver.flush() is None, "a message is still here"
    assert consume(receiver) is None
    assert receiver.is_idle

    assert receiver.flush() == Permits(rows=30)
    assert receiver.flush() is None
    assert receiver.granted == Permits(2_048, 1, 1)


def test_a_message_that_is_held_keeps_its_permits() -> None:
    receiver = receiver_of(chunk(300), chunk(300))
    first, second = receiver.take(), receiver.take()
    assert (first.rows, second.rows, receiver.has_untaken) == (300, 300, False)
    assert receiver.flush() is None
    assert receiver.inbox_rows == 600

    assert receiver.consume() == Permits(rows=300)
    assert receiver.inbox_rows == 300


def test_taking_and_consuming_need_a_message() -> None:
    receiver = receiver_of(chunk(1))
    with pytest.raises(LocalProtocolError, match="nothing was taken"):
        receiver.consume()
    receiver.take()
    with pytest.raises(WouldBlock):
        receiver.take()
    with pytest.raises(LocalProtocolError, match="1 messages were taken and not consumed"):
        receiver.try_receive()
    receiver.consume()
    assert receiver.try_receive() is None


@pytest.mark.parametrize("cost", [2_049, 0, -1])
def test_a_chunk_that_its_sender_had_no_permits_for_is_refused(cost: int) -> None:
    receiver = receiver_of()
    with pytest.raises(OverspendError) as caught:
        receiver.deliver(chunk(rows=1, cost=cost))

    assert (caught.value.permit_class, caught.value.cost, caught.value.available) == ("rows", cost, 2_048)
    assert receiver.is_empty
    assert receiver.granted == Permits(2_048, 1, 1)


@pytest.mark.parametrize(("kind", "permit_class"), [(Kind.BARRIER, "barriers"), (Kind.WATERMARK, "watermarks")])
def test_barriers_and_watermarks_are_bounded_too(kind: Kind, permit_class: str) -> None:
    receiver = receiver_of(Message(kind, "first", 0, 1))
    for cost in (1, 0):
        with pytest.raises(OverspendError) as caught:
            receiver.deliver(Message(kind, "second", 0, cost))
        assert (caught.value.permit_class, caught.value.available) == (permit_class, 0)
    assert len(receiver.inbox) == 1


def test_permits_of_consumed_messages_are_not_granted_before_they_are_returned() -> None:
    receiver = receiver_of(chunk(255), chunk(1))
    consume(receiver)
    assert receiver.granted.rows == 2_048 - 256
    consume(receiver)
    assert receiver.granted.rows == 2_048


@pytest.mark.parametrize("oversize", list(Oversize))
def test_receiving_in_one_step_is_taking_and_consuming(oversize: Oversize) -> None:
    """Same messages, same permits, same books, for every kind of message in every order."""
    parameters = ChannelParameters(row_permits=16, permit_batch=4, barrier_permits=2, oversize=oversize)
    kinds = [
        chunk(1),
        chunk(3),
        chunk(0),
        chunk(4),
        Message(Kind.BARRIER, "b", 0, 1),
        Message(Kind.WATERMARK, "w", 0, 1),
    ]
    if oversize is Oversize.WHOLE:
        kinds.append(chunk(rows=9, cost=3))
    for messages in itertools.permutations(kinds, 4):
        steps, short = receiver_of(*messages, parameters=parameters), receiver_of(*messages, parameters=parameters)
        for message in messages:
            taken = steps.take()
            returned = steps.consume()
            assert short.try_receive() == taken == message
            assert short.is_due == (returned is not None)
            assert short.has_returns == (short.is_due or short.is_idle)
            assert short.take_due() == (returned or NO_PERMITS)
            assert books(short) == books(steps)
        assert short.flush() == steps.flush()
        assert books(short) == books(steps)


def books(receiver: PermitReceiver[str]) -> tuple[object, ...]:
    return (
        receiver.granted,
        receiver.unreturned,
        receiver.inbox,
        receiver.inbox_rows,
        receiver.peak_inbox_rows,
        receiver.consumed_chunks,
        receiver.consumed_rows,
        receiver.is_idle,
    )


def test_the_peak_is_the_most_rows_that_were_ever_here() -> None:
    parameters = ChannelParameters(row_permits=100, permit_batch=10, max_chunk_cost=20, oversize=Oversize.WHOLE)
    receiver = receiver_of(chunk(10), chunk(0), chunk(30, cost=20), parameters=parameters)
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (40, 40)
    receiver.try_receive()
    receiver.try_receive()
    receiver.take_due()
    receiver.deliver(chunk(5))
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (35, 40)
    receiver.deliver(chunk(6))
    receiver.try_receive()
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (11, 41)


def test_a_receiver_that_drops_its_inbox_holds_no_rows_and_keeps_its_counts() -> None:
    receiver = receiver_of(chunk(10), chunk(20), Message(Kind.BARRIER, "b", 0, 1))
    consume(receiver)
    receiver.take()

    receiver.drop()

    assert receiver.is_empty
    assert not receiver.has_untaken
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (0, 30)
    assert (receiver.consumed_chunks, receiver.consumed_rows) == (1, 10)


def test_the_recorder_is_told_every_action_in_the_words_of_the_specification() -> None:
    heard: list[tuple[str, int, Permits]] = []
    receiver: PermitReceiver[str] = PermitReceiver(RISINGWAVE, record=lambda *event: heard.append(event[:3]))
    receiver.deliver(chunk(0))
    receiver.deliver(chunk(7))
    receiver.deliver(Message(Kind.BARRIER, "b", 0, 1))
    consume(receiver)
    receiver.try_receive()
    receiver.try_receive()
    receiver.take_due()
    receiver.flush()

    assert heard == [
        ("Deliver", 0, Permits(rows=1)),
        ("Deliver", 7, Permits(rows=7)),
        ("Deliver", 0, Permits(barriers=1)),
        ("Consume", 0, Permits(rows=1)),
        ("Consume", 7, Permits(rows=7)),
        ("Consume", 0, Permits(barriers=1)),
        ("Flush", 0, Permits(rows=8)),
    ]
