"""The sender: what leaves, in which order, for how many permits; and what it refuses to take in."""

from collections.abc import Callable

import pytest

from permitflow.errors import InvalidParametersError, LocalProtocolError, PermitOverrunError, WouldBlock
from permitflow.protocol.messages import Kind, Message, Permits
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.sender import PermitSender

RISINGWAVE = ChannelParameters(row_permits=2_048, permit_batch=256)


def sender_of(parameters: ChannelParameters = RISINGWAVE) -> PermitSender[str]:
    return PermitSender(parameters)


def sizes(messages: list[Message[str]]) -> list[int]:
    return [message.rows for message in messages]


def test_chunks_spend_their_rows_until_none_are_left() -> None:
    """V1.2."""
    sender = sender_of()
    left = []
    for _ in range(8):
        sender.offer_chunk("", 256)
        sender.send_chunk()
        left.append(sender.permits.rows)
    sender.offer_chunk("", 1)

    assert left == [1_792, 1_536, 1_280, 1_024, 768, 512, 256, 0]
    assert sender.take_sendable() == []
    sender.add_permits(Permits(rows=256))
    assert sizes(sender.take_sendable()) == [1]
    assert sender.permits.rows == 255


def test_an_oversize_chunk_is_admitted_whole_for_the_clamp() -> None:
    """V1.3."""
    sender = sender_of(ChannelParameters(row_permits=2_048, permit_batch=256, oversize=Oversize.WHOLE))
    sender.offer_chunk("large", 10_000)
    assert sender.send_chunk() == Message(Kind.CHUNK, "large", 10_000, 1_792)
    assert sender.permits.rows == 256
    sender.offer_chunk("", 256)
    assert sender.send_chunk().cost == 256
    sender.offer_chunk("", 1)
    with pytest.raises(WouldBlock, match="needs 1 row permits, 0 are here"):
        sender.send_chunk()
    sender.add_permits(Permits(rows=1_792))
    assert sender.send_chunk().rows == 1
    assert (sender.sent_chunks, sender.sent_rows) == (3, 10_257)


def test_a_channel_that_splits_takes_no_oversize_chunk() -> None:
    sender = sender_of()

    with pytest.raises(LocalProtocolError, match=r"1793 rows exceeds max_chunk_cost = 1792 .* offer it in slices"):
        sender.offer_chunk("", 1_793)
    assert not sender.has_waiting


def test_an_empty_chunk_costs_one() -> None:
    """V1.4."""
    sender = sender_of()
    sender.offer_chunk("", 0)

    assert sender.send_chunk().held() == Permits(rows=1)
    assert sender.permits.rows == 2_047
    assert (sender.sent_chunks, sender.sent_rows) == (1, 0)


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="rows must not be negative, not -1"):
        sender_of().offer_chunk("", -1)


def test_the_classes_do_not_wait_for_each_other() -> None:
    """V1.6."""
    sender = sender_of()
    sender.offer_barrier("first")
    sender.offer_barrier("second")
    sender.offer_chunk("chunk", 1)
    sender.offer_watermark("w")

    assert [message.payload for message in sender.take_sendable()] == ["chunk", "w", "first"]
    assert sender.permits == Permits(2_047, 0, 0)
    sender.add_permits(Permits(barriers=1))
    assert [message.payload for message in sender.take_sendable()] == ["second"]


def test_no_small_chunk_overtakes_a_large_one_that_waits() -> None:
    sender = sender_of(ChannelParameters(row_permits=8, permit_batch=2))
    sender.offer_chunk("", 5)
    sender.take_sendable()
    sender.offer_chunk("large", 6)
    sender.offer_chunk("small", 1)

    assert sender.take_sendable() == []
    assert sender.sendable_chunks() == 0
    sender.add_permits(Permits(rows=4))
    assert sender.sendable_chunks() == 2
    assert [message.payload for message in sender.take_sendable()] == ["large", "small"]


def test_a_newer_watermark_replaces_one_that_has_not_left() -> None:
    sender = sender_of()
    for value in ("a", "b", "c"):
        sender.offer_watermark(value)
    assert [message.payload for message in sender.take_sendable()] == ["c"]
    for value in ("d", "e"):
        sender.offer_watermark(value)
    assert sender.take_sendable() == []
    assert sender.has_waiting
    sender.add_permits(Permits(watermarks=1))
    assert [message.payload for message in sender.take_sendable()] == ["e"]
    assert not sender.has_waiting


def test_a_watermark_leaves_after_the_chunks_that_waited_before_it_and_before_later_ones() -> None:
    sender = sender_of(ChannelParameters(row_permits=4, permit_batch=1))
    sender.offer_chunk("sent", 3)
    sender.take_sendable()
    sender.offer_chunk("before 1", 3)
    sender.offer_chunk("before 2", 3)
    sender.offer_watermark("w")
    sender.offer_chunk("after", 3)
    assert sender.chunks_before_watermark == 2

    order = []
    for _ in range(3):
        sender.add_permits(Permits(rows=3))
        order += [message.payload for message in sender.take_sendable()]

    assert order == ["before 1", "before 2", "w", "after"]


@pytest.mark.parametrize("withdrawn", [0, 1, 2])
def test_withdrawing_leaves_order_and_permits_as_they_were(withdrawn: int) -> None:
    sender = sender_of(ChannelParameters(row_permits=4, permit_batch=1))
    sender.offer_chunk("sent", 3)
    sender.take_sendable()
    waiting = [sender.offer_chunk(name, 1 + 2 * (name == "a")) for name in "abc"]
    sender.offer_watermark("w")

    assert sender.withdraw(waiting[withdrawn])
    assert not sender.withdraw(waiting[withdrawn])
    assert sender.permits.rows == 1
    assert sender.chunks_before_watermark == 2
    sender.add_permits(Permits(rows=3))
    left = [message.payload for message in sender.take_sendable()]
    assert left == [*(name for name in "abc" if name != "abc"[withdrawn]), "w"]


def test_withdrawing_a_chunk_behind_the_watermark_does_not_let_the_watermark_go_early() -> None:
    sender = sender_of(ChannelParameters(row_permits=4, permit_batch=1))
    sender.offer_chunk("sent", 3)
    sender.take_sendable()
    sender.offer_chunk("before", 3)
    sender.offer_watermark("w")
    after = sender.offer_chunk("after", 3)

    assert sender.withdraw(after)
    assert sender.chunks_before_watermark == 1
    assert not sender.can_send_watermark()


def test_a_message_that_has_left_cannot_be_withdrawn() -> None:
    sender = sender_of()
    chunk, barrier = sender.offer_chunk("", 1), sender.offer_barrier("")
    sender.take_sendable()

    assert not sender.withdraw(chunk)
    assert not sender.withdraw(barrier)
    assert sender.outstanding == Permits(1, 1, 0)


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
    assert (sender.waiting_chunks, sender.waiting_barriers, sender.chunks_before_watermark) == ((), 0, None)
    assert sender.outstanding == Permits(3, 1, 0)


@pytest.mark.parametrize(
    ("returned", "permit_class", "count"),
    [
        (Permits(rows=11), "rows", 11),
        (Permits(rows=-1), "rows", -1),
        (Permits(barriers=2), "barriers", 2),
        (Permits(barriers=-1), "barriers", -1),
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


def test_the_peak_is_the_fewest_permits_that_were_ever_left() -> None:
    sender = sender_of()
    for rows in (100, 900):
        sender.offer_chunk("", rows)
        sender.send_chunk()
    assert sender.least_row_permits == 1_048
    sender.add_permits(Permits(rows=1_000))
    assert (sender.permits.rows, sender.least_row_permits) == (2_048, 1_048)
    sender.offer_chunk("", 1_001)
    sender.send_chunk()
    assert sender.least_row_permits == 1_047


def test_the_recorder_is_told_every_action_in_the_words_of_the_specification() -> None:
    heard: list[tuple[str, int, Permits]] = []
    sender: PermitSender[str] = PermitSender(
        ChannelParameters(row_permits=4, permit_batch=1), record=lambda *event: heard.append(event[:3])
    )
    chunk = sender.offer_chunk("", 0)
    sender.withdraw(chunk)
    sender.offer_chunk("", 3)
    barrier = sender.offer_barrier("")
    sender.withdraw(barrier)
    sender.offer_barrier("")
    sender.offer_watermark("")
    sender.take_sendable()
    sender.add_permits(Permits(rows=3))

    assert heard == [
        ("OfferChunk", 0, Permits(rows=1)),
        ("WithdrawChunk", 0, Permits(rows=1)),
        ("OfferChunk", 3, Permits(rows=3)),
        ("OfferBarrier", 0, Permits(barriers=1)),
        ("WithdrawBarrier", 0, Permits(barriers=1)),
        ("OfferBarrier", 0, Permits(barriers=1)),
        ("OfferWatermark", 0, Permits(watermarks=1)),
        ("SendChunk", 3, Permits(rows=3)),
        ("SendWatermark", 0, Permits(watermarks=1)),
        ("SendBarrier", 0, Permits(barriers=1)),
        ("AddPermits", 0, Permits(rows=3)),
    ]
