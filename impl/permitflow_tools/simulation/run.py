"""Runs one channel as a sequence of events in simulated time, long enough for steady figures.

It uses a heap of events, not a simulation library: there are four kinds of events with short handlers, and a process
for each end (as in simpy) would hide the order of simultaneous events, which matters most.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Literal, NamedTuple, TypeVar

from permitflow.errors import InvalidParametersError, OverspendError
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.flows.permits.parameters import Permits
from permitflow_tools.simulation.setting import SimulationSetting, pieces_of

T = TypeVar("T")


class _Slice(NamedTuple):
    """A message's content: the time of its chunk's offer, and whether it is the chunk's last slice."""

    offered_at: float
    is_last: bool


class Whereabouts(NamedTuple):
    """Row permits by place."""

    permits: float
    """At the sender."""
    wire: float
    """With messages in flight."""
    inbox: float
    """With messages that have arrived and are not consumed."""
    unreturned: float
    """Permits of consumed messages that the receiver keeps."""
    grants: float
    """On their way back."""


class Totals(NamedTuple):
    """Sums since the beginning."""

    seconds: float
    rows: int
    """Consumed."""
    chunks: int
    """Consumed; slices of one chunk count once."""
    grants: int
    """Messages that returned permits, or bytes."""
    blocked_seconds: float
    """Seconds in which the producer waited for permits, or for bytes."""
    permit_seconds: Whereabouts


class Channel:
    """Both ends, the wires between them, a producer that waits for permits, and a consumer."""

    def __init__(self, setting: SimulationSetting, random: Random) -> None:
        """At time 0 the producer begins with its first chunk."""
        self.setting = setting
        self.now = 0.0
        self.sender: PermitSender[_Slice] = PermitSender(setting.sender)
        # In the published protocol a message says what it costs: the receiver's own max_chunk_cost means nothing.
        sender, receiver = setting.sender, setting.receiver
        receiver = replace(receiver, max_chunk_cost=sender.max_chunk_cost, oversize=sender.oversize)
        self.receiver: PermitReceiver[_Slice] = PermitReceiver(receiver)
        if setting.target_latency_seconds:
            self.receiver.aim_at(setting.target_latency_seconds)
        window = ByteWindow(setting.byte_window)
        self.bytes_out, self.bytes_here = self.sender.limit_bytes(window), self.receiver.limit_bytes(window)
        self.latencies: list[float] = []
        """Seconds from the offer of a chunk until it was consumed, in the order of consumption."""
        self.peak_rows = 0
        """The most rows that were ever sent and not consumed."""
        self._random = random
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._link_is_free_at = 0.0
        self._blocked_since: float | None = None
        self._blocked_seconds = 0.0
        self._wire = self._inbox = self._granted = 0  # row permits
        self._rows_sent = self.rows_consumed = self._grants = 0
        self._permit_seconds = [0.0] * len(Whereabouts._fields)
        if self.receiver.ask():  # the consumer asks at once
            self._give_back(self.receiver.take_feedback())
        self._produce()

    @property
    def whereabouts(self) -> Whereabouts:
        """The present places of the row permits."""
        return Whereabouts(self.sender.permits.rows, self._wire, self._inbox, self.receiver.unreturned, self._granted)

    def totals(self) -> Totals:
        """The sums until now."""
        waiting = 0.0 if self._blocked_since is None else self.now - self._blocked_since
        return Totals(
            seconds=self.now,
            rows=self.rows_consumed,
            chunks=len(self.latencies),
            grants=self._grants,
            blocked_seconds=self._blocked_seconds + waiting,
            permit_seconds=Whereabouts(*self._permit_seconds),
        )

    def step(self) -> bool:
        """Process the next event; False if there is none: then the channel is stuck.

        Raises:
            OverspendError: the sender assumes a larger window than the receiver.
        """
        if not self._events:
            return False
        then, _, happen = heappop(self._events)
        if (elapsed := then - self.now) > 0:
            for place, permits in enumerate(self.whereabouts):
                self._permit_seconds[place] += permits * elapsed
            self.now = then
        happen()
        return True

    def _schedule(self, then: float, happen: Callable[[T], None], what: T) -> None:
        self._scheduled += 1  # events of one instant happen in the order of their scheduling
        event: Callable[[], None] = partial(happen, what)
        heappush(self._events, (then, self._scheduled, event))

    # The producer and the sender.

    def _produce(self) -> None:
        rows = self.setting.chunks.draw(self._random)
        self._schedule(self.now + rows / self.setting.producer_rate, self._offer, rows)

    def _offer(self, rows: int) -> None:
        pieces = list(pieces_of(rows, self.sender.parameters))
        for number, piece in enumerate(pieces, start=1):
            self.sender.offer(Kind.CHUNK, _Slice(self.now, number == len(pieces)), piece, self._size_of(piece))
        self._blocked_since = self.now
        self._send()

    def _send(self) -> None:
        for message in self.sender.take_sendable():
            self._wire += self.sender.parameters.cost_of(message.rows)
            self._rows_sent += message.rows
            leaves = max(self.now, self._link_is_free_at) + message.rows / self.setting.link_rate
            self._link_is_free_at = leaves
            self._schedule(leaves + self.setting.forward_seconds, self._deliver, message)
        self.peak_rows = max(self.peak_rows, self._rows_sent - self.rows_consumed)
        if self._blocked_since is not None and not self.sender.has_waiting:
            self._blocked_seconds += self.now - self._blocked_since
            self._blocked_since = None
            self._produce()

    def _size_of(self, rows: int) -> int | None:
        return rows * self.setting.row_bytes or None

    def _add(self, returned: tuple[Permits | None, int]) -> None:
        permits, size_bytes = returned
        if permits is not None:
            self._granted -= permits.rows
            self.sender.on_feedback(permits)
        if size_bytes:
            self.bytes_out.on_return(size_bytes)
        self._send()

    # The receiver and the consumer.

    def _deliver(self, message: Message[_Slice]) -> None:
        is_idle = not self.receiver.unconsumed
        self.receiver.deliver(message, self._size_of(message.rows))
        cost = self.receiver.parameters.cost_of(message.rows)
        self.receiver.observe(self.now)
        self._wire -= cost
        self._inbox += cost
        if is_idle:
            self._begin_to_consume()

    def _begin_to_consume(self) -> None:
        message = self.receiver.take()
        self._schedule(self.now + message.rows / self.setting.consumer_rate, self._consume, message)

    def _consume(self, message: Message[_Slice]) -> None:
        self._inbox -= self.receiver.parameters.cost_of(message.rows)
        self.rows_consumed += message.rows
        if message.payload.is_last:
            self.latencies.append(self.now - message.payload.offered_at)
        self.receiver.consume_many(1)
        self.receiver.observe(self.now)
        self._give_back(self.receiver.take_feedback(residue=False))
        if self.setting.flush_idle:
            self._give_back(self.receiver.take_feedback())
        if self.receiver.untaken:
            self._begin_to_consume()

    def _give_back(self, returned: Permits | None) -> None:
        if returned is None and not self.bytes_here.is_due:
            return
        self._grants += 1
        if returned is not None:
            self._granted += returned.rows
        self._schedule(self.now + self.setting.return_seconds, self._add, (returned, self.bytes_here.take()))


Progress = Callable[[float], None]
"""Is called from time to time with the finished share of a run, from 0 to 1."""

LEAST_CHUNKS = 2_000
LEAST_WINDOWS = 10
# A few minutes.
MOST_MESSAGES = 20_000_000
_EVENTS_PER_REPORT = 8_192
# Before the first back-pressure a window has to fill; if it never does, this many windows are enough.
_MOST_WINDOWS_TO_FILL = 20


class RunLength(NamedTuple):
    """Rows to consume for the warm-up, and then for the measurement."""

    warm_up_rows: int
    measured_rows: int


@dataclass(frozen=True, kw_only=True)
class Figures:
    """The figures of the measurement after the warm-up."""

    seconds: float
    rows: int
    chunks: int
    throughput: float
    """Rows consumed a second."""
    utilisation: float
    """Throughput as a share of the slowest rate of producer, link and consumer; 0 if nothing is slow."""
    link_utilisation: float | None
    """Throughput as a share of the link's rate; None if it is unlimited."""
    blocked_share: float
    """Share of the time during which the producer waited for permits."""
    whereabouts: Whereabouts
    """Mean number of row permits at each place."""
    latency_p50_seconds: float
    """From the offer of a chunk until it was consumed: half of them took at most this."""
    latency_p99_seconds: float
    grants_per_row: float
    """Messages that return permits, for each row."""


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """A state without further events."""

    seconds: float
    chunks: int
    """Consumed before."""
    waiting_cost: int
    """Row permits that the oldest waiting chunk needs."""
    whereabouts: Whereabouts


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """The result of a run: figures, or a stuck state, or a refusal by the receiver."""

    setting: SimulationSetting
    seed: int
    length: RunLength
    peak_rows: int
    """The most rows that were ever in the channel at once."""
    peak_bytes: int
    """The most bytes that were ever sent and not returned; 0 if they are not counted."""
    figures: Figures | None = None
    stuck: Stuck | None = None
    refusal: OverspendError | None = None

    @property
    def verdict(self) -> Literal["flows", "deadlock", "overspend"]:
        """The result in one word."""
        if self.stuck is not None:
            return "deadlock"
        return "flows" if self.refusal is None else "overspend"


def run_length(
    setting: SimulationSetting, *, least_chunks: int = LEAST_CHUNKS, least_windows: int = LEAST_WINDOWS
) -> RunLength:
    """The length of a run that shows the steady state.

    The warm-up lasts two windows, and until the window has filled up, if it ever does.  The measurement covers whole
    windows, because a channel that its window limits repeats itself after each.
    """
    window, mean = setting.sender.row_permits, setting.chunks.mean
    behind = min(setting.link_rate, setting.consumer_rate)
    faster = setting.producer_rate - behind if behind < math.inf else 0.0
    until_full = window if faster == math.inf else window * behind / faster if faster > 0 else 0.0
    warm_up = max(2 * window, min(until_full, _MOST_WINDOWS_TO_FILL * window), 50 * mean)
    cost = setting.constant_cost
    period = window - window % cost if cost is not None and cost <= window else window
    windows = max(least_windows, math.ceil(least_chunks * mean / period))
    return RunLength(math.ceil(warm_up), windows * period)


def simulate(
    setting: SimulationSetting, *, seed: int = 0, length: RunLength | None = None, on_progress: Progress | None = None
) -> SimulatedRun:
    """Run a channel until its figures are steady.

    Raises:
        InvalidParametersError: nothing in the setting takes any time, or the run would have too many messages.
    """
    if not setting.takes_time:
        raise InvalidParametersError(
            name="rtt",
            value=setting.rtt_seconds,
            rule="must be above 0 where no rate is limited: else nothing takes time",
        )
    length = length or run_length(setting)
    rows_of_message = min(max(setting.chunks.mean, 1.0), setting.sender.max_chunk_cost)
    messages = (length.warm_up_rows + length.measured_rows) / rows_of_message
    if messages > MOST_MESSAGES:
        raise InvalidParametersError(
            name="row_permits",
            value=setting.sender.row_permits,
            rule=f"must be smaller, messages larger, or chunks fewer: a meaningful run has {messages:,.0f} messages, "
            f"at most {MOST_MESSAGES:,} are simulated",
        )
    channel = Channel(setting, Random(seed))
    figures = refusal = stuck = None
    end = length.warm_up_rows + length.measured_rows

    def consume(rows: int) -> bool:
        """Process events until this many rows are consumed; False if the channel gets stuck first."""
        while True:
            for _ in range(_EVENTS_PER_REPORT):
                if not channel.step():
                    return False
                if channel.rows_consumed >= rows:
                    return True
            if on_progress is not None:
                on_progress(min(1.0, channel.rows_consumed / end))

    try:
        if consume(length.warm_up_rows):
            before = channel.totals()
            if consume(end):
                figures = _figures(setting, before, channel.totals(), channel.latencies[before.chunks :])
    except OverspendError as error:
        refusal = error
    if figures is None and refusal is None:
        stuck = Stuck(
            seconds=channel.now,
            chunks=len(channel.latencies),
            waiting_cost=channel.sender.parameters.cost_of(channel.sender.waiting[0].rows),
            whereabouts=channel.whereabouts,
        )
    return SimulatedRun(
        setting=setting,
        seed=seed,
        length=length,
        peak_rows=channel.peak_rows,
        peak_bytes=channel.bytes_out.peak_bytes,
        figures=figures,
        stuck=stuck,
        refusal=refusal,
    )


def _figures(setting: SimulationSetting, before: Totals, after: Totals, latencies: Sequence[float]) -> Figures:
    seconds, rows = after.seconds - before.seconds, after.rows - before.rows
    permit_seconds = zip(before.permit_seconds, after.permit_seconds, strict=True)
    throughput = rows / seconds
    ordered = sorted(latencies)
    return Figures(
        seconds=seconds,
        rows=rows,
        chunks=after.chunks - before.chunks,
        throughput=throughput,
        utilisation=throughput / setting.bottleneck_rate,
        link_utilisation=None if math.isinf(setting.link_rate) else throughput / setting.link_rate,
        blocked_share=(after.blocked_seconds - before.blocked_seconds) / seconds,
        whereabouts=Whereabouts(*((late - early) / seconds for early, late in permit_seconds)),
        latency_p50_seconds=_quantile(ordered, 0.5),
        latency_p99_seconds=_quantile(ordered, 0.99),
        grants_per_row=(after.grants - before.grants) / rows,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as this share of all."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
