"""Mistakes on purpose in ``stop_and_wait``."""

from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State

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


def consumes_without_an_answer(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Consume", state, parameters)._replace(answers=state.answers)


MISTAKES = (
    Mistake("Send", sends_while_one_is_out, "TypeOK", TWO),
    Mistake("Deliver", answers_on_arrival, "Conservation", TWO),
    Mistake("Answer", loses_the_answer, "Conservation", TWO),
    Mistake("Consume", answers_twice, "Conservation", TWO),
    Mistake("Send", sends_the_newest_first, "ExactlyOnceInOrder", TWO),
    Mistake("Withdraw", withdraws_the_oldest, "ExactlyOnceInOrder", TWO),
)

ON_ARRIVAL = (
    Mistake("Deliver", answers_on_arrival, "Bounded", TWO),
    Mistake("Consume", consumes_without_an_answer, "Bounded", TWO),
)
"""Together they are consistent: each message is answered once, when it arrives."""
