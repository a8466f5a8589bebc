"""Runs a schedule of demand in simulated time: its rate, its requests, and how long the receiver has nothing to do.

The sender always has a message, and sending takes no time: what remains is the schedule.  Both ends are the real ones.
"""

from fractions import Fraction
from heapq import heappop, heappush
from typing import NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.protocol.demand import DEMAND, Demand

_WARM_UP_WINDOWS = 8
_WINDOWS = 16
_PAYLOAD = (None,)
_ROWS = (1,)


class ScheduleFigures(NamedTuple):
    """The steady state; times are in the caller's unit."""

    messages: int
    """Consumed while it was measured."""
    time: int
    requests: int
    """Messages from the receiver to the sender."""
    stalls: int
    """How often the receiver had nothing to consume."""
    idle: int
    """Time in which it had nothing."""

    @property
    def rate(self) -> Fraction:
        """Messages in a unit of time."""
        return Fraction(self.messages, self.time)

    @property
    def requests_per_message(self) -> Fraction:
        """1 / batch."""
        return Fraction(self.requests, self.messages)

    @property
    def stalls_per_message(self) -> Fraction:
        """At most one for each request."""
        return Fraction(self.stalls, self.messages)

    @property
    def idle_share(self) -> Fraction:
        """Of the time."""
        return Fraction(self.idle, self.time)


def schedule_rate(parameters: Demand, round_trip: int, service: int) -> Fraction:
    """The formula: messages in a unit of time.

    With ``span``, the largest multiple of ``batch`` that is at most ``size``, at least ``round_trip + service * (span -
    size + batch)`` pass from a request until ``span`` messages later, and ``span * service`` at least (theorem
    demand-rate).  The slower of the two is the rate.
    """
    span = parameters.batch * (parameters.size // parameters.batch)
    limited = round_trip + service * (span - parameters.size + parameters.batch)
    return Fraction(span, max(limited, span * service))


def simulate_schedule(parameters: Demand, *, round_trip: int, service: int) -> ScheduleFigures:
    """Run both ends until the figures are steady.

    Args:
        parameters: the schedule.
        round_trip: from a request until the first message is there that left because of it.
        service: the time in which the receiver consumes a message; it is consumed at the end of that time.

    Raises:
        InvalidParametersError: a time is negative, or no time passes.
    """
    for name, least, time in (("round_trip", 0, round_trip), ("service", 1, service)):
        if time < least:
            raise InvalidParametersError(name=name, value=time, rule=f"must be at least {least}")
    run = _Run(parameters, round_trip, service)
    # Whole batches, and whole spans of them, so that the measurement covers a whole number of periods.
    period = parameters.batch * (parameters.size // parameters.batch)
    run.consume(_WARM_UP_WINDOWS * period)
    before = run.figures()
    run.consume(_WINDOWS * period)
    after = run.figures()
    return ScheduleFigures(*(late - early for early, late in zip(before, after, strict=True)))


class _Run:
    """Both ends, and the messages under way."""

    def __init__(self, parameters: Demand, round_trip: int, service: int) -> None:
        self._sender, self._receiver = DEMAND.outbound(parameters), DEMAND.inbound(parameters)
        self._service, self._round_trip = service, round_trip
        self._now = self._requests = self._stalls = self._idle = 0
        # When so many messages arrive: the time there and back is spent at once, as nothing else depends on its parts.
        self._arrivals: list[tuple[int, int]] = []
        self._send(after=0)

    def _send(self, after: int) -> None:
        if count := self._sender.send_now(_ROWS * self._sender.parameters.size):
            heappush(self._arrivals, (self._now + after, count))

    def _request(self) -> None:
        if (said := self._receiver.take_feedback()) is not None:
            self._requests += 1
            self._sender.on_feedback(said)
            self._send(after=self._round_trip)

    def consume(self, messages: int) -> None:
        """Go on until so many more are consumed."""
        end = self._receiver.consumed_chunks + messages
        while self._receiver.consumed_chunks < end:
            self._arrive()
            if not self._receiver.untaken:
                if self._receiver.ask():
                    self._request()
                then = self._arrivals[0][0]
                self._stalls += then > self._now
                self._idle += then - self._now
                self._now = then
                continue
            self._receiver.take()
            self._now += self._service
            self._receiver.consume_many(1)
            self._request()

    def _arrive(self) -> None:
        while self._arrivals and self._arrivals[0][0] <= self._now:
            _, count = heappop(self._arrivals)
            self._receiver.deliver_many(_PAYLOAD * count, _ROWS * count)

    def figures(self) -> ScheduleFigures:
        """Since the beginning."""
        return ScheduleFigures(self._receiver.consumed_chunks, self._now, self._requests, self._stalls, self._idle)
