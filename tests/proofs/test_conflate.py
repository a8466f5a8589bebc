"""A mistake in conflation makes a proof fail, and the explorer finds the shortest run that shows it."""

from dataclasses import replace

import pytest

from permitflow_model.conflate import NOTHING, SYSTEM, Parameters, State, Summary, together
from permitflow_model.kernel.system import require
from permitflow_proofs.conflate import INVARIANT, SUBJECT
from tests.support.faults import Fault, broken_by

SMALL = Parameters(elements=3, largest=2)


def forgets_at_the_end(state: State, _parameters: Parameters) -> State:
    require(state.completed)
    require(not state.ended)
    return state._replace(ended=True, asked=False, held=NOTHING)


def gives_twice(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Pull", state, parameters)._replace(held=state.held)


def replaces_what_is_held(state: State, parameters: Parameters, size: int) -> State:
    after = SYSTEM.perform("Push", state, parameters, size)
    return after if state.asked else after._replace(held=Summary(1, size, size))


def holds_although_somebody_waits(state: State, parameters: Parameters, size: int) -> State:
    after = SYSTEM.perform("Push", state._replace(asked=False), parameters, size)
    return after._replace(asked=state.asked)


FAULTS = [
    Fault("End", forgets_at_the_end, "AllGiven"),
    Fault("Pull", gives_twice, "Conservation"),
    Fault("Push", replaces_what_is_held, "Conservation"),
    Fault("Push", holds_although_somebody_waits, "HeldForNobody"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert broken_by(fault, SUBJECT, INVARIANT, SMALL)


def test_summaries_are_added_up_in_any_order() -> None:
    parts = [Summary(1, 4, 4), Summary(3, 2, 1), NOTHING, Summary(2, 9, 8)]
    forwards = backwards = NOTHING
    for one, other in zip(parts, reversed(parts), strict=True):
        forwards, backwards = together(forwards, one), together(other, backwards)
    assert forwards == backwards == Summary(6, 15, 8)


@pytest.mark.parametrize(("name", "value"), [("elements", 0), ("largest", -1)])
def test_parameters_that_the_specification_refuses_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(SMALL, **{name: value})
