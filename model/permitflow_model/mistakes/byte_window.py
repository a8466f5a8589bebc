"""Mistakes on purpose in ``byte_window``."""

from permitflow_model.byte_window import SYSTEM, Parameters, State
from permitflow_model.mistakes import Mistake

SMALL = Parameters(row_permits=3, permit_batch=2, window_bytes=3, batch_bytes=2, row_costs=(1, 2), byte_costs=(1, 5))


def sends_a_large_chunk_at_any_time(state: State, parameters: Parameters) -> State:
    """An exception without its condition is no bound."""
    after = SYSTEM.perform("Send", state._replace(outstanding=0), parameters)
    return after._replace(outstanding=state.outstanding + after.outstanding)


def sends_without_permits(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Send", state._replace(permits=parameters.row_permits), parameters)
    return after._replace(permits=state.permits + after.permits - parameters.row_permits)


def does_not_count_what_it_sends(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Send", state, parameters)._replace(outstanding=state.outstanding)


def returns_bytes_on_arrival(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Deliver", state, parameters)
    return after._replace(returned_bytes=state.returned_bytes + state.wire.head().bytes)


def returns_rows_on_arrival(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Deliver", state, parameters)
    return after._replace(returned_rows=state.returned_rows + state.wire.head().rows)


def counts_another_size(state: State, parameters: Parameters) -> State:
    """What the receiver does not see is never returned."""
    return SYSTEM.perform("Consume", state._replace(unreturned_bytes=state.unreturned_bytes + 1), parameters)


def forgets_the_bytes_that_rows_take_along(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    rows_alone = after.returned_rows > state.returned_rows
    return after._replace(returned_bytes=state.returned_bytes if rows_alone else after.returned_bytes)


def forgets_the_rows(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Consume", state, parameters)._replace(returned_rows=state.returned_rows)


def keeps_on_collecting_bytes(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    back = after.returned_bytes - state.returned_bytes
    return after._replace(returned_bytes=state.returned_bytes, unreturned_bytes=after.unreturned_bytes + back)


def keeps_on_collecting_rows(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    back = after.returned_rows - state.returned_rows
    return after._replace(returned_rows=state.returned_rows, unreturned_rows=after.unreturned_rows + back)


def doubles_returned_rows(state: State, parameters: Parameters, rows: int = 1) -> State:
    return SYSTEM.perform("ReturnRows", state, parameters, rows)._replace(returned_rows=state.returned_rows)


def loses_returned_bytes(state: State, parameters: Parameters, size_bytes: int = 1) -> State:
    return SYSTEM.perform("ReturnBytes", state, parameters, size_bytes)._replace(outstanding=state.outstanding)


MISTAKES = (
    Mistake("Send", sends_a_large_chunk_at_any_time, "BytesBounded", SMALL),
    Mistake("Send", sends_without_permits, "TypeOK", SMALL),
    Mistake("Send", does_not_count_what_it_sends, "BytesConserved", SMALL),
    Mistake("Deliver", returns_bytes_on_arrival, "ReceiverAdmits", SMALL, at_once="BytesConserved"),
    Mistake("Deliver", returns_rows_on_arrival, "RowsBounded", SMALL, at_once="RowsConserved"),
    Mistake("Consume", counts_another_size, "BytesConserved", SMALL),
    Mistake("Consume", forgets_the_bytes_that_rows_take_along, "BytesConserved", SMALL),
    Mistake("Consume", forgets_the_rows, "RowsConserved", SMALL),
    Mistake("Consume", keeps_on_collecting_bytes, "BytesBatched", SMALL),
    Mistake("Consume", keeps_on_collecting_rows, "RowsBatched", SMALL),
    Mistake("ReturnRows", doubles_returned_rows, "RowsConserved", SMALL),
    Mistake("ReturnBytes", loses_returned_bytes, "WindowAdmits", SMALL, at_once="BytesConserved"),
)
