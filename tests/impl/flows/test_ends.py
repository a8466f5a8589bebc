"""What the two ends of the core refuse, count and remember, and what the model does not say.

What leaves when, in which order and for how many permits: tests/conformance, where the model leads both ends.
"""

import pytest

from permitflow import ChannelParameters, Kind, Message, Permits
from permitflow.errors import InvalidParametersError, LocalProtocolError, OverspendError, PermitOverrunError, WouldBlock
from permitflow.flows.permits.core import PermitReceiver, PermitSender

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


def test_a_channel_that_splits_takes_no_oversize_chunk() -> None:
    sender = sender_of()
    with pytest.raises(LocalProtocolError, match="1793 rows exceeds this channel's limit of 1792 rows"):
        sender.offer(Kind.CHUNK, "", 1_793)
    with pytest.raises(InvalidParametersError, match="rows must not be negative, not -1"):
        sender.offer(Kind.CHUNK, "", -1)
    assert not sender.has_waiting


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


@pytest.mark.parametrize(
    ("kind", "rows", "reason"),
    [
        (Kind.CHUNK, 3, "the chunk needs 3 row permits; 1 of 4 are unspent"),
        (Kind.BARRIER, 0, "all 1 barrier permits are out"),
    ],
)
def test_a_message_that_must_wait_names_the_permits_it_lacks(kind: Kind, rows: int, reason: str) -> None:
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
    assert (mark, sender.sent_mark, sender.acknowledged_mark) == ((10, 1), (15, 1), (0, 0))
    sender.on_feedback(Permits(rows=10))
    sender.on_feedback(Permits(barriers=1))
    assert (sender.sent_mark, sender.acknowledged_mark) == ((15, 1), mark)
    assert sender.unsettled() == ("unreturned rows permits", 5)
    sender.on_feedback(Permits(rows=5))
    assert sender.unsettled() is None


# The receiver.


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
