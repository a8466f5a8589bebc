"""Mistakes on purpose in ``adaptive_gate``."""

from permitflow_model.adaptive_gate import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

SMALL = Parameters(inputs=2, exclusive=0, floating=2, backlog=1, floor=1)


def shrinks_the_pool(state: State, parameters: Parameters, target: int) -> State:
    """What is not lent has to stay in the pool, or no later target gets it back."""
    after = SYSTEM.perform("Resize", state, parameters, target)
    return after._replace(pool=min(state.pool, target))


def grows_with_buffers_that_are_not_there(state: State, parameters: Parameters, target: int) -> State:
    after = SYSTEM.perform("Resize", state, parameters, target)
    return after._replace(pool=state.pool + max(0, target - state.target))


def exceeds_the_pool(state: State, parameters: Parameters, target: int) -> State:
    return SYSTEM.perform("Resize", state, parameters, target)._replace(target=target + parameters.floating)


def forgets_the_target(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("ConsumeData", state, parameters, name)._replace(target=0)


MISTAKES = (
    Mistake("Resize", shrinks_the_pool, "Conservation", SMALL),
    Mistake("Resize", grows_with_buffers_that_are_not_there, "TargetBounds", SMALL, at_once="Conservation"),
    Mistake("Resize", exceeds_the_pool, "TargetOK", SMALL),
    Mistake("ConsumeData", forgets_the_target, "TargetOK", SMALL),
)
