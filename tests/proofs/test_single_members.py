"""What is proved of any number of members is proved of one, too, where a second one is in focus else."""

from typing import Any

import pytest

from permitflow_proofs import fan_in, store_owner
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import implies

SUBJECTS: dict[str, tuple[Subject[Any, Any], str]] = {
    "exchanges that share a store": (store_owner.SUBJECT, "exchanges"),
    "producers of a channel": (fan_in.SUBJECT, "producers"),
}


@pytest.mark.parametrize("members", SUBJECTS)
def test_any_state_may_have_one_member(members: str) -> None:
    subject, field = SUBJECTS[members]

    def has_several() -> bool:
        state, parameters = subject.any_case()
        return implies(getattr(parameters, field) == 1, getattr(state, field).size() > 1)

    assert decide(has_several).outcome == "refuted"
