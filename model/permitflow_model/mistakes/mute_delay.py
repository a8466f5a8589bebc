"""Mistakes on purpose in ``mute_delay``."""

from permitflow_model.mistakes import Mistake
from permitflow_model.mute_delay import SYSTEM as DELAY
from permitflow_model.mute_delay import Parameters as DelayParameters
from permitflow_model.mute_delay import State as DelayState

NEAR = DelayParameters(
    sources=1, rate=1, depth=1, flight=1, first_rate=1, first_depth=2, first_flight=2, high=1, low=0, capacity=5
)


def told_without_a_signal(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    after: DelayState = DELAY.perform("Deliver", state, parameters, name)
    return after._replace(sources=after.sources.map(lambda source: source._replace(ahead=0)))


def a_full_queue_does_not_mute(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    after: DelayState = DELAY.perform("Deliver", state, parameters, name)
    sources = state.sources.put(name, state.sources.get(name)._replace(wire=after.sources.get(name).wire))
    return after._replace(sources=sources, mutes=state.mutes)


def sends_while_late(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    source = state.sources.get(name)
    on_time = state._replace(sources=state.sources.put(name, source._replace(late=False)))
    after: DelayState = DELAY.perform("Send", on_time, parameters, name)
    sent = after.sources.get(name)._replace(late=source.late)
    return after._replace(sources=after.sources.put(name, sent))


def a_loss_costs_nothing(state: DelayState, parameters: DelayParameters, name: int) -> DelayState:
    source = state.sources.get(name)
    generous = source._replace(spare=source.rate)
    after: DelayState = DELAY.perform(
        "LoseSignal", state._replace(sources=state.sources.put(name, generous)), parameters, name
    )
    again = after.sources.get(name)._replace(spare=source.spare)
    return after._replace(sources=after.sources.put(name, again))


def consumes_what_is_not_there(state: DelayState, parameters: DelayParameters) -> DelayState:
    after: DelayState = DELAY.perform("Consume", state._replace(inbox=state.inbox + 1), parameters)
    return after._replace(inbox=state.inbox - 1)


MISTAKES = (
    Mistake("Deliver", told_without_a_signal, "NewestObeyed", NEAR),
    Mistake("Deliver", a_full_queue_does_not_mute, "Marks", NEAR),
    Mistake("Send", sends_while_late, "InTime", NEAR),
    Mistake("LoseSignal", a_loss_costs_nothing, "Coming", NEAR),
    Mistake("Consume", consumes_what_is_not_there, "TypeOK", NEAR),
)
