"""What is proved of any number of members is proved of one, too, where a second one is in focus else."""

from typing import Any

import pytest

from permitflow_proofs import adaptive_gate, fan_in, input_gate_states, mute_delay, store_owner
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import implies

SUBJECTS: dict[str, tuple[Subject[Any, Any], str, str]] = {
    "exchanges that share a store": (store_owner.SUBJECT, "exchanges", "exchanges"),
    "producers of a channel": (fan_in.SUBJECT, "producers", "producers"),
    "inputs of a gate": (input_gate_states.ANY, "inputs", "channels"),
    "inputs of a gate that adapts": (adaptive_gate.ANY, "inputs", "channels"),
    "sources that lead to a sink": (mute_delay.ANY, "sources", "sources"),
}
"""Each with the parameter for how many, and the part of the state where they are."""


@pytest.mark.parametrize("members", SUBJECTS)
def test_any_state_may_have_one_member(members: str) -> None:
    subject, field, part = SUBJECTS[members]

    def has_several() -> bool:
        state, parameters = subject.any_case()
        return implies(getattr(parameters, field) == 1, getattr(state, part).size() > 1)

    assert decide(has_several).outcome == "refuted"
