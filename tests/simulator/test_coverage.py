"""Simulated runs reach states of the models' graphs, which are told apart in the same way."""

import pytest

from tests.simulator.coverage import GRAPHS
from tests.simulator.subjects import SUBJECTS, run_of

COVERED = {"streams": 2, "kept": 46, "gate": 10, "mute": 13}


def test_each_subject_has_a_graph() -> None:
    assert GRAPHS.keys() == SUBJECTS.keys() == COVERED.keys()


@pytest.mark.parametrize(
    "subject", [pytest.param(name, marks=pytest.mark.long if name == "gate" else ()) for name in COVERED]
)
def test_a_run_of_a_small_instance_reaches_states_of_its_graph(subject: str) -> None:
    reached = run_of(subject)(COVERED[subject], False).states
    known = GRAPHS[subject].states(reached)
    assert 10 < len(reached & known) <= len(known)
