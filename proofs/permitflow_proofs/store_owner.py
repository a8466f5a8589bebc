"""Exchanges that share a store: any number of them, of jobs and of faults, and any owners, one after the other.

One exchange acts, and stands for any; of the others is known what every exchange satisfies, and that none of them has
its epoch.  The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from permitflow_model.store_owner import (
    SYSTEM,
    Exchange,
    Parameters,
    State,
    agrees,
    exchange_ok,
    has_newest_lock,
    is_explained,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily, each_in_focus, holds_in_focus
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import integer, limit, merged
from permitflow_proofs.kernel.theorem import Theorem

# Of one exchange, or of two.


def is_under_way(one: Exchange) -> bool:
    """Has a transaction of its session the row?"""
    return one.session == "begun" or one.session == "sent"


def has_row(one: Exchange) -> bool:
    """Has a transaction of it the row, perhaps one of a session that was lost?"""
    return one.late > 0 or is_under_way(one)


def without_row(one: Exchange) -> bool:
    """Has none?"""
    return one.late == 0 and not is_under_way(one)


def without_lock(one: Exchange) -> bool:
    """Has it no session with the lock?"""
    return not one.has_lock


def owns(one: Exchange, epoch: int) -> bool:
    """Is it open, and has the newest epoch?"""
    return one.phase == "open" and one.epoch == epoch


def differ(one: Exchange, other: Exchange) -> bool:
    """Have they different epochs, if they have any?"""
    return one.epoch == 0 or one.epoch != other.epoch


def unheard(one: Exchange) -> int:
    """Jobs in a commit that was made, and is not heard of in its session."""
    return one.running if one.session == "made" else 0


def pending(one: Exchange, epoch: int, commits: int) -> int:
    """Jobs that may yet be kept: those that wait, and those of a transaction that has the row, or may get it again."""
    if one.late > 0:
        return one.waiting + one.late
    may_run = owns(one, epoch) and one.commit == commits and one.session != "made"
    return one.waiting + (one.running if may_run else 0)


def _is_of_its_phase(one: Exchange) -> bool:
    if (one.epoch > 0) != (one.phase != "standby"):
        return False
    if (is_under_way(one) or one.session == "made") and one.running < 1:
        return False
    if one.phase == "open":
        return one.session == "none" or not one.is_refused
    if one.waiting != 0 or one.running != 0 or one.is_uncertain or one.is_refused:
        return False
    if one.phase == "stopped":
        return one.session == "none"
    if one.late != 0:
        return False
    return one.session == "idle" if one.phase == "taking" else one.session == "none"


def _knows_what_is_there(one: Exchange, epoch: int, commits: int, kept: int) -> bool:
    """Who has the row owns the store, or was its owner to the last, and knows all commits and all jobs."""
    return without_row(one) or (one.epoch == epoch and one.commit == commits and one.seen == kept)


def _remembers_its_commit(one: Exchange, commits: int, kept: int) -> bool:
    """What it knows of the transaction that it has begun, or that a lost session of it has."""
    if one.session == "made":
        return one.is_uncertain and one.late == 0 and one.commit < commits and one.seen + one.running <= kept
    if is_under_way(one):
        return one.late == 0 and (one.is_uncertain or one.session == "begun")
    if one.phase != "open" or one.late == 0:
        return True
    return one.running == one.late if one.is_uncertain and not one.is_refused else one.running <= one.late


def _has_all_confirmed(one: Exchange, epoch: int, confirmed: int) -> bool:
    return not owns(one, epoch) or confirmed <= one.seen + unheard(one)


# The clauses: of the exchange that acts, and of any other one.


def _type_ok(state: State, parameters: Parameters) -> bool:
    if state.jobs > parameters.jobs or state.faults > parameters.faults:
        return False
    if state.exchanges.size() != parameters.exchanges:
        return False
    if state.epoch < 0 or state.commits < 0 or state.kept < 0 or state.jobs < 0 or state.confirmed < 0:
        return False
    return state.faults >= 0 and holds_in_focus(exchange_ok, state.exchanges, state.epoch, state.commits, state.kept)


def _of_its_phase(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(_is_of_its_phase, state.exchanges)


def _of_two(state: State, _parameters: Parameters) -> bool:
    return each_in_focus(lambda _: True, state.exchanges, differ)


def _row(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(_knows_what_is_there, state.exchanges, state.epoch, state.commits, state.kept)


def _lock(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(has_newest_lock, state.exchanges, state.epoch)


def _remembered(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(_remembers_its_commit, state.exchanges, state.commits, state.kept)


def _memory(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(agrees, state.exchanges, state.epoch, state.commits, state.kept)


def _explained(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(is_explained, state.exchanges, state.epoch, state.commits, state.kept)


def told_soon(state: State) -> int:
    """Jobs that were confirmed, or will be as soon as an owner hears of its commit."""
    return state.confirmed + state.exchanges.sum_of(unheard)


def _confirmed(state: State, _parameters: Parameters) -> bool:
    confirmed = told_soon(state)
    return confirmed <= state.kept and holds_in_focus(_has_all_confirmed, state.exchanges, state.epoch, confirmed)


def _kept_once(state: State, _parameters: Parameters) -> bool:
    return state.kept + state.exchanges.sum_of(pending, state.epoch, state.commits) <= state.jobs


INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    "TypeOK": _type_ok,
    "Phase": _of_its_phase,
    "OneOwner": _of_two,
    "Row": _row,
    "LockOfNewest": _lock,
    "Remembered": _remembered,
    "MemoryIsCurrent": _memory,
    "Explained": _explained,
    "Confirmed": _confirmed,
    "KeptOnce": _kept_once,
}
"""What every reachable state satisfies; proved by induction."""

_COUNTING = ("Confirmed", "KeptOnce")


def _any_state(counting: tuple[str, ...], parameters: Parameters) -> State:
    """Any state; of the counting clauses, it satisfies these."""
    epoch, commits = integer("epoch"), integer("commits")
    acting = arbitrary(Exchange, "acting.")

    def is_such(other: Exchange) -> bool:
        is_in_range = other.epoch <= epoch and other.commit <= commits
        return differ(acting, other) and is_in_range and other.running >= 0 and other.waiting >= 0 and other.late >= 0

    def any_other(name: str) -> Exchange:
        other = arbitrary(Exchange, f"{name}.")
        limit(merged(partial(is_such, other)))
        return other

    exchanges = SymbolicFamily.any_of_size("exchanges", any_other, parameters.exchanges).put(0, acting)
    state = arbitrary(State, special={"exchanges": exchanges, "epoch": epoch, "commits": commits})
    names = [name for name in INVARIANT if name not in _COUNTING or name in counting]
    assume_all([INVARIANT[name] for name in names], state, parameters)
    exchanges.settle()
    return state


def _in_any_state(parameters: Parameters) -> State:
    exchanges = SymbolicFamily.any_of_size("exchanges", any_value(Exchange), parameters.exchanges)
    return arbitrary(State, special={"exchanges": exchanges})


_any_parameters = partial(any_parameters_of, Parameters)

SUBJECT = Subject(SYSTEM, _any_parameters, partial(_any_state, ()))
"""Any exchanges, without the clauses that count."""

CONFIRMING, KEEPING = (Subject(SYSTEM, _any_parameters, partial(_any_state, (name,))) for name in _COUNTING)
"""... and with one of these."""

ANY = Subject(SYSTEM, _any_parameters, _in_any_state)
"""Exchanges in any state at all."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "store-owner-",
    promises=frozenset({"one-owner", "one-writer", "fenced", "durable", "next", "kept-once", "owner-again"}),
)
_CONFIRMED, _KEPT = (replace(_CHAPTER, subject=subject) for subject in (CONFIRMING, KEEPING))


def _with(state: State, **changed: object) -> State:
    """The exchange that acts is another one."""
    one = state.exchanges.get(0)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(exchanges=state.exchanges.put(0, one))


# Frames.


def _one(state: State) -> Exchange:
    return state.exchanges.get(0)


def _is_free(state: State) -> bool:
    """Has no session the lock?"""
    return state.exchanges.every(without_lock)


def _rows_are_free(state: State) -> bool:
    return state.exchanges.every(without_row)


def _is_connected(session: str) -> Callable[[State, Parameters, int], bool]:
    return lambda state, _parameters, _name: _one(state).session == session


def _is_current(state: State) -> bool:
    return _one(state).epoch == state.epoch and _one(state).commit == state.commits


def _may_begin(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    is_open = one.phase == "open" and one.session == "idle"
    return is_open and one.running + one.waiting > 0 and _rows_are_free(state)


def _is_stopped(before: State, after: State) -> bool:
    """It has stopped, and has nothing but what its session has sent."""
    one, old = _one(after), _one(before)
    is_idle = one.waiting == 0 and one.running == 0 and not one.is_uncertain and not one.is_refused
    has_gone = one.phase == "stopped" and one.session == "none"
    return is_idle and has_gone and one.late == (old.running if old.session == "sent" else old.late)


def _stops(before: State, after: State, _parameters: Parameters) -> bool:
    return _is_stopped(before, after)


def _keeps_jobs(before: State, after: State) -> bool:
    one, old = _one(after), _one(before)
    is_same = one.is_uncertain == old.is_uncertain and one.is_refused == old.is_refused
    return is_same and one.phase == "open" and one.late == old.late


def _begins(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    if not _is_current(before):
        return _is_stopped(before, after)
    if one.session != "begun" or not _keeps_jobs(before, after):
        return False
    if old.running > 0:
        return one.running == old.running and one.waiting == old.waiting
    return one.running == old.waiting and one.waiting == 0


def _adds(field: str) -> Callable[[State, State, Parameters], bool]:
    """This many more jobs are kept, or confirmed."""

    def adds(before: State, after: State, _parameters: Parameters) -> bool:
        return bool(getattr(after, field) - getattr(before, field) == _one(before).running)

    return adds


def _confirms(before: State, after: State, _parameters: Parameters) -> bool:
    jobs = _one(before).running
    return after.confirmed - before.confirmed == jobs and _one(after).seen - _one(before).seen == jobs


def _leaves_late(before: State, after: State, _parameters: Parameters) -> bool:
    old = _one(before)
    return _one(after).late == (old.running if old.session == "sent" else old.late)


def _keeps_late(before: State, after: State, _parameters: Parameters) -> bool:
    return after.kept - before.kept == _one(before).late


def _is_lost(one: Exchange) -> bool:
    return one.phase == "open" and one.session == "none"


def _may_end(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return one.late > 0 or (one.has_lock and one.session == "none")


def _frees(before: State, after: State, _parameters: Parameters) -> bool:
    return _one(after).has_lock == (_one(before).has_lock and _one(before).session != "none")


def _was_made(state: State) -> bool:
    return _one(state).is_uncertain and _one(state).commit == state.commits - 1


def _is_still_owner(state: State) -> bool:
    one = _one(state)
    return one.epoch == state.epoch and (one.commit == state.commits or _was_made(state))


def _may_reconnect(state: State, _parameters: Parameters, _name: int) -> bool:
    return _is_lost(_one(state)) and (not _is_still_owner(state) or _is_free(state))


def _reconnects(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    is_heard = after.confirmed - before.confirmed == one.seen - old.seen == old.running and one.running == 0
    if not _is_still_owner(before) or (_was_made(before) and old.is_refused):
        is_same = after.confirmed == before.confirmed and one.seen == old.seen and one.commit == old.commit
        return is_same and one.has_lock == old.has_lock and _is_stopped(before, after)
    if one.phase != "open" or one.session != "idle" or not one.has_lock or one.is_uncertain or one.is_refused:
        return False
    if one.waiting != old.waiting or one.late != old.late:
        return False
    if _was_made(before):
        return one.commit == old.commit + 1 and is_heard
    is_same = after.confirmed == before.confirmed and one.seen == old.seen and one.commit == old.commit
    return is_same and one.running == old.running


def _refuses(before: State, after: State, _parameters: Parameters) -> bool:
    one, old = _one(after), _one(before)
    return one.is_refused == old.is_uncertain and one.waiting == (old.waiting if old.running > 0 else 0)


def _is_at_rest(one: Exchange) -> bool:
    is_idle = one.late == 0 and one.running + one.waiting == 0 and one.phase != "taking"
    return is_idle and (one.phase != "open" or one.session == "idle")


def _of_member(*fields: str) -> dict[str, None]:
    return dict.fromkeys(f"exchanges.0.{field}" for field in fields)


_ALL = ("phase", "waiting", "running", "is_uncertain", "is_refused", "session")

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Done", when=lambda state, _: state.exchanges.every(_is_at_rest), possible="where all rest"),
    Frame(
        "Submit",
        {"jobs": +1, "exchanges.0.waiting": +1},
        when=lambda state, parameters, _: _one(state).phase == "open" and state.jobs < parameters.jobs,
        possible="for an open exchange, up to Jobs",
    ),
    Frame(
        "Undo",
        {"exchanges.0.session": "idle", "exchanges.0.is_uncertain": False, "exchanges.0.running": None},
        lambda _before, after, _: _one(after).running == 0,
        "no jobs run",
        when=lambda state, _parameters, _name: is_under_way(_one(state)),
        possible="for a transaction that is under way",
    ),
    Frame(
        "LoseSession",
        {"faults": +1, "exchanges.0.session": "none", "exchanges.0.late": None},
        _leaves_late,
        "late are the jobs of a commit that was sent",
        when=lambda state, parameters, _: (
            _one(state).phase == "open" and _one(state).session != "none" and state.faults < parameters.faults
        ),
        possible="for an open exchange that is connected, up to Faults",
    ),
    Frame(
        "LoseLock",
        {"faults": +1, "exchanges.0.has_lock": False},
        when=lambda state, parameters, _: (
            _one(state).has_lock and _one(state).session != "none" and state.faults < parameters.faults
        ),
        possible="for a session with the lock, up to Faults",
    ),
    Frame(
        "Die",
        {"faults": +1, **_of_member(*_ALL, "late")},
        _stops,
        "it has stopped; late are the jobs of a commit that was sent",
        when=lambda state, parameters, _: (
            (_one(state).phase == "open" or _one(state).phase == "taking") and state.faults < parameters.faults
        ),
        possible="for one that is open, or takes the store, up to Faults",
    ),
    Frame(
        "TakeStore",
        {
            "epoch": +1,
            **{"exchanges.0.phase": "taking", "exchanges.0.session": "idle", "exchanges.0.has_lock": True},
            **_of_member("epoch", "commit"),
        },
        lambda before, after, _: _one(after).epoch == before.epoch + 1 and _one(after).commit == before.commits,
        "the epoch is its own, and it knows the number of commits",
        when=lambda state, _parameters, _name: (
            _one(state).phase == "standby" and _is_free(state) and _rows_are_free(state)
        ),
        possible="for a standby, where no session has the lock, and no transaction the row",
    ),
    Frame(
        "LoadStore",
        {"exchanges.0.phase": "open", "exchanges.0.seen": None},
        lambda before, after, _: _one(after).seen == before.kept,
        "it has seen all that is kept",
        when=lambda state, _parameters, _name: _one(state).phase == "taking",
        possible="for one that takes the store",
    ),
    Frame(
        "BeginTransaction",
        _of_member(*_ALL),
        _begins,
        "begun, of all that wait, or again of those that run; with another epoch or number, it has stopped",
        when=_may_begin,
        possible="for an open exchange that is connected and has jobs, where no transaction has the row",
    ),
    Frame(
        "SendCommit",
        {"exchanges.0.session": "sent", "exchanges.0.is_uncertain": True},
        when=_is_connected("begun"),
        possible="for a transaction that has begun",
    ),
    Frame(
        "MakeCommit",
        {"commits": +1, "exchanges.0.session": "made", "kept": None},
        _adds("kept"),
        "its jobs are kept",
        when=_is_connected("sent"),
        possible="for a commit that was sent",
    ),
    Frame(
        "ConfirmCommit",
        {
            **{"exchanges.0.session": "idle", "exchanges.0.commit": +1, "exchanges.0.is_uncertain": False},
            **{"confirmed": None, **_of_member("seen", "running")},
        },
        lambda before, after, parameters: _confirms(before, after, parameters) and _one(after).running == 0,
        "its jobs are confirmed and seen, and run no more",
        when=_is_connected("made"),
        possible="for a commit that was made",
    ),
    Frame(
        "MakeLateCommit",
        {"commits": +1, "exchanges.0.late": None, "kept": None},
        lambda before, after, parameters: _keeps_late(before, after, parameters) and _one(after).late == 0,
        "the late jobs are kept",
        when=lambda state, _parameters, _name: _one(state).late > 0,
        possible="for late jobs",
    ),
    Frame(
        "EndSession",
        _of_member("late", "has_lock"),
        lambda before, after, parameters: _frees(before, after, parameters) and _one(after).late == 0,
        "none is late, and a lost session has no lock",
        when=_may_end,
        possible="for late jobs, or the lock of a lost session",
    ),
    Frame(
        "ReconnectStore",
        {"confirmed": None, **_of_member(*_ALL, "commit", "seen", "has_lock")},
        _reconnects,
        "connected, with the lock; if its commit was made, its jobs are confirmed and seen; with another epoch or "
        "number, or if they were refused, it has stopped",
        when=_may_reconnect,
        possible="for one that is not connected: where no session has the lock, or another one owns the store",
    ),
    Frame(
        "FailWrites",
        _of_member("running", "waiting", "is_refused"),
        lambda before, after, parameters: _refuses(before, after, parameters) and _one(after).running == 0,
        "those that run, or else all that wait, are gone; refused if a commit was sent that was not answered",
        when=lambda state, _parameters, _name: _is_lost(_one(state)) and _one(state).running + _one(state).waiting > 0,
        possible="for one that is not connected, and has jobs",
    ),
)
"""What each action changes: in focus are an exchange that acts, and any other one."""


def _one_writes(state: State, _parameters: Parameters, *, wrong: int) -> bool:
    writes = has_row(state.exchanges.get(0))
    if wrong:
        return not writes
    return not writes or state.exchanges.size() == 1 or not has_row(state.exchanges.get(1))


def _is_of_the_owner(before: State, after: State, _parameters: Parameters, *, older: int) -> bool:
    one = before.exchanges.get(0)
    return one.epoch == before.epoch - older and one.commit == before.commits == after.commits - 1


def _begins_alone(state: State, parameters: Parameters, *, wrong: bool) -> bool:
    if not SYSTEM.is_enabled("TakeStore", state, parameters, 0):
        return True
    is_alone = each_in_focus(lambda name: name == 0 or not has_row(state.exchanges.get(name)), state.exchanges)
    return is_alone != wrong


def _durable(state: State, _parameters: Parameters, *, fewer: int) -> bool:
    return state.confirmed <= state.kept - fewer


def _reads_all(before: State, after: State, _parameters: Parameters, *, fewer: int) -> bool:
    seen = after.exchanges.get(0).seen
    return seen == before.kept - fewer and before.confirmed <= seen


def _remembers_all(state: State, _parameters: Parameters, *, fewer: int) -> bool:
    one = state.exchanges.get(0)
    if not owns(one, state.epoch) or one.session == "made":
        return True
    return state.confirmed <= one.seen - fewer


def _waiting(one: Exchange) -> int:
    return one.waiting


def _kept_fewer(state: State, _parameters: Parameters, *, by: int) -> bool:
    return state.kept + state.exchanges.sum_of(_waiting) <= state.jobs - by


# Progress.


_STEPS = tuple(action.name for action in SYSTEM.actions if action.name != "Done")
"""Faults and submissions, too, which come so often at most; ``Done`` stands for the end of a run."""


def left(one: Exchange) -> int:
    """At least this many steps of one exchange, if none fails."""
    jobs = 5 * one.waiting + 4 * one.running
    lost = 1 * (one.late > 0) + (1 * one.has_lock) * ((one.session == "none") * 1)
    if one.phase != "open":
        return jobs + lost + 9 * (one.phase == "standby") + 8 * (one.phase == "taking")
    connected = 4 * (one.session == "idle") + 3 * (one.session == "begun") + 2 * (one.session == "sent")
    return jobs + lost + connected + 5 * (one.session == "none") + 1 * (one.session == "made")


def rank(state: State, parameters: Parameters) -> int:
    """At least this many steps."""
    chances = 8 * (parameters.faults - state.faults) + 6 * (parameters.jobs - state.jobs)
    return chances + state.exchanges.sum_of(left)


_FREEING = ("LoadStore", "SendCommit", "MakeCommit", "ConfirmCommit", "MakeLateCommit", "EndSession")


def _frees_or_owns(state: State, parameters: Parameters, *, wrong: bool) -> bool:
    """Who has the lock or the row can go on, or owns the store; the mistake: it never does."""
    one = _one(state)
    if not one.has_lock and without_row(one):
        return True
    if any(SYSTEM.is_enabled(action, state, parameters, 0) for action in _FREEING):
        return True
    return not wrong and owns(one, state.epoch) and one.session == "idle"


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is negative, and no exchange is ahead of the store.",
            lambda state, _: state._replace(kept=-1),
            "-1 jobs are kept",
        ),
        _CHAPTER.kept(
            "phase",
            "Phase",
            "An exchange that is not open has no jobs, and no transaction but one that a lost session may have left; "
            "one that stands by has no epoch, every other one has.",
            lambda state, _: _with(state, phase="stopped", waiting=1),
            "after the step one has stopped, and a job waits",
            about="TypeOK",
        ),
        _CHAPTER.kept(
            "one-owner",
            "OneOwner",
            "Two exchanges never have the same epoch: so at most one owns the store.",
            lambda state, _: _with(state, epoch=state.exchanges.get(1).epoch),
            "after the step they have the same",
            breaks=lambda state, _: state.exchanges.get(0).epoch != state.exchanges.get(1).epoch,
        ),
        _CHAPTER.kept(
            "row",
            "Row",
            "Whose transaction has the row, perhaps one of a session that was lost, has the newest epoch, and knows "
            "all commits and all jobs.",
            lambda state, _: _with(state, late=1, commit=state.commits + 1),
            "after the step it knows of one commit more",
            about="Fenced",
        ),
        _CHAPTER.kept(
            "lock",
            "LockOfNewest",
            "Whose session has the lock has the newest epoch: no standby takes the store from an owner that is well.",
            lambda state, _: _with(state, has_lock=True, session="idle", epoch=state.epoch - 1),
            "after the step it has the one before",
        ),
        _CHAPTER.kept(
            "remembered",
            "Remembered",
            "While an exchange does not know whether its commit was made, it keeps the jobs of it, or has refused "
            "them.",
            lambda state, _: _with(state, session="made", commit=state.commits),
            "after the step it has heard of a commit that it has not heard of",
            about="Explained",
        ),
        _CHAPTER.kept(
            "memory",
            "MemoryIsCurrent",
            "An owner whose number of commits is the store's has in its memory what the store has.",
            lambda state, _: _with(state, phase="open", epoch=state.epoch, commit=state.commits, seen=state.kept + 1),
            "after the step it has one more",
        ),
        _CHAPTER.kept(
            "explained",
            "Explained",
            "If a commit was made that the owner has not heard of, and whose jobs it has not refused, the store has "
            "that more, and nothing else.",
            lambda state, _: _with(
                state,
                **{"phase": "open", "epoch": state.epoch, "commit": state.commits - 2},
                **{"is_uncertain": True, "is_refused": False},
            ),
            "after the step it has not heard of two",
        ),
        _CONFIRMED.kept(
            "confirmed",
            "Confirmed",
            "The store has what was confirmed, by whichever owner, and what will be once a commit is heard of; so has "
            "the memory of the owner.",
            lambda state, _: state._replace(confirmed=state.kept + 1),
            "after the step one more is confirmed",
            about="Durable",
        ),
        _KEPT.kept(
            "pending",
            "KeptOnce",
            "Jobs that are kept or may yet be kept, each counted once, are no more than were submitted.",
            lambda state, _: state._replace(kept=state.jobs + 1),
            "after the step one more is kept",
        ),
        _CHAPTER.theorem(
            "one-writer",
            "Fenced",
            "Two exchanges never have the row at once, be it with a transaction of a lost session: no two write.",
            follows("in every state", partial(_one_writes, wrong=0), partial(_one_writes, wrong=1), "nobody has it"),
        ),
        _CHAPTER.theorem(
            "fenced",
            "Fenced",
            "A commit is made only of who has the newest epoch, and knows all commits that were made before: an older "
            "owner can write nothing once a newer one has begun, whatever it believes, and whatever is under way.",
            *SUBJECT.step_obligations(
                ("MakeCommit", "MakeLateCommit"),
                partial(_is_of_the_owner, older=0),
                partial(_is_of_the_owner, older=1),
                "of the epoch before",
            ),
            SUBJECT.holds_whenever_invariant(
                "while a newer one takes the store, no transaction has the row",
                partial(_begins_alone, wrong=False),
                partial(_begins_alone, wrong=True),
                "one has",
            ),
        ),
        _CONFIRMED.theorem(
            "durable",
            "Durable",
            "Nothing that was confirmed is lost, whichever exchange has confirmed it, and whichever dies.",
            CONFIRMING.holds_whenever_invariant(
                "in every state", partial(_durable, fewer=0), partial(_durable, fewer=1), "one more is kept"
            ),
        ),
        _CONFIRMED.theorem(
            "next",
            "LoadStore",
            "What was confirmed, by owners that are dead or not, is there for the next one: when it has read the "
            "store, and while it is the owner, its memory has all of it.",
            *CONFIRMING.step_obligations(
                ("LoadStore",), partial(_reads_all, fewer=0), partial(_reads_all, fewer=1), "all but one"
            ),
            CONFIRMING.holds_whenever_invariant(
                "in every state", partial(_remembers_all, fewer=0), partial(_remembers_all, fewer=1), "and one more"
            ),
        ),
        _KEPT.theorem(
            "kept-once",
            "KeptOnce",
            "Nothing is kept twice, not even what was sent again: kept jobs and those that still wait are no more than "
            "were submitted.",
            KEEPING.holds_whenever_invariant(
                "in every state", SYSTEM.invariants["KeptOnce"], partial(_kept_fewer, by=1), "one less"
            ),
        ),
        _CHAPTER.theorem(
            "rank",
            "Next",
            "8 for each fault and 6 for each job that may yet come, 5 for each that waits, 4 for each under way, "
            "and of each exchange what its phase, its session and what is left of a lost one have to do: each step "
            "lowers it. So there are finitely many, whatever fails.",
            *comes_to_rest(SUBJECT, rank, steps=_STEPS, twin_by=100),
        ),
        _CHAPTER.theorem(
            "owner-again",
            "TakeStore",
            "Whose lock or transaction keeps a standby from taking the store, be that exchange dead or not: it, or the "
            "database for it, can take a step, or it is the owner, and connected. As steps are finitely many, a store "
            "has an owner again after a crash, unless no standby is left.",
            SUBJECT.holds_whenever_invariant(
                "in every state", partial(_frees_or_owns, wrong=False), partial(_frees_or_owns, wrong=True), "no owner"
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
