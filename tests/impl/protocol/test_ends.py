"""What the two ends of the core refuse, count and remember, and what the model does not say.

What leaves when, in which order and for how many permits: tests/conformance, where the model leads both ends.
"""

from collections.abc import Callable

import pytest

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    OversizeChunkError,
    OverspendError,
    PermitOverrunError,
    WouldBlock,
)
from permitflow.protocol.flow import Totals
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters, Oversize, PermitReceiver, Permits, PermitSender

RISINGWAVE = ChannelParameters(row_permits=2_048, permit_batch=256)


def sender_of(parameters: ChannelParameters = RISINGWAVE) -> PermitSender[str]:
    return PermitSender(parameters)


def chunk(rows: int) -> Message[str]:
    return Message(Kind.CHUNK, "", rows)


def receiver_of(*messages: Message[str], parameters: ChannelParameters = RISINGWAVE) -> PermitReceiver[str]:
    receiver: PermitReceiver[str] = PermitReceiver(parameters)
    for message in messages:
        receiver.deliver(message)
    return receiver


def consume(receiver: PermitReceiver[str]) -> Permits | None:
    receiver.take()
    receiver.consume_many(1)
    return receiver.take_feedback(residue=False)


# The sender.


def test_an_oversize_chunk_is_admitted_whole_for_the_clamp() -> None:
    """V1.3."""
    sender = sender_of(ChannelParameters(row_permits=2_048, permit_batch=256, oversize=Oversize.WHOLE))
    sender.offer(Kind.CHUNK, "large", 10_000)
    large = sender.send_oldest()
    assert large == Message(Kind.CHUNK, "large", 10_000)
    assert (sender.permits.rows, sender.totals) == (256, Totals(1, 10_000, 0))
    receiver = receiver_of(large, parameters=sender.parameters)
    assert (receiver.granted.rows, receiver.totals) == (256, sender.totals)
    assert consume(receiver) == Permits(rows=1_792)


def test_a_channel_that_splits_takes_no_oversize_chunk() -> None:
    sender = sender_of()
    with pytest.raises(
        LocalProtocolError,
        match="1793 rows exceeds this channel's limit of 1792 rows",
    ):
        sender.offer(Kind.CHUNK, "", 1_793)
    with pytest.raises(InvalidParametersError, match="rows must not be negative, not -1"):
        sender.offer(Kind.CHUNK, "", -1)
    assert not sender.has_waiting


def test_withdrawing_everything_leaves_nothing_that_waits() -> None:
    sender = sender_of(ChannelParameters(row_permits=4, permit_batch=1))
    for _ in range(3):
        sender.offer(Kind.CHUNK, "", 3)
        sender.offer(Kind.BARRIER, "")
    sender.offer_watermark("w")
    sender.take_sendable()
    assert sender.has_waiting

    sender.withdraw_all()

    assert not sender.has_waiting
    assert sender.outstanding == Permits(3, 1, 0)


@pytest.mark.parametrize(
    ("returned", "permit_class", "count"),
    [
        (Permits(rows=11), "rows", 11),
        (Permits(rows=-1), "rows", -1),
        (Permits(barriers=2), "barriers", 2),
        (Permits(watermarks=1), "watermarks", 1),
        (Permits(rows=10, barriers=1, watermarks=1), "watermarks", 1),
    ],
)
def test_a_peer_cannot_return_more_than_it_holds(returned: Permits, permit_class: str, count: int) -> None:
    sender = sender_of()
    sender.offer(Kind.CHUNK, "", 10)
    sender.offer(Kind.BARRIER, "")
    sender.take_sendable()

    with pytest.raises(PermitOverrunError) as caught:
        sender.on_feedback(returned)

    assert (caught.value.permit_class, caught.value.returned) == (permit_class, count)
    assert sender.outstanding == Permits(10, 1, 0), "nothing was taken in"
    assert caught.value.outstanding == sender.outstanding[Permits._fields.index(permit_class)]


@pytest.mark.parametrize("send", [PermitSender[str].send_oldest, PermitSender[str].send_watermark])
def test_nothing_leaves_where_nothing_was_offered(send: Callable[[PermitSender[str]], Message[str]]) -> None:
    with pytest.raises(WouldBlock):
        send(sender_of())


def test_the_most_permits_that_were_ever_away_are_remembered() -> None:
    sender = sender_of()
    for rows in (100, 900):
        sender.offer(Kind.CHUNK, "", rows)
        sender.send_oldest()
    sender.on_feedback(Permits(rows=1_000))
    assert (sender.rows_held, sender.peak_rows_held) == (0, 1_000)


@pytest.mark.parametrize(
    ("kind", "rows", "reason"),
    [
        (Kind.CHUNK, 3, "the chunk needs 3 row permits; 1 of 4 are unspent"),
        (Kind.BARRIER, 0, "all 1 barrier permits are out"),
    ],
)
def test_what_may_not_leave_says_what_it_lacks(kind: Kind, rows: int, reason: str) -> None:
    sender = sender_of(ChannelParameters(row_permits=4, permit_batch=1))
    sender.offer(Kind.CHUNK, "", 3)
    sender.offer(Kind.BARRIER, "")
    assert len(sender.take_sendable()) == 2
    sender.offer(kind, "", rows)
    with pytest.raises(WouldBlock, match=reason):
        sender.send_oldest()
    assert sender.lack(kind, (rows,)) == reason
    assert sender.has_waiting


def test_marks_tell_when_all_that_has_left_is_consumed() -> None:
    sender = sender_of()
    sender.offer(Kind.CHUNK, "", 10)
    sender.offer(Kind.BARRIER, "")
    sender.take_sendable()
    mark = sender.sent_mark
    sender.send_now([5])
    assert (mark, sender.sent_mark, sender.heard_mark) == ((10, 1), (15, 1), (0, 0))
    sender.on_feedback(Permits(rows=10))
    sender.on_feedback(Permits(barriers=1))
    assert (sender.sent_mark, sender.heard_mark) == ((15, 1), mark)
    assert sender.unsettled() == ("unreturned rows permits", 5)
    sender.on_feedback(Permits(rows=5))
    assert sender.unsettled() is None


# The receiver.


@pytest.mark.parametrize(("here", "rows", "cost"), [(1_792, 257, 257), (1_792, 1_792, 1_792)])
def test_a_chunk_that_its_sender_had_no_permits_for_is_refused(here: int, rows: int, cost: int) -> None:
    receiver = receiver_of(chunk(here))
    with pytest.raises(OverspendError) as caught:
        receiver.deliver(chunk(rows))

    assert (caught.value.permit_class, caught.value.cost, caught.value.available) == ("rows", cost, 2_048 - here)
    assert receiver.totals == Totals(1, here, 0)
    assert receiver.granted == Permits(2_048 - here, 1, 1)


def test_an_empty_chunk_needs_a_permit_too() -> None:
    receiver = receiver_of(chunk(4), chunk(3), chunk(0), parameters=ChannelParameters(row_permits=8, permit_batch=4))
    with pytest.raises(OverspendError) as caught:
        receiver.deliver(chunk(0))
    assert (caught.value.cost, caught.value.available) == (1, 0)
    assert [consume(receiver) for _ in range(3)] == [Permits(rows=4), None, Permits(rows=4)]


@pytest.mark.parametrize(("kind", "permit_class"), [(Kind.BARRIER, "barriers"), (Kind.WATERMARK, "watermarks")])
def test_barriers_and_watermarks_are_bounded_too(kind: Kind, permit_class: str) -> None:
    receiver = receiver_of(Message(kind, "first"))
    with pytest.raises(OverspendError) as caught:
        receiver.deliver(Message(kind, "second"))
    assert (caught.value.permit_class, caught.value.available) == (permit_class, 0)
    assert len(receiver.inbox) == 1


@pytest.mark.parametrize("rows", [5, 1])
def test_a_chunk_that_its_sender_should_have_split_is_refused(rows: int) -> None:
    receiver = receiver_of(parameters=ChannelParameters(row_permits=8, permit_batch=4))
    with pytest.raises(OversizeChunkError, match=r"a chunk of 5 rows; .* at most 4 rows"):
        receiver.deliver_many(["a", "b"], [5, rows])
    assert not receiver.unconsumed
    assert receiver.granted.rows == 8


def test_taking_and_consuming_need_a_message() -> None:
    receiver = receiver_of(chunk(1))
    with pytest.raises(LocalProtocolError, match="no message was taken"):
        receiver.consume_many(1)
    receiver.take()
    with pytest.raises(WouldBlock):
        receiver.take()
    with pytest.raises(LocalProtocolError, match="1 messages were taken and not consumed"):
        receiver.try_receive()
    receiver.consume_many(1)
    assert receiver.try_receive() is None


def test_the_most_rows_that_were_ever_here_are_remembered() -> None:
    parameters = ChannelParameters(row_permits=100, permit_batch=10, max_chunk_cost=20, oversize=Oversize.WHOLE)
    receiver = receiver_of(chunk(10), chunk(0), chunk(30), parameters=parameters)
    receiver.try_receive()
    receiver.try_receive()
    receiver.take_feedback()
    receiver.deliver(chunk(5))
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (35, 40)
    receiver.deliver(chunk(6))
    receiver.try_receive()
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (11, 41)


def test_a_receiver_that_drops_its_inbox_holds_no_rows_and_keeps_its_counts() -> None:
    receiver = receiver_of(chunk(10), chunk(20), Message(Kind.BARRIER, "b"))
    consume(receiver)
    receiver.take()

    receiver.drop()

    assert not receiver.unconsumed
    assert not receiver.untaken
    assert (receiver.inbox_rows, receiver.peak_inbox_rows) == (0, 30)
    assert (receiver.consumed_chunks, receiver.consumed_rows) == (1, 10)


# Both.


def test_both_ends_count_what_has_left_and_what_has_come() -> None:
    parameters = ChannelParameters(row_permits=20, permit_batch=2)
    sender, receiver = sender_of(parameters), receiver_of(parameters=parameters)
    sender.offer(Kind.CHUNK, "", 3)
    sender.offer(Kind.BARRIER, "")
    sender.offer_watermark("")
    for message in sender.take_sendable():
        receiver.deliver(message)
    rows = [2, 0, 4]
    assert sender.send_now(rows) == 3
    receiver.deliver_many(["a", "b", "c"], rows)
    sender.offer(Kind.BARRIER, "waits")
    assert sender.totals == receiver.totals == Totals(chunks=4, rows=9, barriers=1)


def test_recorders_are_told_every_action_in_the_words_of_the_specification() -> None:
    heard: list[tuple[str, tuple[int, ...]]] = []
    parameters = ChannelParameters(row_permits=4, permit_batch=2)
    sender: PermitSender[str] = PermitSender(parameters, record=lambda *event: heard.append(event[:2]))
    receiver: PermitReceiver[str] = PermitReceiver(parameters, record=lambda *event: heard.append(event[:2]))
    sender.withdraw(sender.offer(Kind.CHUNK, "", 0))
    sender.withdraw(sender.offer(Kind.BARRIER, ""))
    sender.offer(Kind.CHUNK, "", 1)
    sender.offer(Kind.BARRIER, "")
    sender.offer_watermark("")
    for message in sender.take_sendable():
        receiver.deliver(message)
        consume(receiver)
    returned = receiver.take_feedback()
    assert returned is not None
    sender.on_feedback(returned)

    assert heard == [
        ("OfferChunk", (0, 1, 0, 0)),
        ("WithdrawChunk", (0, 1, 0, 0)),
        ("OfferBarrier", (0, 0, 1, 0)),
        ("WithdrawBarrier", (0, 0, 1, 0)),
        ("OfferChunk", (1, 1, 0, 0)),
        ("OfferBarrier", (0, 0, 1, 0)),
        ("OfferWatermark", (0, 0, 0, 1)),
        ("SendChunk", (1, 1, 0, 0)),
        ("SendBarrier", (0, 0, 1, 0)),
        ("SendWatermark", (0, 0, 0, 1)),
        ("Deliver", (1, 1, 0, 0)),
        ("Consume", (1, 1, 0, 0)),
        ("Deliver", (0, 0, 1, 0)),
        ("Consume", (0, 0, 1, 0)),
        ("Deliver", (0, 0, 0, 1)),
        ("Consume", (0, 0, 0, 1)),
        ("Flush", (0, 1, 0, 0)),
        ("AddPermits", (0, 1, 0, 0)),
    ]
