"""Mistakes on purpose in ``diamond``."""

from permitflow_model.diamond import SYSTEM, Branch, Parameters, State, accepted, accepts
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake

UNEQUAL = Parameters(branches=2, hold=0, places=4, first_hold=2, first_places=1)


def _accepted_if_asked(branch: Branch) -> Branch:
    return accepted(branch) if accepts(branch) else branch


def gives_to_those_that_ask(state: State, _parameters: Parameters) -> State:
    """It does not get stuck, but the zip pairs elements that do not belong together."""
    return State(state.branches.map(_accepted_if_asked))


def gives_what_nobody_asked_for(state: State, _parameters: Parameters) -> State:
    return State(state.branches.map(accepted))


def takes_from_a_branch_twice(state: State, parameters: Parameters) -> State:
    branches = SYSTEM.perform("Zip", state, parameters).branches
    first = branches.get(0)
    require(first.queue > 0)
    return State(branches.put(0, first._replace(queue=first.queue - 1)))


MISTAKES = (
    Mistake("Broadcast", gives_to_those_that_ask, "SameLevel", UNEQUAL),
    Mistake("Broadcast", gives_what_nobody_asked_for, "TypeOK", UNEQUAL),
    Mistake("Zip", takes_from_a_branch_twice, "SameLevel"),
)
