"""One channel as a sequence of events in simulated time.

A heap of events and not a simulation library: there are four kinds of events, their handlers are a few lines each, and
a process for each end (as in simpy) would hide the one thing that matters, which is what happens at the same instant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple, TypeVar

from permitflow.protocol.messages import Message, Permits
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.sender import PermitSender
from permitflow.simulation.setting import Setting, pieces_of

__all__ = ["Channel", "Totals", "Whereabouts"]

T = TypeVar("T")


@dataclass(slots=True)
class _Slice:
    """What a message carries: when its chunk was offered, and whether it is the chunk's last."""

    offered_at: float
    is_last: bool


class Whereabouts(NamedTuple):
    """Row permits by where they are."""

    permits: float
    """At the sender."""
    wire: float
    """With messages in flight."""
    inbox: float
    """With messages that have arrived and are not consumed."""
    unreturned: float
    """Of consumed messages, kept by the receiver."""
    grants: float
    """On their way back."""


class Totals(NamedTuple):
    """What has added up since the beginning."""

    seconds: float
    rows: int
    """Consumed."""
    chunks: int
    """Consumed; slices of one chunk count once."""
    grants: int
    """Messages that returned permits."""
    blocked_seconds: float
    """During which the producer waited for permits."""
    permit_seconds: Whereabouts


class Channel:
    """Both ends, the wires between them, a producer that waits for permits, and a consumer."""

    def __init__(self, setting: Setting, random: Random) -> None:
        """At time 0 the producer begins with its first chunk."""
        self.setting = setting
        self.now = 0.0
        self.sender: PermitSender[_Slice] = PermitSender(setting.sender)
        self.receiver: PermitReceiver[_Slice] = PermitReceiver(setting.receiver)
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
        self._rows_sent = self._rows_consumed = self._grants = 0
        self._permit_seconds = [0.0] * len(Whereabouts._fields)
        self._produce()

    @property
    def rows_consumed(self) -> int:
        """Rows consumed since the beginning."""
        return self._rows_consumed

    @property
    def whereabouts(self) -> Whereabouts:
        """Where the row permits are now."""
        return Whereabouts(self.sender.permits.rows, self._wire, self._inbox, self.receiver.unreturned, self._granted)

    def totals(self) -> Totals:
        """Everything that has added up until now."""
        waiting = 0.0 if self._blocked_since is None else self.now - self._blocked_since
        return Totals(
            seconds=self.now,
            rows=self._rows_consumed,
            chunks=len(self.latencies),
            grants=self._grants,
            blocked_seconds=self._blocked_seconds + waiting,
            permit_seconds=Whereabouts(*self._permit_seconds),
        )

    def step(self) -> bool:
        """Let the next event happen; False if there is none: then nothing will ever happen again.

        Raises:
            OverspendError: the sender believes in a larger window than the receiver.
        """
        if not self._events:
            return False
        then, _, happen = heappop(self._events)
        self._let_time_pass(then)
        happen()
        return True

    def _let_time_pass(self, then: float) -> None:
        if (elapsed := then - self.now) > 0:
            for place, permits in enumerate(self.whereabouts):
                self._permit_seconds[place] += permits * elapsed
            self.now = then

    def _schedule(self, then: float, happen: Callable[[T], None], what: T) -> None:
        self._scheduled += 1  # of what happens at one instant, what was scheduled first comes first
        heappush(self._events, (then, self._scheduled, lambda: happen(what)))

    # The producer and the sender.

    def _produce(self) -> None:
        rows = self.setting.chunks.draw(self._random)
        self._schedule(self.now + rows / self.setting.producer_rate, self._offer, rows)

    def _offer(self, rows: int) -> None:
        pieces = list(pieces_of(rows, self.sender.parameters))
        for number, piece in enumerate(pieces, start=1):
            self.sender.offer_chunk(_Slice(self.now, number == len(pieces)), piece)
        self._blocked_since = self.now
        self._send()

    def _send(self) -> None:
        for message in self.sender.take_sendable():
            self._wire += message.cost
            self._rows_sent += message.rows
            leaves = max(self.now, self._link_is_free_at) + message.rows / self.setting.link_rate
            self._link_is_free_at = leaves
            self._schedule(leaves + self.setting.forward_seconds, self._deliver, message)
        self.peak_rows = max(self.peak_rows, self._rows_sent - self._rows_consumed)
        if self._blocked_since is not None and not self.sender.has_waiting:
            self._blocked_seconds += self.now - self._blocked_since
            self._blocked_since = None
            self._produce()

    def _add_permits(self, returned: Permits) -> None:
        self._granted -= returned.rows
        self.sender.add_permits(returned)
        self._send()

    # The receiver and the consumer.

    def _deliver(self, message: Message[_Slice]) -> None:
        is_idle = self.receiver.is_empty
        self.receiver.deliver(message)
        self._wire -= message.cost
        self._inbox += message.cost
        if is_idle:
            self._begin_to_consume()

    def _begin_to_consume(self) -> None:
        message = self.receiver.take()
        self._schedule(self.now + message.rows / self.setting.consumer_rate, self._consume, message)

    def _consume(self, message: Message[_Slice]) -> None:
        self._inbox -= message.cost
        self._rows_consumed += message.rows
        if message.payload.is_last:
            self.latencies.append(self.now - message.payload.offered_at)
        self._give_back(self.receiver.consume())
        if self.setting.flush_idle:
            self._give_back(self.receiver.flush())
        if self.receiver.has_untaken:
            self._begin_to_consume()

    def _give_back(self, returned: Permits | None) -> None:
        if returned is None:
            return
        self._grants += 1
        self._granted += returned.rows
        self._schedule(self.now + self.setting.return_seconds, self._add_permits, returned)
