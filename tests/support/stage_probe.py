"""Stages between probes: a test says what is asked, sent and cancelled, and sees what the other side hears."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from permitflow.stages import Connection, Stage
from permitflow.stages.core.edges import Entry, Exit
from permitflow.stages.core.ports import Island

EVENTS = 1_000_000


class Upstream(Entry[Any]):
    """Sends what the test says; counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.is_cancelled = False
        self.when_asked = self._count
        self.when_cancelled = self._cancelled

    def _count(self) -> None:
        self.asked += 1

    def _cancelled(self) -> None:
        self.is_cancelled = True

    def send(self, *elements: object) -> None:
        """Send elements, each when it was asked for."""
        self.send_all(elements)

    def send_all(self, elements: Iterable[object]) -> None:
        for element in elements:
            assert self.outlet.is_asked, f"{element!r} was not asked for"
            self.outlet.push(element)
            self.island.run(EVENTS, self.island.now)

    def complete(self) -> None:
        self.outlet.complete()
        self.island.run(EVENTS, self.island.now)

    def fail(self, error: BaseException) -> None:
        self.outlet.fail(error)
        self.island.run(EVENTS, self.island.now)


class Downstream(Exit[Any]):
    """Takes as many elements as the test has asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._demand = 0
        self._received: list[Any] = []
        self.is_completed = False

    def on_push(self, inlet: Connection[Any]) -> None:
        self._received.append(inlet.grab())
        self._demand -= 1
        if self._demand:
            self.ask(inlet)

    def on_upstream_finish(self, inlet: Connection[Any]) -> None:
        self.is_completed = True

    def request(self, count: int = 1) -> list[Any]:
        """Ask for more elements; those that have come since the last look."""
        self._demand += count
        if self._demand and not self.inlet.is_in_closed:
            self.ask(self.inlet)
        self.island.run(EVENTS, self.island.now)
        return self.received()

    def received(self) -> list[Any]:
        """What has come since the last look."""
        received, self._received = self._received, []
        return received

    @property
    def has_ended(self) -> bool:
        """Has the stream completed or failed?"""
        return self.is_completed or self.failure is not None

    def cancel(self) -> None:
        self.inlet.cancel()
        self.island.run(EVENTS, self.island.now)


class Probe:
    """A chain of stages; its first may have several inlets, its last several outlets."""

    def __init__(self, *stages: Stage[Any, Any], inlets: int = 1, outlets: int = 1, now: float = 0.0) -> None:
        self.island = Island()
        self.upstreams = [Upstream() for _ in range(inlets)]
        self.downstreams = [Downstream() for _ in range(outlets)]
        for upstream in self.upstreams:
            self.island.connect(upstream, stages[0])
        for stage, following in pairwise(stages):
            self.island.connect(stage, following)
        for downstream in self.downstreams:
            self.island.connect(stages[-1], downstream)
        self.upstream, self.downstream = self.upstreams[0], self.downstreams[0]
        self.island.start(now)
        self.island.run(EVENTS, now)
