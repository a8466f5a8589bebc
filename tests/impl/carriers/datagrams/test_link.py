"""A link over datagrams: what is sent again, and when; tests/conformance/test_lossy_channel.py has who may send what.

tests/conformance/test_lossy_vectors.py has published vectors that need neither time nor a wrong peer.
"""

import pytest

from permitflow.carriers.datagrams.link import (
    FIRST_REMINDER_SECONDS,
    HOLD_SECONDS,
    MOST_RANGES,
    OVERTAKEN,
    LinkFeedback,
    LinkReceiver,
    LinkSender,
)
from permitflow.errors import FalsePositionError, OverspendError, PermitOverrunError, RemoteProtocolError, WouldBlock
from tests.support.simulated_link import EPOCH, SimulatedLink, Weather

NOW = 100.0


def told(acknowledged: int, limit: int, *beyond: tuple[int, int]) -> LinkFeedback:
    return LinkFeedback(EPOCH, acknowledged, limit, beyond)


def sender_of(sent: int, window: int) -> LinkSender[str]:
    sender: LinkSender[str] = LinkSender(epoch=EPOCH, window=window)
    for number in range(sent):
        sender.send(f"data {number}", 1, NOW)
    return sender


def receiver_of(window: int) -> LinkReceiver[str]:
    return LinkReceiver(epoch=EPOCH, window=window, now=NOW, remind_seconds=1.0)


def arrive(receiver: LinkReceiver[str], *numbers: int, now: float = NOW) -> None:
    for number in numbers:
        receiver.arrive(EPOCH, number, f"data {number}", now)


def numbers(copies: list[tuple[int, str]]) -> list[int]:
    return [number for number, payload in copies if payload == f"data {number}"]


# Limits.


def test_a_refused_send_says_how_many_places_there_are() -> None:
    with pytest.raises(WouldBlock, match="places for 3"):
        sender_of(3, 3).send("data 3", 1, NOW)


def test_data_beyond_the_limit_end_the_link() -> None:
    receiver = receiver_of(4)
    arrive(receiver, 3)
    with pytest.raises(OverspendError, match="sent 5 messages but only 4"):
        arrive(receiver, 4)


def test_half_a_window_is_granted_at_once() -> None:
    """Akka: of a window of 20, nine confirmed do not hurry, and the tenth requests up to number 30."""
    receiver = receiver_of(20)
    arrive(receiver, *range(20))
    assert receiver.feedback(NOW) == told(20, 20)
    for _ in range(9):
        receiver.take(NOW)
    assert receiver.deadline == NOW + HOLD_SECONDS
    receiver.take(NOW)
    assert receiver.deadline == NOW
    assert receiver.feedback(NOW) == told(20, 30)


@pytest.mark.parametrize(
    "wrong",
    [told(3, 4), told(0, 5), told(1, 5, (3, 9)), told(1, 5, (1, 2)), told(0, 4, (1, 2), (2, 2)), told(0, 4, (1, 9**9))],
)
def test_feedback_that_cannot_be_true_ends_the_link(wrong: LinkFeedback) -> None:
    sender = sender_of(2, 4)
    with pytest.raises(RemoteProtocolError) as refusal:
        sender.hear(wrong, NOW)
    assert isinstance(refusal.value, FalsePositionError | PermitOverrunError)
    assert (sender.acknowledged, sender.limit) == (0, 4)


# Another connection, before or after.


def test_what_another_connection_left_changes_nothing() -> None:
    sender, receiver = sender_of(1, 2), receiver_of(2)
    assert not sender.hear(told(1, 3)._replace(epoch=EPOCH - 1), NOW)
    assert not receiver.arrive(EPOCH - 1, 0, "old data", NOW)
    assert (sender.acknowledged, sender.limit, receiver.received, receiver.owes) == (0, 2, 0, False)


# What comes twice, or behind a gap.


@pytest.mark.parametrize("number", [0, 2], ids=["taken", "behind a gap"])
def test_a_duplicate_is_acknowledged_at_once(number: int) -> None:
    receiver = receiver_of(8)
    arrive(receiver, 0, 2)
    receiver.take(NOW)
    receiver.feedback(NOW)
    arrive(receiver, number, now=NOW + 1)
    assert receiver.deadline == NOW + 1
    assert (receiver.refused, receiver.feedback(NOW + 1)) == (1, told(1, 9, (2, 3)))


def test_feedback_tells_of_the_oldest_gaps() -> None:
    receiver = receiver_of(999)
    arrive(receiver, *range(1, 999, 2))
    assert receiver.feedback(NOW).beyond == tuple((2 * gap + 1, 2 * gap + 2) for gap in range(MOST_RANGES))


def test_what_others_have_overtaken_is_sent_again() -> None:
    sender = sender_of(9, 9)
    sender.hear(told(1, 10, (2, 1 + OVERTAKEN)), NOW)
    assert sender.due(NOW) == []
    sender.hear(told(1, 10, (2, 2 + OVERTAKEN)), NOW)
    assert numbers(sender.due(NOW)) == [1]
    assert sender.due(NOW) == []


def test_a_copy_that_is_lost_too_is_sent_again() -> None:
    sender = sender_of(5, 20)
    sender.hear(told(1, 21, (2, 5)), NOW + 0.1)
    assert numbers(sender.due(NOW + 0.1)) == [1]
    for number in range(5, 9):
        assert sender.send(f"data {number}", 1, NOW + 0.1) == number
    sender.hear(told(1, 21, (2, 9)), NOW + 0.2)
    assert numbers(sender.due(NOW + 0.2)) == [1]


def test_one_that_fewer_have_overtaken_is_sent_again_later() -> None:
    sender = sender_of(3, 9)
    sender.hear(told(1, 10, (2, 3)), NOW + 0.08)
    late = sender.deadline or 0.0
    assert late == pytest.approx(NOW + 0.08 * 9 / 8)
    assert sender.due(NOW + 0.08) == []
    assert numbers(sender.due(late)) == [1]


def test_a_network_that_reorders_is_given_more_time() -> None:
    sender = sender_of(9, 9)
    sender.hear(told(1, 10, (2, 5)), NOW + 0.1)
    assert numbers(sender.due(NOW + 0.1)) == [1]
    # It had not been lost: this is too soon for the copy.
    sender.hear(told(5, 14), NOW + 0.101)
    sender.hear(told(5, 14, (6, 9)), NOW + 0.102)
    assert sender.due(NOW + 0.102) == []


def test_what_feedback_has_no_room_to_tell_is_not_taken_for_lost() -> None:
    """A copy of number 0, the latest transmission, has arrived; of those behind the last range nothing is known."""
    sender = sender_of(100, 200)
    gaps = range(1, 2 * MOST_RANGES, 2)
    sender.hear(told(0, 200, *((first, first + 1) for first in gaps)), NOW + 0.1)
    sent_again = numbers(sender.due(NOW + 0.1))
    assert sent_again == [*range(0, gaps[-1] - OVERTAKEN + 1, 2)]
    sender.hear(told(2, 202, *((first + 2, first + 3) for first in gaps)), NOW + 0.2)
    assert set(numbers(sender.due(NOW + 0.2))) <= set(range(gaps[-1] + 3))


# Time.


def test_what_nothing_has_overtaken_waits_for_the_timeout() -> None:
    sender = sender_of(2, 9)
    sender.hear(told(1, 10), NOW + 0.08)
    timeout = NOW + 0.08 + 0.08 + 4 * 0.04
    assert sender.deadline == pytest.approx(timeout)
    assert sender.due(timeout - 0.001) == []
    assert numbers(sender.due(timeout + 0.001)) == [1]


def test_after_the_timeout_the_oldest_is_sent_again() -> None:
    sender = sender_of(3, 3)
    assert sender.deadline == NOW + 1.0
    assert sender.due(NOW + 0.999) == []
    assert numbers(sender.due(NOW + 1.0)) == [0]
    assert (sender.deadline, sender.timeouts) == (NOW + 3.0, 1)


def test_what_was_sent_twice_measures_nothing() -> None:
    """Karn's rule: the acknowledgement may be of either copy."""
    sender = sender_of(1, 9)
    sender.due(NOW + 1.0)
    sender.hear(told(1, 10), NOW + 1.5)
    assert (sender.round_trip.smoothed_seconds, sender.deadline) == (None, None)
    sender.send("data 1", 1, NOW + 2.0)
    sender.hear(told(2, 11), NOW + 2.25)
    assert sender.round_trip.smoothed_seconds == 0.25


def test_feedback_waits_for_more_to_tell() -> None:
    receiver = receiver_of(99)
    arrive(receiver, 0)
    receiver.take(NOW + HOLD_SECONDS / 2)
    assert receiver.deadline == NOW + HOLD_SECONDS
    arrive(receiver, 1, now=NOW + HOLD_SECONDS / 2)
    assert receiver.deadline == NOW + HOLD_SECONDS / 2


def test_that_a_gap_is_filled_is_told_at_once() -> None:
    receiver = receiver_of(99)
    arrive(receiver, 1)
    receiver.feedback(NOW)
    arrive(receiver, 0, now=NOW + 1)
    assert receiver.deadline == NOW + 1


def test_reminders_become_rare_until_there_is_news() -> None:
    receiver, waits = receiver_of(9), list[float]()
    now = NOW
    for _ in range(8):
        waits.append(receiver.deadline - now)
        now = receiver.deadline
        receiver.feedback(now)
    assert waits == pytest.approx([FIRST_REMINDER_SECONDS * 2**power for power in range(6)] + [1.0, 1.0])
    arrive(receiver, 0, now=now)
    receiver.feedback(now)
    assert receiver.deadline == pytest.approx(now + FIRST_REMINDER_SECONDS)


def test_what_is_acknowledged_is_forgotten() -> None:
    sender = sender_of(4, 9)
    assert (sender.unacknowledged, sender.size_bytes, sender.is_settled) == (4, 4, False)
    sender.hear(told(4, 13), NOW)
    assert (sender.unacknowledged, sender.size_bytes, sender.is_settled) == (0, 0, True)
    with pytest.raises(WouldBlock, match="4 are acknowledged"):
        sender.retransmit(3, NOW)
    with pytest.raises(WouldBlock, match="nothing has come"):
        receiver_of(1).take(NOW)


# Whole runs.


@pytest.mark.parametrize("drop", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("total", [17, 31, 63])
@pytest.mark.parametrize("window", [1, 20])
def test_everything_comes_once_and_in_order(drop: float, total: int, window: int) -> None:
    """As in Akka's ReliableDeliveryRandomSpec; here copies are doubled and overtake each other, too."""
    weather = Weather(loses=drop, doubles=0.1, jitter_seconds=0.003)
    link = SimulatedLink(weather, total, window=window, seed=total).run()
    assert link.consumed == [*range(total)]


def test_a_network_that_loses_nothing_carries_each_once() -> None:
    link = SimulatedLink(Weather(), 1000, window=64, send_seconds=0.00002).run()
    assert (link.datagrams, link.sender.retransmitted, link.sender.timeouts, link.receiver.refused) == (1000, 0, 0, 0)
    assert link.feedbacks <= 1000 / 2 + 10


def test_one_percent_of_loss_costs_a_tenth_at_most() -> None:
    seconds = [
        SimulatedLink(Weather(loses=loses), 3000, window=256, send_seconds=0.00002).run().now for loses in (0.0, 0.01)
    ]
    assert seconds[1] <= seconds[0] / 0.9


def test_a_network_that_reorders_makes_few_copies() -> None:
    weather = Weather(jitter_seconds=0.001)
    link = SimulatedLink(weather, 3000, window=256, send_seconds=0.00002).run()
    assert link.sender.retransmitted <= 50


def test_the_last_limit_may_be_lost() -> None:
    """The sender has nothing to send again, and waits: the receiver tells it again."""
    link = SimulatedLink(Weather(), 2, window=1, is_up=lambda now: not 0.001 <= now < 0.9).run()
    assert link.consumed == [0, 1]
    assert link.now < 2.0


def test_after_a_cut_it_goes_on_within_the_longest_timeout() -> None:
    link = SimulatedLink(Weather(), 500, window=8, send_seconds=0.001, is_up=lambda now: not 0.1 <= now < 600).run()
    assert link.consumed == [*range(500)]
    assert link.now < 600 + 2.0 + 1.0
