"""Mistakes on purpose in ``grpc_call``."""

from permitflow_model.grpc_call import SYSTEM, Message, Parameters, State
from permitflow_model.kernel.queue import Fifo
from permitflow_model.mistakes import Mistake

SMALL = Parameters(prefetch=2, batch=1, threshold=1, window=1, max_size=1, breaks=True, tags=6)


def requests_what_it_has_room_for(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Emit", state, parameters)
    return after._replace(requested=state.requested + parameters.prefetch - after.inbox.size())


def does_not_look(state: State, parameters: Parameters, size: int) -> State:
    after = SYSTEM.perform("Push", state._replace(local=Fifo()), parameters, size)
    return after._replace(local=state.local.push(Message(state.offered, size)))


def wakes_nobody(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Transmit", state, parameters)._replace(edge=state.edge)


def ignores_the_window(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Transmit", state._replace(wire=Fifo()), parameters)
    return after._replace(wire=state.wire.push(state.local.head()))


def hands_over_unrequested(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Deliver", state._replace(requested=1), parameters)
    return after._replace(requested=state.requested - 1)


def overtakes(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("OnComplete", state._replace(inbox=Fifo()), parameters)
    return after._replace(inbox=state.inbox)


def drops_what_was_handed_over(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("OnError", state._replace(inbox=Fifo()), parameters)
    return after._replace(inbox=state.inbox)


MISTAKES = (
    Mistake("Emit", requests_what_it_has_room_for, "Conservation", SMALL),
    Mistake("Push", does_not_look, "Bounded", SMALL),
    Mistake("Transmit", wakes_nobody, "Woken", SMALL),
    Mistake("Transmit", ignores_the_window, "Bounded", SMALL),
    Mistake("Deliver", hands_over_unrequested, "TypeOK", SMALL),
    Mistake("OnComplete", overtakes, "EndsMatch", SMALL),
    Mistake("OnError", drops_what_was_handed_over, "EndsMatch", SMALL),
)
