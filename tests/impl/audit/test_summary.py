"""Summaries of neighbouring parts come to that of both, in whatever grouping; and so for all channels at once."""

import random
from collections.abc import Iterable
from dataclasses import asdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow.audit.flows.permits import LAWS
from permitflow.audit.summary import Part, Summary, look_at
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.permits import PERMIT_ACTIONS, ChannelParameters
from permitflow.testing.subjects.permits import model_of
from permitflow.tracing import Event
from permitflow.tracing.parquet import by_end, table_of
from tests.support.made_traces import random_behaviour

PARAMETERS = {
    "orders": ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2),
    "parts": ChannelParameters(row_permits=12, permit_batch=2, barrier_permits=1),
    "lines": ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2),
}
LIMITS = {name: LAWS.limits(asdict(of)) for name, of in PARAMETERS.items()}
RUNS = {
    name: tuple(random_behaviour(model_of(of, sizes=(0, 1, 4)), seed=5, events=300, channel=name))
    for name, of in PARAMETERS.items()
}


def looked_at(events: Iterable[Event]) -> Part:
    return look_at(table_of(list(events), PERMIT_ACTIONS), LAWS, LIMITS, source="here")


def summed_up(events: Iterable[Event]) -> Summary:
    (summary,) = looked_at(events).summaries
    return summary


def shuffled_together(seed: int) -> list[Event]:
    """The runs of all channels, as one recorder would see them: each in its order, in turns at random."""
    choose, rest = random.Random(seed), {name: list(reversed(run)) for name, run in RUNS.items()}
    together = []
    while waiting := [run for run in rest.values() if run]:
        together.append(choose.choice(waiting).pop())
    return together


@given(cuts=st.tuples(st.integers(2, 30), st.integers(2, 30)), end=st.sampled_from(["sender", "receiver"]))
@settings(deadline=None)
def test_summaries_come_to_that_of_the_whole_in_whatever_grouping(cuts: tuple[int, int], end: str) -> None:
    events = [event for event in RUNS["orders"] if event.end == end]
    first, second = cuts[0], cuts[0] + cuts[1]
    a, b, c = summed_up(events[:first]), summed_up(events[first:second]), summed_up(events[second:])
    assert a.then(b).then(c) == a.then(b.then(c)) == summed_up(events)


def test_each_channel_is_held_against_its_own_parameters() -> None:
    (event,) = (RUNS["parts"][0],)
    too_many = event._replace(counters=(9, 1, 1)), event._replace(channel="orders", counters=(9, 1, 1))
    bounded = {violation.channel for violation in looked_at(too_many).violations if violation.clause == "Bounded"}
    assert bounded == {"orders"}


def by_channel(table: pa.Table) -> dict[tuple[str, str], Summary]:
    return {(each.channel, each.end): each for each in look_at(table, LAWS, LIMITS, source="").summaries}


@pytest.mark.parametrize("seed", [5, 6])
def test_events_are_looked_at_wherever_they_lie(seed: int) -> None:
    table = table_of(shuffled_together(seed), PERMIT_ACTIONS)
    together = by_end(table)
    # Each end of each channel in one piece, but the ends in turns.
    pieces = [
        together.filter((pc.field("end") == end) & (pc.field("channel") == channel))
        for end in ("sender", "receiver")
        for channel in PARAMETERS
    ]
    in_turns = pa.concat_tables([pieces[number] for number in (0, 3, 1, 4, 5, 2)])
    assert by_channel(table) == by_channel(together) == by_channel(in_turns)


def test_an_action_of_the_other_end_is_named() -> None:
    events = [*RUNS["orders"][:50]]
    index = next(i for i, event in enumerate(events) if event.end == "sender")
    events[index] = events[index]._replace(action="Deliver")
    with pytest.raises(TraceUnreadableError, match=r"the sender has no action 'Deliver' \(event 1 of orders\)"):
        looked_at(events)
