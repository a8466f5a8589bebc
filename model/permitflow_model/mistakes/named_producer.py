"""Mistakes on purpose in ``named_producer``."""

from permitflow_model.mistakes import Mistake
from permitflow_model.named_producer import SYSTEM, Parameters, State, over

ONCE = Parameters(starts=1, rows=2, window=1, faults=1)
TWICE = Parameters(starts=2, rows=1, window=1, faults=1)


def _with(state: State, name: int, **changed: object) -> State:
    one = state.streams.get(name)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(streams=state.streams.put(name, one))


def rows_leave_without_permits(state: State, parameters: Parameters, name: int) -> State:
    one = state.streams.get(name)
    after = SYSTEM.perform("PutRow", _with(state, name, at=one.sent), parameters, name)
    return _with(after, name, at=one.at)


def a_start_is_sent_beyond_the_last_row_of_the_producer(state: State, parameters: Parameters, name: int) -> State:
    one = state.streams.get(name)
    after = SYSTEM.perform("PutRow", _with(state, name, at=one.at - 1, sent=one.sent - 1), parameters, name)
    return _with(after, name, at=one.at, sent=one.sent + 1)


def the_name_of_a_lost_start_is_free_at_once(state: State, parameters: Parameters, name: int) -> State:
    """Also while rows of it are being written."""
    one = state.streams.get(name)
    after = SYSTEM.perform("NoticePutting", state, parameters, name)
    if one.phase == "asking":
        return after
    return after._replace(streams=after.streams.put(name, over(one)), holder=0)


def an_older_start_is_not_fenced(state: State, parameters: Parameters, name: int, older: int) -> State:
    """The newer one gets the name, and what the older one still sends is taken."""
    after = SYSTEM.perform("ReplaceHolder", state, parameters, name, older)
    return after._replace(streams=state.streams, holder=0)


def a_start_does_not_wait_for_what_is_being_written(state: State, parameters: Parameters, name: int) -> State:
    """It is told too few rows, and sends those once more."""
    after = SYSTEM.perform("FreeName", state._replace(writer=0), parameters, name)
    return after._replace(writer=state.writer)


def a_name_is_given_to_a_second_stream(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("TakeName", state._replace(holder=0), parameters, name)


def a_producer_that_is_started_again_begins_with_its_first_row(
    state: State, parameters: Parameters, name: int
) -> State:
    return SYSTEM.perform("TakeName", state._replace(counted=0), parameters, name)._replace(counted=state.counted)


def position_of_a_producer_off_by_one(state: State, parameters: Parameters, name: int) -> State:
    fewer = state._replace(counted=max(0, state.counted - 1))
    return SYSTEM.perform("TakeName", fewer, parameters, name)._replace(counted=state.counted)


def more_rows_are_written_than_have_come(state: State, parameters: Parameters, name: int, rows: int) -> State:
    after = SYSTEM.perform("BeginWrite", state, parameters, name, rows)
    return after._replace(writing=rows + 1)


def counted_before_they_are_kept(state: State, parameters: Parameters, name: int, rows: int) -> State:
    """If the write fails, the producer is told of rows that nobody has."""
    return SYSTEM.perform("BeginWrite", state, parameters, name, rows)._replace(counted=state.counted + rows)


def the_store_notes_how_many_rows_there_are_in_a_write_of_its_own(
    state: State, parameters: Parameters, name: int
) -> State:
    """Between the two writes the exchange may change."""
    return SYSTEM.perform("WriteRows", state, parameters, name)._replace(noted=state.noted)


def a_part_is_written_and_all_of_it_noted(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("WriteRows", state, parameters, name)
    return after._replace(log=after.log - 1)


def written_rows_are_not_counted(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("NoteRows", state, parameters, name)._replace(counted=state.counted)


def rows_that_the_store_has_refused_are_counted(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("FailWrite", state, parameters, name)._replace(counted=state.counted + state.writing)


def a_write_whose_answer_is_lost_counts_as_failed(state: State, parameters: Parameters, name: int) -> State:
    """The store has the rows, and the next start is asked for them once more."""
    return SYSTEM.perform("FailWrite", state._replace(is_written=False), parameters, name)


def the_next_exchange_counts_what_the_last_one_had_counted(state: State, parameters: Parameters) -> State:
    """What was written and not heard of is in the log all the same."""
    return SYSTEM.perform("ChangeExchange", state, parameters)._replace(counted=state.counted)


MISTAKES = (
    Mistake("FreeName", a_start_does_not_wait_for_what_is_being_written, "WritesWhatCame", TWICE),
    Mistake("PutRow", rows_leave_without_permits, "OnTheWayBounded", ONCE),
    Mistake("PutRow", a_start_is_sent_beyond_the_last_row_of_the_producer, "TypeOK", ONCE),
    Mistake("NoticePutting", the_name_of_a_lost_start_is_free_at_once, "WritesWhatCame", ONCE),
    Mistake("ReplaceHolder", an_older_start_is_not_fenced, "OneHolder", TWICE),
    Mistake("TakeName", a_name_is_given_to_a_second_stream, "OneHolder", TWICE),
    Mistake("TakeName", a_producer_that_is_started_again_begins_with_its_first_row, "GoesOnBehind", TWICE),
    Mistake("TakeName", position_of_a_producer_off_by_one, "KeptInOrder", TWICE, at_once="GoesOnBehind"),
    Mistake("BeginWrite", more_rows_are_written_than_have_come, "WritesWhatCame", ONCE),
    Mistake("BeginWrite", counted_before_they_are_kept, "NotesAgree", ONCE),
    Mistake(
        "WriteRows",
        the_store_notes_how_many_rows_there_are_in_a_write_of_its_own,
        "KeptInOrder",
        TWICE,
        at_once="NotesAgree",
    ),
    Mistake("WriteRows", a_part_is_written_and_all_of_it_noted, "NotesAgree", ONCE),
    Mistake("NoteRows", written_rows_are_not_counted, "NotesAgree", ONCE),
    Mistake("FailWrite", rows_that_the_store_has_refused_are_counted, "NotesAgree", ONCE),
    Mistake("FailWrite", a_write_whose_answer_is_lost_counts_as_failed, "KeptInOrder", TWICE, at_once="NotesAgree"),
    Mistake(
        "ChangeExchange",
        the_next_exchange_counts_what_the_last_one_had_counted,
        "KeptInOrder",
        TWICE,
        at_once="NotesAgree",
    ),
)
