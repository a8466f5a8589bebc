"""A peer that gives no sign of life is given up, one whose silence is this end's own fault is not."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from permitflow.transports import heartbeat
from permitflow.transports.deadlines import SILENCE_SECONDS
from permitflow.transports.heartbeat import Heartbeat


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> "Clock":
        self._calls.append((self.now + seconds, call))
        return self

    def cancel(self) -> None:
        self._calls.clear()

    def pass_seconds(self, seconds: float) -> None:
        end = self.now + seconds
        while self._calls and self._calls[0][0] <= end:
            self.now, call = self._calls.pop(0)
            call()
        self.now = end

    def be_busy(self, seconds: float) -> None:
        """Nothing runs meanwhile; what was due runs late."""
        self.now += seconds
        late, self._calls = self._calls, []
        for _, call in late:
            call()


class Watched:
    def __init__(self) -> None:
        self.clock = Clock()
        self.silences: list[float] = []
        loop = cast("asyncio.AbstractEventLoop", self.clock)
        self.pinged = threading.Event()
        self.heartbeat = Heartbeat(
            loop,
            ping=self.pinged.set,
            is_listening=lambda: True,
            give_up=self.silences.append,
            silence_seconds=SILENCE_SECONDS,
        )


@pytest.fixture
def watched() -> Iterator[Watched]:
    watched = Watched()
    yield watched
    watched.heartbeat.stop()


def test_a_busy_loop_gives_up_no_peer(watched: Watched) -> None:
    for _ in range(10):
        watched.clock.be_busy(3 * SILENCE_SECONDS)
        watched.clock.pass_seconds(heartbeat._PING_EVERY_SECONDS)
    assert watched.silences == []
