"""Mistakes on purpose in ``stage_graph``."""

from dataclasses import replace

from permitflow_model.mistakes import Mistake
from permitflow_model.stage_graph import ASKING, CLOSED, ENDING, GRAPHS, IDLE, SYSTEM, Parameters, State

LINE, DIAMOND = GRAPHS["line"](2), GRAPHS["diamond"](1)


def keeps_one_more(state: State, parameters: Parameters, more: int = 1) -> State:
    """A buffer has room for one element more than it may keep."""
    stages = tuple(stage._replace(capacity=stage.capacity + 1) for stage in parameters.stages)
    return SYSTEM.perform("ProcessEvent", state, replace(parameters, stages=stages), more)


def asks_without_an_event(state: State, parameters: Parameters, more: int = 1) -> State:
    """The island never hears of an ask."""
    after = SYSTEM.perform("ProcessEvent", state, parameters, more)
    return after._replace(queue=tuple(arc for arc in after.queue if after.arcs[arc] != ASKING))


def does_not_ask_again(state: State, parameters: Parameters, more: int = 1) -> State:
    """A buffer asks for the next element when one arrives, but not when one leaves."""
    after = SYSTEM.perform("ProcessEvent", state, parameters, more)
    producer, _ = parameters.arcs[state.queue[0]]
    logic = parameters.logics[producer]
    if logic.stage.kind != "buffer" or state.arcs[state.queue[0]] != ASKING:
        return after
    arcs = tuple(IDLE if arc == logic.inlet else token for arc, token in enumerate(after.arcs))
    return after._replace(arcs=arcs, queue=tuple(arc for arc in after.queue if arc != logic.inlet))


def does_not_hand_on_the_end(state: State, parameters: Parameters, more: int = 1) -> State:
    """A stage hears that the stream before it has ended, and does nothing."""
    after = SYSTEM.perform("ProcessEvent", state, parameters, more)
    first, *others = state.queue
    if state.arcs[first] != ENDING:
        return after
    arcs = tuple(CLOSED if arc == first else token for arc, token in enumerate(state.arcs))
    return state._replace(arcs=arcs, queue=tuple(others))


MISTAKES = (
    Mistake("ProcessEvent", keeps_one_more, "Bounded", LINE),
    Mistake("ProcessEvent", asks_without_an_event, "TypeOK", DIAMOND),
    Mistake("ProcessEvent", does_not_ask_again, "NeverStuck", LINE),
    Mistake("ProcessEvent", does_not_hand_on_the_end, "NeverStuck", LINE),
)
