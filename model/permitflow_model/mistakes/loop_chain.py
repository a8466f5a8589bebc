"""Mistakes on purpose in ``loop_chain``."""

from permitflow_model.kernel.system import require
from permitflow_model.loop_chain import SYSTEM, Parameters, State, consumed, sent
from permitflow_model.mistakes import Mistake

TWO = Parameters(loops=2, size=2, batch=1, last_size=1, last_batch=1)


def sends_on_unrequested(state: State, parameters: Parameters, name: int) -> State:
    require(name == 0 and parameters.loops > 1 and state.loops.get(0).inbox > 0)
    first, second = state.loops.get(0), state.loops.get(1)
    return state._replace(loops=state.loops.put(0, consumed(first)).put(1, sent(second)))


def requests_on_arrival(state: State, parameters: Parameters, name: int) -> State:
    """It decouples the loops: what it has not sent on piles up in front of it."""
    after = SYSTEM.perform("Deliver", state, parameters, name)
    loop = after.loops.get(name)
    return after._replace(loops=after.loops.put(name, loop._replace(requests=loop.requests + 1)))


def forgets_that_it_has_consumed(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("HandOn", state, parameters, name)
    before = state.loops.get(name)
    return after._replace(loops=after.loops.put(name, before._replace(inbox=before.inbox - 1)))


MISTAKES = (
    Mistake("HandOn", sends_on_unrequested, "TypeOK", TWO),
    Mistake("Deliver", requests_on_arrival, "Bounded", TWO, at_once="Conservation"),
    Mistake("HandOn", forgets_that_it_has_consumed, "Conservation", TWO),
)
