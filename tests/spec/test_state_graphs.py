"""Specification and model are one text: their state graphs are equal, steps by name included."""

from collections.abc import Callable
from pathlib import Path

import pytest

from permitflow_model import bounded_queue
from permitflow_model.exploration import explore_model
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import System
from permitflow_model.manifest import Model, read_manifest
from permitflow_model.permit_channel import SYSTEM
from permitflow_model.spark_micro_batch import SYSTEM as SPARK
from permitflow_model.tlc import TlcResult
from permitflow_model.tlc.check import run_model
from permitflow_model.tlc.graphs import first_difference, graph_of_model

COMPARED = [name for name, model in read_manifest(Path(__file__).parents[2] / "spec").items() if model.graph]


@pytest.mark.parametrize("model_name", COMPARED)
def test_the_graphs_are_equal(model_name: str, models: dict[str, Model], tlc_run: Callable[[str], TlcResult]) -> None:
    dumped = tlc_run(model_name).graph
    assert dumped is not None
    assert len(dumped.states) == models[model_name].states
    explored = graph_of_model(explore_model(models[model_name]).graph)
    assert first_difference(explored, dumped) is None


@pytest.mark.parametrize(
    ("system", "constants"),
    [
        (SYSTEM, ("BarrierPermits", "Watermarks", "FlushIdle", "Withdrawals", "Waiters", "Tags")),
        (SPARK, ("RowCount", "BatchCap", "AcknowledgeIn", "Sink", "DriverCrashes", "Durable", "Faults")),
    ],
    ids=["channel", "query"],
)
def test_every_action_and_every_constant_takes_part_in_a_compared_graph(
    system: System[object, object], constants: tuple[str, ...], models: dict[str, Model]
) -> None:
    compared = [models[name] for name in COMPARED if models[name].module == system.module]
    actions = {action for model in compared for _, action, _ in explore_model(model).graph.edges}
    assert actions == {action.name for action in system.actions}
    for constant in constants:
        assert len({model.constants[constant] for model in compared}) > 1, constant


def test_the_graphs_of_the_queue_that_a_user_sees_are_equal(models: dict[str, Model], spec_directory: Path) -> None:
    model = models["queue"]
    # Sets of the specification, intervals of the model.
    assert model.constants == {"Bound": 3, "Costs": frozenset({1, 2}), "Ids": frozenset({0, 1}), "Line": 2}
    explored = explore(bounded_queue.SYSTEM, bounded_queue.Parameters(bound=3, max_cost=2, ids=2, line=2))
    assert (len(explored.states), explored.depth, explored.violations) == (model.states, model.depth, [])
    dumped = run_model(model, spec_directory=spec_directory, dump_graph=True).graph
    assert dumped is not None
    assert first_difference(graph_of_model(explored), dumped) is None
