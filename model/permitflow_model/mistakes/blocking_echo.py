"""Mistakes on purpose in ``blocking_echo``."""

from dataclasses import replace

from permitflow_model.blocking_echo import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

FITS = Parameters(writes=5, server_buffer=2, hand=1, client_buffer=2)


def writes_into_a_full_buffer(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Write", state, replace(parameters, server_buffer=parameters.server_buffer + 1))


def loses_an_element(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Echo", state, parameters)._replace(client=state.client)


def reads_before_everything_is_written(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Read", state, replace(parameters, reads_meanwhile=True))


def forgets_the_rest(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Write", state, parameters)._replace(unwritten=0)


MISTAKES = (
    Mistake("Write", writes_into_a_full_buffer, "TypeOK", FITS),
    Mistake("Echo", loses_an_element, "Conservation", FITS),
    Mistake("Read", reads_before_everything_is_written, "ReadsLast", FITS),
    Mistake("Write", forgets_the_rest, "Conservation", FITS, at_once="NeverWritten"),
)
