"""``Diamond.tla``, action for action: a broadcast into branches of unequal length, and a zip of all of them."""

from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    branches: Positive
    """Branches of the diamond."""

    hold: Natural
    """Elements for which a branch gives nothing, but the first one."""

    places: Positive
    """... places in it for what it gives, the one at the zip included."""

    first_hold: Natural
    """The same of the first branch."""

    first_places: Positive
    """Likewise."""


class Branch(NamedTuple):
    """A branch: its numbers, and the elements in it."""

    hold: int
    places: int
    kept: int
    queue: int


class State(NamedTuple):
    """The variables of the specification."""

    branches: Family[Branch]


def opened(hold: int, places: int) -> Branch:
    """A branch that no element has come to."""
    return Branch(hold=hold, places=places, kept=0, queue=0)


def initial(parameters: Parameters) -> State:
    """No element has come."""
    branches = family(opened(parameters.hold, parameters.places), parameters.branches)
    return State(branches.put(0, opened(parameters.first_hold, parameters.first_places)))


def accepts(branch: Branch) -> bool:
    """Has it a place for what it gives?"""
    return branch.queue < branch.places


def accepted(branch: Branch) -> Branch:
    """A branch that has got one more element."""
    if branch.kept < branch.hold:
        return branch._replace(kept=branch.kept + 1)
    return branch._replace(queue=branch.queue + 1)


def has_given(branch: Branch) -> bool:
    """Does an element wait at the zip?"""
    return branch.queue > 0


def zipped(branch: Branch) -> Branch:
    """A branch from which the zip has taken an element."""
    return branch._replace(queue=branch.queue - 1)


def broadcast(state: State, _parameters: Parameters) -> State:
    """All branches ask, and each gets the element."""
    require(state.branches.every(accepts))
    return State(state.branches.map(accepted))


def zip_(state: State, _parameters: Parameters) -> State:
    """One element of each branch goes out."""
    require(state.branches.every(has_given))
    return State(state.branches.map(zipped))


def branch_ok(branch: Branch) -> bool:
    """Are the numbers of a branch in their ranges?"""
    is_in_range = branch.places >= 1 and 0 <= branch.kept <= branch.hold and 0 <= branch.queue <= branch.places
    return is_in_range and (branch.queue == 0 or branch.kept == branch.hold)


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return state.branches.every(branch_ok) and state.branches.size() == parameters.branches


def level(branch: Branch) -> int:
    """Elements in a branch."""
    return branch.kept + branch.queue


def has_level(branch: Branch, of: int) -> bool:
    """Are this many in it?"""
    return level(branch) == of


def same_level(state: State, _parameters: Parameters) -> bool:
    """All branches have got as many elements, and given as many."""
    return state.branches.every(has_level, level(state.branches.get(0)))


def never_stuck(state: State, parameters: Parameters) -> bool:
    """Something moves; needs places for what the other branches hold more."""
    return SYSTEM.can_move(state, parameters) or SYSTEM.is_enabled("Broadcast", state, parameters)


def has_given_nothing(branch: Branch) -> bool:
    """Does nothing wait at the zip?"""
    return branch.queue == 0


SYSTEM: System[State, Parameters] = System(
    module="Diamond",
    initial=initial,
    actions=(
        Action("Broadcast", broadcast, is_environment=True),
        Action("Zip", zip_),
    ),
    invariants={"TypeOK": type_ok, "SameLevel": same_level, "NeverStuck": never_stuck},
    probes={"NeverWaitsProbe": lambda state, _: state.branches.every(has_given_nothing)},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.diamond:theorems")
