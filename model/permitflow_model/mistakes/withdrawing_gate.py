"""Mistakes on purpose in ``withdrawing_gate``."""

from typing import NoReturn

from permitflow_model.input_gate_credit import Parameters, State, with_changes
from permitflow_model.kernel.system import Disabled
from permitflow_model.mistakes import Mistake
from permitflow_model.withdrawing_gate import SYSTEM

SMALL = Parameters(inputs=2, exclusive=0, floating=1, backlog=1)
ONE = Parameters(inputs=1, exclusive=0, floating=2, backlog=2, epochs=4)


def return_nothing(_state: State, _parameters: Parameters, _name: int) -> NoReturn:
    """A sender keeps credit that it does not need."""
    raise Disabled


def returns_what_it_still_has(state: State, parameters: Parameters, name: int) -> State:
    credit = state.channels.get(name).credit
    return with_changes(SYSTEM.perform("ReturnCredit", state, parameters, name), name, credit=credit)


def returns_and_tells_nothing(state: State, parameters: Parameters, name: int) -> State:
    announced = state.channels.get(name).announced
    return with_changes(SYSTEM.perform("ReturnCredit", state, parameters, name), name, announced=announced + 1)


def keeps_the_loan(state: State, parameters: Parameters, name: int) -> State:
    pool = state.pool
    return SYSTEM.perform("DeliverOrReturn", state, parameters, name)._replace(pool=pool)


def withdraws_a_barrier_and_counts_on(state: State, parameters: Parameters, name: int) -> State:
    epoch = state.channels.get(name).epoch
    return with_changes(SYSTEM.perform("WithdrawBarrier", state, parameters, name), name, epoch=epoch)


MISTAKES = (
    Mistake("DeliverOrReturn", keeps_the_loan, "Conservation", SMALL),
    Mistake("ReturnCredit", returns_what_it_still_has, "Conservation", SMALL),
    Mistake("ReturnCredit", returns_and_tells_nothing, "BacklogTold", SMALL),
    Mistake("WithdrawBarrier", withdraws_a_barrier_and_counts_on, "InEpoch", ONE),
    Mistake("ReturnCredit", return_nothing, "NeverStuck", SMALL),
)
