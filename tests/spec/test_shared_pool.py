"""A system with several channels: model and specification are one text, and its statements hold and fail alike."""

from pathlib import Path

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.manifest import SUCCESS
from permitflow_model.tla_values import camel_case, config_text
from permitflow_model.tlc.graphs import first_difference, graph_of_model
from permitflow_model.tlc.run import run_tlc
from tests.support.shared_pool import SYSTEM, Parameters

FOLDER = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize(
    ("channels", "permits", "largest", "states"),
    [(2, 3, 2, 1_066), pytest.param(3, 3, 1, 2_560, marks=pytest.mark.long)],
)
def test_the_graphs_are_equal(channels: int, permits: int, largest: int, states: int) -> None:
    parameters = Parameters(channels=channels, permits=permits, largest=largest)
    constants = {camel_case(f"_{name}"): value for name, value in vars(parameters).items()}
    kept = ("TypeOK", "Ends", "Conservation", "InEpoch")

    found = run_tlc("SharedPool", config_text(constants, invariants=kept), spec_directory=FOLDER, dump_graph=True)
    explored = explore(SYSTEM, parameters, invariants={name: SYSTEM.invariants[name] for name in kept})

    assert found.verdict == SUCCESS
    assert not explored.violations
    assert found.graph is not None
    assert len(found.graph.states) == explored.state_count == states
    assert first_difference(graph_of_model(explored), found.graph) is None


def test_two_channels_that_hold_a_part_each_are_stuck() -> None:
    parameters = Parameters(channels=2, permits=2, largest=2)
    constants = {camel_case(f"_{name}"): value for name, value in vars(parameters).items()}
    found = run_tlc("SharedPool", config_text(constants, invariants=("NeverStuck",)), spec_directory=FOLDER)
    (stuck,) = explore(SYSTEM, parameters).violations
    assert str(found.verdict) == "invariant NeverStuck"
    assert stuck.invariant == "NeverStuck"
    assert [step.action for step in stuck.steps] == ["Offer", "Offer", "Borrow", "Borrow"]
