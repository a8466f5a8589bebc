"""Mistakes on purpose in ``grpc_call``."""

from permitflow_model.grpc_call import SYSTEM, Message, Parameters, State, fits, is_ready
from permitflow_model.kernel.queue import Fifo
from permitflow_model.mistakes import Mistake

SMALL = Parameters(prefetch=2, batch=1, threshold=1, window=1, max_size=1, breaks=True, tags=6)


# The four of the article "Back-pressure in Grpc-akkastream", as in GrpcCallMistakes.tla.


def on_ready_and_keep(state: State, parameters: Parameters) -> State:
    """The stage keeps the message that it has given to the call."""
    return SYSTEM.perform("OnReady", state, parameters)._replace(hand=state.hand)


def complete_at_once(state: State, parameters: Parameters) -> State:
    """The stage half-closes the call at once, and what it holds is gone."""
    return SYSTEM.perform("Complete", state, parameters)._replace(closed=True, hand=Fifo())


def push_too_late(state: State, parameters: Parameters, size: int) -> State:
    """The stage looks, and then stores; in between a message has left, and a stage that held nothing was told."""
    after = SYSTEM.perform("Push", state, parameters, size)
    if is_ready(state, parameters) or state.consumer != "open" or not fits(state.local.head(), state, parameters):
        return after
    return SYSTEM.perform("Transmit", after, parameters)._replace(edge=state.edge)


def on_ready_in_a_thread(state: State, parameters: Parameters) -> State:
    """The call's own thread sends what the stage holds; in between the stage has completed, and left the end to it."""
    after = SYSTEM.perform("OnReady", state, parameters)
    if state.hand.is_empty() or not is_ready(state, parameters) or state.producer != "open":
        return after
    return after._replace(producer="completed")


# Others.


def requests_what_it_has_room_for(state: State, parameters: Parameters) -> State:
    """zio-grpc #708: ``request(prefetch - size)`` instead of ``request(number taken)``."""
    after = SYSTEM.perform("Emit", state, parameters)
    return after._replace(requested=state.requested + parameters.prefetch - after.inbox.size())


def does_not_look(state: State, parameters: Parameters, size: int) -> State:
    """``onNext`` never waits and never refuses: the local queue grows without a bound."""
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
    """Akka's boundary between actors drops what it holds."""
    after = SYSTEM.perform("OnError", state._replace(inbox=Fifo()), parameters)
    return after._replace(inbox=state.inbox)


MISTAKES = (
    Mistake("OnReady", on_ready_and_keep, "AskedOnce", SMALL),
    Mistake("Complete", complete_at_once, "NothingLost", SMALL),
    Mistake("Push", push_too_late, "Woken", SMALL),
    Mistake("OnReady", on_ready_in_a_thread, "EndSent", SMALL),
    Mistake("Emit", requests_what_it_has_room_for, "Conservation", SMALL),
    Mistake("Push", does_not_look, "Bounded", SMALL),
    Mistake("Transmit", wakes_nobody, "Woken", SMALL),
    Mistake("Transmit", ignores_the_window, "Bounded", SMALL),
    Mistake("Deliver", hands_over_unrequested, "TypeOK", SMALL),
    Mistake("OnComplete", overtakes, "EndsMatch", SMALL),
    Mistake("OnError", drops_what_was_handed_over, "EndsMatch", SMALL),
)
