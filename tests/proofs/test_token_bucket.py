"""A mistake in the token bucket makes a proof fail, and the explorer finds the shortest run that shows it."""

from dataclasses import replace

import pytest

from permitflow_model.token_bucket import SYSTEM, Parameters, State
from permitflow_proofs.token_bucket import INVARIANT, SUBJECT
from tests.support.faults import Fault, broken_by

SMALL = Parameters(capacity=2, period=2, max_cost=3, room=3, window=5)


def keeps_a_token_more(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Tick", state, replace(parameters, capacity=parameters.capacity + 1))


def takes_a_token_less(state: State, parameters: Parameters, cost: int) -> State:
    after = SYSTEM.perform("Ask", state, parameters, cost)
    return after if after.pending else after._replace(level=after.level + 1)


def passes_at_once(state: State, parameters: Parameters, cost: int) -> State:
    after = SYSTEM.perform("Ask", state, parameters, cost)
    return after._replace(pending=0, passed=state.passed + cost, queue=state.queue + cost)


def gives_a_token_with_each_tick(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Tick", state._replace(phase=parameters.period - 1), parameters)


def serves_nothing(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Tick", state, parameters)
    return after._replace(queue=max(after.queue, state.queue))


FAULTS = [
    Fault("Tick", keeps_a_token_more, "TypeOK"),
    Fault("Ask", takes_a_token_less, "Paid"),
    Fault("Ask", passes_at_once, "WaitsForTokens"),
    Fault("Tick", gives_a_token_with_each_tick, "ByThePeriod"),
    Fault("Tick", serves_nothing, "Served"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert broken_by(fault, SUBJECT, INVARIANT, SMALL)


@pytest.mark.parametrize("name", ["capacity", "period", "max_cost", "room", "window"])
def test_parameters_that_the_specification_refuses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(SMALL, **{name: -1})  # type: ignore[arg-type]  # they are numbers
