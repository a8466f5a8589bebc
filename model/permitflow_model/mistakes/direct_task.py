"""Mistakes on purpose in ``direct_task``."""

from permitflow_model.direct_task import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

SMALL = Parameters(attempts=2, rows=1, restarts=1)
LONG = Parameters(attempts=2, rows=2)


def begins_while_the_earlier_one_still_sends(state: State, parameters: Parameters, name: int) -> State:
    """An attempt of which no row has come may only be slow: its rows are on their way."""
    after: State = SYSTEM.perform("BeginAttempt", state, parameters, name)
    earlier = state.current - 1
    if earlier < 0:
        return after
    return after._replace(attempts=after.attempts.put(earlier, state.attempts.get(earlier)))


def begins_behind_rows_of_the_earlier_one(state: State, parameters: Parameters, name: int) -> State:
    """They have been taken, and a reader may have them."""
    after: State = SYSTEM.perform("BeginAttempt", state._replace(current=0), parameters, name)
    return after


def begins_though_rows_were_found(state: State, parameters: Parameters, name: int) -> State:
    """An exchange that was started again knows no attempt, and its channel may have the rows of one."""
    after: State = SYSTEM.perform("BeginAttempt", state._replace(found=0), parameters, name)
    return after._replace(found=state.found)


def takes_a_row_that_stays_on_its_way(state: State, parameters: Parameters, name: int) -> State:
    after: State = SYSTEM.perform("TakeDirectly", state, parameters, name)
    one = after.attempts.get(name)._replace(way=state.attempts.get(name).way)
    return after._replace(attempts=after.attempts.put(name, one))


def commits_whatever_was_found(state: State, parameters: Parameters, name: int) -> State:
    """A first attempt may begin late, when a second one has sent its rows before the exchange was started again."""
    after: State = SYSTEM.perform("CommitJob", state._replace(found=0), parameters, name)
    return after._replace(found=state.found)


MISTAKES = (
    Mistake("BeginAttempt", begins_while_the_earlier_one_still_sends, "OneAttempt", SMALL, at_once="SendsAlone"),
    Mistake("BeginAttempt", begins_behind_rows_of_the_earlier_one, "OneAttempt", LONG),
    Mistake("BeginAttempt", begins_though_rows_were_found, "NoneTwice", SMALL, at_once="SendsAlone"),
    Mistake("TakeDirectly", takes_a_row_that_stays_on_its_way, "TypeOK", SMALL),
    Mistake("CommitJob", commits_whatever_was_found, "WholeOnce", SMALL),
)
