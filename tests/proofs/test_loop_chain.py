"""A mistake in a chain of loops makes a proof fail, and the explorer finds a run that shows it."""

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import require
from permitflow_model.loop_chain import SYSTEM, Parameters, State, consumed, held, sent
from permitflow_proofs.loop_chain import INVARIANT, SUBJECT
from tests.support.faults import Fault, broken_by

TWO = Parameters(loops=2, size=2, batch=1, last_size=1, last_batch=1)


def sends_on_unrequested(state: State, _parameters: Parameters, name: int) -> State:
    require(name == 0 and state.loops.get(0).inbox > 0)
    first, second = state.loops.get(0), state.loops.get(1)
    return state._replace(loops=state.loops.put(0, consumed(first)).put(1, sent(second)))


def requests_on_arrival(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("Deliver", state, parameters, name)
    loop = after.loops.get(name)
    return after._replace(loops=after.loops.put(name, loop._replace(requests=loop.requests + 1)))


def forgets_that_it_has_consumed(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("HandOn", state, parameters, name)
    before = state.loops.get(name)
    return after._replace(loops=after.loops.put(name, before._replace(inbox=before.inbox - 1)))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("HandOn", sends_on_unrequested, "TypeOK"),
        Fault("Deliver", requests_on_arrival, "Conservation"),
        Fault("HandOn", forgets_that_it_has_consumed, "Conservation"),
    ],
    ids=str,
)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert fault.breaks in broken_by(fault, SUBJECT, INVARIANT, TWO)


@pytest.mark.parametrize("loops", [1, 2, 3])
def test_chains_are_full_at_their_bound_and_no_further(loops: int) -> None:
    parameters = Parameters(loops=loops, size=2, batch=1, last_size=1, last_batch=1)
    graph = explore(SYSTEM, parameters)
    most = max(state.loops.sum_of(held) for state in graph.states)
    assert not graph.violations
    assert most == 2 * (loops - 1) + 1
