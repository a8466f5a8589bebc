"""A peer that gives no sign of life is given up, one whose silence is this end's own fault is not."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from permitflow.carriers import heartbeat as heartbeats
from permitflow.carriers.deadlines import SILENCE_SECONDS
from permitflow.carriers.heartbeat import Heartbeat


class Clock:
    """A loop's time, which passes when a test says so; it may be late with what is due."""

    def __init__(self) -> None:
        self.now = 0.0
        self.look: Callable[[], None] = lambda: None

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> "Clock":
        self.look = call
        return self

    def cancel(self) -> None:
        """Nothing is called by itself."""

    def pass_seconds(self, seconds: float) -> None:
        self.now += seconds
        self.look()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def silences(clock: Clock) -> Iterator[list[float]]:
    """How long the peer had been silent when it was given up."""
    loop: Any = clock
    found: list[float] = []
    heartbeat = Heartbeat(
        loop, ping=lambda: None, is_listening=lambda: True, give_up=found.append, silence_seconds=SILENCE_SECONDS
    )
    yield found
    heartbeat.stop()


def test_a_silent_peer_is_given_up(clock: Clock, silences: list[float]) -> None:
    for _ in range(int(SILENCE_SECONDS)):
        clock.pass_seconds(1)
    assert silences == []
    clock.pass_seconds(1)
    assert silences == [SILENCE_SECONDS + 1]


def test_a_busy_loop_gives_up_no_peer(clock: Clock, silences: list[float]) -> None:
    for _ in range(10):
        clock.pass_seconds(3 * SILENCE_SECONDS)
        clock.pass_seconds(1)
    assert silences == []


def test_a_ping_that_fails_stops_no_other(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_PING_EVERY_SECONDS", 0.01)
    loop: Any = clock
    has_failed, is_given = threading.Event(), threading.Event()

    def fail() -> None:
        has_failed.set()
        raise RuntimeError("Event loop is closed")

    def give() -> None:
        if has_failed.is_set():
            is_given.set()

    both = [
        Heartbeat(loop, ping=ping, is_listening=lambda: True, give_up=print, silence_seconds=SILENCE_SECONDS)
        for ping in (fail, give)
    ]
    assert is_given.wait(10)
    for each in both:
        each.stop()
