"""Summaries of neighbouring parts come to that of both, in whatever grouping; and so for all channels at once."""

import random
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow.audit.columns import Events, events_of
from permitflow.audit.flows.permits import LAWS
from permitflow.audit.summary import Part, Passage, Rise, Summary, look_at, passage_of
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.permits import PERMIT_ACTIONS, ChannelParameters
from permitflow.testing.subjects.permits import model_of
from permitflow.tracing import Event
from permitflow.tracing.parquet import by_end, table_of
from tests.support.made_traces import random_behaviour, with_permits

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
NUMBERS = st.lists(st.integers(0, 2**40), max_size=6)
STEPS = st.lists(st.integers(-3, 3), max_size=6)


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


def passage(numbers: list[int]) -> Passage:
    return passage_of(np.array(numbers, dtype=np.int64))


def rise(steps: list[int]) -> Rise:
    heights = np.cumsum([0, *steps])
    return Rise(int(heights[-1]), int(heights.min()))


@given(first=NUMBERS, second=NUMBERS, third=NUMBERS)
def test_passages_are_a_monoid(first: list[int], second: list[int], third: list[int]) -> None:
    a, b, c = passage(first), passage(second), passage(third)
    assert a.then(b).then(c) == a.then(b.then(c)) == passage([*first, *second, *third])
    assert Passage().then(a) == a.then(Passage()) == a


@given(first=NUMBERS, second=NUMBERS)
def test_passages_in_another_order_differ(first: list[int], second: list[int]) -> None:
    both, swapped = [*first, *second], [*second, *first]
    assert (passage(both) == passage(swapped)) == (both == swapped)


@given(first=STEPS, second=STEPS, third=STEPS)
def test_how_a_line_grew_is_a_monoid(first: list[int], second: list[int], third: list[int]) -> None:
    a, b, c = rise(first), rise(second), rise(third)
    assert a.then(b).then(c) == a.then(b.then(c)) == rise([*first, *second, *third])
    assert Rise().then(a) == a.then(Rise()) == a


@given(cuts=st.tuples(st.integers(2, 30), st.integers(2, 30)), end=st.sampled_from(["sender", "receiver"]))
@settings(deadline=None)
def test_summaries_come_to_that_of_the_whole_in_whatever_grouping(cuts: tuple[int, int], end: str) -> None:
    events = [event for event in RUNS["orders"] if event.end == end]
    first, second = cuts[0], cuts[0] + cuts[1]
    a, b, c = summed_up(events[:first]), summed_up(events[first:second]), summed_up(events[second:])
    assert a.then(b).then(c) == a.then(b.then(c)) == summed_up(events)


@pytest.mark.parametrize("seed", [1, 2])
def test_channels_that_lie_side_by_side_are_looked_at_as_if_each_were_alone(seed: int) -> None:
    together = looked_at(shuffled_together(seed))
    alone = [summary for run in RUNS.values() for summary in looked_at(run).summaries]
    assert together.violations == []
    assert {(each.channel, each.end): each for each in together.summaries} == {
        (each.channel, each.end): each for each in alone
    }


def test_a_fault_in_one_of_many_channels_is_found_there() -> None:
    events = shuffled_together(3)
    index = next(i for i, event in enumerate(events) if i > 200 and event.action == "AddPermits")
    events[index] = with_permits(events[index], 99)
    (violation,) = looked_at(events).violations
    assert (violation.channel, violation.sequence) == (events[index].channel, events[index].sequence)


def test_each_channel_is_held_against_its_own_parameters() -> None:
    (event,) = (RUNS["parts"][0],)
    too_many = event._replace(counters=(9, 1, 1)), event._replace(channel="orders", counters=(9, 1, 1))
    bounded = {violation.channel for violation in looked_at(too_many).violations if violation.clause == "Bounded"}
    assert bounded == {"orders"}


def test_events_of_one_channel_are_those_that_are_its_own() -> None:
    def of(events: Events) -> list[int]:
        return [*events.sequence.tolist(), *events.arguments["rows"].tolist(), *events.counters[1].tolist()]

    together = {
        events.end: events
        for events in events_of(table_of(shuffled_together(4), PERMIT_ACTIONS), PERMIT_ACTIONS, LIMITS, source="")
    }
    for name, run in RUNS.items():
        for alone in events_of(table_of(run, PERMIT_ACTIONS), PERMIT_ACTIONS, LIMITS, source=""):
            assert of(together[alone.end].of(name)) == of(alone)


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


def test_a_slice_of_a_table_is_looked_at_as_if_it_were_a_table_of_its_own() -> None:
    events, start = shuffled_together(5), 101
    assert by_channel(table_of(events, PERMIT_ACTIONS).slice(start)) == by_channel(
        table_of(events[start:], PERMIT_ACTIONS)
    )


def test_an_action_of_the_other_end_is_named() -> None:
    events = [*RUNS["orders"][:50]]
    index = next(i for i, event in enumerate(events) if event.end == "sender")
    events[index] = events[index]._replace(action="Deliver")
    with pytest.raises(TraceUnreadableError, match=r"the sender has no action 'Deliver' \(event 1 of orders\)"):
        looked_at(events)
