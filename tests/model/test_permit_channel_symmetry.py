"""One state for all that differ by a shift of their numbers: the same verdicts, and all states can be had back."""

from dataclasses import replace
from functools import cache

import pytest

from permitflow_model.kernel.explore import Graph, explore
from permitflow_model.permit_channel import SYSTEM, Parameters, State
from permitflow_model.permit_channel_symmetry import QUOTIENT, renumbered, shifted

LIVE = Parameters(row_count=3, batch=2, clamp=2, sizes=(1, 2), flush_idle=True, tags=5)
ALL_CLASSES = Parameters(
    row_count=2,
    batch=2,
    clamp=1,
    sizes=(3,),
    barrier_permits=1,
    watermarks=True,
    flush_idle=True,
    withdrawals=True,
    tags=5,
)
STUCK = Parameters(row_count=3, batch=2, clamp=3, sizes=(1, 3), tags=5)
# Without a flush, a chunk of one permit leaves a residue for ever; with two tags more the numbers never meet again.
PUBLISHED = Parameters(row_count=4, batch=2, clamp=2, sizes=(1, 2), withdrawals=True, waiters=2, tags=7)
MODELS = {"live": LIVE, "all classes": ALL_CLASSES, "stuck": STUCK, "published": PUBLISHED}


@cache
def graphs(name: str) -> tuple[Graph[State], Graph[State]]:
    """The whole one, and the quotient."""
    return explore(SYSTEM, MODELS[name]), explore(QUOTIENT, MODELS[name])


def edges_up_to_shifts(graph: Graph[State], parameters: Parameters) -> set[tuple[State, str, State]]:
    states = [renumbered(state, parameters) for state in graph.states]
    return {(states[source], action, states[target]) for source, action, target in graph.edges}


@pytest.mark.parametrize("name", MODELS)
def test_the_quotient_is_the_graph_up_to_shifts(name: str) -> None:
    parameters = MODELS[name]
    whole, quotient = graphs(name)
    assert {renumbered(state, parameters) for state in whole.states} == set(quotient.states)
    assert edges_up_to_shifts(whole, parameters) == edges_up_to_shifts(quotient, parameters)
    assert quotient.depth <= whole.depth
    assert quotient.state_count < whole.state_count


@pytest.mark.parametrize("name", MODELS)
def test_the_verdicts_are_the_same(name: str) -> None:
    whole, quotient = graphs(name)
    assert [(violation.invariant, len(violation.steps)) for violation in quotient.violations] == [
        (violation.invariant, len(violation.steps)) for violation in whole.violations
    ]
    assert bool(quotient.violations) == (name == "stuck")


@pytest.mark.parametrize("name", ["live", "all classes"])
def test_where_every_number_can_come_first_again_there_are_as_many_times_more_states(name: str) -> None:
    parameters = MODELS[name]
    whole, quotient = graphs(name)
    assert whole.state_count == parameters.tags * quotient.state_count
    again = {shifted(state, parameters, by) for state in quotient.states for by in range(parameters.tags)}
    assert again == set(whole.states)


def test_a_channel_that_loses_order_is_noticed_in_the_quotient_too() -> None:
    """Chunks that overtake each other on the wire."""

    def deliver_the_newest(state: State, parameters: Parameters) -> State:
        deliver = SYSTEM.action("Deliver").perform
        if state.wire.size() < 2:
            return deliver(state, parameters)
        return state._replace(inbox=state.inbox.push(state.wire.last()), wire=state.wire.without_last())

    def overtaking(state: State, parameters: Parameters) -> State:
        return renumbered(deliver_the_newest(state, parameters), parameters)

    for system, deliver in ((SYSTEM, deliver_the_newest), (QUOTIENT, overtaking)):
        actions = tuple(
            replace(action, perform=deliver) if action.name == "Deliver" else action for action in system.actions
        )
        graph = explore(replace(system, actions=actions), LIVE)
        assert "ExactlyOnceInOrder" in [violation.invariant for violation in graph.violations]
