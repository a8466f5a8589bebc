"""A mistake in demand makes a proof fail, and the explorer finds the shortest run that shows it."""

import pytest

from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_model.kernel.explore import explore
from permitflow_proofs.demand import INVARIANT, SUBJECT
from permitflow_proofs.kernel.obligation import shortest_run
from tests.support.faults import Fault, broken_by

SMALL = Parameters(size=3, batch=2, initial=1, waiters=2, tags=6)


def sends_unrequested(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state._replace(credit=1), parameters)
    return after._replace(credit=state.credit - 1)


def requests_on_arrival(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Deliver", state, parameters)._replace(requests=state.requests + 1)


def loses_the_request(state: State, parameters: Parameters, count: int = 1) -> State:
    return SYSTEM.perform("Request", state, parameters, count)._replace(credit=state.credit)


def requests_one_less(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(requests=state.requests)


def keeps_on_collecting(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(requests=state.requests, unrequested=state.unrequested + 1)


def forgets_to_ask(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Ask", state, parameters)._replace(requests=state.requests)


def sends_the_newest_first(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state, parameters)
    return after._replace(wire=state.wire.push(state.waiting.last()), waiting=state.waiting.without_last())


FAULTS = [
    Fault("Send", sends_unrequested, "TypeOK"),
    Fault("Deliver", requests_on_arrival, "Conservation"),
    Fault("Request", loses_the_request, "Conservation"),
    Fault("Consume", requests_one_less, "Conservation"),
    Fault("Consume", keeps_on_collecting, "RequestsBatched"),
    Fault("Ask", forgets_to_ask, "Conservation"),
    Fault("Send", sends_the_newest_first, "ExactlyOnceInOrder"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.perform.__name__)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert fault.breaks in broken_by(fault, SUBJECT, INVARIANT, SMALL)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_with_a_batch_above_the_window_nothing_moves_once_the_window_is_consumed(size: int) -> None:
    parameters = Parameters(size=size, batch=size + 1, initial=size)
    run = shortest_run(SYSTEM, parameters, lambda state, here: not SYSTEM.invariants["NeverStuck"](state, here))
    assert run is not None
    due = ["Offer", "Send", "Deliver", "Consume"] * size + ["Offer"]
    assert sorted(step.action for step in run.steps) == sorted(due)
    assert run.end.unrequested == size


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_each_smaller_batch_is_live(size: int) -> None:
    for batch in range(1, size + 1):
        for initial in (0, 1, size):
            parameters = Parameters(size=size, batch=batch, initial=initial)
            assert not explore(SYSTEM, parameters).violations
