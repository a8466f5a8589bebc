"""A task whose rows are delivered as they come: any number of attempts, rows and restarts; each row is read once.

Attempts are looked at by symbolic names: one that acts, the current one, and any one, or the same.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.direct_task import (
    SYSTEM,
    Attempt,
    Parameters,
    State,
    attempt_ok,
    comes_first,
    is_done,
    is_only,
    taken_of,
    whole_once,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import compared
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.symbols import all_of, assume, equal, function, limit, merged
from permitflow_proofs.kernel.theorem import Theorem

_ACTING, _ANY = _NAMES = tuple(function("name")(number) for number in range(2))
"""The attempt that acts, and any one, of which a clause is shown."""


def _ranges(state: State, parameters: Parameters) -> bool:
    return state.found >= 0 and state.restarts >= 0 and 0 <= state.current <= parameters.attempts


def _type_ok(state: State, parameters: Parameters, name: int) -> bool:
    return _ranges(state, parameters) and attempt_ok(state.attempts.get(name), parameters.rows)


def _one_attempt(state: State, _parameters: Parameters, name: int) -> bool:
    return is_only(name, state.attempts.get(name), state.current)


def _none_twice(state: State, _parameters: Parameters, name: int) -> bool:
    return comes_first(name, state.attempts.get(name), state.found)


def _sends_alone(state: State, _parameters: Parameters, name: int) -> bool:
    """Does it send only while it is the current one, and no rows of an earlier one may be in the channel?"""
    if state.attempts.get(name).phase != "open":
        return True
    return state.current == name + 1 and (name == 0 or state.found == 0)


def _whole_once(state: State, parameters: Parameters, _name: int) -> bool:
    return whole_once(state, parameters)


_CLAUSES: dict[str, Callable[[State, Parameters, int], bool]] = {
    "TypeOK": _type_ok,
    "OneAttempt": _one_attempt,
    "NoneTwice": _none_twice,
    "SendsAlone": _sends_alone,
    "WholeOnce": _whole_once,
}
"""What every reachable state satisfies, of each attempt; proved by induction."""


def _of_any(clause: Callable[[State, Parameters, int], bool]) -> Clause[State, Parameters]:
    return lambda state, parameters: merged(partial(clause, state, parameters, _ANY))


INVARIANT: dict[str, Clause[State, Parameters]] = {name: _of_any(clause) for name, clause in _CLAUSES.items()}


def _has_taken(one: Attempt) -> bool:
    return one.taken >= 0


def _any_state(parameters: Parameters) -> State:
    """Any state of any number of attempts that satisfies the invariant."""
    for name in _NAMES:
        assume(all_of((name >= 0, name < parameters.attempts)))
    attempts = Indexed.any_family(member_by_name(Attempt, "attempt."), parameters.attempts, *_NAMES)
    state = arbitrary(State, special={"attempts": attempts})
    assume(merged(partial(_ranges, state, parameters)))
    attempts.know(state.current - 1)
    for clause in _CLAUSES.values():
        attempts.assume_every(partial(clause, state, parameters))
    limit(compared(attempts.every(_has_taken), 0, attempts.sum_of(taken_of)))
    return state


_BY_NAME = ("RunAttempt", "LoseSending", "BeginAttempt", "RefuseAttempt", "SendDirectly", "TakeDirectly")
_ARGUMENTS: dict[str, Callable[[Parameters], tuple[int, ...]]] = dict.fromkeys(
    (*_BY_NAME, "EndSending", "NoticeSending", "CommitJob"), lambda _: (_ACTING,)
)

SUBJECT = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_state, _ARGUMENTS)
"""Any number of attempts, rows and restarts."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "direct-task-", promises=frozenset({"whole-once", "fenced"}))


# Frames: in focus is the attempt that acts.


def _any_attempts(parameters: Parameters) -> State:
    assume(all_of((_ACTING >= 0, parameters.attempts > _ACTING)))
    attempt = member_by_name(Attempt, "attempt.")
    attempts = Indexed.any_family(attempt, parameters.attempts, focus={"0": _ACTING})
    state = arbitrary(State, special={"attempts": attempts})
    assume(all_of((state.current >= 0, state.current <= parameters.attempts)))
    return state


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_attempts, _ARGUMENTS)
"""Any number of attempts in any state at all, of which the current one is one."""


def _one(state: State) -> Attempt:
    return state.attempts.get(_ACTING)


def _may_run(state: State, _parameters: Parameters, name: int) -> bool:
    is_next = name == 0 or state.attempts.get(name - 1).phase != "new"
    return state.verdict == "none" and _one(state).phase == "new" and is_next


def _may_lose(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return (one.phase == "run" or one.phase == "open") and not one.is_lost


def _may_send_first(state: State, name: int) -> bool:
    if state.current > 0 and (state.current > name or state.attempts.get(state.current - 1).taken != 0):
        return False
    return name == 0 or state.found == 0


def _calls(state: State, _parameters: Parameters, name: int, *, is_let: bool) -> bool:
    return state.verdict == "none" and _one(state).phase == "run" and _may_send_first(state, name) == is_let


def _may_send(state: State, parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return one.phase == "open" and not one.is_lost and one.way + one.taken < parameters.rows


def _may_take(state: State, _parameters: Parameters, _name: int) -> bool:
    return state.verdict == "none" and _one(state).phase == "open" and _one(state).way > 0


def _may_end(state: State, parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return one.phase == "open" and not one.is_lost and one.taken == parameters.rows


def _may_commit(state: State, _parameters: Parameters, _name: int) -> bool:
    return state.verdict == "none" and _one(state).phase == "ended"


def _is_as_before(one: Attempt, old: Attempt) -> bool:
    return one.phase == old.phase and one.is_lost == old.is_lost and one.way == old.way


def _is_over(one: Attempt) -> bool:
    return one.phase == "over" and not one.is_lost and one.way == 0


def _is_forgotten(one: Attempt, old: Attempt) -> bool:
    return one.taken == 0 and (_is_over(one) if old.phase == "open" else _is_as_before(one, old))


def _is_stopped(one: Attempt, old: Attempt) -> bool:
    return _is_over(one) if old.phase == "open" and old.taken == 0 else _is_as_before(one, old)


def _of_both(holds: Callable[[Attempt, Attempt], bool], before: State, after: State) -> bool:
    """Does it hold for the one in focus, and for any other one?"""
    others = after.attempts.focus["others"]  # type: ignore[attr-defined]
    return all(holds(after.attempts.get(name), before.attempts.get(name)) for name in (_ACTING, others))


def _forgets(before: State, after: State, _parameters: Parameters) -> bool:
    is_found = after.found == before.found + before.attempts.sum_of(taken_of)
    return after.current == 0 and is_found and _of_both(_is_forgotten, before, after)


def _stops(before: State, after: State, _parameters: Parameters) -> bool:
    return _of_both(_is_stopped, before, after)


def _begins(before: State, after: State, _parameters: Parameters) -> bool:
    name = after.attempts.focus["others"]  # type: ignore[attr-defined]
    one, old = after.attempts.get(name), before.attempts.get(name)
    is_fenced = before.current > 0 and before.current == name + 1 and old.phase == "open"
    return after.current == _ACTING + 1 and (_is_over(one) if is_fenced else _is_as_before(one, old))


def _starts(_before: State, after: State, _parameters: Parameters) -> bool:
    return _one(after).way == 0 and _one(after).taken == 0


def _has_nothing_on_its_way(_before: State, after: State, _parameters: Parameters) -> bool:
    return _one(after).way == 0


def _judges(before: State, after: State, parameters: Parameters) -> bool:
    is_once = before.found == 0 and before.attempts.sum_of(taken_of) == parameters.rows
    return after.verdict == ("whole" if is_once and before.attempts.every(is_done) else "broken")


def _of(which: str, *fields: str) -> dict[str, Change]:
    return dict.fromkeys(f"attempts.{which}.{field}" for field in fields)


_SENDING = ("phase", "is_lost", "way")
_OVER: dict[str, Change] = {"attempts.0.phase": "over", "attempts.0.is_lost": False, "attempts.0.way": None}
_NOTHING = "nothing of it is on its way"

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Done", when=lambda state, _: state.verdict != "none", possible="once the job has ended"),
    Frame(
        "RunAttempt",
        {"attempts.0.phase": "run", "attempts.0.is_lost": False, **_of("0", "way", "taken")},
        _starts,
        "nothing of it is on its way, or was taken",
        when=_may_run,
        possible="once, behind the one before it, until the job ends",
    ),
    Frame(
        "LoseSending",
        {"attempts.0.is_lost": True},
        when=_may_lose,
        possible="while it runs or sends, once",
    ),
    Frame(
        "ForgetAttempts",
        {
            **{"current": None, "found": None, "restarts": +1},
            **_of("0", *_SENDING, "taken"),
            **_of("others", *_SENDING, "taken"),
        },
        _forgets,
        "all that was taken is found, and nobody is current; each that sends is over, and what was taken of one is "
        "forgotten",
        when=lambda state, parameters: state.verdict == "none" and state.restarts < parameters.restarts,
        possible="until the job ends, up to Restarts",
    ),
    Frame(
        "GiveUpJob",
        {"verdict": "broken", **_of("0", *_SENDING), **_of("others", *_SENDING)},
        _stops,
        "each that sends, and of which nothing was taken, is over",
        when=lambda state, _: state.verdict == "none",
        possible="until the job ends",
    ),
    Frame(
        "BeginAttempt",
        {"current": None, "attempts.0.phase": "open", **_of("others", *_SENDING)},
        _begins,
        "it is current; the one that was, if it sends, is over",
        when=partial(_calls, is_let=True),
        possible="while it runs: no row of an earlier one was taken, or found if it is not the first, and no later one "
        "is current",
    ),
    Frame(
        "RefuseAttempt",
        _OVER,
        _has_nothing_on_its_way,
        _NOTHING,
        when=partial(_calls, is_let=False),
        possible="while it runs, and may not begin",
    ),
    Frame(
        "SendDirectly",
        {"attempts.0.way": +1},
        when=_may_send,
        possible="while it sends and is not lost, up to Rows",
    ),
    Frame(
        "TakeDirectly",
        {"attempts.0.way": -1, "attempts.0.taken": +1},
        when=_may_take,
        possible="while it sends, and has rows on their way, until the job ends",
    ),
    Frame(
        "EndSending",
        {"attempts.0.phase": "ended", **_of("0", "way")},
        _has_nothing_on_its_way,
        _NOTHING,
        when=_may_end,
        possible="while it sends and is not lost, once all its rows were taken",
    ),
    Frame(
        "NoticeSending",
        _OVER,
        _has_nothing_on_its_way,
        _NOTHING,
        when=lambda state, _parameters, _name: _one(state).is_lost,
        possible="for one that is lost",
    ),
    Frame(
        "CommitJob",
        {"verdict": None},
        _judges,
        "whole if nothing was found, Rows were taken, and nobody sends; else broken",
        when=_may_commit,
        possible="for one that has ended, until the job ends",
    ),
)
"""What each action changes."""


def _with(state: State, **changed: object) -> State:
    """Any attempt is another one."""
    one = state.attempts.get(_ANY)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(attempts=state.attempts.put(_ANY, one))


def _is_current(before: State, _after: State, _parameters: Parameters, *, later: int = 0) -> bool:
    return equal(before.current, _ACTING + 1 + later)


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No attempt has more rows on their way and taken than the task has, and only one that sends has some on "
            "their way.",
            lambda state, parameters: _with(state, taken=parameters.rows + 1),
            "after the step one more was taken",
        ),
        _CHAPTER.kept(
            "one-attempt",
            "OneAttempt",
            "Rows of one attempt at most were taken, however many were run.",
            lambda state, _: _with(state, taken=1)._replace(current=0),
            "after the step some of another one were, too",
        ),
        _CHAPTER.kept(
            "none-twice",
            "NoneTwice",
            "Rows of an attempt that is not the first are taken only if none of an earlier one are in the channel, "
            "also where the exchange was started again and knows no attempt.",
            lambda state, _: _with(state._replace(found=1), taken=1),
            "after the step a row was found",
        ),
        _CHAPTER.kept(
            "sends-alone",
            "SendsAlone",
            "Only the current attempt sends; and one that is not the first sends only if no rows were found.",
            lambda state, _: _with(state, phase="open")._replace(current=0),
            "after the step one sends that is not current",
            about="MayBegin",
        ),
        _CHAPTER.theorem(
            "fenced",
            "TakeDirectly",
            "Rows are taken of the current attempt only: of one whose place another one has taken, nothing is taken "
            "any more, though rows of it may be on their way.",
            *SUBJECT.step_obligations(
                ["TakeDirectly"], _is_current, partial(_is_current, later=1), "the attempt behind it is current"
            ),
        ),
        _CHAPTER.kept(
            "whole-once",
            "WholeOnce",
            "Readers that come to a clean end have as many rows as the task has, and, since all are of one attempt, "
            "each of them once; whatever is lost, run again, or started again.",
            lambda state, _: state._replace(verdict="whole", found=1),
            "after the step a row was found",
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
