"""Runs a gate in simulated time: how long barriers take, and how fast it is, with the whole pool and an adaptive one.

``python -m benchmarks.simulated_gate`` prints the table of docs/protocols/adaptive-window.md.  The sources are faster
than the consumer, and a barrier is due in all of them once a second.  All ends are the real ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import typer

from permitflow import GateParameters
from permitflow.flows.gate.core import Backlog, Gate, GateReceiver, GateSender, Grant
from permitflow.flows.messages import Kind, Message

BARRIER_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class GateSetting:
    """A gate, the way to it, its sources and its consumer."""

    parameters: GateParameters
    chunk_rows: int = 64
    rtt_seconds: float = 0.04
    source_rate: float = 200_000
    """Rows a second of all sources together, while none of them waits."""
    expected_rows: int = 32_768
    """Rows that a source knows to come behind the chunk that it offers: its backlog, for which the gate lends."""
    consumer_rate: float = 200_000
    """Rows a second."""
    target_latency_seconds: float | None = None
    """None: the whole pool may be lent."""


class GateFigures(NamedTuple):
    """The steady state: what comes after the first windows were consumed."""

    rows_per_second: float
    barrier_p99_seconds: float
    """From the time when a barrier is due in all sources until all inputs are aligned."""
    target: int
    """The target of the pool, at the end."""


@dataclass
class _Source:
    """An input: what its sender offers, and when."""

    sender: GateSender[int]
    receiver: GateReceiver[int]
    next_barrier: int = 1
    is_waiting: bool = False


@dataclass
class _Run:
    setting: GateSetting
    now: float = 0.0
    consumed_rows: int = 0
    latencies: list[float] = field(default_factory=list)
    _is_consuming: bool = False
    _turn: int = 0
    _sources: list[_Source] = field(default_factory=list)
    _events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        parameters = self.setting.parameters
        self.gate = Gate(parameters)
        if self.setting.target_latency_seconds is not None:
            self.gate.aim_at(self.setting.target_latency_seconds)
        for _ in range(parameters.inputs):
            self._sources.append(_Source(GateSender(parameters), GateReceiver(parameters, gate=self.gate)))
        for source in self._sources:
            self._at(0.0, self._offer, source)

    def until(self, seconds: float) -> None:
        """Go on until this time."""
        while self._events[0][0] <= seconds:
            self.now, _, do, arguments = heappop(self._events)
            do(*arguments)
            self._pass_on()
        self.now = seconds

    def _at(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        heappush(self._events, (seconds, next(self._numbers), do, arguments))

    def _after_half_a_round_trip(self, do: Callable[..., None], *arguments: Any) -> None:
        self._at(self.now + self.setting.rtt_seconds / 2, do, *arguments)

    # Sources.

    def _offer(self, source: _Source) -> None:
        """The next chunk, behind a barrier if one is due."""
        source.is_waiting = True
        if self.now >= source.next_barrier * BARRIER_SECONDS:
            source.sender.offer(Kind.BARRIER, source.next_barrier)
            source.next_barrier += 1
        source.sender.offer(Kind.CHUNK, 0, self.setting.chunk_rows)
        source.sender.expect([self.setting.expected_rows])
        self._send(source)

    def _send(self, source: _Source) -> None:
        for message in source.sender.take_sendable():
            self._after_half_a_round_trip(self._deliver, source, message, source.sender.take_announcement())
        if (word := source.sender.take_announcement()) is not None:
            self._after_half_a_round_trip(self._deliver, source, None, word)
        if source.is_waiting and not source.sender.has_waiting:
            source.is_waiting = False
            rate = self.setting.source_rate / len(self._sources)
            self._at(self.now + self.setting.chunk_rows / rate, self._offer, source)

    def _hear(self, source: _Source, grant: Grant) -> None:
        source.sender.on_feedback(grant)
        self._send(source)

    # The gate.

    def _deliver(self, source: _Source, message: Message[int] | None, word: Backlog | None) -> None:
        if message is not None:
            source.receiver.deliver(message)
        if word is not None:
            source.receiver.on_announcement(word)
        self._consume_next()

    def _consume_next(self) -> None:
        """Take one message of each input in turn; chunks take time, barriers none."""
        if self._is_consuming:
            return
        for _ in range(2 * len(self._sources)):
            source = self._sources[self._turn % len(self._sources)]
            self._turn += 1
            receiver = source.receiver
            if not receiver.untaken or receiver.is_blocked:
                continue
            message = receiver.take()
            self.gate.observe(self.now, 0, is_busy=True)
            if message.kind is Kind.CHUNK:
                self._is_consuming = True
                self._at(self.now + message.rows / self.setting.consumer_rate, self._consumed, source, message.rows)
                return
            receiver.consume_many(1)
            if self.gate.is_aligned:
                assert self.gate.pending is not None
                self.latencies.append(self.now - self.gate.pending * BARRIER_SECONDS)
                self.gate.align()
        self.gate.observe(self.now, 0, is_busy=False)

    def _consumed(self, source: _Source, rows: int) -> None:
        source.receiver.consume_many(1)
        self.consumed_rows += rows
        self._is_consuming = False
        self.gate.observe(self.now, rows, is_busy=True)
        self._consume_next()

    def _pass_on(self) -> None:
        for source in self._sources:
            if (grant := source.receiver.take_feedback()) is not None:
                self._after_half_a_round_trip(self._hear, source, grant)


def run_gate(setting: GateSetting, *, seconds: float = 20.0) -> GateFigures:
    """Run the gate until the first windows are consumed, and then for so long."""
    run, parameters = _Run(setting), setting.parameters
    first_rows = 2 * (parameters.inputs * parameters.exclusive + parameters.floating)
    start = first_rows / min(setting.consumer_rate, setting.source_rate) + 4 * (setting.target_latency_seconds or 1.0)
    run.until(start)
    run.latencies.clear()
    rows = run.consumed_rows
    run.until(start + seconds)
    late = sorted(run.latencies)
    return GateFigures((run.consumed_rows - rows) / seconds, late[int(len(late) * 0.99)], run.gate.target)


RATES = (200_000, 20_000, 2_000)
LATENCIES = (0.1, 0.5, 1.0)
GATE = GateParameters(inputs=2, exclusive=128, floating=32_768, max_chunk_cost=64)


def table(parameters: GateParameters = GATE) -> Sequence[str]:
    """The table, in Markdown."""
    targets = " | ".join(f"target {each:g} s" for each in LATENCIES)
    lines = [
        f"| Consumer, rows/s | whole pool: barrier p99 | {targets} | share of the throughput, least |",
        "|---:|---:|" + "---:|" * (len(LATENCIES) + 1),
    ]
    for rate in RATES:
        fixed = run_gate(GateSetting(parameters=parameters, consumer_rate=rate))
        adapted = [
            run_gate(GateSetting(parameters=parameters, consumer_rate=rate, target_latency_seconds=each))
            for each in LATENCIES
        ]
        share = min(each.rows_per_second for each in adapted) / fixed.rows_per_second
        cells = [f"{each.barrier_p99_seconds:.2f} s" for each in (fixed, *adapted)]
        lines.append(f"| {rate:,} | {' | '.join(cells)} | {share:.3f} |")
    return lines


def main() -> None:
    """Print the table."""
    typer.echo("\n".join(table()))


if __name__ == "__main__":
    typer.run(main)
