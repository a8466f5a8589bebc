"""Muting in the model: Wallaroo's rules and faults, and Pony's scheduler that mutes senders."""

from dataclasses import replace

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.mute import SYSTEM, Parameters, State, heard_by, in_flight, is_muted, source_at
from permitflow_model.mute_scheduler import SYSTEM as SCHEDULER
from permitflow_model.mute_scheduler import Parameters as SchedulerParameters
from permitflow_model.mute_scheduler import State as SchedulerState


def hops(*pairs: tuple[int, int]) -> frozenset[frozenset[int]]:
    return frozenset(map(frozenset, pairs))


TWO_SOURCES = Parameters(sinks=1, relays=0, sources=2, hops=hops((1, 2), (1, 3)), high=1, low=0, supply=9)
TWO_SINKS = Parameters(sinks=2, relays=0, sources=1, hops=hops((1, 3), (2, 3)), high=0, low=0, supply=9)
TWO_PATHS = Parameters(sinks=1, relays=2, sources=1, hops=hops((1, 2), (1, 3), (2, 4), (3, 4)), high=0, low=0, supply=3)


def run(parameters: Parameters, *moves: tuple[str, tuple[int, ...]], start: State | None = None) -> State:
    state = start or SYSTEM.initial(parameters)
    for action, arguments in moves:
        state = SYSTEM.perform(action, state, parameters, *arguments)
    return state


def flood(parameters: Parameters, source: int, sink: int, messages: int, start: State | None = None) -> State:
    moves = [("Send", (source, sink)), ("Deliver", (sink,))] * messages
    return run(parameters, *moves, start=start)


def settle(state: State, parameters: Parameters) -> State:
    """All signals arrive."""
    while waiting := [pair for pair in parameters.pairs if not in_flight(state, *pair).is_empty()]:
        state = run(parameters, ("ReceiveSignal", waiting[0]), start=state)
    return state


def is_source_muted(state: State, parameters: Parameters, node: int) -> bool:
    return is_muted(source_at(state, parameters, node))


def test_a_sink_mutes_each_upstream_once_and_unmutes_it_once() -> None:
    state = flood(TWO_SOURCES, 2, 1, 4)
    assert [[*in_flight(state, up, 1)] for up in (2, 3)] == [[(1, 1)], [(1, 1)]]
    state = run(TWO_SOURCES, *[("Consume", (1,))] * 4, start=settle(state, TWO_SOURCES))
    assert [[*in_flight(state, up, 1)] for up in (2, 3)] == [[(1, 2)], [(1, 2)]]


def test_a_sink_that_has_not_muted_does_not_unmute() -> None:
    state = run(TWO_SOURCES, ("Consume", (1,)), start=flood(TWO_SOURCES, 2, 1, 1))
    assert in_flight(state, 2, 1).is_empty()


def test_a_source_reads_when_all_its_muters_have_unmuted() -> None:
    state = run(TWO_SINKS, ("Send", (3, 1)), ("Send", (3, 2)), ("Deliver", (1,)), ("Deliver", (2,)))
    muted = [is_source_muted(settle(state, TWO_SINKS), TWO_SINKS, 3)]
    for sink in (1, 2):
        state = run(TWO_SINKS, ("Consume", (sink,)), start=settle(state, TWO_SINKS))
        muted.append(is_source_muted(settle(state, TWO_SINKS), TWO_SINKS, 3))
    assert muted == [True, True, False]


def test_a_mute_that_comes_twice_is_ended_by_one_unmute() -> None:
    parameters = replace(TWO_SINKS, remakes=1)
    state = run(parameters, ("DuplicateSignal", (3, 1)), start=flood(parameters, 3, 1, 1))
    state = settle(run(parameters, ("Consume", (1,)), start=state), parameters)
    assert not is_source_muted(state, parameters, 3)


def test_a_relay_hands_on_a_muters_signal_once_over_many_paths() -> None:
    state = settle(flood(TWO_PATHS, 4, 1, 1), TWO_PATHS)
    assert [heard_by(state, node, 1) for node in (2, 3, 4)] == [1, 1, 1]


def test_a_boundary_mutes_at_its_limit_and_unmutes_one_below() -> None:
    parameters = replace(TWO_SINKS, high=5, low=5)
    state = flood(parameters, 3, 1, 5)
    assert in_flight(state, 3, 1).is_empty()
    state = flood(parameters, 3, 1, 1, start=state)
    assert [*in_flight(state, 3, 1)] == [(1, 1)]
    state = run(parameters, ("Consume", (1,)), start=state)
    assert [*in_flight(state, 3, 1)] == [(1, 1), (1, 2)]


@pytest.mark.parametrize("mutes_newcomers", [True, False])
def test_a_newcomer_is_muted_unless_the_protocol_is_as_published(mutes_newcomers: bool) -> None:
    parameters = replace(TWO_SOURCES, newcomers=1, mutes_newcomers=mutes_newcomers)
    state = run(parameters, ("Join", (3,)), start=settle(flood(parameters, 2, 1, 2), parameters))
    assert is_source_muted(state, parameters, 3) == mutes_newcomers


def test_the_shortest_early_unmute_needs_a_second_mute() -> None:
    graph = explore(SYSTEM, replace(TWO_PATHS, memory="set"), stop_at_violation=True)
    (violation,) = (each for each in graph.violations if each.invariant == "NoEarlyUnmute")
    end = violation.steps[-1].state
    assert heard_by(end, 1, 1) == 3
    assert not is_source_muted(end, TWO_PATHS, 4)


def test_a_gap_between_the_marks_saves_signals() -> None:
    """A sink that consumes when its source is muted: how many signals are there for sixty messages?"""
    signals = []
    for low in (0, 3):
        parameters = replace(TWO_SINKS, high=3, low=low, supply=60)
        state, told = SYSTEM.initial(parameters), 0
        while source_at(state, parameters, 3).left:
            if is_source_muted(state, parameters, 3):
                state = run(parameters, ("Consume", (1,)), start=state)
            else:
                state = flood(parameters, 3, 1, 1, start=state)
            told = heard_by(state, 1, 1)
            state = settle(state, parameters)
        signals.append(told)
        assert told <= 1 + 2 * 60 // (parameters.high + 1 - low)
    assert signals[0] < signals[1]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sinks": 0}, "sinks must be at least 1, not 0"),
        ({"low": 2}, "high must be at least low = 2, not 1"),
        ({"newcomers": 3}, "newcomers must be at most sources = 2, not 3"),
        ({"memory": "list"}, "memory must be 'epoch', 'set' or 'counter', not 'list'"),
        ({"hops": hops((1, 2), (2, 3))}, "a hop must lead from a relay or source down to a relay or sink"),
        ({"hops": hops((1, 2))}, "each node must lead to a sink; node 3 does not"),
    ],
)
def test_parameters_that_the_specification_refuses_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        replace(TWO_SOURCES, **change)  # type: ignore[arg-type]  # of all kinds


# The scheduler: actor 0 sends, actors 1 and 2 receive.

THREE = SchedulerParameters(actors=3, batch=2, messages=99, pressures=True)


def scheduled(
    *moves: tuple[str, tuple[int, ...]], start: SchedulerState | None = None, parameters: SchedulerParameters = THREE
) -> SchedulerState:
    state = start or SCHEDULER.initial(parameters)
    for action, arguments in moves:
        state = SCHEDULER.perform(action, state, parameters, *arguments)
    return state


def behaves(actor: int, *receivers: int) -> list[tuple[str, tuple[int, ...]]]:
    """It gets a message, and sends one to each of these."""
    return [
        ("Post", (actor,)),
        ("BeginBehaviour", (actor,)),
        *(("Send", (actor, receiver)) for receiver in receivers),
        ("EndBehaviour", (actor,)),
    ]


def overload(actor: int, batch: int = 2) -> list[tuple[str, tuple[int, ...]]]:
    return [*[("Post", (actor,))] * batch, *[("BeginBehaviour", (actor,)), ("EndBehaviour", (actor,))] * batch]


def muters(state: SchedulerState, actor: int = 0) -> list[int]:
    return [muter for muter, waits in enumerate(state.waits.get(actor)) if waits]


def drain(actor: int, messages: int) -> list[tuple[str, tuple[int, ...]]]:
    return [("BeginBehaviour", (actor,)), ("EndBehaviour", (actor,))] * messages


def test_a_sender_finishes_its_behaviour_before_it_is_muted() -> None:
    state = scheduled(*overload(1), *behaves(0, 1))
    assert state.actors.get(0).muted
    assert state.actors.get(1).mailbox == 1
    state = scheduled(*drain(1, 1), ("UnmuteSender", (0, 1)), start=state)
    assert not state.actors.get(0).muted


def test_a_sender_is_muted_once_by_each_actor() -> None:
    assert muters(scheduled(*overload(1), *behaves(0, 1, 1, 1))) == [1]


def test_a_sender_to_two_overloaded_actors_waits_for_both() -> None:
    state = scheduled(*overload(1), *overload(2), *behaves(0, 1, 2))
    muted = [state.actors.get(0).muted]
    for receiver in (1, 2):
        state = scheduled(*drain(receiver, 1), ("UnmuteSender", (0, receiver)), start=state)
        muted.append(state.actors.get(0).muted)
    assert muted == [True, True, False]


def test_an_overloaded_sender_is_not_muted() -> None:
    assert muters(scheduled(*overload(1), *overload(0), *behaves(0, 1))) == []


def test_a_sender_under_pressure_is_not_muted() -> None:
    pressed = [
        ("Post", (0,)),
        ("BeginBehaviour", (0,)),
        ("ApplyPressure", (0,)),
        ("Send", (0, 1)),
        ("EndBehaviour", (0,)),
    ]
    assert muters(scheduled(*overload(1), *pressed)) == []


def test_no_actor_mutes_itself() -> None:
    assert muters(scheduled(*overload(0), *behaves(0, 0))) == []


def test_a_sender_to_a_muted_actor_is_muted_and_woken_after_it() -> None:
    state = scheduled(*overload(2), *behaves(1, 2), *behaves(0, 1))
    assert (muters(state), muters(state, 1)) == ([1], [2])
    state = scheduled(*drain(2, 1), ("UnmuteSender", (1, 2)), ("UnmuteSender", (0, 1)), start=state)
    assert (muters(state), muters(state, 1)) == ([], [])


def test_pressure_mutes_senders_until_it_is_released() -> None:
    pressed = [("Post", (1,)), ("BeginBehaviour", (1,)), ("ApplyPressure", (1,)), ("EndBehaviour", (1,))]
    state = scheduled(*pressed, *behaves(0, 1), ("ReleasePressure", (1,)))
    assert not scheduled(("UnmuteSender", (0, 1)), start=state).actors.get(0).muted
    both = scheduled(*overload(1), *pressed[:3], *behaves(0, 1), ("ReleasePressure", (1,)))
    assert not SCHEDULER.is_enabled("UnmuteSender", both, THREE, 0, 1)


@pytest.mark.parametrize(("messages", "overloaded"), [(99, False), (100, True)])
def test_an_actor_with_a_whole_batch_is_overloaded(messages: int, overloaded: bool) -> None:
    parameters = replace(THREE, batch=100, messages=100)
    state = scheduled(*overload(1, messages), parameters=parameters)
    assert state.actors.get(1).overloaded == overloaded


@pytest.mark.parametrize("name", ["actors", "batch", "messages"])
def test_a_scheduler_without_actors_or_messages_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        replace(THREE, **{name: 0})  # type: ignore[arg-type]  # a number


@pytest.mark.parametrize(("beside_up", "beside_down"), [(1, 0), (0, 1)])
def test_the_signals_of_another_hop_break_an_invariant(
    monkeypatch: pytest.MonkeyPatch, beside_up: int, beside_down: int
) -> None:
    monkeypatch.setattr(
        "permitflow_model.mute.in_flight",
        lambda state, up, down: state.signals.get(up - 1 - beside_up).get(down - 1 - beside_down),
    )
    found = explore(SYSTEM, replace(TWO_PATHS, supply=2, remakes=1))
    assert "OnItsWay" in {violation.invariant for violation in found.violations}


def test_the_signals_of_the_hop_itself_break_none() -> None:
    assert explore(SYSTEM, replace(TWO_PATHS, supply=2, remakes=1)).violations == []
