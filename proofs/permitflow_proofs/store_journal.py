"""A store on a disk and its journal: any number of commits, of faults, and of things that somebody takes away.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.store_journal import (
    DAMAGED,
    SYSTEM,
    Parameters,
    Slots,
    State,
    is_idle,
    is_up,
    is_whole,
    last,
    noted,
    opens,
    type_ok,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import all_of, function, limit
from permitflow_proofs.kernel.theorem import Theorem

_COMMIT, _SLOT = (function("argument")(number) for number in range(2))
"""The commits that are left, and what is left of a slot."""


def _is_in_turn(pair: Slots) -> bool:
    """The newest record stands in its own slot; the other one has the record before it, or is damaged."""
    newest = last(pair)
    if newest == DAMAGED:
        return pair.even == pair.odd
    other = pair.odd if pair.even > pair.odd else pair.even
    if noted(pair, newest) != pair:
        return False
    return other == DAMAGED or other == newest - 1 or (other == 0 and newest == 0)


def _has_confirmed(pair: Slots, confirmed: int) -> bool:
    """The newest record is of the newest confirmed commit, or a later one; if one is damaged, that may be it."""
    newest = last(pair)
    return newest == DAMAGED or confirmed <= newest or (confirmed == newest + 1 and not is_whole(pair))


def _is_flushed(state: State) -> bool:
    """Would a power failure leave the journal as it is?"""
    return state.slots == state.slots_kept


def _type_ok(state: State, parameters: Parameters) -> bool:
    if state.faults > parameters.faults or state.losses > parameters.losses:
        return False
    return type_ok(state, parameters) and (not state.waits or state.log < parameters.commits)


def _of_its_phase(state: State, _parameters: Parameters) -> bool:
    """What there is of a commit while it is made; of a failed flush, the log may have one more."""
    phase, newest = state.phase, last(state.slots)
    is_behind = state.kept == newest and state.confirmed == newest and is_whole(state.slots) and _is_flushed(state)
    if phase == "idle":
        return is_behind and state.log == newest
    if phase == "failed" or phase == "written":
        return is_behind and state.log == newest + 1
    if phase == "noted" or phase == "sure":
        is_noted = state.kept == state.log and state.log == newest and is_whole(state.slots)
        return is_noted and (phase == "noted" or _is_flushed(state))
    if state.waits and phase != "flushed":
        return False
    if phase == "opening":
        return opens(state)
    return phase == "down" or phase == "refused" or (opens(state) and state.kept == state.log)


def _in_turn(state: State, _parameters: Parameters) -> bool:
    return _is_in_turn(state.slots) and _is_in_turn(state.slots_kept)


def _one_unflushed(state: State, _parameters: Parameters) -> bool:
    """The journal has one record at most that a power failure may take, and no commit is behind that."""
    if _is_flushed(state):
        return True
    newest = last(state.slots_kept)
    is_next = newest != DAMAGED and state.slots == noted(state.slots_kept, newest + 1)
    return is_next and state.log <= newest + 1


def _confirmed(state: State, _parameters: Parameters) -> bool:
    return _has_confirmed(state.slots, state.confirmed) and _has_confirmed(state.slots_kept, state.confirmed)


def _unharmed(state: State, _parameters: Parameters) -> bool:
    """If nobody has taken anything away, the store opens, and the journal knows of nothing that may yet be lost."""
    if state.losses > 0:
        return True
    is_safe = state.kept == state.log or (is_whole(state.slots) and _is_flushed(state))
    return state.phase != "refused" and opens(state) and last(state.slots) <= state.kept and is_safe


INVARIANT: dict[str, Clause[State, Parameters]] = {
    "TypeOK": _type_ok,
    "Phase": _of_its_phase,
    "InTurn": _in_turn,
    "OneUnflushed": _one_unflushed,
    "Confirmed": _confirmed,
    "Unharmed": _unharmed,
}
"""What every reachable state satisfies; proved by induction."""


def _a_commit(parameters: Parameters) -> tuple[int]:
    limit(all_of((_COMMIT >= 0, parameters.commits >= _COMMIT)))
    return (_COMMIT,)


def _a_commit_and_a_slot(parameters: Parameters) -> tuple[int, int]:
    limit(all_of((_SLOT >= 0, _SLOT <= 2)))
    return (*_a_commit(parameters), _SLOT)


_ARGUMENTS = {"RefuseWrites": _a_commit, "LoseLog": _a_commit, "FailPower": _a_commit_and_a_slot}

SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State, arguments=_ARGUMENTS)
"""Any number of commits, faults and losses."""

ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), lambda _: arbitrary(State), _ARGUMENTS)
"""A store in any state at all."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "store-journal-",
    promises=frozenset(
        {"durable", "loss-noticed", "never-refused", "refused-is-gone", "told-last", "at-most-one-more", "all-told"}
    ),
)


# Frames.


def _in(*phases: str) -> Callable[..., bool]:
    return lambda state, *_: any(state.phase == phase for phase in phases)


def _may_fail(*phases: str) -> Callable[..., bool]:
    return lambda state, parameters, *_: _in(*phases)(state) and state.faults < parameters.faults


def _may_submit(state: State, parameters: Parameters) -> bool:
    is_ready = _in("idle", "failed", "written", "flushed", "noted", "sure")(state)
    return is_ready and not state.waits and state.log < parameters.commits


def _may_stop(state: State, _parameters: Parameters) -> bool:
    return state.phase == "stopped" or (is_idle(state) and not state.waits)


def _stops(before: State, after: State, _parameters: Parameters) -> bool:
    return after.log == (last(before.slots) if is_idle(before) else before.log)


def _may_refuse(state: State, parameters: Parameters, commit: int) -> bool:
    return _may_fail("idle", "failed")(state, parameters) and state.waits and last(state.slots) <= commit <= state.log


def _refuses(before: State, after: State, _parameters: Parameters) -> bool:
    is_flushed = last(before.slots) == _COMMIT
    return after.log == _COMMIT and after.phase == ("idle" if is_flushed else before.phase)


def _may_lose(state: State, parameters: Parameters) -> bool:
    return state.phase == "down" and state.losses < parameters.losses


def _may_lose_power(state: State, parameters: Parameters, commit: int, slot: int) -> bool:
    if state.phase == "refused" or not state.kept <= commit <= state.log:
        return False
    return state.faults < parameters.faults and (slot == 0 or not _is_flushed(state))


def _has(state: State, commit: int) -> bool:
    """Has the log this many commits, and would a power failure leave it so?"""
    return state.log == commit and state.kept == commit


def _is_damaged(left: Slots, old: Slots, *, is_even: bool) -> bool:
    """Is one of the slots damaged, and the other one as it was?"""
    return left == (old._replace(even=DAMAGED) if is_even else old._replace(odd=DAMAGED))


def _loses_power(before: State, after: State, _parameters: Parameters) -> bool:
    """Of the first slot that is not flushed, the old record is left, the new one, or none."""
    old, new, left = before.slots_kept, before.slots, after.slots
    if not _is_flushed(after) or not _has(after, _COMMIT):
        return False
    if _SLOT < 2:
        return left == (old if _SLOT == 0 else new)
    return _is_damaged(left, old, is_even=new.even != old.even)


def _damages(before: State, after: State, _parameters: Parameters) -> bool:
    old = before.slots
    return _is_flushed(after) and _is_damaged(after.slots, old, is_even=old.even > old.odd)


def _notes(before: State, after: State, _parameters: Parameters) -> bool:
    old, number = before.slots, before.log
    return after.slots == (old._replace(even=number) if number % 2 == 0 else old._replace(odd=number))


def _may_open(state: State, *, opens: bool) -> bool:
    """Is the log one commit ahead of the journal, or not, and that has both its records, one after the other?"""
    even, odd = state.slots
    newest, other = (even, odd) if even > odd else (odd, even)
    is_all = newest != DAMAGED and (
        state.log == newest + 1 or (state.log == newest and other != DAMAGED and other >= newest - 1)
    )
    return state.phase == "down" and is_all == opens


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: (
            state.phase == "refused" or (is_idle(state) and not state.waits and state.log == parameters.commits)
        ),
        possible="for a store that is refused, or where all is written",
    ),
    Frame("Submit", {"waits": True}, when=_may_submit, possible="while nothing waits, up to Commits"),
    Frame(
        "FailFlush",
        {"phase": "failed", "faults": +1},
        when=_may_fail("written"),
        possible="for a commit that was written, up to Faults",
    ),
    Frame(
        "FailJournal",
        {"phase": "stopped", "waits": False, "faults": +1},
        when=_may_fail("flushed", "noted"),
        possible="before the journal is flushed, up to Faults",
    ),
    Frame(
        "StopStore",
        {"phase": "down", "log": None},
        _stops,
        "between two commits, the log has what the journal knows",
        when=_may_stop,
        possible="where nothing waits, or when it has stopped",
    ),
    Frame(
        "KillStore",
        {"phase": "down", "waits": False, "faults": +1},
        when=lambda state, parameters: is_up(state) and state.faults < parameters.faults,
        possible="while it is up, up to Faults",
    ),
    Frame(
        "DamageJournal",
        {"losses": +1, "slots": None, "slots_kept": None},
        _damages,
        "the newest record cannot be read",
        when=lambda state, parameters: _may_lose(state, parameters) and last(state.slots) != DAMAGED,
        possible="while it is down, if there is a record, up to Losses",
    ),
    Frame(
        "RefuseWrites",
        {"phase": None, "waits": False, "faults": +1, "log": None},
        _refuses,
        "it has this many commits; idle, if these are those that the journal knows",
        when=_may_refuse,
        possible="where something waits, for as many commits as the journal knows, or the log has, up to Faults",
    ),
    Frame(
        "LoseLog",
        {"losses": +1, "log": None, "kept": None},
        lambda _before, after, _: _has(after, _COMMIT),
        "it has this many commits",
        when=lambda state, parameters, commit: _may_lose(state, parameters) and commit < state.log,
        possible="while it is down, for fewer commits, up to Losses",
    ),
    Frame(
        "FailPower",
        {"phase": "down", "waits": False, "faults": +1, **dict.fromkeys(("log", "kept", "slots", "slots_kept"))},
        _loses_power,
        "the log has this many commits; the unflushed slot holds the old record, the new one, or none",
        when=_may_lose_power,
        possible="unless it is refused, for at least the commits that are flushed, up to Faults",
    ),
    Frame(
        "WriteCommit",
        {"phase": "written", "waits": False, "log": None},
        lambda before, after, _: after.log == last(before.slots) + 1,
        "it has one commit more than the journal knows",
        when=lambda state, _: is_idle(state) and state.waits,
        possible="where something waits",
    ),
    Frame(
        "FlushCommit",
        {"phase": "flushed", "kept": None},
        lambda before, after, _: after.kept == before.log,
        "all of the log",
        when=_in("written"),
        possible="when it is written",
    ),
    Frame(
        "NoteCommit",
        {"phase": "noted", "slots": None},
        _notes,
        "one slot has the number of the commit",
        when=_in("flushed"),
        possible="when it is flushed",
    ),
    Frame(
        "FlushNote",
        {"phase": "sure", "slots_kept": None},
        lambda before, after, _: after.slots_kept == before.slots,
        "as the journal is",
        when=_in("noted"),
        possible="when it is noted",
    ),
    Frame(
        "ConfirmWrites",
        {"phase": "idle", "confirmed": None},
        lambda before, after, _: after.confirmed == before.log,
        "all of the log",
        when=_in("sure"),
        possible="when the journal is flushed",
    ),
    Frame(
        "OpenStore",
        {"phase": "opening"},
        when=lambda state, _: _may_open(state, opens=True),
        possible="if the log is one commit ahead of the journal, or as far, and that is whole",
    ),
    Frame(
        "SettleStore",
        {"phase": "flushed", "kept": None},
        lambda before, after, _: after.kept == before.log,
        "all of the log",
        when=_in("opening"),
        possible="when it is opened",
    ),
    Frame(
        "RefuseStore",
        {"phase": "refused"},
        when=lambda state, _: _may_open(state, opens=False),
        possible="for any other log and journal",
    ),
)
"""What each action changes."""


# What follows.


def _with(name: str, **more: int) -> Clause[State, Parameters]:
    """An invariant of the model where these numbers are larger by so much."""

    def holds(state: State, parameters: Parameters) -> bool:
        changed = {field: getattr(state, field) + by for field, by in more.items()}
        return SYSTEM.invariants[name](state._replace(**changed), parameters)

    return holds


def _is_told_last(before: State, after: State, _parameters: Parameters, *, more: int) -> bool:
    """All of the log is flushed, and so is the journal, which knows of it."""
    return after.confirmed == before.kept == last(before.slots_kept) + more


def _has_one_more(state: State, _parameters: Parameters, *, more: int) -> bool:
    return not is_up(state) or state.log <= last(state.slots) + more


def _has_told_all(state: State, parameters: Parameters, *, more: int) -> bool:
    """Where it can do nothing more, nothing waits, and all that the journal knows was confirmed, and is flushed."""
    if SYSTEM.can_move(state, parameters):
        return True
    if not is_idle(state):
        return state.phase == "stopped" or state.phase == "refused"
    return not state.waits and state.confirmed == last(state.slots_kept) == state.kept + more


# Progress.


_STEPS = tuple(action.name for action in SYSTEM.actions if action.name not in ("Done", "StopStore"))
"""Faults, losses and submissions, too, which come so often at most; ``Done`` stands for the end of a run."""


def _chances(state: State, parameters: Parameters) -> int:
    return parameters.faults - state.faults + parameters.losses - state.losses


def _left(state: State, parameters: Parameters) -> int:
    """Steps that are left if nothing fails, and nothing is taken away."""
    done = state.confirmed if is_idle(state) else state.log
    behind = {"sure": 1, "noted": 2, "flushed": 3, "written": 4, "opening": 4, "down": 5}
    steps = sum(number * (state.phase == phase) for phase, number in behind.items())
    return 6 * (parameters.commits - done) + 1 * (not state.waits) + steps


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "All counts are in their ranges, and what waits is no commit too many.",
            lambda state, _: state._replace(kept=state.log + 1),
            "after the step one commit more is flushed than there are",
        ),
        _CHAPTER.kept(
            "phase",
            "Phase",
            "While a commit is made, log and journal are as far as its phase says; between two commits the log may "
            "have one more, whose flush failed.",
            lambda state, _: state._replace(phase="sure", kept=state.log - 1),
            "after the step the journal is flushed, and the log is not",
            about="TypeOK",
        ),
        _CHAPTER.kept(
            "in-turn",
            "InTurn",
            "The journal's newest record stands in its own slot, and the other one has the record before it, or is "
            "damaged.",
            lambda state, _: state._replace(slots=Slots(state.log + 2, state.log)),
            "after the step a record is left out",
            about="Noted",
        ),
        _CHAPTER.kept(
            "one-unflushed",
            "OneUnflushed",
            "A power failure may take one record of the journal at most, and while it may, no commit is behind that.",
            lambda state, _: state._replace(slots=Slots(last(state.slots_kept) + 2, 0)),
            "after the step it is two ahead",
            about="NoteCommit",
        ),
        _CHAPTER.kept(
            "confirmed",
            "Confirmed",
            "The journal knows of what was confirmed, also after a power failure; if one record of it is damaged, that "
            "one may have known it.",
            lambda state, _: state._replace(confirmed=last(state.slots) + 2),
            "after the step two more are confirmed",
            about="LossNoticed",
        ),
        _CHAPTER.kept(
            "unharmed",
            "Unharmed",
            "If nobody has taken anything away, the store opens, and the journal knows of nothing that is not flushed.",
            lambda state, _: state._replace(losses=0, kept=last(state.slots) - 1),
            "after the step it knows of one commit that is not",
            about="NeverRefused",
        ),
        _CHAPTER.theorem(
            "durable",
            "Durable",
            "If nobody takes anything away, what was confirmed survives kills, power failures, flushes that fail and "
            "full disks, in any number and order.",
            follows("in every state", SYSTEM.invariants["Durable"], _with("Durable", confirmed=1), "one commit more"),
        ),
        _CHAPTER.theorem(
            "loss-noticed",
            "LossNoticed",
            "Whatever is cut off the log, or put back there from an older copy, and whatever is damaged in the "
            "journal, as often as it may be: a store that is open has all that was confirmed.",
            follows(
                "in every state", SYSTEM.invariants["LossNoticed"], _with("LossNoticed", confirmed=1), "one commit more"
            ),
        ),
        _CHAPTER.theorem(
            "never-refused",
            "NeverRefused",
            "If nobody takes anything away, the store opens, whatever fails.",
            follows(
                "in every state",
                SYSTEM.invariants["NeverRefused"],
                _with("NeverRefused", losses=-1),
                "also if something was",
            ),
        ),
        _CHAPTER.theorem(
            "refused-is-gone",
            "RefusedIsGone",
            "What was refused on a full disk is not there; of a commit whose flush failed only opening tells.",
            follows("in every state", SYSTEM.invariants["RefusedIsGone"], _with("RefusedIsGone", log=1), "one more"),
        ),
        _CHAPTER.theorem(
            "noted-is-kept",
            "NotedIsKept",
            "If nobody takes anything away, the journal knows of no commit that a power failure may take.",
            follows("in every state", SYSTEM.invariants["NotedIsKept"], _with("NotedIsKept", kept=-1), "one less"),
        ),
        _CHAPTER.theorem(
            "told-last",
            "ConfirmWrites",
            "Somebody is told of a commit only when all of the log is flushed, and the journal that knows of it, too.",
            *SUBJECT.step_obligations(
                ("ConfirmWrites",),
                partial(_is_told_last, more=0),
                partial(_is_told_last, more=1),
                "the journal knows of one less",
            ),
        ),
        _CHAPTER.theorem(
            "at-most-one-more",
            "Opens",
            "A store that is open has at most one commit more than its journal knows: the one that was under way.",
            follows("in every state", partial(_has_one_more, more=1), partial(_has_one_more, more=0), "none"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Next",
            "Faults and losses that may yet come; then 6 for each commit that may, 1 if nothing waits, and the steps "
            "of its phase: each step lowers the first of these two numbers that it changes, but for an exchange that "
            "ends. So until one ends there are finitely many, whatever fails.",
            *comes_to_rest(SUBJECT, _chances, _left, steps=_STEPS, unless=("StopStore",), twin_by=10),
        ),
        _CHAPTER.theorem(
            "all-told",
            "ConfirmWrites",
            "Where the exchange can do nothing more, nothing waits, and all that the journal knows was confirmed, and "
            "survives a power failure; or the journal has failed, or the store is refused.",
            follows("in every state", partial(_has_told_all, more=0), partial(_has_told_all, more=1), "all but one"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
