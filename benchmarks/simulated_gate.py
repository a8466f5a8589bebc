"""Barriers of several inputs that one consumer aligns, in simulated time: how long they take, and what they cost.

``python -m benchmarks.simulated_gate`` pastes the tables into docs/reference/measurements.md (five ways to hold what is
behind the barrier of a blocked input) and docs/protocols/adaptive-window.md (the pool adapts to a latency).  All ends
of flows are the real ones.  Between them is a network that takes half a round trip, and perhaps, in front of it, an
exchange with a channel for each input.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count, pairwise
from statistics import median
from typing import Any, NamedTuple

import typer

from benchmarks.documents import paste
from benchmarks.results import Row
from permitflow import ChannelParameters, GateParameters, Parameters
from permitflow.flows.gate.core import Gate
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Inbound, Outbound


@dataclass(frozen=True, kw_only=True)
class GateSetting:
    """The inputs of a consumer, the way to it, and how fast all of them are."""

    parameters: Parameters
    """Of each input: of a gate, or of channels that the consumer aligns by itself."""
    stores: bool = False
    """Without a gate: does the consumer read the blocked inputs, and store their rows?"""
    has_exchange: bool = False
    chunk_rows: int = 64
    rtt_seconds: float = 0.04
    source_rates: tuple[float, ...] = (100_000, 100_000)
    """Rows a second of each source, while it does not wait."""
    makes_up: bool = False
    """Does a source send the faster for having waited?"""
    expected_rows: int = 32_768
    """Rows that a source knows to come behind the chunk that it offers: its backlog, for which the gate lends."""
    barrier_seconds: float = 1.0
    """A barrier is due in all sources that often."""
    consumer_rate: float = 200_000
    """Rows a second."""
    target_latency_seconds: float | None = None
    """None: the whole pool may be lent."""


class Alignment(NamedTuple):
    """A barrier that all inputs have reached."""

    at_seconds: float
    due_seconds: float
    held_rows: int
    """Rows that are at the consumer and not consumed: all of them are behind the barrier."""
    received_chunks: int
    """All that were in front of it."""


class _Hop:
    """A sender, and the receiver to which its messages come a while later."""

    def __init__(self, run: "_Run", seconds: float, gate: Gate | None) -> None:
        parameters = run.setting.parameters
        flow = parameters.flow
        self.sender: Outbound[int] = flow.outbound(parameters, record=None)
        self.receiver: Inbound[int] = flow.receiving(parameters, record=None, group=gate)
        self._run, self._seconds = run, seconds
        self.on_room: Callable[[], None]
        self.on_arrival: Callable[[], None]

    def send(self) -> None:
        """Let everything leave that may."""
        for message in self.sender.take_sendable():
            self._run.after(self._seconds, self._deliver, message, self.sender.take_announcement())
        if (told := self.sender.take_announcement()) is not None:
            self._run.after(self._seconds, self._deliver, None, told)

    def _deliver(self, message: Message[int] | None, told: Any) -> None:
        if message is not None:
            self.receiver.deliver(message)
        if told is not None:
            self.receiver.on_announcement(told)
        self.on_arrival()

    def bring_back(self) -> None:
        """Let the feedback leave that is due."""
        if (feedback := self.receiver.take_feedback()) is not None:
            self._run.after(self._seconds, self._hear, feedback)

    def _hear(self, feedback: Any) -> None:
        self.sender.on_feedback(feedback)
        self.send()
        self.on_room()


class _Input:
    """A source, and the hops from it to the consumer."""

    def __init__(self, run: "_Run", rate: float, gate: Gate | None) -> None:
        setting = run.setting
        self._run, self._seconds = run, setting.chunk_rows / rate
        self._chunk_due, self._barriers, self._is_waiting = 0.0, 0, False
        ways = [0.0, setting.rtt_seconds / 2] if setting.has_exchange else [setting.rtt_seconds / 2]
        # Only the last hop leads into the gate.
        self.hops = [
            _Hop(run, seconds, gate if number == len(ways) else None) for number, seconds in enumerate(ways, 1)
        ]
        self._first, self.receiver = self.hops[0].sender, self.hops[-1].receiver
        self.stored: deque[Message[int]] = deque()
        self.is_blocked = False
        self.hops[0].on_room = self._go_on
        self.hops[-1].on_arrival = run.consume_next
        for source, target in pairwise(self.hops):
            source.on_arrival = target.on_room = partial(_bridge, source, target)
        run.after(0.0, self._go_on)

    def _go_on(self) -> None:
        """Offer what is due, unless what came before has not left yet."""
        run, setting = self._run, self._run.setting
        while not self._first.has_waiting:
            barrier_due = (self._barriers + 1) * setting.barrier_seconds
            if (due := min(self._chunk_due, barrier_due)) > run.now:
                if not self._is_waiting:
                    self._is_waiting = True
                    run.after(due - run.now, self._wake)
                return
            if barrier_due <= run.now:
                self._barriers += 1
                self._first.offer(Kind.BARRIER, self._barriers)
            else:
                self._first.offer(Kind.CHUNK, 0, setting.chunk_rows)
                if setting.expected_rows:
                    self._first.expect([setting.expected_rows])
                self._chunk_due = (self._chunk_due if setting.makes_up else run.now) + self._seconds
            self.hops[0].send()

    def _wake(self) -> None:
        self._is_waiting = False
        self._go_on()


def _bridge(source: _Hop, target: _Hop) -> None:
    """As the exchange's bridge: a message is consumed once it has left for the next hop."""
    receiver, sender = source.receiver, target.sender
    while True:
        if receiver.unconsumed > receiver.untaken:
            if sender.has_waiting:
                break
            receiver.consume_many(1)
        if not receiver.untaken:
            break
        _, rows, _ = receiver.chunks_at_hand(4_096, 4_096)
        if rows and not sender.admits(rows[:1]):
            sender.expect(rows)
            target.send()
            break
        message = receiver.take()
        sender.offer(message.kind, message.payload, message.rows)
        target.send()
    source.bring_back()


@dataclass
class _Run:
    setting: GateSetting
    now: float = 0.0
    received: list[float] = field(default_factory=list)
    """When the consumer has received each chunk."""
    aligned: list[Alignment] = field(default_factory=list)
    most_held_rows: int = 0
    gate: Gate | None = None
    _is_consuming: bool = False
    _turn: int = 0
    _inputs: list[_Input] = field(default_factory=list)
    _events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def __post_init__(self) -> None:
        setting = self.setting
        if isinstance(setting.parameters, GateParameters):
            self.gate = Gate(setting.parameters)
            if setting.target_latency_seconds is not None:
                self.gate.aim_at(setting.target_latency_seconds)
        self._inputs += [_Input(self, rate, self.gate) for rate in setting.source_rates]

    def until(self, seconds: float) -> None:
        """Go on until this time."""
        while self._events[0][0] <= seconds:
            self.now, _, do, arguments = heappop(self._events)
            do(*arguments)
            for each in self._inputs:
                each.hops[-1].bring_back()
        self.now = seconds

    def after(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        """Do this so much later."""
        heappush(self._events, (self.now + seconds, next(self._numbers), do, arguments))

    def consume_next(self) -> None:
        """Take one message of each input in turn; chunks take time, barriers none."""
        if self._is_consuming:
            return
        for _ in range(2 * len(self._inputs)):
            each = self._inputs[self._turn % len(self._inputs)]
            self._turn += 1
            if (message := self._taken(each)) is None:
                continue
            self._observe(0, is_busy=True)
            if message.kind is Kind.CHUNK:
                self._is_consuming = True
                self.received.append(self.now)
                self._noted_held_rows()
                self.after(message.rows / self.setting.consumer_rate, self._consumed, each, message.rows)
                return
            self._note_barrier(each, message.payload)
        self._observe(0, is_busy=False)

    def _taken(self, each: _Input) -> Message[int] | None:
        receiver = each.receiver
        if each.is_blocked:
            each.stored += receiver.receive_many(receiver.untaken) if self.setting.stores else ()
            return None
        if each.stored:
            return each.stored.popleft()
        if self.gate is None:
            return receiver.try_receive()
        return receiver.take() if receiver.untaken else None

    def _note_barrier(self, each: _Input, number: int) -> None:
        each.is_blocked = True
        if self.gate is not None:
            each.receiver.consume_many(1)
        if not all(each.is_blocked for each in self._inputs):
            return
        due_seconds = number * self.setting.barrier_seconds
        self.aligned.append(Alignment(self.now, due_seconds, self._noted_held_rows(), len(self.received)))
        for each in self._inputs:
            each.is_blocked = False
        if self.gate is not None:
            self.gate.align()

    def _noted_held_rows(self) -> int:
        stored = sum(message.rows for each in self._inputs for message in each.stored)
        held_rows = stored + sum(each.receiver.inbox_rows for each in self._inputs)
        self.most_held_rows = max(self.most_held_rows, held_rows)
        return held_rows

    def _consumed(self, each: _Input, rows: int) -> None:
        if self.gate is not None:
            each.receiver.consume_many(1)
        self._is_consuming = False
        self._observe(rows, is_busy=True)
        self.consume_next()

    def _observe(self, rows: int, *, is_busy: bool) -> None:
        if self.gate is not None:
            self.gate.observe(self.now, rows, is_busy=is_busy)


# The pool adapts to a latency.


class GateFigures(NamedTuple):
    """The steady state: what comes after the first windows were consumed."""

    rows_per_second: float
    barrier_p99_seconds: float
    """From the time when a barrier is due in all sources until all inputs are aligned."""
    target: int
    """The target of the pool, at the end."""


def run_gate(setting: GateSetting, *, seconds: float = 20.0) -> GateFigures:
    """Run a gate until the first windows are consumed, and then for so long."""
    run, parameters = _Run(setting), setting.parameters
    assert isinstance(parameters, GateParameters)
    assert run.gate is not None
    first_rows = 2 * (parameters.inputs * parameters.exclusive + parameters.floating)
    slowest = min(setting.consumer_rate, sum(setting.source_rates))
    start = first_rows / slowest + 4 * (setting.target_latency_seconds or 1.0)
    run.until(start + seconds)
    late = sorted(each.at_seconds - each.due_seconds for each in run.aligned if each.at_seconds > start)
    rows = setting.chunk_rows * sum(at > start for at in run.received)
    return GateFigures(rows / seconds, late[int(len(late) * 0.99)], run.gate.target)


CONSUMER_RATES = (200_000, 20_000, 2_000)
LATENCIES = (0.1, 0.5, 1.0)
GATE = GateParameters(inputs=2, exclusive=128, floating=32_768, max_chunk_cost=64)


def adaptive_rows() -> Iterator[Row]:
    """The table of a pool that adapts."""
    for rate in CONSUMER_RATES:
        settings = {"whole pool: barrier p99": GateSetting(parameters=GATE, consumer_rate=rate)}
        for each in LATENCIES:
            settings[f"target {each:g} s"] = GateSetting(
                parameters=GATE, consumer_rate=rate, target_latency_seconds=each
            )
        fixed, *adapted = found = [run_gate(setting) for setting in settings.values()]
        late = (f"{each.barrier_p99_seconds:.2f} s" for each in found)
        share = min(each.rows_per_second for each in adapted) / fixed.rows_per_second
        row: Row = {"Consumer, rows/s": f"{rate:,}", **dict(zip(settings, late, strict=True))}
        yield row | {"share of the throughput, least": f"{share:.3f}"}


# Ways to hold what is behind a barrier, all with the same number of buffers for rows, untuned.

BUFFER_ROWS = 512
WINDOW_ROWS = BUFFER_ROWS // 2
PERMITS = ChannelParameters(row_permits=WINDOW_ROWS, permit_batch=WINDOW_ROWS // 8)
STORED, UNREAD = "permits, stored", "permits, not read"
WAYS: dict[str, Parameters] = {
    STORED: PERMITS,
    UNREAD: PERMITS,
    "gate, own credit": GateParameters(inputs=2, exclusive=WINDOW_ROWS, floating=0),
    "gate, own and shared credit": GateParameters(inputs=2, exclusive=WINDOW_ROWS // 2, floating=BUFFER_ROWS // 2),
    "gate, shared credit": GateParameters(inputs=2, exclusive=0, floating=BUFFER_ROWS),
}
RATIOS = (1, 10, 100)
PLACES = {
    "in one process": {"rtt_seconds": 0.0},
    "in an exchange": {"rtt_seconds": 0.0, "has_exchange": True},
    "in an exchange 10 ms away": {"rtt_seconds": 0.01, "has_exchange": True},
}
CONSUMER_RATE = 10_000
BARRIERS, WARM_UP_BARRIERS = 12, 2
START_SECONDS = 0.020
"""After an alignment: the consumer could consume 200 rows."""


def run_alignments(way: str, ratio: int, **place: Any) -> dict[str, float]:
    """What a consumer sees that is slower than its inputs, which have rows in this ratio; of alignments, the median."""
    offered = 1.5 * CONSUMER_RATE
    setting = GateSetting(
        parameters=WAYS[way],
        stores=way == STORED,
        chunk_rows=16,
        source_rates=(offered / (1 + ratio), offered * ratio / (1 + ratio)),
        makes_up=True,
        expected_rows=0,
        barrier_seconds=0.2,
        consumer_rate=CONSUMER_RATE,
        **place,
    )
    run = _Run(setting)
    run.until((BARRIERS + 2) * setting.barrier_seconds)
    began, *judged, ended = run.aligned[WARM_UP_BARRIERS - 1 : BARRIERS]
    behind = [[at - each.at_seconds for at in run.received[each.received_chunks :]] for each in judged]
    rows = setting.chunk_rows * sum(began.at_seconds < at <= ended.at_seconds for at in run.received)
    return {
        "alignment, ms": 1e3 * median(each.at_seconds - each.due_seconds for each in judged),
        "rows held then": median(each.held_rows for each in judged),
        "most rows held": run.most_held_rows,
        "rows/s": rows / (ended.at_seconds - began.at_seconds),
        "first row, ms": 1e3 * median(after[0] for after in behind),
        "rows in 20 ms": setting.chunk_rows * median(sum(each <= START_SECONDS for each in after) for after in behind),
    }


def alignment_rows(place: dict[str, Any]) -> Iterator[Row]:
    """The table of all ways, at each ratio."""
    for ratio in RATIOS:
        for way in WAYS:
            yield {"rates, way": f"1:{ratio}, {way}", **run_alignments(way, ratio, **place)}


def main() -> None:
    """Paste the tables."""
    for place, options in PLACES.items():
        paste("reference/measurements.md", f"barriers, {place}", alignment_rows(options))
    paste("protocols/adaptive-window.md", "a pool that adapts", adaptive_rows())


if __name__ == "__main__":
    typer.run(main)
