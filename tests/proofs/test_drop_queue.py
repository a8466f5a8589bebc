"""A mistake in a queue that drops makes a proof fail, and the explorer finds the shortest run that shows it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow_model.drop_queue import SYSTEM, Parameters, State
from permitflow_model.kernel.explore import explore
from permitflow_proofs.drop_queue import INVARIANT, SUBJECT
from tests.support.faults import Fault, refuted_clauses, with_fault

OLDEST = Parameters(capacity=6, arrivals=2, services=1, resend=3, drops="oldest")
INCOMING = Parameters(capacity=3, arrivals=2, services=1, resend=3, drops="incoming")


def original(name: str) -> Callable[..., State]:
    return SYSTEM.action(name).perform


def drops_the_youngest(state: State, parameters: Parameters) -> State:
    return original("Arrive")(state, replace(parameters, drops="youngest"))


def serves_the_youngest(state: State, parameters: Parameters) -> State:
    after = original("Serve")(state._replace(watched=False), parameters)
    return after._replace(watched=state.watched and after.size > state.ahead)


def serves_fewer(state: State, parameters: Parameters) -> State:
    return original("Tick")(state._replace(served=parameters.services), parameters)


def lets_too_many_in(state: State, parameters: Parameters) -> State:
    return original("Arrive")(state, replace(parameters, capacity=parameters.capacity + 1))


FAULTS = [
    (Fault("Arrive", drops_the_youngest, "Behind"), OLDEST),
    (Fault("Serve", serves_the_youngest, "Ahead"), INCOMING),
    (Fault("Tick", serves_fewer, "Ahead"), INCOMING),
    (Fault("Arrive", lets_too_many_in, "TypeOK"), INCOMING),
]


@pytest.mark.parametrize(("fault", "parameters"), FAULTS, ids=lambda each: str(each) if isinstance(each, Fault) else "")
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault, parameters: Parameters) -> None:
    faulty = with_fault(fault, SUBJECT)
    assert fault.breaks in refuted_clauses(INVARIANT, faulty, fault.action)
    assert explore(faulty.system, parameters, stop_at_violation=True, max_states=20_000).violations


def test_the_same_actions_without_a_fault_break_none() -> None:
    for action in SYSTEM.actions:
        assert refuted_clauses(INVARIANT, SUBJECT, action.name) == set()


@pytest.mark.parametrize("name", ["capacity", "arrivals", "services", "resend"])
def test_parameters_that_the_specification_refuses_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        replace(OLDEST, **{name: 0})  # type: ignore[arg-type]  # they are numbers
