"""``StoreOwner.tla``, action for action: exchanges that share a store, of which one owns it and commits in groups.

docs/protocols/store.md explains it.  Exchanges are numbered from 0.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from permitflow_model.kernel.family import Family, Members, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Phase = Literal["standby", "taking", "open", "stopped"]
Session = Literal["none", "idle", "begun", "sent", "made"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    exchanges: Positive
    """Exchanges that may own the store, one after the other."""

    jobs: Natural
    """Jobs that are submitted at most."""

    faults: Natural
    """Sessions and locks that are lost, and exchanges that die, at most."""


class Exchange(NamedTuple):
    """An exchange, and its sessions as the database sees them."""

    phase: Phase
    epoch: int
    """Its own."""
    commit: int
    """The number of the last commit that it knows of."""
    seen: int
    """Jobs in its memory: read when it took the store, and confirmed since."""
    waiting: int
    """Jobs that wait for a transaction."""
    running: int
    """Jobs that are in one."""
    is_uncertain: bool
    """Was a commit sent that was not answered?"""
    is_refused: bool
    """Were its jobs refused all the same?"""
    session: Session
    """Its transaction; "made": that is not yet heard."""
    has_lock: bool
    """As the database sees it, also of a session that was lost."""
    late: int
    """Jobs of a session that was lost, whose commit may still be made."""


class State(NamedTuple):
    """The variables of the specification."""

    epoch: int
    commits: int
    kept: int
    jobs: int
    confirmed: int
    faults: int
    exchanges: Family[Exchange]


BEFORE = Exchange(
    phase="standby",
    epoch=0,
    commit=0,
    seen=0,
    waiting=0,
    running=0,
    is_uncertain=False,
    is_refused=False,
    session="none",
    has_lock=False,
    late=0,
)


def initial(parameters: Parameters) -> State:
    """All stand by, and the store is empty."""
    exchanges = family(BEFORE, parameters.exchanges)
    return State(epoch=0, commits=0, kept=0, jobs=0, confirmed=0, faults=0, exchanges=exchanges)


def is_under_way(one: Exchange) -> bool:
    """Has its transaction the row?"""
    return one.session == "begun" or one.session == "sent"


def without_lock(one: Exchange) -> bool:
    """Has it no session with the lock?"""
    return not one.has_lock


def without_row(one: Exchange) -> bool:
    """Has no transaction of it the row, not even one of a lost session?"""
    return one.late == 0 and not is_under_way(one)


def stopped(one: Exchange) -> Exchange:
    """It does nothing any more; the database may not know yet."""
    return one._replace(
        phase="stopped",
        waiting=0,
        running=0,
        is_uncertain=False,
        is_refused=False,
        session="none",
        late=one.running if one.session == "sent" else one.late,
    )


def confirmed(one: Exchange) -> Exchange:
    """It knows that its commit was made."""
    return one._replace(
        commit=one.commit + 1, seen=one.seen + one.running, running=0, is_uncertain=False, session="idle"
    )


def _with(state: State, name: int, one: Exchange) -> State:
    return state._replace(exchanges=state.exchanges.put(name, one))


def _failing(state: State, parameters: Parameters) -> State:
    require(state.faults < parameters.faults)
    return state._replace(faults=state.faults + 1)


def take_store(state: State, _parameters: Parameters, name: int) -> State:
    """A standby takes the store: it has the lock, and increments the epoch before it reads."""
    one = state.exchanges.get(name)
    require(one.phase == "standby")
    require(state.exchanges.every(without_lock))
    require(state.exchanges.every(without_row))
    epoch = state.epoch + 1
    one = one._replace(phase="taking", epoch=epoch, commit=state.commits, session="idle", has_lock=True)
    return _with(state, name, one)._replace(epoch=epoch)


def load_store(state: State, _parameters: Parameters, name: int) -> State:
    """It reads all there is."""
    one = state.exchanges.get(name)
    require(one.phase == "taking")
    return _with(state, name, one._replace(phase="open", seen=state.kept))


def submit(state: State, parameters: Parameters, name: int) -> State:
    """A job is submitted."""
    one = state.exchanges.get(name)
    require(one.phase == "open")
    require(state.jobs < parameters.jobs)
    return _with(state, name, one._replace(waiting=one.waiting + 1))._replace(jobs=state.jobs + 1)


def begin_transaction(state: State, _parameters: Parameters, name: int) -> State:
    """A transaction of all that wait, or again of those whose one was not made: if epoch and number are its own."""
    one = state.exchanges.get(name)
    require(one.phase == "open")
    require(one.session == "idle")
    require(one.running + one.waiting > 0)
    require(state.exchanges.every(without_row))
    if one.epoch != state.epoch or one.commit != state.commits:
        return _with(state, name, stopped(one))
    if one.running > 0:
        return _with(state, name, one._replace(session="begun"))
    return _with(state, name, one._replace(session="begun", running=one.waiting, waiting=0))


def send_commit(state: State, _parameters: Parameters, name: int) -> State:
    """The commit is sent to the database."""
    one = state.exchanges.get(name)
    require(one.session == "begun")
    return _with(state, name, one._replace(session="sent", is_uncertain=True))


def make_commit(state: State, _parameters: Parameters, name: int) -> State:
    """The database makes it, durably."""
    one = state.exchanges.get(name)
    require(one.session == "sent")
    after = _with(state, name, one._replace(session="made"))
    return after._replace(commits=state.commits + 1, kept=state.kept + one.running)


def confirm_commit(state: State, _parameters: Parameters, name: int) -> State:
    """The owner learns of it, and confirms."""
    one = state.exchanges.get(name)
    require(one.session == "made")
    return _with(state, name, confirmed(one))._replace(confirmed=state.confirmed + one.running)


def undo(state: State, _parameters: Parameters, name: int) -> State:
    """The database undoes a transaction, and says so: its jobs are refused."""
    one = state.exchanges.get(name)
    require(is_under_way(one))
    return _with(state, name, one._replace(session="idle", running=0, is_uncertain=False))


def lose_session(state: State, parameters: Parameters, name: int) -> State:
    """The connection is lost."""
    one = state.exchanges.get(name)
    require(one.phase == "open")
    require(one.session != "none")
    late = one.running if one.session == "sent" else one.late
    return _with(_failing(state, parameters), name, one._replace(session="none", late=late))


def make_late_commit(state: State, _parameters: Parameters, name: int) -> State:
    """The database makes the commit of a session that was lost."""
    one = state.exchanges.get(name)
    require(one.late > 0)
    after = _with(state, name, one._replace(late=0))
    return after._replace(commits=state.commits + 1, kept=state.kept + one.late)


def end_session(state: State, _parameters: Parameters, name: int) -> State:
    """The database ends a session that was lost: it undoes its transaction, and frees its lock."""
    one = state.exchanges.get(name)
    is_lost = one.session == "none"
    require(one.late > 0 or (is_lost and one.has_lock))
    return _with(state, name, one._replace(late=0, has_lock=one.has_lock and not is_lost))


def lose_lock(state: State, parameters: Parameters, name: int) -> State:
    """A session's lock is lost, and its transactions go on: a pool in between has changed sessions."""
    one = state.exchanges.get(name)
    require(one.has_lock)
    require(one.session != "none")
    return _with(_failing(state, parameters), name, one._replace(has_lock=False))


def reconnect_store(state: State, _parameters: Parameters, name: int) -> State:
    """Epoch and number tell whether the commit was made, and whether the owner still owns the store."""
    one = state.exchanges.get(name)
    require(one.phase == "open")
    require(one.session == "none")
    was_made = one.is_uncertain and state.commits == one.commit + 1
    is_own = one.epoch == state.epoch and (was_made or state.commits == one.commit)
    is_free = state.exchanges.every(without_lock)
    if not is_own or (is_free and was_made and one.is_refused):
        return _with(state, name, stopped(one))
    require(is_free)
    connected = one._replace(is_uncertain=False, is_refused=False, session="idle", has_lock=True)
    if not was_made:
        return _with(state, name, connected)
    return _with(state, name, confirmed(connected))._replace(confirmed=state.confirmed + one.running)


def fail_writes(state: State, _parameters: Parameters, name: int) -> State:
    """The connection does not come back: the jobs are refused, though perhaps their commit was made."""
    one = state.exchanges.get(name)
    require(one.phase == "open")
    require(one.session == "none")
    require(one.running + one.waiting > 0)
    waiting = one.waiting if one.running > 0 else 0
    return _with(state, name, one._replace(running=0, waiting=waiting, is_refused=one.is_uncertain))


def die(state: State, parameters: Parameters, name: int) -> State:
    """An exchange dies."""
    one = state.exchanges.get(name)
    require(one.phase == "taking" or one.phase == "open")
    return _with(_failing(state, parameters), name, stopped(one))


def is_at_rest(one: Exchange) -> bool:
    """Is nothing of it under way?"""
    if one.late != 0 or one.running + one.waiting != 0 or one.phase == "taking":
        return False
    return one.phase != "open" or one.session == "idle"


def done(state: State, _parameters: Parameters) -> State:
    """Nothing is under way: each exchange rests, or has stopped."""
    require(state.exchanges.every(is_at_rest))
    return state


# Invariants.


def exchange_ok(one: Exchange, epoch: int, commits: int, kept: int) -> bool:
    """Are an exchange's numbers in their ranges?"""
    is_there = one.session == "none" or one.phase == "taking" or one.phase == "open"
    return (
        one.waiting >= 0
        and one.running >= 0
        and one.late >= 0
        and 0 <= one.epoch <= epoch
        and 0 <= one.commit <= commits
        and 0 <= one.seen <= kept
        and is_there
        and (one.is_uncertain or not one.is_refused)
    )


def type_ok(state: State, _parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        min(state.epoch, state.commits, state.kept, state.jobs, state.confirmed, state.faults) >= 0
        and state.exchanges.every(exchange_ok, state.epoch, state.commits, state.kept)
    )  # fmt: skip


def durable(state: State, _parameters: Parameters) -> bool:
    """Nothing that was confirmed is lost."""
    return state.confirmed <= state.kept


def waiting_jobs(one: Exchange) -> int:
    """Jobs that wait for a transaction."""
    return one.waiting


def kept_once(state: State, _parameters: Parameters) -> bool:
    """Nothing is kept twice, and nothing that was not taken from the line."""
    return state.kept + state.exchanges.sum_of(waiting_jobs) <= state.jobs


def is_fenced(one: Exchange, epoch: int, kept: int) -> bool:
    """Is a transaction that is under way the owner's, on what the store has?"""
    return not is_under_way(one) or (one.epoch == epoch and one.seen == kept)


def fenced(state: State, _parameters: Parameters) -> bool:
    """A transaction is under way only of the owner, and on what the owner knows."""
    return state.exchanges.every(is_fenced, state.epoch, state.kept)


def agrees(one: Exchange, epoch: int, commits: int, kept: int) -> bool:
    """Has an owner that has heard of all commits in memory what the store has?"""
    return one.phase != "open" or one.epoch != epoch or one.commit != commits or one.seen == kept


def agree(state: State, _parameters: Parameters) -> bool:
    """An owner whose number of commits is the store's has in memory what the store has."""
    return state.exchanges.every(agrees, state.epoch, state.commits, state.kept)


def is_explained(one: Exchange, epoch: int, commits: int, kept: int) -> bool:
    """Is a commit that an exchange has not heard of its own?"""
    if one.phase != "open" or one.epoch != epoch or one.commit == commits:
        return True
    if not one.is_uncertain or one.is_refused:
        return True
    return commits == one.commit + 1 and kept == one.seen + one.running


def explained(state: State, _parameters: Parameters) -> bool:
    """If a commit of the owner was made that it has not heard of, the store has that more, and nothing else."""
    return state.exchanges.every(is_explained, state.epoch, state.commits, state.kept)


def one_owner(state: State, _parameters: Parameters) -> bool:
    """Two exchanges never have the same epoch."""
    epochs = [one.epoch for one in cast("Members[Exchange]", state.exchanges) if one.epoch > 0]
    return len(epochs) == len(set(epochs))


def has_newest_lock(one: Exchange, epoch: int) -> bool:
    """Has an exchange whose session has the lock the newest epoch?  The lock of a lost session may be left."""
    return not one.has_lock or one.session == "none" or one.epoch == epoch


def lock_of_newest(state: State, _parameters: Parameters) -> bool:
    """Whose session has the lock has the newest epoch: no standby takes the store from an owner that is well."""
    return state.exchanges.every(has_newest_lock, state.epoch)


# Probes.


def heard_if_lost(one: Exchange, commits: int) -> bool:
    """Has an exchange without a session heard of all commits?"""
    return one.session != "none" or one.phase != "open" or one.commit == commits


def owns_if_open(one: Exchange, epoch: int) -> bool:
    """Does an exchange that is open own the store?"""
    return one.phase != "open" or one.epoch == epoch


def _names(parameters: Parameters) -> list[tuple[int]]:
    return [(name,) for name in range(parameters.exchanges)]


def _exchanges(state: State) -> Family[Exchange]:
    return state.exchanges


SYSTEM: System[State, Parameters] = System(
    module="StoreOwner",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("Submit", submit, _names, is_environment=True, members=_exchanges),
        Action("Undo", undo, _names, is_environment=True, members=_exchanges),
        Action("LoseSession", lose_session, _names, is_environment=True, members=_exchanges),
        Action("LoseLock", lose_lock, _names, is_environment=True, members=_exchanges),
        Action("Die", die, _names, is_environment=True, members=_exchanges),
        Action("TakeStore", take_store, _names, members=_exchanges),
        Action("LoadStore", load_store, _names, members=_exchanges),
        Action("BeginTransaction", begin_transaction, _names, members=_exchanges),
        Action("SendCommit", send_commit, _names, members=_exchanges),
        Action("MakeCommit", make_commit, _names, members=_exchanges),
        Action("ConfirmCommit", confirm_commit, _names, members=_exchanges),
        Action("MakeLateCommit", make_late_commit, _names, members=_exchanges),
        Action("EndSession", end_session, _names, members=_exchanges),
        Action("ReconnectStore", reconnect_store, _names, members=_exchanges),
        Action("FailWrites", fail_writes, _names, members=_exchanges),
    ),
    invariants={
        "TypeOK": type_ok,
        "Durable": durable,
        "KeptOnce": kept_once,
        "Fenced": fenced,
        "MemoryIsCurrent": agree,
        "Explained": explained,
        "OneOwner": one_owner,
        "LockOfNewest": lock_of_newest,
    },
    probes={
        "LateCommitProbe": lambda state, _: state.exchanges.every(heard_if_lost, state.commits),
        "TakenOverProbe": lambda state, _: state.exchanges.every(owns_if_open, state.epoch),
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.store_owner:theorems")
