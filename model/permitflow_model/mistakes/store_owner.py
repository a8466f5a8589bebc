"""Mistakes on purpose in ``store_owner``."""

from permitflow_model.kernel.family import Family
from permitflow_model.mistakes import Mistake
from permitflow_model.store_owner import SYSTEM, Exchange, Parameters, State

ALONE = Parameters(exchanges=1, jobs=1, faults=1)
ALONE_TWICE = Parameters(exchanges=1, jobs=1, faults=2)
TWO = Parameters(exchanges=2, jobs=1, faults=2)
TWO_THRICE = Parameters(exchanges=2, jobs=1, faults=3)


def _with(state: State, name: int, **changed: object) -> State:
    one = state.exchanges.get(name)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(exchanges=state.exchanges.put(name, one))


def _unlocked(one: Exchange) -> Exchange:
    return one._replace(has_lock=False)


def _without_row(one: Exchange) -> Exchange:
    return one._replace(late=0, session="idle")


def _taken_from(changed: Family[Exchange], state: State, parameters: Parameters, name: int) -> State:
    """It takes the store as if the exchanges were these."""
    after = SYSTEM.perform("TakeStore", state._replace(exchanges=changed), parameters, name)
    return after._replace(exchanges=state.exchanges.put(name, after.exchanges.get(name)))


def the_store_is_taken_while_another_session_has_the_lock(state: State, parameters: Parameters, name: int) -> State:
    """A standby stops an owner that is well: the epochs keep the store safe, and two exchanges take it in turns."""
    return _taken_from(state.exchanges.map(_unlocked), state, parameters, name)


def the_epoch_is_not_incremented(state: State, parameters: Parameters, name: int) -> State:
    before = state._replace(epoch=state.epoch - 1) if state.epoch > 0 else state
    return SYSTEM.perform("TakeStore", before, parameters, name)


def the_store_is_taken_while_a_transaction_has_its_row(state: State, parameters: Parameters, name: int) -> State:
    free = state.exchanges.map(_without_row).put(name, state.exchanges.get(name))
    return _taken_from(free, state, parameters, name)


def an_owner_takes_a_store_and_does_not_read_what_others_have_written(
    state: State, parameters: Parameters, name: int
) -> State:
    return _with(SYSTEM.perform("LoadStore", state, parameters, name), name, seen=0)


def no_epoch_in_a_transaction(state: State, parameters: Parameters, name: int) -> State:
    """A lock that its holder may lose without hearing of it fences nothing: an old owner writes on."""
    epoch = state.exchanges.get(name).epoch
    return SYSTEM.perform("BeginTransaction", state._replace(epoch=epoch), parameters, name)._replace(epoch=state.epoch)


def no_number_of_commits_in_a_transaction(state: State, parameters: Parameters, name: int) -> State:
    """The commit of a lost session is made behind its own repetition."""
    commits = state.exchanges.get(name).commit
    after = SYSTEM.perform("BeginTransaction", state._replace(commits=commits), parameters, name)
    return after._replace(commits=state.commits)


def a_transaction_begins_while_a_lost_one_has_the_row(state: State, parameters: Parameters, name: int) -> State:
    """Both are made: the row's lock, held until then, is what orders them."""
    late = state.exchanges.get(name).late
    return _with(SYSTEM.perform("BeginTransaction", _with(state, name, late=0), parameters, name), name, late=late)


def jobs_are_confirmed_when_the_commit_is_sent(state: State, parameters: Parameters, name: int) -> State:
    """An acknowledgement before the flush is a promise that a crash breaks."""
    after = SYSTEM.perform("SendCommit", state, parameters, name)
    return after._replace(confirmed=state.confirmed + state.exchanges.get(name).running)


def a_commit_does_not_count_itself(state: State, parameters: Parameters, name: int) -> State:
    return SYSTEM.perform("MakeCommit", state, parameters, name)._replace(commits=state.commits)


def an_owner_counts_a_commit_twice(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("ConfirmCommit", state, parameters, name)
    return _with(after, name, commit=after.exchanges.get(name).commit + 1)


def an_owner_forgets_what_it_has_written(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("ConfirmCommit", state, parameters, name)
    return _with(after, name, seen=state.exchanges.get(name).seen)


def undone_jobs_are_confirmed(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("Undo", state, parameters, name)
    return after._replace(confirmed=state.confirmed + state.exchanges.get(name).running)


def a_commit_that_was_not_answered_counts_as_made(state: State, parameters: Parameters, name: int) -> State:
    one = state.exchanges.get(name)
    made = state._replace(commits=one.commit + 1) if one.is_uncertain else state
    return SYSTEM.perform("ReconnectStore", made, parameters, name)._replace(commits=state.commits)


def a_commit_that_was_not_answered_counts_as_undone(state: State, parameters: Parameters, name: int) -> State:
    """The owner learns the store's number, and sends the same jobs once more."""
    return SYSTEM.perform("ReconnectStore", _with(state, name, commit=state.commits), parameters, name)


def the_commit_is_read_by_its_number_alone(state: State, parameters: Parameters, name: int) -> State:
    """Another owner's commit counts as one's own."""
    epoch = state.exchanges.get(name).epoch
    return SYSTEM.perform("ReconnectStore", state._replace(epoch=epoch), parameters, name)._replace(epoch=state.epoch)


def an_owner_goes_on_though_the_store_has_what_it_has_refused(state: State, parameters: Parameters, name: int) -> State:
    return _with(SYSTEM.perform("FailWrites", state, parameters, name), name, is_refused=False)


def jobs_of_a_lost_session_wait_again(state: State, parameters: Parameters, name: int) -> State:
    """Their commit may have been made: they are kept twice."""
    one = state.exchanges.get(name)
    after = SYSTEM.perform("FailWrites", state, parameters, name)
    return _with(after, name, waiting=one.waiting + one.running) if one.running > 0 else after


MISTAKES = (
    Mistake("SendCommit", jobs_are_confirmed_when_the_commit_is_sent, "Durable", ALONE, at_once="Confirmed"),
    Mistake("TakeStore", the_store_is_taken_while_another_session_has_the_lock, "LockOfNewest", TWO),
    Mistake("TakeStore", the_epoch_is_not_incremented, "OneOwner", TWO),
    Mistake("TakeStore", the_store_is_taken_while_a_transaction_has_its_row, "Fenced", TWO, at_once="Row"),
    Mistake("LoadStore", an_owner_takes_a_store_and_does_not_read_what_others_have_written, "MemoryIsCurrent", TWO),
    Mistake("BeginTransaction", no_epoch_in_a_transaction, "Fenced", TWO, at_once="Row"),
    Mistake("BeginTransaction", no_number_of_commits_in_a_transaction, "KeptOnce", TWO, at_once="Row"),
    Mistake(
        "BeginTransaction",
        a_transaction_begins_while_a_lost_one_has_the_row,
        "KeptOnce",
        ALONE_TWICE,
        at_once="Remembered",
    ),
    Mistake("MakeCommit", a_commit_does_not_count_itself, "MemoryIsCurrent", ALONE),
    Mistake("ConfirmCommit", an_owner_counts_a_commit_twice, "TypeOK", ALONE),
    Mistake("ConfirmCommit", an_owner_forgets_what_it_has_written, "MemoryIsCurrent", ALONE),
    Mistake("Undo", undone_jobs_are_confirmed, "Durable", ALONE, at_once="Confirmed"),
    Mistake("ReconnectStore", a_commit_that_was_not_answered_counts_as_made, "Durable", ALONE, at_once="Confirmed"),
    Mistake("ReconnectStore", a_commit_that_was_not_answered_counts_as_undone, "MemoryIsCurrent", ALONE),
    Mistake("ReconnectStore", the_commit_is_read_by_its_number_alone, "LockOfNewest", TWO_THRICE),
    Mistake("FailWrites", an_owner_goes_on_though_the_store_has_what_it_has_refused, "Explained", ALONE),
    Mistake("FailWrites", jobs_of_a_lost_session_wait_again, "KeptOnce", ALONE),
)
