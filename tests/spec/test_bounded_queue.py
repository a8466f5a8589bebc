"""The queue that a user sees is the same in the specification and in the model."""

from pathlib import Path

from permitflow_model.bounded_queue import SYSTEM, Parameters
from permitflow_model.compare import first_difference, graph_of_model
from permitflow_model.kernel.explore import explore
from permitflow_model.manifest import Model
from permitflow_model.tlc.check import run_model


def test_the_graphs_are_equal(models: dict[str, Model], spec_directory: Path) -> None:
    model = models["queue"]
    # Sets of the specification, intervals of the model.
    assert model.constants == {"Bound": 3, "Costs": frozenset({1, 2}), "Ids": frozenset({0, 1}), "Line": 2}
    explored = explore(SYSTEM, Parameters(bound=3, max_cost=2, ids=2, line=2))
    assert (len(explored.states), explored.depth, explored.violations) == (model.states, model.depth, [])
    dumped = run_model(model, spec_directory=spec_directory, dump_graph=True).graph
    assert dumped is not None
    assert first_difference(graph_of_model(explored), dumped) is None
