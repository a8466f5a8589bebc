"""Two state graphs are equal only if states, initial states, steps and their names are; the difference is shown."""

from dataclasses import replace

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.permit_channel import SYSTEM, Parameters
from permitflow_model.tlc.graphs import first_difference, graph_of_model

PARAMETERS = Parameters(row_permits=2, permit_batch=2, max_chunk_cost=1, sizes=(0, 1), watermarks=True)
GRAPH = graph_of_model(explore(SYSTEM, PARAMETERS))
START = next(iter(GRAPH.initial))


def test_a_graph_equals_itself() -> None:
    assert first_difference(GRAPH, replace(GRAPH)) is None


def test_a_missing_step_is_shown_with_what_it_changes() -> None:
    step = next(edge for edge in sorted(GRAPH.edges) if edge[0] == START and edge[1] == "OfferWatermark")
    difference = first_difference(GRAPH, replace(GRAPH, edges=GRAPH.edges - {step}))
    assert difference is not None
    assert difference.startswith("the model has a step OfferWatermark that TLC has not, from\n")
    assert difference.endswith('to the same state with\n/\\ newestWatermark = "pending"\n/\\ watermarkPending = 0')
    assert START in difference


def test_another_initial_state_is_noticed() -> None:
    other = next(iter(GRAPH.states - GRAPH.initial))
    difference = first_difference(GRAPH, replace(GRAPH, initial=frozenset({START, other})))
    assert difference == f"TLC starts in a state in which the model does not:\n{other}"


def test_a_state_that_no_step_reaches_is_noticed() -> None:
    stray = START.replace("unreturned = 0", "unreturned = 7")
    difference = first_difference(GRAPH, replace(GRAPH, states=GRAPH.states | {stray}))
    assert difference == f"no step reaches this state, of which TLC knows:\n{stray}"


@pytest.mark.parametrize("change", [{"permit_batch": 1}, {"sizes": (0,)}, {"watermarks": False}])
def test_other_parameters_give_another_graph(change: dict[str, object]) -> None:
    other = replace(PARAMETERS, **change)  # type: ignore[arg-type]  # fields by name
    assert first_difference(GRAPH, graph_of_model(explore(SYSTEM, other))) is not None
