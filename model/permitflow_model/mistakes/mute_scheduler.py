"""Mistakes on purpose in ``mute_scheduler``."""

from permitflow_model.mistakes import Mistake
from permitflow_model.mute_scheduler import SYSTEM as SCHEDULER
from permitflow_model.mute_scheduler import Parameters as SchedulerParameters
from permitflow_model.mute_scheduler import State as SchedulerState


def mutes_the_busy(state: SchedulerState, parameters: SchedulerParameters, name: int, to: int) -> SchedulerState:
    idle = state.actors.get(name)._replace(overloaded=False, pressed=False)
    after: SchedulerState = SCHEDULER.perform(
        "Send", state._replace(actors=state.actors.put(name, idle)), parameters, name, to
    )
    busy = after.actors.get(name)._replace(
        overloaded=state.actors.get(name).overloaded, pressed=state.actors.get(name).pressed
    )
    return after._replace(actors=after.actors.put(name, busy))


def frees_nobody(state: SchedulerState, parameters: SchedulerParameters, name: int) -> SchedulerState:
    after: SchedulerState = SCHEDULER.perform("UnsetOverloaded", state, parameters, name)
    return after._replace(freed=state.freed)


def runs_before_all_have_freed_it(
    state: SchedulerState, parameters: SchedulerParameters, name: int, muter: int
) -> SchedulerState:
    after: SchedulerState = SCHEDULER.perform("UnmuteSender", state, parameters, name, muter)
    return after._replace(actors=after.actors.put(name, after.actors.get(name)._replace(muted=False)))


MISTAKES = (
    Mistake("Send", mutes_the_busy, "MutedByIsAcyclic", SchedulerParameters(actors=2, batch=1, messages=2)),
    Mistake("UnsetOverloaded", frees_nobody, "Woken", SchedulerParameters(actors=2, batch=1, messages=2)),
    Mistake(
        "UnmuteSender", runs_before_all_have_freed_it, "MutedIfHeld", SchedulerParameters(actors=3, batch=1, messages=2)
    ),
)
