"""A batch above the window is stuck, and no other one."""

import pytest

from permitflow_model.demand import SYSTEM, Parameters
from permitflow_model.kernel.explore import explore
from permitflow_proofs.kernel.obligation import shortest_run


@pytest.mark.parametrize("size", [1, 2, 5])
def test_a_batch_above_the_window_stops_everything(size: int) -> None:
    parameters = Parameters(size=size, batch=size + 1, initial=size)
    run = shortest_run(SYSTEM, parameters, lambda state, here: not SYSTEM.invariants["NeverStuck"](state, here))
    assert run is not None
    due = ["Offer", "Send", "Deliver", "Consume"] * size + ["Offer"]
    assert sorted(step.action for step in run.steps) == sorted(due)
    assert run.end.unrequested == size


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_each_smaller_batch_is_live(size: int) -> None:
    for batch in range(1, size + 1):
        for initial in (0, 1, size):
            parameters = Parameters(size=size, batch=batch, initial=initial)
            assert not explore(SYSTEM, parameters).violations
