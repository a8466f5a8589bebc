"""Specification and model are one text: their state graphs are equal, steps by name included."""

from collections.abc import Callable

import pytest

from permitflow_model.exploration import explore_model
from permitflow_model.manifest import Model
from permitflow_model.registry import systems
from permitflow_model.tlc import TlcResult
from permitflow_model.tlc.graphs import first_difference, graph_of_model
from tests.spec.sample import COMPARED, by_model
from tests.support.specification import MODELS

ALL_COMPARED = [name for name, model in MODELS.items() if model.graph]


@by_model(ALL_COMPARED)
def test_the_graphs_are_equal(model_name: str, models: dict[str, Model], tlc_run: Callable[[str], TlcResult]) -> None:
    dumped = tlc_run(model_name).graph
    assert dumped is not None
    assert len(dumped.states) == models[model_name].states
    explored = graph_of_model(explore_model(models[model_name]).graph)
    assert first_difference(explored, dumped) is None


@pytest.mark.parametrize("name", systems())
def test_every_action_and_constant_takes_part_in_a_compared_graph(name: str, models: dict[str, Model]) -> None:
    sample = [model for model in models.values() if model.module == name and model.name in COMPARED]
    actions = {action for model in sample for _, action, _ in explore_model(model).graph.edges}
    assert actions == {action.name for action in systems()[name].system.actions}
    # Of the queue there is one model; its constants are varied where a channel is held against it.
    compared = [models[model] for model in ALL_COMPARED if models[model].module == name]
    for constant in compared[0].constants if len(compared) > 1 else ():
        assert len({model.constants[constant] for model in compared}) > 1 or constant == "Fair", constant
