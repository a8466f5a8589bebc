"""Schedules of demand in simulated time, by the real ends: the formula of demand.md is exact for all small numbers.

The sender always has a message, and sending takes no time: what remains is the schedule.
"""

from collections.abc import Iterator
from fractions import Fraction
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

import pytest

from permitflow import Demand
from permitflow.flows.demand.core import DEMAND

WARM_UP_SPANS, SPANS = 8, 16


class Figures(NamedTuple):
    """Times are in units of the caller's."""

    messages: int
    time: int
    requests: int
    stalls: int
    """How often the receiver had nothing to consume."""
    idle: int
    """Time in which it had nothing."""


def span_of(demand: Demand) -> int:
    return demand.batch * (demand.size // demand.batch)


def steady(demand: Demand, round_trip: int, service: int) -> Figures:
    """The figures of a whole number of spans, so of periods, behind the first ones."""
    warm_up, measured = WARM_UP_SPANS * span_of(demand), SPANS * span_of(demand)
    before, after = islice(consumed(demand, round_trip, service), warm_up - 1, warm_up + measured, measured)
    return Figures(*(late - early for early, late in zip(before, after, strict=True)))


def consumed(demand: Demand, round_trip: int, service: int) -> Iterator[Figures]:
    """The figures since the beginning, after each message that is consumed, at the end of its ``service``."""
    sender, receiver = DEMAND.outbound(demand), DEMAND.inbound(demand)
    now = requests = stalls = idle = 0
    # When so many messages arrive: the time there and back is spent at once, as nothing else depends on its parts.
    arrivals: list[tuple[int, int]] = []

    def send(after: int) -> None:
        if count := sender.send_now((1,) * demand.size):
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
            receiver.deliver_many((None,) * count, (1,) * count)
        if receiver.untaken:
            receiver.take()
            now += service
            receiver.consume_many(1)
            request()
            yield Figures(receiver.consumed_chunks, now, requests, stalls, idle)
        else:
            if receiver.ask():
                request()
            then = arrivals[0][0]
            stalls += then > now
            idle += then - now
            now = then


@pytest.mark.parametrize("size", range(1, 9))
def test_the_formula_is_exact_for_all_small_schedules(size: int) -> None:
    for batch in range(1, size + 1):
        demand = Demand(size=size, batch=batch)
        span = span_of(demand)
        for round_trip in range(26):
            for service in (1, 3):
                found = steady(demand, round_trip, service)
                case = (size, batch, round_trip, service)
                slowest = max(span * service, round_trip + service * (span - size + batch))
                assert Fraction(found.messages, found.time) == Fraction(span, slowest), case
                assert (found.idle == 0) == (round_trip <= service * (size - batch)), case
                assert found.requests * batch == found.messages, case
                assert found.stalls <= found.requests, case


def test_pull_differs_at_the_beginning_only() -> None:
    push, pull = (steady(Demand(size=4, initial=initial), round_trip=9, service=2) for initial in (4, 0))
    assert push == pull
