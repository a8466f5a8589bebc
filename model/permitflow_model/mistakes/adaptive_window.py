"""Mistakes on purpose in ``adaptive_window``."""

from permitflow_model.adaptive_window import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

SMALL = Parameters(row_permits=4, permit_batch=2, room=1, row_costs=(1, 3))


def grows_with_permits_that_are_not_there(state: State, parameters: Parameters, target: int, batch: int) -> State:
    after = SYSTEM.perform("Resize", state, parameters, target, batch)
    return after._replace(returned=after.returned + max(0, target - state.target))


def shrinks_without_withholding(state: State, parameters: Parameters, target: int, batch: int) -> State:
    after = SYSTEM.perform("Resize", state, parameters, target, batch)
    return after._replace(withheld=parameters.row_permits - target)


def keeps_what_a_smaller_batch_completes(state: State, parameters: Parameters, target: int, batch: int) -> State:
    """What is a batch now must return now: nothing may come that would complete it."""
    after = SYSTEM.perform("Resize", state, parameters, target, batch)
    back = after.returned + after.withheld - state.returned - state.withheld
    return after._replace(returned=state.returned, withheld=state.withheld, unreturned=after.unreturned + back)


def keeps_what_it_withheld_when_the_target_grows(
    state: State, parameters: Parameters, target: int, batch: int
) -> State:
    after = SYSTEM.perform("Resize", state, parameters, target, batch)
    more = max(0, state.withheld - after.withheld)
    return after._replace(withheld=after.withheld + more, returned=after.returned - more)


def exceeds_the_agreed_window(state: State, parameters: Parameters, target: int, batch: int) -> State:
    return SYSTEM.perform("Resize", state, parameters, target, batch)._replace(target=target + parameters.row_permits)


def loses_what_is_not_returned(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Consume", state, parameters)._replace(withheld=state.withheld)


def withholds_below_the_target(state: State, parameters: Parameters) -> State:
    """Less than the target circulates, in the end nothing."""
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(withheld=after.withheld + after.returned - state.returned, returned=state.returned)


def keeps_on_collecting(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    back = after.returned + after.withheld - state.returned - state.withheld
    return after._replace(returned=state.returned, withheld=state.withheld, unreturned=after.unreturned + back)


def flushes_and_keeps(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Flush", state, parameters)._replace(withheld=state.withheld)


def returns_on_arrival(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Deliver", state, parameters)
    return after._replace(returned=state.returned + state.wire.head())


def doubles_returned_permits(state: State, parameters: Parameters, rows: int = 1) -> State:
    return SYSTEM.perform("AddPermits", state, parameters, rows)._replace(returned=state.returned)


MISTAKES = (
    Mistake("Resize", grows_with_permits_that_are_not_there, "Conservation", SMALL),
    Mistake("Resize", shrinks_without_withholding, "Conservation", SMALL),
    Mistake("Resize", keeps_what_a_smaller_batch_completes, "Batched", SMALL),
    Mistake("Resize", keeps_what_it_withheld_when_the_target_grows, "TargetKept", SMALL),
    Mistake("Resize", exceeds_the_agreed_window, "AimOK", SMALL),
    Mistake("Consume", loses_what_is_not_returned, "WholeWhenIdle", SMALL, at_once="Conservation"),
    Mistake("Consume", withholds_below_the_target, "TargetKept", SMALL),
    Mistake("Consume", keeps_on_collecting, "Batched", SMALL),
    Mistake("Flush", flushes_and_keeps, "TargetBounds", SMALL, at_once="Conservation"),
    Mistake("Deliver", returns_on_arrival, "Conservation", SMALL),
    Mistake("AddPermits", doubles_returned_permits, "Bounded", SMALL, at_once="Conservation"),
)
