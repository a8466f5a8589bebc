"""``DirectTask.tla``, action for action: attempts at a task whose rows are delivered as they come.

docs/protocols/direct-task.md explains it.  Attempts are numbered from 0; ``current`` counts from 1, as in the
specification, where 0 is none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

from permitflow_model.kernel.family import NamedFamily, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Phase = Literal["new", "run", "open", "ended", "over"]
Verdict = Literal["none", "whole", "broken"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    attempts: Positive
    """At the task, at most."""

    rows: Positive
    """Rows that each of them has."""

    restarts: Natural = 0
    """Of the exchange, at most; its channel keeps the rows."""


class Attempt(NamedTuple):
    """An attempt at the task."""

    phase: Phase
    is_lost: bool
    """... and the exchange does not know yet."""
    way: int
    """Rows of it that are on their way."""
    taken: int
    """Rows of it that this exchange has taken."""


class State(NamedTuple):
    """The variables of the specification."""

    current: int
    """The attempt whose rows are taken, as far as the exchange knows."""
    found: int
    """Rows of the task that were in the channel when the exchange was started."""
    verdict: Verdict
    """What the readers hear in the end."""
    restarts: int
    attempts: NamedFamily[Attempt]


NEW = Attempt("new", is_lost=False, way=0, taken=0)


def initial(parameters: Parameters) -> State:
    """The task was not run."""
    attempts = cast("NamedFamily[Attempt]", family(NEW, parameters.attempts))
    return State(current=0, found=0, verdict="none", restarts=0, attempts=attempts)


def _with(state: State, name: int, one: Attempt) -> State:
    return state._replace(attempts=state.attempts.put(name, one))


def _ends(state: State, name: int, phase: Phase) -> State:
    one = state.attempts.get(name)
    return _with(state, name, one._replace(phase=phase, is_lost=False, way=0))


def has_begun(state: State, name: int) -> bool:
    """Was the attempt of this name run, if there is one?"""
    return name < 0 or state.attempts.get(name).phase != "new"


def may_begin(state: State, name: int) -> bool:
    """Does the exchange let this attempt send?

    It lets a later one take the place of one of which no row was taken.  One that is not the first may begin only if no
    rows were in the channel when the exchange was started: they may be of an attempt of which it does not know.
    """
    if name != 0 and state.found != 0:
        return False
    if state.current == 0:
        return True
    return state.current - 1 < name and state.attempts.get(state.current - 1).taken == 0


# The scheduler, and what happens to attempts.


def run_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """The task is run, perhaps while an earlier attempt still runs."""
    require(state.verdict == "none")
    require(state.attempts.get(name).phase == "new")
    require(has_begun(state, name - 1))
    return _with(state, name, NEW._replace(phase="run"))


def lose_sending(state: State, _parameters: Parameters, name: int) -> State:
    """It fails or is lost, and the exchange does not know yet: what is on its way may still come."""
    one = state.attempts.get(name)
    require(one.phase == "run" or one.phase == "open")
    require(not one.is_lost)
    return _with(state, name, one._replace(is_lost=True))


def forgotten(one: Attempt) -> Attempt:
    """What is left of it for an exchange that was started again: nothing; its process may not have called before."""
    if one.phase == "open":
        return NEW._replace(phase="over")
    return one._replace(taken=0)


def taken_of(one: Attempt) -> int:
    """The rows of it that were taken."""
    return one.taken


def forget_attempts(state: State, parameters: Parameters) -> State:
    """The exchange is started again: its channel has the rows, and it knows no attempt."""
    require(state.verdict == "none")
    require(state.restarts < parameters.restarts)
    return state._replace(
        current=0,
        found=state.found + state.attempts.sum_of(taken_of),
        restarts=state.restarts + 1,
        attempts=cast("NamedFamily[Attempt]", state.attempts.map(forgotten)),
    )


def stopped(one: Attempt) -> Attempt:
    """What is left of it when its job has failed: of one that has sent nothing, nothing is taken any more."""
    if one.phase == "open" and one.taken == 0:
        return one._replace(phase="over", is_lost=False, way=0)
    return one


def give_up_job(state: State, _parameters: Parameters) -> State:
    """The scheduler lets the job fail: the channel breaks if it has rows of it."""
    require(state.verdict == "none")
    attempts = cast("NamedFamily[Attempt]", state.attempts.map(stopped))
    return state._replace(verdict="broken", attempts=attempts)


# The protocol.


def begin_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """It begins to send; from this moment on nothing is taken of the one whose place it takes."""
    require(state.verdict == "none")
    one = state.attempts.get(name)
    require(one.phase == "run")
    require(may_begin(state, name))
    fenced = state if state.current == 0 else _fenced(state, state.current - 1)
    return _with(fenced, name, one._replace(phase="open"))._replace(current=name + 1)


def _fenced(state: State, name: int) -> State:
    return _ends(state, name, "over") if state.attempts.get(name).phase == "open" else state


def refuse_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """The exchange refuses it."""
    require(state.verdict == "none")
    require(state.attempts.get(name).phase == "run")
    require(not may_begin(state, name))
    return _ends(state, name, "over")


def send_directly(state: State, parameters: Parameters, name: int) -> State:
    """A row of it leaves."""
    one = state.attempts.get(name)
    require(one.phase == "open")
    require(not one.is_lost)
    require(one.way + one.taken < parameters.rows)
    return _with(state, name, one._replace(way=one.way + 1))


def take_directly(state: State, _parameters: Parameters, name: int) -> State:
    """The exchange takes a row that has come, and a reader may have it at once."""
    require(state.verdict == "none")
    one = state.attempts.get(name)
    require(one.phase == "open")
    require(one.way > 0)
    return _with(state, name, one._replace(way=one.way - 1, taken=one.taken + 1))


def end_sending(state: State, parameters: Parameters, name: int) -> State:
    """All of its rows were taken, and it hears of it."""
    one = state.attempts.get(name)
    require(one.phase == "open")
    require(not one.is_lost)
    require(one.taken == parameters.rows)
    return _ends(state, name, "ended")


def notice_sending(state: State, _parameters: Parameters, name: int) -> State:
    """The exchange learns that it is lost."""
    require(state.attempts.get(name).is_lost)
    return _ends(state, name, "over")


def commit_job(state: State, parameters: Parameters, name: int) -> State:
    """The scheduler counts this attempt: if the exchange has taken other rows, or may have, the channel breaks."""
    require(state.verdict == "none")
    require(state.attempts.get(name).phase == "ended")
    is_whole = state.found == 0 and state.attempts.sum_of(taken_of) == parameters.rows and state.attempts.every(is_done)
    return state._replace(verdict="whole" if is_whole else "broken")


def is_done(one: Attempt) -> bool:
    """Does it send no more?"""
    return one.phase != "open"


def done(state: State, _parameters: Parameters) -> State:
    """The job has ended."""
    require(state.verdict != "none")
    return state


# Invariants.


def attempt_ok(one: Attempt, rows: int) -> bool:
    """Of one attempt: are its numbers in their ranges?"""
    return min(one.way, one.taken) >= 0 and one.way + one.taken <= rows and (one.way == 0 or one.phase == "open")


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    counts = min(state.found, state.restarts) >= 0 and 0 <= state.current <= parameters.attempts
    return counts and state.attempts.every(attempt_ok, parameters.rows)


def is_only(name: int, one: Attempt, current: int) -> bool:
    """Of one attempt: were no rows of it taken, if it is not the current one?"""
    return one.taken == 0 or current == name + 1


def one_attempt(state: State, _parameters: Parameters) -> bool:
    """Rows of one attempt at most were taken."""
    return state.attempts.every_by_name(is_only, state.current)


def comes_first(name: int, one: Attempt, found: int) -> bool:
    """Of one attempt: were no rows of it taken behind some that may be of an earlier one?"""
    return one.taken == 0 or name == 0 or found == 0


def none_twice(state: State, _parameters: Parameters) -> bool:
    """Rows of an attempt that is not the first are taken only if none of an earlier one are in the channel."""
    return state.attempts.every_by_name(comes_first, state.found)


def whole_once(state: State, parameters: Parameters) -> bool:
    """Readers that come to a clean end have each row of the task once."""
    is_once = state.found == 0 and state.attempts.sum_of(taken_of) == parameters.rows
    return state.verdict != "whole" or is_once


# Probes.


def is_first(name: int, one: Attempt) -> bool:
    """Of one attempt: were no rows of it taken, if it is not the first?"""
    return name == 0 or one.taken == 0


def second_attempt(state: State, _parameters: Parameters) -> bool:
    """Only rows of the first attempt are taken."""
    return state.attempts.every_by_name(is_first)


def _names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.attempts))


SYSTEM: System[State, Parameters] = System(
    module="DirectTask",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("RunAttempt", run_attempt, _names, is_environment=True),
        Action("LoseSending", lose_sending, _names, is_environment=True),
        Action("ForgetAttempts", forget_attempts, is_environment=True),
        Action("GiveUpJob", give_up_job, is_environment=True),
        Action("BeginAttempt", begin_attempt, _names),
        Action("RefuseAttempt", refuse_attempt, _names),
        Action("SendDirectly", send_directly, _names),
        Action("TakeDirectly", take_directly, _names),
        Action("EndSending", end_sending, _names),
        Action("NoticeSending", notice_sending, _names),
        Action("CommitJob", commit_job, _names),
    ),
    invariants={
        "TypeOK": type_ok,
        "OneAttempt": one_attempt,
        "NoneTwice": none_twice,
        "WholeOnce": whole_once,
    },
    probes={"SecondAttemptProbe": second_attempt},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.direct_task:theorems")
