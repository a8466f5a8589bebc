"""What the two ends of the core refuse, count and remember, and what the model does not say.

What leaves when, in which order and for how many permits: tests/conformance, where the model leads both ends.
"""

from collections.abc import Callable

import pytest

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    OverspendError,
    PermitOverrunError,
    WouldBlock,
)
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters, Oversize, PermitReceiver, Permits, PermitSender

RISINGWAVE = ChannelParameters(row_permits=2_048, permit_batch=256)


def sender_of(parameters: ChannelParameters = RISINGWAVE) -> PermitSender[str]:
    return PermitSender(parameters)


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


# The sender.


def test_an_oversize_chunk_is_admitted_whole_for_the_clamp() -> None:
    """V1.3."""
    sender = sender_of(ChannelParameters(row_permits=2_048, permit_batch=256, oversize=Oversize.WHOLE))
    sender.offer_chunk("large", 10_000)
    assert sender.send_chunk() == Message(Kind.CHUNK, "large", 10_000, 1_792)
    assert (sender.permits.rows, sender.sent_chunks, sender.sent_rows) == (256, 1, 10_000)


def test_a_channel_that_splits_takes_no_oversize_chunk() -> None:
    sender = sender_of()
    with pytest.raises(LocalProtocolError, match=r"1793 rows exceeds max_chunk_cost = 1792 .* offer it in slices"):
        sender.offer_chunk("", 1_793)
    with pytest.raises(InvalidParametersError, match="rows must not be negative, not -1"):
        sender.offer_chunk("", -1)
    assert not sender.has_waiting


def test_withdrawing_everything_leaves_nothing_that_waits() -> None:
    sender = sender_of(ChannelParameters(row_permits=4, permit_batch=1))
    for _ in range(3):
        sender.offer_chunk("", 3)
        sender.offer_barrier("")
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
    sender.offer_chunk("", 10)
    sender.offer_barrier("")
    sender.take_sendable()

    with pytest.raises(PermitOverrunError) as caught:
        sender.add_permits(returned)

    assert (caught.value.permit_class, caught.value.returned) == (permit_class, count)
    assert sender.outstanding == Permits(10, 1, 0), "nothing was taken in"
    assert caught.value.outstanding == sender.outstanding[Permits._fields.index(permit_class)]


@pytest.mark.parametrize(
    "send", [PermitSender[str].send_chunk, PermitSender[str].send_barrier, PermitSender[str].send_watermark]
)
def test_nothing_leaves_where_nothing_was_offered(send: Callable[[PermitSender[str]], Message[str]]) -> None:
    with pytest.raises(WouldBlock):
        send(sender_of())


def test_the_most_permits_that_were_ever_away_are_remembered() -> None:
    sender = sender_of()
    for rows in (100, 900):
        sender.offer_chunk("", rows)
        sender.send_chunk()
    sender.add_permits(Permits(rows=1_000))
    assert (sender.rows_held, sender.peak_rows_held) == (0, 1_000)


# The receiver.


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


def test_the_permits_of_a_message_go_back_verbatim() -> None:
    """The receiver would have counted 5 for it; it returns the 3 that the sender spent."""
    receiver = receiver_of(chunk(rows=5, cost=3), parameters=ChannelParameters(row_permits=8, permit_batch=1))
    assert receiver.inbox_rows == 5
    assert consume(receiver) == Permits(rows=3)
    assert receiver.consumed_rows == 5


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


def test_the_most_rows_that_were_ever_here_are_remembered() -> None:
    parameters = ChannelParameters(row_permits=100, permit_batch=10, max_chunk_cost=20, oversize=Oversize.WHOLE)
    receiver = receiver_of(chunk(10), chunk(0), chunk(30, cost=20), parameters=parameters)
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


# Both.


def test_recorders_are_told_every_action_in_the_words_of_the_specification() -> None:
    heard: list[tuple[str, tuple[int, ...]]] = []
    parameters = ChannelParameters(row_permits=4, permit_batch=2)
    sender: PermitSender[str] = PermitSender(parameters, record=lambda *event: heard.append(event[:2]))
    receiver: PermitReceiver[str] = PermitReceiver(parameters, record=lambda *event: heard.append(event[:2]))
    sender.withdraw(sender.offer_chunk("", 0))
    sender.withdraw(sender.offer_barrier(""))
    sender.offer_chunk("", 1)
    sender.offer_barrier("")
    sender.offer_watermark("")
    for message in sender.take_sendable():
        receiver.deliver(message)
        consume(receiver)
    receiver.take_due()
    returned = receiver.flush()
    assert returned is not None
    sender.add_permits(returned)

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
