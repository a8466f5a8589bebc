"""Mistakes on purpose in ``token_bucket``."""

from dataclasses import replace

from permitflow_model.mistakes import Mistake
from permitflow_model.token_bucket import SYSTEM, Parameters, State

SMALL = Parameters(capacity=2, period=2, max_cost=3, room=3, window=5)


def keeps_a_token_more(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Tick", state, replace(parameters, capacity=parameters.capacity + 1))


def takes_a_token_less(state: State, parameters: Parameters, cost: int) -> State:
    after = SYSTEM.perform("TakeTokens", state, parameters, cost)
    return after if after.pending else after._replace(level=after.level + 1)


def passes_at_once(state: State, parameters: Parameters, cost: int) -> State:
    after = SYSTEM.perform("TakeTokens", state, parameters, cost)
    return after._replace(pending=0, passed=state.passed + cost, queue=state.queue + cost)


def gives_a_token_with_each_tick(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Tick", state._replace(phase=parameters.period - 1), parameters)


def serves_nothing(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Tick", state, parameters)
    return after._replace(queue=max(after.queue, state.queue))


MISTAKES = (
    Mistake("Tick", keeps_a_token_more, "TypeOK", SMALL),
    Mistake("TakeTokens", takes_a_token_less, "Paid", SMALL),
    Mistake("TakeTokens", passes_at_once, "WaitsForTokens", SMALL),
    Mistake("Tick", gives_a_token_with_each_tick, "ByThePeriod", SMALL),
    Mistake("Tick", serves_nothing, "Served", SMALL),
)
