"""A mistake in a queue that drops makes a proof fail, and the explorer finds the shortest run that shows it."""

from dataclasses import replace

import pytest

from permitflow_model.drop_queue import SYSTEM, Parameters, State
from permitflow_proofs.drop_queue import INVARIANT, SUBJECT
from tests.support.faults import Fault, broken_by

OLDEST = Parameters(capacity=6, arrivals=2, services=1, resend=3, drops="oldest")
INCOMING = Parameters(capacity=3, arrivals=2, services=1, resend=3, drops="incoming")


def drops_the_youngest(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Arrive", state, replace(parameters, drops="youngest"))


def serves_the_youngest(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Serve", state._replace(watched=False), parameters)
    return after._replace(watched=state.watched and after.size > state.ahead)


def serves_fewer(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Tick", state._replace(served=parameters.services), parameters)


def lets_too_many_in(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Arrive", state, replace(parameters, capacity=parameters.capacity + 1))


FAULTS = [
    (Fault("Arrive", drops_the_youngest, "Behind"), OLDEST),
    (Fault("Serve", serves_the_youngest, "Ahead"), INCOMING),
    (Fault("Tick", serves_fewer, "Ahead"), INCOMING),
    (Fault("Arrive", lets_too_many_in, "TypeOK"), INCOMING),
]


@pytest.mark.parametrize(("fault", "parameters"), FAULTS, ids=lambda each: str(each) if isinstance(each, Fault) else "")
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault, parameters: Parameters) -> None:
    assert broken_by(fault, SUBJECT, INVARIANT, parameters)


@pytest.mark.parametrize("name", ["capacity", "arrivals", "services", "resend"])
def test_parameters_that_the_specification_refuses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        replace(OLDEST, **{name: 0})  # type: ignore[arg-type]  # they are numbers
