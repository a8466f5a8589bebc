"""A mistake in stop-and-wait makes a proof fail, and the explorer finds the shortest run that shows it."""

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import require
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State
from permitflow_proofs.stop_and_wait import INVARIANT, SUBJECT
from tests.support.faults import Fault, broken_by, is_kept, with_fault

TWO = Parameters(waiters=2, tags=4, withdrawals=True)


def sends_while_one_is_out(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state._replace(free=1), parameters)
    return after._replace(free=state.free - 1)


def answers_on_arrival(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Deliver", state, parameters)._replace(answers=state.answers + 1)


def loses_the_answer(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Answer", state, parameters)._replace(free=state.free)


def answers_twice(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Consume", state, parameters)._replace(answers=state.answers + 2)


def sends_the_newest_first(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state, parameters)
    return after._replace(wire=state.wire.push(state.waiting.last()), waiting=state.waiting.without_last())


def withdraws_the_oldest(state: State, parameters: Parameters) -> State:
    require(parameters.withdrawals)
    require(not state.waiting.is_empty())
    return state._replace(waiting=state.waiting.without_head())


FAULTS = [
    Fault("Send", sends_while_one_is_out, "TypeOK"),
    Fault("Deliver", answers_on_arrival, "Conservation"),
    Fault("Answer", loses_the_answer, "Conservation"),
    Fault("Consume", answers_twice, "Conservation"),
    Fault("Send", sends_the_newest_first, "ExactlyOnceInOrder"),
    Fault("Withdraw", withdraws_the_oldest, "ExactlyOnceInOrder"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert fault.breaks in broken_by(fault, SUBJECT, INVARIANT, TWO)


def consumes_without_an_answer(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Consume", state, parameters)._replace(answers=state.answers)


def test_answered_on_arrival_everything_comes_in_order_and_the_application_holds_two() -> None:
    """A consistent mistake: the messages are all right, the back-pressure is gone."""
    faulty = with_fault(Fault("Deliver", answers_on_arrival, "Bounded"), SUBJECT)
    faulty = with_fault(Fault("Consume", consumes_without_an_answer, "Bounded"), faulty)
    kept = {name: SYSTEM.invariants[name] for name in ("NeverStuck", "ExactlyOnceInOrder", "Bounded")}
    (violation,) = explore(faulty.system, TWO, invariants=kept, stop_at_violation=True).violations
    assert violation.invariant == "Bounded"
    assert [step.action for step in violation.steps] == ["Offer", "Offer", "Send", "Deliver", "Answer", "Send"]
    order = SYSTEM.invariants["ExactlyOnceInOrder"]
    assert all(is_kept(order, faulty, action.name) for action in SYSTEM.actions)
