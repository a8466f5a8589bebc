"""The model of a graph of stages: its examples hold their invariants, and those that stand still are known."""

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.stage_graph import GRAPHS, SYSTEM, has_ended

STUCK = {"loop", "doubling loop", "zip loop", "filtered diamond"}
STUCK_OF_SIZE = {("kicked zip loop", 1), ("grouped diamond", 1), ("echo", 3)}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_only_what_waits_in_a_ring_stands_still(name: str, size: int) -> None:
    parameters = GRAPHS[name](size)
    graph = explore(SYSTEM, parameters)
    assert not graph.violations
    is_stuck = graph.deadlock is not None and not has_ended(graph.deadlock.steps[-1].state, parameters)
    assert is_stuck == (name in STUCK or (name, size) in STUCK_OF_SIZE)
