"""Mistakes on purpose in ``drop_queue``."""

from dataclasses import replace

from permitflow_model.drop_queue import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

OLDEST = Parameters(capacity=6, arrivals=2, services=1, resend=3, drops="oldest")

INCOMING = Parameters(capacity=3, arrivals=2, services=1, resend=3, drops="incoming")


def drops_the_youngest(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Arrive", state, replace(parameters, drops="youngest"))


def serves_the_youngest(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Serve", state._replace(watched=False), parameters)
    return after._replace(watched=state.watched and after.size > state.ahead)


def serves_fewer(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Tick", state._replace(served=parameters.services), parameters)


def lets_too_many_in(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Arrive", state, replace(parameters, capacity=parameters.capacity + 1))


MISTAKES = (
    Mistake("Arrive", drops_the_youngest, "Behind", OLDEST),
    Mistake("Serve", serves_the_youngest, "Ahead", INCOMING),
    Mistake("Tick", serves_fewer, "Ahead", INCOMING),
    Mistake("Arrive", lets_too_many_in, "TypeOK", INCOMING),
)
