"""Mistakes on purpose in ``mute_scheduler``."""

from permitflow_model.kernel.family import Members
from permitflow_model.mistakes import Mistake
from permitflow_model.mute_scheduler import SYSTEM as SCHEDULER
from permitflow_model.mute_scheduler import Parameters as SchedulerParameters
from permitflow_model.mute_scheduler import State as SchedulerState


def send_and_mute_the_busy(
    state: SchedulerState, parameters: SchedulerParameters, name: int, to: int
) -> SchedulerState:
    idle = state.actors.get(name)._replace(overloaded=False, pressed=False)
    after: SchedulerState = SCHEDULER.perform(
        "Send", state._replace(actors=state.actors.put(name, idle)), parameters, name, to
    )
    busy = after.actors.get(name)._replace(
        overloaded=state.actors.get(name).overloaded, pressed=state.actors.get(name).pressed
    )
    return after._replace(actors=after.actors.put(name, busy))


def unset_overloaded_for_the_muted(state: SchedulerState, parameters: SchedulerParameters, name: int) -> SchedulerState:
    """A sender that is still in the behaviour in which it has sent is forgotten."""

    def freed_if_muted(sender: int, freed: Members[bool]) -> Members[bool]:
        return freed if state.actors.get(sender).muted else state.freed.get(sender)

    after: SchedulerState = SCHEDULER.perform("UnsetOverloaded", state, parameters, name)
    return after._replace(freed=after.freed.map_by_name(freed_if_muted))


def frees_nobody(state: SchedulerState, parameters: SchedulerParameters, name: int) -> SchedulerState:
    after: SchedulerState = SCHEDULER.perform("UnsetOverloaded", state, parameters, name)
    return after._replace(freed=state.freed)


def runs_before_all_have_freed_it(
    state: SchedulerState, parameters: SchedulerParameters, name: int, muter: int
) -> SchedulerState:
    after: SchedulerState = SCHEDULER.perform("UnmuteSender", state, parameters, name, muter)
    return after._replace(actors=after.actors.put(name, after.actors.get(name)._replace(muted=False)))


def takes_a_message_that_is_not_there(
    state: SchedulerState, parameters: SchedulerParameters, name: int
) -> SchedulerState:
    actor = state.actors.get(name)
    one_more = state._replace(actors=state.actors.put(name, actor._replace(mailbox=actor.mailbox + 1)))
    after: SchedulerState = SCHEDULER.perform("BeginBehaviour", one_more, parameters, name)
    busy = after.actors.get(name)._replace(mailbox=actor.mailbox - 1)
    return after._replace(actors=after.actors.put(name, busy))


MISTAKES = (
    Mistake("Send", send_and_mute_the_busy, "MutedByIsAcyclic", SchedulerParameters(actors=2, batch=1, messages=2)),
    Mistake(
        "UnsetOverloaded",
        unset_overloaded_for_the_muted,
        "Woken",
        SchedulerParameters(actors=2, batch=1, messages=2),
    ),
    Mistake("UnsetOverloaded", frees_nobody, "Woken", SchedulerParameters(actors=2, batch=1, messages=2)),
    Mistake(
        "UnmuteSender", runs_before_all_have_freed_it, "MutedIfHeld", SchedulerParameters(actors=3, batch=1, messages=2)
    ),
    Mistake(
        "BeginBehaviour",
        takes_a_message_that_is_not_there,
        "TypeOK",
        SchedulerParameters(actors=2, batch=1, messages=2),
    ),
)
