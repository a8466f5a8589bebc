"""The ends of a squelched channel: the parameters that they accept, their signals, and what an overflow says."""

from dataclasses import replace

import pytest

from permitflow import Kind, Message, SquelchParameters, open_channel
from permitflow.errors import InboxOverflowError, InvalidParametersError, LocalProtocolError, ParameterMismatchError
from permitflow.flows.seam import Wishes
from permitflow.flows.squelch.core import SQUELCH, Signal, SquelchReceiver, SquelchSender

PARAMETERS = SquelchParameters(high=8, low=2, rate=3, signal_delay=2, data_delay=4)


# Parameters.


def test_the_headroom_is_that_of_both_ways_and_of_each_lost_signal() -> None:
    assert (PARAMETERS.headroom, PARAMETERS.capacity, PARAMETERS.repeat) == (18, 26, 18)
    lossy = SquelchParameters(high=8, rate=3, signal_delay=2, data_delay=4, repeat=20, losses=2)
    assert (lossy.headroom, lossy.capacity, lossy.low) == (58, 66, 4)


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (
            {"capacity": 25},
            "capacity must be at least high + rate * (signal_delay + data_delay) + losses * repeat = 26, else the "
            "inbox overflows before the sender hears that it must stop, not 25",
        ),
        ({"repeat": 17}, "repeat must be at least rate * (signal_delay + data_delay) = 18"),
        ({"low": 9}, "low must be at most high = 8"),
        ({"rate": 0}, "rate must be a whole number of at least 1, not 0"),
        ({"data_delay": 0}, "data_delay must be a whole number of at least 1, not 0"),
        ({"signal_delay": -1}, "signal_delay must be a whole number of at least 0, not -1"),
        ({"losses": True}, "losses must be a whole number of at least 0, not True"),
    ],
)
def test_unworkable_numbers_are_refused_with_the_needed_one(stated: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidParametersError) as caught:
        replace(PARAMETERS, **stated)
    assert message in str(caught.value)


# Agreement.


def test_both_ends_assume_the_worse_and_use_the_smaller_capacity() -> None:
    own = SquelchParameters(high=100, low=50, capacity=400, rate=10, signal_delay=5, data_delay=5)
    agreed = SQUELCH.agree(own, SQUELCH.wishes(capacity=300, rate=20, signal_delay=1))
    assert (agreed.rate, agreed.signal_delay, agreed.data_delay, agreed.capacity) == (20, 5, 5, 300)
    assert (agreed.high, agreed.low, agreed.repeat) == (100, 50, 200)
    tight = SQUELCH.agree(own, SQUELCH.wishes(capacity=220, rate=20, signal_delay=1))
    assert (tight.high, tight.low, tight.headroom) == (20, 20, 200)
    assert SQUELCH.verify(SQUELCH.state(tight), SQUELCH.wishes(rate=20)) == tight


def test_a_wish_of_a_low_mark_above_the_high_one_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="low must be at most high = 2, not 9"):
        SQUELCH.agree(PARAMETERS, SQUELCH.wishes(high=2, low=9))
    assert SQUELCH.agree(PARAMETERS, SQUELCH.wishes(high=2, low=-1)).low == 1, "half of it, as everywhere"


def test_a_capacity_too_small_for_the_peer_is_refused_with_the_number() -> None:
    with pytest.raises(ParameterMismatchError, match=r"= 180; this end has 26, the peer None") as caught:
        SQUELCH.agree(PARAMETERS, SQUELCH.wishes(rate=30))
    assert caught.value.name == "capacity"


@pytest.mark.parametrize(
    ("change", "wanted", "rule"),
    [
        ({"rate": None}, None, "must be stated in the agreement"),
        ({}, SQUELCH.wishes(rate=4), "must not be less than what was assumed"),
        ({}, SQUELCH.wishes(capacity=25), "must not exceed the wish"),
        ({"capacity": 25}, None, r"must be at least high .* = 26"),
    ],
)
def test_an_agreement_that_is_wrong_is_not_believed(
    change: dict[str, int | None], wanted: Wishes | None, rule: str
) -> None:
    agreed = SQUELCH.wishes(*SQUELCH.state(PARAMETERS))._replace(**change)
    with pytest.raises(ParameterMismatchError, match=rule):
        SQUELCH.verify(agreed, wanted)


# Signals.


def delivered(receiver: SquelchReceiver[str], messages: int) -> list[Signal]:
    """The signals after each of some messages."""
    signals = []
    for _ in range(messages):
        receiver.deliver(Message(Kind.CHUNK, "x", 1))
        if (signal := receiver.take_feedback()) is not None:
            signals.append(signal)
    return signals


def test_a_reminder_says_once_more_that_the_sender_may_go_on() -> None:
    receiver = SquelchReceiver[str](PARAMETERS)
    receiver.remind()
    assert receiver.urgency
    assert receiver.take_feedback() == Signal(stop=False)
    assert receiver.take_feedback() is None
    delivered(receiver, 9)
    with pytest.raises(LocalProtocolError, match="it was told to stop"):
        receiver.remind()


# Beyond what was assumed.


def test_a_sender_faster_than_agreed_is_refused_with_the_numbers() -> None:
    receiver = SquelchReceiver[str](PARAMETERS)
    delivered(receiver, 26)
    with pytest.raises(InboxOverflowError) as caught:
        receiver.deliver(Message(Kind.BARRIER, "b"))
    error = caught.value
    assert (error.came, error.held, error.places, error.rate, error.delay) == (1, 26, 26, 3, 6)
    assert "1 messages came on top of 26, and there are places for 26: more than 3 messages left in a tick" in str(
        error
    )
    assert (receiver.unconsumed, receiver.peak_inbox_rows) == (26, 26)


def test_a_burst_into_a_local_channel_overflows_and_is_told() -> None:
    sender, _ = open_channel(SquelchParameters(high=2, rate=2))
    with pytest.raises(InboxOverflowError, match="9 messages came on top of 0, and there are places for 6"):
        sender.send_at_once("abcdefghi", [1] * 9)


def test_a_sender_has_room_for_a_ticks_messages_unless_it_is_stopped() -> None:
    sender = SquelchSender[str](PARAMETERS)
    assert sender.room_rows == PARAMETERS.rate
    sender.on_feedback(Signal(stop=True))
    assert (sender.room_rows, sender.is_stopped) == (0, True)
