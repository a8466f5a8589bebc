"""Muting in the model: what the published protocol does wrong, and which parameters are refused."""

from dataclasses import replace

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.mistakes import mistaken, mistakes_in
from permitflow_model.mute import SYSTEM, Parameters, State, heard_by, is_muted, source_at


def hops(*pairs: tuple[int, int]) -> frozenset[frozenset[int]]:
    return frozenset(map(frozenset, pairs))


TWO_SOURCES = Parameters(sinks=1, relays=0, sources=2, hops=hops((1, 2), (1, 3)), high=1, low=0, supply=9)
TWO_PATHS = Parameters(sinks=1, relays=2, sources=1, hops=hops((1, 2), (1, 3), (2, 4), (3, 4)), high=0, low=0, supply=3)


def is_source_muted(state: State, parameters: Parameters, node: int) -> bool:
    return is_muted(source_at(state, parameters, node))


def test_a_newcomer_of_the_published_protocol_is_not_muted() -> None:
    parameters, system = replace(TWO_SOURCES, newcomers=1), mistaken(SYSTEM, mistakes_in("Mute")["JoinUntold"])
    state = system.initial(parameters)
    flood = [("Send", (2, 1)), ("Deliver", (1,))] * 2
    for action, arguments in (*flood, ("ReceiveSignal", (2, 1)), ("Join", (3,))):
        state = system.perform(action, state, parameters, *arguments)
    assert [is_source_muted(state, parameters, node) for node in (2, 3)] == [True, False]


def test_the_shortest_early_unmute_needs_a_second_mute() -> None:
    system = mistaken(SYSTEM, mistakes_in("Mute")["ReceiveSignalIntoSet"])
    graph = explore(system, TWO_PATHS, stop_at_violation=True)
    (violation,) = (each for each in graph.violations if each.invariant == "NoEarlyUnmute")
    end = violation.steps[-1].state
    assert heard_by(end, 1, 1) == 3
    assert not is_source_muted(end, TWO_PATHS, 4)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"low": 2}, "high must be at least low = 2, not 1"),
        ({"newcomers": 3}, "newcomers must be at most sources = 2, not 3"),
        ({"hops": hops((1, 2), (2, 3))}, "a hop must lead from a relay or source down to a relay or sink"),
        ({"hops": hops((1, 2))}, "each node must lead to a sink; node 3 does not"),
    ],
)
def test_parameters_that_the_specification_refuses_are_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        replace(TWO_SOURCES, **change)  # type: ignore[arg-type]  # of all kinds


@pytest.mark.parametrize(("beside_up", "beside_down"), [(1, 0), (0, 1)])
def test_the_signals_of_another_hop_break_an_invariant(
    monkeypatch: pytest.MonkeyPatch, beside_up: int, beside_down: int
) -> None:
    monkeypatch.setattr(
        "permitflow_model.mute.in_flight",
        lambda state, up, down: state.signals.get(up - 1 - beside_up).get((down - 1 - beside_down) % TWO_PATHS.nodes),
    )
    found = explore(SYSTEM, replace(TWO_PATHS, supply=2, remakes=1))
    assert "OnItsWay" in {violation.invariant for violation in found.violations}


def test_the_signals_of_the_hop_itself_break_none() -> None:
    assert explore(SYSTEM, replace(TWO_PATHS, supply=2, remakes=1)).violations == []
