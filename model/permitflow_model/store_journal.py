"""``StoreJournal.tla``, action for action: an exchange commits to a store on a disk, and a journal counts its commits.

docs/protocols/store.md explains it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Phase = Literal["idle", "failed", "written", "flushed", "noted", "sure", "stopped", "down", "opening", "refused"]

DAMAGED = -1


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    commits: Natural
    """Commits at most."""

    faults: Natural
    """Kills, power failures, and disks that cannot be written or flushed, at most."""

    losses: Natural
    """Times that somebody takes something away that was flushed, at most."""


class Slots(NamedTuple):
    """The journal: in each slot the number of a commit."""

    even: int
    odd: int


class State(NamedTuple):
    """The variables of the specification."""

    phase: Phase
    """What the writer has done of a commit, or what has become of it.

    "failed" is idle, and the log may have a commit whose flush failed.
    """
    waits: bool
    """Does something wait to be written?"""
    log: int
    """Commits in the database and its log, as a program sees them that opens it."""
    kept: int
    """... that a power failure leaves."""
    slots: Slots
    """Of the journal, as programs see it."""
    slots_kept: Slots
    """... that was flushed."""
    confirmed: int
    """The newest commit of which somebody was told."""
    faults: int
    losses: int


def initial(_parameters: Parameters) -> State:
    """A new store."""
    return State(
        phase="idle",
        waits=False,
        log=0,
        kept=0,
        slots=Slots(0, 0),
        slots_kept=Slots(0, 0),
        confirmed=0,
        faults=0,
        losses=0,
    )


def noted(pair: Slots, number: int) -> Slots:
    """The journal with one record more: slots are written in turn."""
    return pair._replace(even=number) if number % 2 == 0 else pair._replace(odd=number)


def last(pair: Slots) -> int:
    """The newest record that can be read."""
    return pair.even if pair.even > pair.odd else pair.odd


def is_whole(pair: Slots) -> bool:
    """Is the other record what was written before it?"""
    if pair.even == DAMAGED or pair.odd == DAMAGED:
        return False
    return -1 <= pair.even - pair.odd <= 1


def opens(state: State) -> bool:
    """Are all commits there that may have been confirmed?"""
    newest = last(state.slots)
    if newest == DAMAGED:
        return False
    return state.log == newest + 1 or (state.log == newest and is_whole(state.slots))


def is_up(state: State) -> bool:
    """Is there a writer?"""
    return state.phase != "down" and state.phase != "refused"


def is_idle(state: State) -> bool:
    """Does the writer wait for something to write?"""
    return state.phase == "idle" or state.phase == "failed"


def _with_a_fault(state: State, parameters: Parameters) -> State:
    require(state.faults < parameters.faults)
    return state._replace(faults=state.faults + 1)


def _with_a_loss(state: State, parameters: Parameters) -> State:
    require(state.losses < parameters.losses)
    return state._replace(losses=state.losses + 1)


# Environment.


def submit(state: State, parameters: Parameters) -> State:
    """A write waits; the next commit has it."""
    require(is_up(state))
    require(state.phase != "stopped")
    require(state.phase != "opening")
    require(not state.waits)
    require(state.log < parameters.commits)
    return state._replace(waits=True)


def fail_flush(state: State, parameters: Parameters) -> State:
    """The disk fails to flush the log.

    The senders are told so, and only opening the store tells whether it has the commit.
    """
    require(state.phase == "written")
    return _with_a_fault(state, parameters)._replace(phase="failed")


def fail_journal(state: State, parameters: Parameters) -> State:
    """The journal cannot be written: nothing is confirmed any more, whatever the database has."""
    require(state.phase == "flushed" or state.phase == "noted")
    return _with_a_fault(state, parameters)._replace(phase="stopped", waits=False)


def stop_store(state: State, _parameters: Parameters) -> State:
    """The exchange ends when nothing waits, or because of the journal.

    A commit whose flush failed is not there any more.
    """
    if state.phase == "stopped":
        return state._replace(phase="down")
    require(is_idle(state))
    require(not state.waits)
    return state._replace(phase="down", log=last(state.slots))


def kill_store(state: State, parameters: Parameters) -> State:
    """Its process is killed: the kernel still has what it has written."""
    require(is_up(state))
    return _with_a_fault(state, parameters)._replace(phase="down", waits=False)


def refuse_writes(state: State, parameters: Parameters, commit: int) -> State:
    """The disk is full: nothing of what waits is there, and perhaps no commit any more whose flush failed before."""
    require(is_idle(state))
    require(state.waits)
    require(last(state.slots) <= commit <= state.log)
    phase: Phase = "idle" if commit == last(state.slots) else state.phase
    return _with_a_fault(state, parameters)._replace(phase=phase, waits=False, log=commit)


def fail_power(state: State, parameters: Parameters, commit: int, slot: int) -> State:
    """The machine dies.

    The log has some of what was not flushed; of a slot, 0: the old record, 1: the new one, 2: neither.
    """
    require(state.phase != "refused")
    require(state.kept <= commit <= state.log)
    require(slot == 0 or state.slots != state.slots_kept)
    kept = state.slots_kept
    if slot == 1:
        kept = state.slots
    elif slot == 2:
        is_even = state.slots.even != kept.even
        kept = kept._replace(even=DAMAGED) if is_even else kept._replace(odd=DAMAGED)
    after = _with_a_fault(state, parameters)
    return after._replace(phase="down", waits=False, log=commit, kept=commit, slots=kept, slots_kept=kept)


def lose_log(state: State, parameters: Parameters, commit: int) -> State:
    """Somebody cuts off the log, or puts back an older copy."""
    require(state.phase == "down")
    require(commit < state.log)
    return _with_a_loss(state, parameters)._replace(log=commit, kept=commit)


def damage_journal(state: State, parameters: Parameters) -> State:
    """The newest record of the journal is damaged."""
    require(state.phase == "down")
    require(last(state.slots) != DAMAGED)
    slots = state.slots
    left = slots._replace(even=DAMAGED) if slots.even > slots.odd else slots._replace(odd=DAMAGED)
    return _with_a_loss(state, parameters)._replace(slots=left, slots_kept=left)


def done(state: State, parameters: Parameters) -> State:
    """The store is refused, or all is written."""
    if state.phase != "refused":
        require(is_idle(state))
        require(not state.waits)
        require(state.log == parameters.commits)
    return state


# Protocol.


def write_commit(state: State, _parameters: Parameters) -> State:
    """All that waits is one commit, which counts itself: behind the last one that was flushed."""
    require(is_idle(state))
    require(state.waits)
    return state._replace(phase="written", waits=False, log=last(state.slots) + 1)


def flush_commit(state: State, _parameters: Parameters) -> State:
    """It survives a power failure now."""
    require(state.phase == "written")
    return state._replace(phase="flushed", kept=state.log)


def note_commit(state: State, _parameters: Parameters) -> State:
    """The journal has its number, in the slot that is not the one of the commit before."""
    require(state.phase == "flushed")
    return state._replace(phase="noted", slots=noted(state.slots, state.log))


def flush_note(state: State, _parameters: Parameters) -> State:
    """That survives a power failure, too."""
    require(state.phase == "noted")
    return state._replace(phase="sure", slots_kept=state.slots)


def confirm_writes(state: State, _parameters: Parameters) -> State:
    """Its senders are told, or those who ask what is there."""
    require(state.phase == "sure")
    return state._replace(phase="idle", confirmed=state.log)


def open_store(state: State, _parameters: Parameters) -> State:
    """The store is opened again: all that was confirmed is there."""
    require(state.phase == "down")
    require(opens(state))
    return state._replace(phase="opening")


def settle_store(state: State, _parameters: Parameters) -> State:
    """What is there is written once more and flushed before anybody hears of it: the kernel alone may have it."""
    require(state.phase == "opening")
    return state._replace(phase="flushed", kept=state.log)


def refuse_store(state: State, _parameters: Parameters) -> State:
    """Something may be missing."""
    require(state.phase == "down")
    require(not opens(state))
    return state._replace(phase="refused")


# Invariants.


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.log <= parameters.commits
        and 0 <= state.confirmed <= parameters.commits
        and 0 <= state.kept <= state.log
        and all(DAMAGED <= slot <= parameters.commits for slot in (*state.slots, *state.slots_kept))
        and state.faults >= 0
        and state.losses >= 0
    )


def durable(state: State, _parameters: Parameters) -> bool:
    """What was confirmed survives a power failure, if nobody takes it away."""
    return state.losses > 0 or state.confirmed <= state.kept


def loss_noticed(state: State, _parameters: Parameters) -> bool:
    """A store that is open has all that was confirmed, also if somebody took something away."""
    return not is_up(state) or state.confirmed <= state.log


def never_refused(state: State, _parameters: Parameters) -> bool:
    """If nobody takes anything away, the store opens."""
    return state.losses > 0 or state.phase != "refused"


def refused_is_gone(state: State, _parameters: Parameters) -> bool:
    """What was refused is not there, but for a commit whose flush failed, or its note: only opening tells."""
    return state.phase != "idle" or state.log == last(state.slots)


def noted_is_kept(state: State, _parameters: Parameters) -> bool:
    """The journal knows of no commit that a power failure may take."""
    return state.losses > 0 or last(state.slots) <= state.kept


def _failures(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return product(range(parameters.commits + 1), range(3))


def _commits(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((commit,) for commit in range(parameters.commits + 1))


SYSTEM: System[State, Parameters] = System(
    module="StoreJournal",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("Submit", submit, is_environment=True),
        Action("FailFlush", fail_flush, is_environment=True),
        Action("FailJournal", fail_journal, is_environment=True),
        Action("StopStore", stop_store, is_environment=True),
        Action("KillStore", kill_store, is_environment=True),
        Action("DamageJournal", damage_journal, is_environment=True),
        Action("RefuseWrites", refuse_writes, _commits, is_environment=True),
        Action("LoseLog", lose_log, _commits, is_environment=True),
        Action("FailPower", fail_power, _failures, is_environment=True),
        Action("WriteCommit", write_commit),
        Action("FlushCommit", flush_commit),
        Action("NoteCommit", note_commit),
        Action("FlushNote", flush_note),
        Action("ConfirmWrites", confirm_writes),
        Action("OpenStore", open_store),
        Action("SettleStore", settle_store),
        Action("RefuseStore", refuse_store),
    ),
    invariants={
        "TypeOK": type_ok,
        "Durable": durable,
        "LossNoticed": loss_noticed,
        "NeverRefused": never_refused,
        "RefusedIsGone": refused_is_gone,
        "NotedIsKept": noted_is_kept,
    },
    probes={
        "NothingMoreProbe": lambda state, _: state.phase != "opening" or state.log == state.confirmed,
        "LostLogProbe": lambda state, _: state.phase != "refused" or state.log < state.confirmed,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.store_journal:theorems")
