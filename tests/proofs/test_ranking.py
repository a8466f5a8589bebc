"""Ranks: steps that lower one end, and a rank that a step can raise is refuted."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pytest

from permitflow_model.kernel.system import Action, System, require
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.ranking import comes_to_rest, ranking_obligations


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """How many coins a note is worth."""

    worth: int


class Purse(NamedTuple):
    """Notes and coins."""

    notes: int
    coins: int


def earn(state: Purse, _parameters: Parameters) -> Purse:
    return state._replace(notes=state.notes + 1)


def change(state: Purse, parameters: Parameters) -> Purse:
    require(state.notes > 0)
    return Purse(state.notes - 1, state.coins + parameters.worth)


def spend(state: Purse, _parameters: Parameters) -> Purse:
    require(state.coins > 0)
    return state._replace(coins=state.coins - 1)


def is_no_debt(state: Purse, _parameters: Parameters) -> bool:
    return state.notes >= 0 and state.coins >= 0


SYSTEM: System[Purse, Parameters] = System(
    module="Purse",
    initial=lambda _: Purse(0, 0),
    actions=(Action("Earn", earn, is_environment=True), Action("Change", change), Action("Spend", spend)),
    invariants={"NoDebt": is_no_debt},
)
SUBJECT = subject_of(SYSTEM, SYSTEM.invariants, Parameters, Purse)


def notes(state: Purse, _parameters: Parameters) -> int:
    return state.notes


def coins(state: Purse, _parameters: Parameters) -> int:
    return state.coins


def debt(state: Purse, _parameters: Parameters) -> int:
    return state.coins - 1


rests = partial(comes_to_rest, SUBJECT, unless=("Earn",))


def outcomes(obligations: tuple[SymbolicObligation, ...]) -> dict[str, str]:
    found = {obligation.name: obligation.examine() for obligation in obligations}
    assert all(examination.could_fail for examination in found.values())
    return {name: examination.outcome for name, examination in found.items()}


def test_steps_that_lower_the_first_number_that_changes_end() -> None:
    assert set(outcomes(rests(notes, coins)).values()) == {"proved"}


@pytest.mark.parametrize(
    ("rank", "raised"),
    [
        ((coins, notes), "Change"),
        ((coins,), "Change"),
        ((notes,), "Spend"),
        ((notes, debt), "the rank is never negative"),
    ],
)
def test_a_rank_that_a_step_does_not_lower_is_refuted(
    rank: tuple[Callable[[Purse, Parameters], int], ...], raised: str
) -> None:
    refuted = [one.name for one in rests(*rank) if one.examine().outcome == "refuted"]
    assert refuted == [raised]


def test_an_action_that_raises_the_rank_must_be_excepted() -> None:
    found = {one.name: one.examine().outcome for one in comes_to_rest(SUBJECT, notes, coins)}
    assert [name for name, outcome in found.items() if outcome == "refuted"] == ["Earn does not raise the rank"]


def test_no_step_is_excepted() -> None:
    with pytest.raises(ValueError, match="Spend"):
        rests(notes, coins, unless=("Spend",))


@pytest.mark.parametrize("obligation", ranking_obligations(), ids=lambda obligation: obligation.name)
def test_what_is_concluded_from_a_rank_is_proved(obligation: SymbolicObligation) -> None:
    examination = obligation.examine()
    assert (examination.outcome, examination.could_fail) == ("proved", True)
