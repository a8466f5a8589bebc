"""What the watch takes for wrong: too many rows kept, and rows or acknowledgements that are taken back."""

import pytest

from permitflow.demo.streaming.watching import ChannelWatch, Position, Watch
from permitflow.protocol.control import ChannelPosition, ChannelState
from permitflow.protocol.parameters import ChannelParameters

BOUND = 64


def at(acknowledged_row: int, next_row: int, log_id: str = "log") -> Position:
    """A position of an open channel."""
    parameters = ChannelParameters(row_permits=BOUND, permit_batch=8)
    return ChannelPosition("a/0", acknowledged_row, next_row, ChannelState.OPEN, "", parameters, None, log_id)


def seen(*positions: Position) -> ChannelWatch:
    """What is known after these."""
    watch = ChannelWatch("a/0", BOUND)
    for position in positions:
        watch.see(position)
    return watch


def test_a_channel_that_moves_forward_within_its_bound_is_fine() -> None:
    watch = seen(at(0, 0), at(0, BOUND), at(10, BOUND), at(10, BOUND + 10), at(BOUND + 10, BOUND + 10))
    assert watch.problems == []
    assert watch.peak_kept_rows == BOUND


def test_moving_is_told() -> None:
    watch = ChannelWatch("a/0", BOUND)
    assert [watch.see(position) for position in (at(0, 0), at(0, 3), at(0, 3), at(2, 3))] == [False, True, False, True]


def test_what_the_exchange_says_of_itself_counts() -> None:
    watch = Watch("127.0.0.1:1", ["a/0", "a/1"], row_permits=BOUND, incoming=1, stuck_seconds=1)
    watch.hear({"event": "listening", "channels": ["a/0", "a/1"]})
    for peak in (10, BOUND, 3):
        watch.hear({"event": "traffic", "channels": [{"channel": f"a/{n}", "peak_in_flight": peak} for n in (1, 0)]})
    assert [(channel.peak_kept_rows, channel.problems) for channel in watch.channels] == [(BOUND, [])] * 2
    watch.hear({"event": "stopped", "channels": [{"channel": f"a/{n}", "peak_in_flight": BOUND + n} for n in (0, 1)]})
    assert watch.channels[1].problems == ["a/1: 65 rows were kept, 64 may be"]


@pytest.mark.parametrize(
    ("positions", "problem"),
    [
        ([at(0, BOUND + 1)], "a/0: 65 rows were kept, 64 may be"),
        ([at(5, 4)], "a/0: -1 rows were kept, 64 may be"),
        ([at(0, 8), at(0, 7)], "a/0: row 7 came next, after 8"),
        ([at(3, 8), at(2, 8)], "a/0: row 3 was acknowledged, then only 2"),
        ([at(0, 8, "one"), at(0, 8, "another")], "a/0: its rows were lost, and others took over"),
    ],
    ids=["above the bound", "read before it came", "rows lost", "acknowledgement lost", "another log"],
)
def test_what_must_not_be_is_noted(positions: list[Position], problem: str) -> None:
    assert seen(*positions).problems == [problem]
