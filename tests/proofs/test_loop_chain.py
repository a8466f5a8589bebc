"""A chain of loops holds as much as its bound says."""

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.loop_chain import SYSTEM, Parameters, held


@pytest.mark.parametrize("loops", [1, 2, 3])
def test_chains_are_full_at_their_bound_and_no_further(loops: int) -> None:
    parameters = Parameters(loops=loops, size=2, batch=1, last_size=1, last_batch=1)
    graph = explore(SYSTEM, parameters)
    most = max(state.loops.sum_of(held) for state in graph.states)
    assert not graph.violations
    assert most == 2 * (loops - 1) + 1
