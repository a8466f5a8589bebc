"""Recorded runs are judged rightly: behaviours pass, everything else is stopped at its first impossible step.

The greedy merge of two logs is held against a search through all interleavings.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow_model.kernel.replay import Refused, Replay, Starved, replay
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_model.permit_channel_trace import PermitChannelReplay, World
from tests.support.made_traces import random_behaviour

SMALL = Parameters(
    row_permits=4,
    permit_batch=2,
    max_chunk_cost=3,
    sizes=(0, 1, 2, 3),
    barrier_permits=2,
    watermarks=True,
    flush_idle=True,
    withdrawals=True,
    waiters=3,
)
RECEIVER = ("Deliver", "Consume", "Flush")


class Event(NamedTuple):
    """What a recorder would write."""

    action: str
    arguments: tuple[int, ...]
    counters: tuple[int, ...] = ()


def chunk(action: str, rows: int) -> Event:
    return Event(action, (rows, min(max(rows, 1), SMALL.max_chunk_cost), 0, 0))


def barrier(action: str) -> Event:
    return Event(action, (0, 0, 1, 0))


def watermark(action: str) -> Event:
    return Event(action, (0, 0, 0, 1))


def returned(rows: int = 0, barriers: int = 0, watermarks: int = 0) -> Event:
    return Event("AddPermits", (0, rows, barriers, watermarks))


def flushed(rows: int) -> Event:
    return Event("Flush", (0, rows, 0, 0))


def behaviour(seed: int, length: int) -> list[Event]:
    """A random run of the model, as it would be recorded."""
    run = random_behaviour(SMALL, seed=seed, events=length)
    return [Event(event.action, event.arguments, event.counters) for event in run]


def by_end(events: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    return [e for e in events if e.action not in RECEIVER], [e for e in events if e.action in RECEIVER]


def judge(*logs: Sequence[Event], keep_path: bool = False) -> Replay[World, Event]:
    interpretation = PermitChannelReplay(replace(SMALL, waiters=2**62), keep_path=keep_path)
    return replay(interpretation, interpretation.start(), logs)


def some_merge_is_a_behaviour(sender: Sequence[Event], receiver: Sequence[Event]) -> bool:
    """Try every interleaving."""
    interpretation = PermitChannelReplay(replace(SMALL, waiters=2**62))
    seen: set[tuple[int, int, World]] = set()

    def search(i: int, j: int, world: World) -> bool:
        if i == len(sender) and j == len(receiver):
            return True
        if (i, j, world) in seen:
            return False
        seen.add((i, j, world))
        return any(
            search(after[0], after[1], following)
            for event, after in _next(sender, receiver, i, j)
            for following in _worlds(interpretation, world, event)
        )

    return search(0, 0, interpretation.start())


def _next(
    sender: Sequence[Event], receiver: Sequence[Event], i: int, j: int
) -> Iterator[tuple[Event, tuple[int, int]]]:
    if i < len(sender):
        yield sender[i], (i + 1, j)
    if j < len(receiver):
        yield receiver[j], (i, j + 1)


def _worlds(interpretation: PermitChannelReplay, world: World, event: Event) -> Sequence[World]:
    try:
        return interpretation.perform(world, event)
    except (Refused, Starved):
        return ()


@given(st.integers(0, 10**9))
def test_every_behaviour_is_valid_merged_from_its_two_ends(seed: int) -> None:
    events = behaviour(seed, 120)

    together, apart = judge(events), judge(*by_end(events))

    assert together.is_valid
    assert apart.is_valid
    assert together.performed == apart.performed == 120
    # The merge ends where the run ended: the order in between does not matter.
    assert set(together.worlds) & set(apart.worlds)


@given(st.integers(0, 10**9), st.data())
def test_the_greedy_merge_finds_a_behaviour_exactly_if_there_is_one(seed: int, data: st.DataObject) -> None:
    events = behaviour(seed, 14)
    for _ in range(data.draw(st.integers(0, 2))):
        position = data.draw(st.integers(0, len(events) - 1))
        match data.draw(st.sampled_from(["drop", "repeat", "swap", "change"])):
            case "drop" if len(events) > 1:
                del events[position]
            case "repeat":
                events.insert(position, events[position])
            case "swap" if position:
                events[position - 1 : position + 1] = reversed(events[position - 1 : position + 1])
            case "change":
                events[position] = data.draw(st.sampled_from(behaviour(seed + 1, 14)))

    sender, receiver = by_end(events)

    assert judge(sender, receiver).is_valid == some_merge_is_a_behaviour(sender, receiver)
    assert judge(receiver, sender).is_valid == judge(sender, receiver).is_valid


@given(st.integers(0, 10**9))
def test_the_steps_that_explain_a_run_are_steps_of_the_model(seed: int) -> None:
    events = behaviour(seed, 60)

    outcome = judge(*by_end(events), keep_path=True)

    parameters = replace(SMALL, waiters=2**62)
    state = SYSTEM.initial(parameters)
    path = outcome.worlds[0].path
    assert path is not None
    for step in path.steps():
        state = SYSTEM.perform(step.action, state, parameters, *step.arguments)
        assert state == step.state
    assert state == outcome.worlds[0].state
    assert not SYSTEM.broken_invariants(state, parameters)


def test_a_chunk_may_be_withdrawn_from_the_middle() -> None:
    offers = [chunk("OfferChunk", rows) for rows in (3, 2, 1)]

    assert judge([*offers, chunk("WithdrawChunk", 2), chunk("SendChunk", 3), chunk("SendChunk", 1)]).is_valid
    assert judge([*offers, chunk("WithdrawChunk", 3), chunk("SendChunk", 2), chunk("SendChunk", 1)]).is_valid

    outcome = judge([*offers, chunk("WithdrawChunk", 2), chunk("SendChunk", 3), chunk("SendChunk", 2)])
    assert outcome.blocked[0].is_refused
    assert "it must be a chunk of 1 rows" in outcome.blocked[0].reason


@pytest.mark.parametrize("sent_first", [1, 2])
def test_which_of_two_equal_chunks_was_withdrawn_is_found_out_later(sent_first: int) -> None:
    # 1, watermark, 1: if the first was withdrawn, the watermark leaves before the other, else after it.
    offers = [chunk("OfferChunk", 1), watermark("OfferWatermark"), chunk("OfferChunk", 1), chunk("WithdrawChunk", 1)]
    sends = [chunk("SendChunk", 1), watermark("SendWatermark")]

    assert len(judge(offers).worlds) == 2
    assert judge([*offers, *(sends if sent_first == 1 else sends[::-1])]).is_valid
    assert not judge([*offers, *sends, watermark("SendWatermark")]).is_valid


def test_a_barrier_leaves_after_the_chunks_before_it() -> None:
    offers = [chunk("OfferChunk", 1), barrier("OfferBarrier"), chunk("OfferChunk", 2)]

    assert judge([*offers, chunk("SendChunk", 1), barrier("SendBarrier"), chunk("SendChunk", 2)]).is_valid
    early = judge([*offers, barrier("SendBarrier")])
    assert "a chunk of 1 rows with 1 row permit was offered before it and has not left" in early.blocked[0].reason
    late = judge([*offers, chunk("SendChunk", 1), chunk("SendChunk", 2)])
    assert "a barrier with 1 barrier permit was offered before it and has not left" in late.blocked[0].reason
    assert judge([*offers, chunk("WithdrawChunk", 1), barrier("SendBarrier"), chunk("SendChunk", 2)]).is_valid
    assert judge([*offers, barrier("WithdrawBarrier"), chunk("SendChunk", 1), chunk("SendChunk", 2)]).is_valid


def consumed(*events: Event) -> list[Event]:
    """Offered, sent, delivered, consumed."""
    return [event._replace(action=action) for event in events for action in (event.action, *_LATER[event.action])]


_LATER = {
    "OfferChunk": ("SendChunk", "Deliver", "Consume"),
    "OfferBarrier": ("SendBarrier", "Deliver", "Consume"),
    "OfferWatermark": ("SendWatermark", "Deliver", "Consume"),
}


def test_permits_that_come_back_together_are_several_returns() -> None:
    run = consumed(chunk("OfferChunk", 2), barrier("OfferBarrier"), watermark("OfferWatermark"))

    assert judge([*run, returned(rows=2), returned(barriers=1), returned(watermarks=1)]).is_valid
    assert judge([*run, returned(2, 1, 1)]).is_valid
    assert judge([*run, returned(2, 1), returned(watermarks=1)]).is_valid
    early = judge([*run, returned(2, 0, 1)])
    assert early.blocked[0].is_refused
    assert "are not a sum of what comes back first: 2 row permits, then 1 barrier permit" in early.blocked[0].reason
    assert "no permits are returned" in judge([*run, returned()]).blocked[0].reason


REFUSED = [
    ("no chunk waits", [chunk("SendChunk", 1)]),
    ("needs 3 row permits, the sender has 1", [*[chunk("OfferChunk", 3)] * 2, *[chunk("SendChunk", 3)] * 2]),
    (
        "with 2 rows and 2 row permits, but it must be a chunk of 1 rows",
        [chunk("OfferChunk", 1), chunk("SendChunk", 2)],
    ),
    ("with 1 rows and 2 row permits", [Event("OfferChunk", (1, 2, 0, 0))]),
    ("must be a barrier with 1 barrier permit", [Event("OfferBarrier", (0, 1, 0, 0))]),
    ("no barrier waits", [barrier("SendBarrier")]),
    ("no barrier permit is here", [*[barrier("OfferBarrier")] * 3, *[barrier("SendBarrier")] * 3]),
    ("no watermark is pending", [watermark("SendWatermark")]),
    (
        "1 messages were offered before it",
        [chunk("OfferChunk", 1), watermark("OfferWatermark"), watermark("SendWatermark")],
    ),
    (
        "the last one was not consumed yet",
        [
            watermark("OfferWatermark"),
            watermark("SendWatermark"),
            watermark("OfferWatermark"),
            watermark("SendWatermark"),
        ],
    ),
    ("no chunk of 2 rows that holds 2 row permits waits", [chunk("OfferChunk", 1), chunk("WithdrawChunk", 2)]),
    ("the inbox is empty", [chunk("Consume", 1)]),
    ("the inbox is not empty", [*consumed(chunk("OfferChunk", 1)), *consumed(chunk("OfferChunk", 1))[:3], flushed(1)]),
    ("the residue is 0 row permits", [flushed(1)]),
    ("nothing is left to return", [flushed(0)]),
    ("no action 'Sned'", [Event("Sned", (0, 0, 0, 0))]),
]


@pytest.mark.parametrize(("reason", "events"), REFUSED, ids=[reason for reason, _ in REFUSED])
def test_an_event_that_no_behaviour_allows_is_refused_with_the_reason(reason: str, events: list[Event]) -> None:
    outcome = judge(events)

    assert not outcome.is_valid
    assert outcome.blocked[0].is_refused
    assert outcome.blocked[0].event == events[-1]
    assert outcome.performed == len(events) - 1
    assert reason in outcome.blocked[0].reason


def test_an_event_without_a_cause_waits_for_the_other_end() -> None:
    starved = judge([chunk("Deliver", 1)])
    assert not starved.blocked[0].is_refused
    assert "nothing is on the wire" in starved.blocked[0].reason

    early = judge([*consumed(chunk("OfferChunk", 1)), returned(rows=1)])
    assert not early.blocked[0].is_refused
    assert "of 1 row permit only 0 are on their way back" in early.blocked[0].reason


def test_two_ends_that_wait_for_each_other_are_both_named() -> None:
    sender = [
        chunk("OfferChunk", 3),
        chunk("SendChunk", 3),
        chunk("OfferChunk", 3),
        returned(rows=3),
        chunk("SendChunk", 3),
    ]
    receiver = [chunk("Deliver", 3), chunk("Deliver", 3), chunk("Consume", 3)]

    outcome = judge(sender, receiver)

    assert [block.event for block in outcome.blocked] == [returned(rows=3), chunk("Deliver", 3)]
    assert outcome.performed == 4
