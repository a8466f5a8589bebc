"""Runs a schedule of demand in simulated time: its rate, its requests, and how long the receiver has nothing to do.

The sender always has a message, and sending takes no time: what remains is the schedule.  Both ends are the real ones.
"""

from collections.abc import Iterator
from fractions import Fraction
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from permitflow import Demand
from permitflow.errors import InvalidParametersError
from permitflow.flows.demand.core import DEMAND

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
        """The idle share of the time."""
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
    # Whole batches, and whole spans of them, so that the measurement covers a whole number of periods.
    period = parameters.batch * (parameters.size // parameters.batch)
    warm_up, measured = _WARM_UP_WINDOWS * period, _WINDOWS * period
    run = _run(parameters, round_trip, service)
    before, after = islice(run, warm_up - 1, warm_up + measured, measured)
    return ScheduleFigures(*(late - early for early, late in zip(before, after, strict=True)))


def _run(parameters: Demand, round_trip: int, service: int) -> Iterator[ScheduleFigures]:
    """The figures since the beginning, after each message that is consumed."""
    sender, receiver = DEMAND.outbound(parameters), DEMAND.inbound(parameters)
    now = requests = stalls = idle = 0
    # When so many messages arrive: the time there and back is spent at once, as nothing else depends on its parts.
    arrivals: list[tuple[int, int]] = []

    def send(after: int) -> None:
        if count := sender.send_now(_ROWS * parameters.size):
            heappush(arrivals, (now + after, count))

    def request() -> None:
        nonlocal requests
        if (said := receiver.take_feedback()) is not None:
            requests += 1
            sender.on_feedback(said)
            send(round_trip)

    send(0)
    while True:
        while arrivals and arrivals[0][0] <= now:
            _, count = heappop(arrivals)
            receiver.deliver_many(_PAYLOAD * count, _ROWS * count)
        if receiver.untaken:
            receiver.take()
            now += service
            receiver.consume_many(1)
            request()
            yield ScheduleFigures(receiver.consumed_chunks, now, requests, stalls, idle)
        else:
            if receiver.ask():
                request()
            then = arrivals[0][0]
            stalls += then > now
            idle += then - now
            now = then
