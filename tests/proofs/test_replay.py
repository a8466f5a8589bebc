"""What is true of symbols must be true of numbers, too: of a user's model, nothing else is proved."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.symbols import assume


@dataclass(frozen=True)
class Parameters(Bounded):
    size: Positive


class State(NamedTuple):
    taken: int = 0
    is_on: bool = False


def take(state: State, parameters: Parameters) -> State:
    require(state.taken < parameters.size)
    return state._replace(taken=state.taken + 1)


def switch(state: State, parameters: Parameters) -> State:
    return state._replace(is_on=not state.is_on)


def take_two_where_on(state: State, parameters: Parameters) -> State:
    require(state.taken < parameters.size)
    return state._replace(taken=state.taken + (2 if state.is_on is True else 1))


def take_and_assume(state: State, parameters: Parameters) -> State:
    assume(state.taken < parameters.size)
    return state._replace(taken=state.taken + 1)


def fits(state: State, parameters: Parameters) -> bool:
    return 0 <= state.taken <= parameters.size


def fits_as_a_number(state: State, parameters: Parameters) -> bool:
    return state.taken <= 1 if isinstance(state.taken, int) else fits(state, parameters)


def fits_as_text(state: State, parameters: Parameters) -> bool:
    return str(state.taken) != "2" and fits(state, parameters)


def fits_by_assumption(state: State, parameters: Parameters) -> bool:
    assume(state.taken <= parameters.size)
    return True


def outcomes(
    invariant: Callable[[State, Parameters], bool], take: Callable[[State, Parameters], State] = take
) -> list[str]:
    actions: tuple[Action[State, Parameters], ...] = (Action("take", take), Action("switch", switch))
    system = System(module="Takes", initial=lambda _: State(), actions=actions, invariants={"Fits": invariant})
    subject = subject_of(system, {"Fits": invariant}, Parameters, State)
    mistake = subject.induction(invariant, lambda state, of: state._replace(taken=of.size + 1), "one too many")
    return [obligation.examine().outcome for obligation in mistake]


def test_what_holds_of_numbers_is_proved() -> None:
    assert outcomes(fits) == ["proved"] * 3


def test_what_is_false_on_one_of_several_paths_is_refuted() -> None:
    assert outcomes(lambda state, of: fits(state, of) and not (state.is_on and state.taken == of.size)) == [
        "proved",
        "refuted",
        "refuted",
    ]


@pytest.mark.parametrize("invariant", [fits_as_a_number, fits_as_text])
def test_what_asks_a_value_what_it_is_is_refused(invariant: Callable[[State, Parameters], bool]) -> None:
    with pytest.raises(TypeError, match=r"not with numbers \(.*taken=.*\): some function asks what a value is"):
        outcomes(invariant)


def test_a_step_that_asks_whether_a_symbol_is_true_is_refused() -> None:
    with pytest.raises(TypeError, match=r"not with numbers \(is_on=True, size=\d, taken=\d\)"):
        outcomes(fits, take_two_where_on)


@pytest.mark.parametrize(("invariant", "step"), [(fits, take_and_assume), (fits_by_assumption, take)])
def test_a_model_assumes_nothing(
    invariant: Callable[[State, Parameters], bool], step: Callable[[State, Parameters], State]
) -> None:
    with pytest.raises(TypeError, match="an action, a beginning or an invariant assumes nothing"):
        outcomes(invariant, step)
