"""One end of a recorded run is accepted exactly if some other end explains it.

Held against a search through everything that the other end could have done.  A receiver that nobody recorded may
return what it holds in any portions.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import sub

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.tracing import Event
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.replay import Refused, Replay, Starved, replay
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import SYSTEM, Parameters, Permits, carried_by, plus
from permitflow_model.permit_channel_trace import (
    PermitChannelReplay,
    ReceiverAlone,
    SenderAlone,
    World,
    permits_of,
)
from tests.support.made_traces import random_behaviour, with_permits

SMALL = Parameters(
    row_permits=4,
    permit_batch=2,
    max_chunk_cost=3,
    sizes=(1, 3),
    barrier_permits=1,
    watermarks=True,
    flush_idle=True,
    withdrawals=True,
    waiters=2,
)
ENDLESS = replace(SMALL, waiters=2**62)
KINDS = {"sender": SenderAlone, "receiver": ReceiverAlone}
Moves = tuple[tuple[str, tuple[int, ...]], ...]
# What the missing end may do at any time.  To offer a message and not to send it would change nothing for the other.
HIDDEN: dict[str, tuple[Moves, ...]] = {
    "sender": ((("Deliver", ()),), (("Consume", ()),), (("Flush", ()),)),
    "receiver": (
        (("AddPermits", ()),),
        *((("OfferChunk", (rows,)), ("SendChunk", ())) for rows in SMALL.sizes),
        (("OfferBarrier", ()), ("SendBarrier", ())),
        (("OfferWatermark", ()), ("SendWatermark", ())),
    ),
}


def of_end(events: Sequence[Event], end: str) -> list[Event]:
    of_receiver = {action.name for action in SYSTEM.actions if action.end == "receiver"}
    return [event for event in events if (event.action in of_receiver) == (end == "receiver")]


def judge(end: str, events: Sequence[Event]) -> Replay[World, Event]:
    interpretation = KINDS[end](ENDLESS)
    return replay(interpretation, interpretation.start(), [events])


def some_other_end_explains(end: str, events: Sequence[Event]) -> bool:
    """Search through everything that the missing end could do between the events."""
    interpretation = PermitChannelReplay(ENDLESS)
    worlds = {World(SYSTEM.initial(ENDLESS))}
    for event in events:
        worlds = {after for world in reachable(end, worlds) for after in performed(interpretation, world, event)}
    return bool(worlds)


def reachable(end: str, worlds: set[World]) -> set[World]:
    found, ahead = set(worlds), list(worlds)
    while ahead:
        world = ahead.pop()
        for moves in HIDDEN[end]:
            state = world.state
            try:
                for name, arguments in moves:
                    state = SYSTEM.perform(name, state, ENDLESS, *arguments)
            except Disabled:
                continue
            if (after := world._replace(state=state)) not in found:
                found.add(after)
                ahead.append(after)
    return found


def performed(interpretation: PermitChannelReplay, world: World, event: Event) -> Sequence[World]:
    if event.action == "AddPermits":
        held = carried_by(world.state.grants)
        came = permits_of(event)
        if not any(came) or any(one > most for one, most in zip(came, held, strict=True)):
            return ()
        rest = Permits(*map(sub, held, came))
        state = world.state._replace(permits=plus(world.state.permits, came), grants=Fifo([rest] if any(rest) else []))
        return (world._replace(state=state),)
    try:
        return interpretation.perform(world, event)
    except (Refused, Starved):
        return ()


@pytest.mark.parametrize("end", KINDS)
@given(seed=st.integers(0, 10**9))
def test_each_end_of_a_behaviour_is_accepted_alone(end: str, seed: int) -> None:
    events = list(random_behaviour(SMALL, seed=seed, events=120))

    outcome = judge(end, of_end(events, end))

    assert outcome.is_valid
    assert outcome.performed == len(of_end(events, end))


@pytest.mark.parametrize("end", KINDS)
@given(seed=st.integers(0, 10**9), data=st.data())
def test_one_end_is_accepted_exactly_if_another_explains_it(end: str, seed: int, data: st.DataObject) -> None:
    events = of_end([event._replace(counters=()) for event in random_behaviour(SMALL, seed=seed, events=16)], end)
    for _ in range(data.draw(st.integers(0, 2))):
        if not events:
            break
        position = data.draw(st.integers(0, len(events) - 1))
        match data.draw(st.sampled_from(["drop", "repeat", "swap", "part"])):
            case "drop":
                del events[position]
            case "repeat":
                events.insert(position, events[position])
            case "part" if events[position].action == "AddPermits":
                event = events[position]
                first = [data.draw(st.integers(0, most)) for most in permits_of(event)]
                rest = map(sub, permits_of(event), first)
                events[position : position + 1] = [with_permits(event, *part) for part in (first, rest)]
            case "swap" if position:
                events[position - 1 : position + 1] = reversed(events[position - 1 : position + 1])

    assert judge(end, events).is_valid == some_other_end_explains(end, events)


def test_counters_that_differ_by_one_are_refused() -> None:
    events = list(random_behaviour(SMALL, seed=1, events=200))
    for position in range(0, 200, 7):
        end, counters = events[position].end, events[position].counters
        assert counters is not None
        wrong = events[position]._replace(counters=(counters[0], counters[1], counters[2] + 1))
        changed = [*events[:position], wrong, *events[position + 1 :]]

        outcome = judge(end, of_end(changed, end))

        assert outcome.blocked[0].event is wrong
        assert "its end counts" in outcome.blocked[0].reason
