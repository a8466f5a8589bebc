"""The share of the time in which producers were blocked, between two reports."""

import pickle
from dataclasses import replace

import pytest

from permitflow import ChannelParameters
from permitflow.client import ChannelPosition, ChannelState
from permitflow.spark.blocked_share import BlockedShare
from permitflow.spark.stream_planning import Position

AT: Position = ChannelPosition("", 0, 0, ChannelState.OPEN, "", ChannelParameters(), None)


def told(**waiting_seconds: float) -> dict[str, Position]:
    return {name: replace(AT, channel=name, waiting_seconds=seconds) for name, seconds in waiting_seconds.items()}


def test_a_share_is_that_of_the_channel_that_waited_longest() -> None:
    blocked = BlockedShare()
    assert blocked.share() == 0
    blocked.note(told(a=100.0, b=0.0), 1000.0)
    assert blocked.share() == 0
    blocked.note(told(a=101.0, b=2.0), 1005.0)
    blocked.note(told(a=102.0, b=6.0), 1010.0)
    copy: BlockedShare = pickle.loads(pickle.dumps(blocked))
    assert copy.share() == blocked.share() == pytest.approx(0.6)


def test_a_share_counts_from_the_report_before() -> None:
    blocked = BlockedShare()
    blocked.note(told(a=0.0), 0.0)
    blocked.note(told(a=10.0), 10.0)
    assert [blocked.share(), blocked.share()] == [1, 1]
    blocked.note(told(a=11.0), 20.0)
    assert blocked.share() == pytest.approx(0.1)


def test_an_exchange_that_was_started_again_counts_from_0() -> None:
    blocked = BlockedShare()
    blocked.note(told(a=50.0), 0.0)
    blocked.note(told(a=2.0, new=30.0), 10.0)
    assert blocked.share() == pytest.approx(0.2)
