"""Mistakes on purpose in ``shared_window``."""

from dataclasses import replace

from permitflow_model.mistakes import Mistake
from permitflow_model.shared_window import SYSTEM, Parameters, State

SMALL = Parameters(inputs=2, connection=3, stream=2)


def reads_and_makes_no_room(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("Read", state, parameters, name)._replace(room=state.room)


def sends_into_a_full_connection(state: State, parameters: Parameters, name: int) -> State:
    """Each input knows its own window alone."""
    after = SYSTEM.perform("Send", state._replace(room=state.room + 1), parameters, name)
    return after._replace(room=after.room - 1)


def sends_into_a_full_stream(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("Send", state, replace(parameters, stream=parameters.connection), name)


MISTAKES = (
    Mistake("Read", reads_and_makes_no_room, "Conservation", SMALL),
    Mistake("Send", sends_into_a_full_connection, "TypeOK", SMALL),
    Mistake("Send", sends_into_a_full_stream, "NeverStuck", SMALL, at_once="TypeOK"),
)
