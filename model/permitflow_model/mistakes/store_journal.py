"""Mistakes on purpose in ``store_journal``."""

from permitflow_model.mistakes import Mistake
from permitflow_model.store_journal import DAMAGED, SYSTEM, Parameters, Phase, Slots, State, last

FAILING = Parameters(commits=2, faults=2, losses=0)
LOSING = Parameters(commits=1, faults=1, losses=2)
LOSING_ALL = Parameters(commits=1, faults=0, losses=3)


def _as_if(state: State, phase: Phase, other: Phase) -> State:
    """One of these phases is taken for the other one."""
    return state._replace(phase=other) if state.phase == phase else state


def a_commit_whose_flush_failed_counts_as_flushed(state: State, parameters: Parameters) -> State:
    """A second flush succeeds, and has written nothing: PostgreSQL until 2018."""
    return SYSTEM.perform("FailFlush", state, parameters)._replace(phase="flushed")


def goes_on_after_its_journal_has_failed(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("FailJournal", state, parameters)._replace(phase="sure", waits=state.waits)


def refusals_are_confirmed(state: State, parameters: Parameters, commit: int) -> State:
    return SYSTEM.perform("RefuseWrites", state, parameters, commit)._replace(confirmed=last(state.slots) + 1)


def what_was_refused_is_there(state: State, parameters: Parameters, commit: int) -> State:
    """Its senders send it once more, and it is there twice."""
    return SYSTEM.perform("RefuseWrites", state, parameters, commit)._replace(log=last(state.slots) + 1)


def confirmed_before_the_commit(state: State, parameters: Parameters) -> State:
    """An acknowledgement before the flush is a promise that a power failure breaks."""
    after = SYSTEM.perform("WriteCommit", state, parameters)
    return after._replace(confirmed=after.log)


def a_commit_is_counted_behind_one_whose_flush_failed(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("WriteCommit", state, parameters)._replace(log=state.log + 1)


def a_commit_is_not_flushed(state: State, parameters: Parameters) -> State:
    """A write-ahead log that is flushed now and then loses its last commits (synchronous=NORMAL)."""
    return SYSTEM.perform("FlushCommit", state, parameters)._replace(kept=state.kept)


def journal_before_the_commit(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("NoteCommit", _as_if(state, "written", "flushed"), parameters)


def the_journal_has_one_slot(state: State, parameters: Parameters) -> State:
    """The newest record is written over: a power failure tears it."""
    number, slots = state.log, state.slots
    newest = slots._replace(even=number) if slots.even > slots.odd else slots._replace(odd=number)
    return SYSTEM.perform("NoteCommit", state, parameters)._replace(slots=newest)


def the_journal_is_not_flushed(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("FlushNote", state, parameters)._replace(slots_kept=state.slots_kept)


def senders_are_told_before_the_journal_is_flushed(state: State, parameters: Parameters) -> State:
    """What a power failure takes from the journal, nobody can miss in the log."""
    return SYSTEM.perform("ConfirmWrites", _as_if(state, "noted", "sure"), parameters)


def a_log_that_is_behind_the_journal_opens(state: State, parameters: Parameters) -> State:
    """SQLite opens what is left of a log, and says nothing."""
    behind = state._replace(log=max(state.log, last(state.slots)))
    return SYSTEM.perform("OpenStore", behind, parameters)._replace(log=state.log)


def half_of_a_journal_counts_as_all_of_it(state: State, parameters: Parameters) -> State:
    """The half that is damaged may have noted a commit that the log has lost."""
    whole = state._replace(slots=Slots(state.log, state.log)) if state.log == last(state.slots) else state
    return SYSTEM.perform("OpenStore", whole, parameters)._replace(slots=state.slots)


def a_journal_that_cannot_be_read_is_made_anew(state: State, parameters: Parameters) -> State:
    anew = Slots(state.log, state.log) if last(state.slots) == DAMAGED else state.slots
    return SYSTEM.perform("OpenStore", state._replace(slots=anew, slots_kept=anew), parameters)


def what_a_killed_process_has_left_is_not_written_once_more(state: State, parameters: Parameters) -> State:
    """SQLite reads a log without flushing it."""
    return SYSTEM.perform("SettleStore", state, parameters)._replace(kept=state.kept)


def a_commit_that_the_journal_does_not_know_of_is_refused(state: State, parameters: Parameters) -> State:
    is_ahead = state.log == last(state.slots) + 1
    after = SYSTEM.perform("RefuseStore", state._replace(log=DAMAGED) if is_ahead else state, parameters)
    return after._replace(log=state.log)


def a_commit_that_is_not_written_counts_as_flushed(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("FlushCommit", state, parameters)._replace(kept=state.log + 1)


MISTAKES = (
    Mistake("FailFlush", a_commit_whose_flush_failed_counts_as_flushed, "Durable", FAILING, at_once="Phase"),
    Mistake("FailJournal", goes_on_after_its_journal_has_failed, "LossNoticed", LOSING, at_once="Phase"),
    Mistake("RefuseWrites", refusals_are_confirmed, "Durable", FAILING, at_once="Confirmed"),
    Mistake("RefuseWrites", what_was_refused_is_there, "RefusedIsGone", FAILING, at_once="Phase"),
    Mistake("WriteCommit", confirmed_before_the_commit, "Durable", FAILING, at_once="Confirmed"),
    Mistake("WriteCommit", a_commit_is_counted_behind_one_whose_flush_failed, "NeverRefused", FAILING, at_once="Phase"),
    Mistake("FlushCommit", a_commit_is_not_flushed, "Durable", FAILING, at_once="Phase"),
    Mistake("NoteCommit", journal_before_the_commit, "NotedIsKept", FAILING, at_once="Unharmed"),
    Mistake("NoteCommit", the_journal_has_one_slot, "NeverRefused", FAILING, at_once="InTurn"),
    Mistake("FlushNote", the_journal_is_not_flushed, "LossNoticed", LOSING, at_once="Phase"),
    Mistake(
        "ConfirmWrites", senders_are_told_before_the_journal_is_flushed, "LossNoticed", LOSING, at_once="Confirmed"
    ),
    Mistake("OpenStore", a_log_that_is_behind_the_journal_opens, "LossNoticed", LOSING, at_once="Phase"),
    Mistake("OpenStore", half_of_a_journal_counts_as_all_of_it, "LossNoticed", LOSING, at_once="Phase"),
    Mistake("OpenStore", a_journal_that_cannot_be_read_is_made_anew, "LossNoticed", LOSING_ALL, at_once="Confirmed"),
    Mistake(
        "SettleStore", what_a_killed_process_has_left_is_not_written_once_more, "Durable", FAILING, at_once="Phase"
    ),
    Mistake(
        "RefuseStore",
        a_commit_that_the_journal_does_not_know_of_is_refused,
        "NeverRefused",
        FAILING,
        at_once="Unharmed",
    ),
    Mistake("FlushCommit", a_commit_that_is_not_written_counts_as_flushed, "TypeOK", FAILING),
)
