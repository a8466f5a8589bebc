"""Staging: any number of tasks, attempts, batches, exchanges and faults.

Tasks, attempts and exchanges are looked at by symbolic names: those that act, any ones of which a clause is shown, and
those that are named by them: the task of an attempt, the attempts that are named of a task, the exchange where it lies.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, cast

from permitflow_model.kernel.family import NamedFamily
from permitflow_model.staging import (
    SYSTEM,
    Attempt,
    Parameters,
    State,
    Task,
    attempt_ok,
    is_given_back,
    is_in_order,
    task_ok,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name, own
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, equal, function, implies, merged, negated
from permitflow_proofs.kernel.theorem import Theorem

_name = function("name")
_TASK, _ATTEMPT, _EXCHANGE = (_name(number) for number in range(3))
"""Of what acts."""
_T, _U, _A, _B, _E, _F = (_name(number) for number in range(3, 9))
"""Any two tasks, attempts and exchanges, of which a clause is shown."""


def _is_in(one: Attempt | State, *phases: str) -> bool:
    return any_of([one.phase == phase for phase in phases])


def _at(state: State, number: int) -> Attempt:
    """The attempt of this number, from 1."""
    return state.attempts.get(number - 1)


def _home(state: State, one: Attempt) -> int:
    """What the exchange has published at which its task lies."""
    return _published(state, state.tasks.get(one.task - 1))


def _published(state: State, task: Task) -> int:
    return state.published.get(task.home - 1)


# Of all.


def _counts(state: State, parameters: Parameters) -> bool:
    return all_of(
        (
            state.run >= 1,
            state.batch >= 1,
            state.faults >= 0,
            state.begun >= 0,
            state.begun <= parameters.attempts,
            state.late >= 0,
            state.late <= state.batch,
        )
    )


def _decision(state: State, parameters: Parameters) -> bool:
    """A decision is about the batch that is run now, and only where there are several exchanges."""
    is_there = negated(equal(state.decided, 0))
    return all_of(
        (
            implies(is_there, all_of((equal(state.decided, state.batch), parameters.exchanges > 1))),
            implies(_is_in(state, "running"), equal(state.decided, 0)),
            implies(_is_in(state, "recovering"), is_there),
        )
    )


# Of a task.


def _named_is_of(state: State, number: int, name: int, batch: int) -> bool:
    """The attempt of this number is one at this task and batch."""
    one = _at(state, number)
    return all_of((number >= 1, number <= state.begun, equal(one.task, name + 1), equal(one.batch, batch)))


def _task_ok(state: State, parameters: Parameters, name: int) -> bool:
    return merged(partial(task_ok, state.tasks.get(name), parameters.exchanges, state.begun))


def _chosen(state: State, parameters: Parameters, name: int) -> bool:
    """What the driver names is an attempt of its own that has ended, and is there or was displaced."""
    task = state.tasks.get(name)
    one, is_named = _at(state, task.chosen), negated(equal(task.chosen, 0))
    is_there = any_of((_is_in(one, "ended", "prepared"), all_of((parameters.expires, _is_in(one, "forgotten")))))
    is_own = all_of(
        (
            _named_is_of(state, task.chosen, name, state.batch),
            equal(one.run, state.run),
            _is_in(one, "ended", "prepared", "published", "late", "forgotten"),
            any_of((is_there, _published(state, task) >= state.batch)),
        )
    )
    return all_of(
        (
            implies(all_of((_is_in(state, "running", "publishing"), is_named)), is_own),
            implies(_is_in(state, "publishing"), is_named),
            implies(_is_in(state, "recovering"), negated(is_named)),
            implies(
                all_of((_is_in(state, "publishing"), negated(equal(state.decided, 0)))),
                equal(task.chosen, task.decided),
            ),
        )
    )


def _late(state: State, parameters: Parameters, name: int) -> bool:
    """A late order names attempts at its batch; where there are several exchanges, those that were decided."""
    task, is_there = state.tasks.get(name), negated(equal(state.late, 0))
    return implies(is_there, _named_is_of(state, task.late, name, state.late))


# Of a task, or an attempt, and an exchange.


def _decided(state: State, parameters: Parameters, name: int, exchange: int) -> bool:
    """What a decision names is prepared until it is published, as long as an exchange has not published the batch."""
    task, is_there = state.tasks.get(name), negated(equal(state.decided, 0))
    one, is_behind = _at(state, task.decided), state.published.get(exchange) < state.decided
    is_published = _published(state, task) >= state.decided
    return all_of(
        (
            implies(is_there, _named_is_of(state, task.decided, name, state.decided)),
            implies(equal(state.decided, 0), equal(task.decided, 0)),
            implies(all_of((is_there, is_behind, is_published)), _is_in(one, "published")),
            implies(all_of((is_there, is_behind, negated(is_published))), _is_in(one, "prepared")),
        )
    )


def _late_is_decided(state: State, parameters: Parameters, name: int, exchange: int) -> bool:
    """Of several exchanges one that a late order may still reach has not published what was decided."""
    is_behind = all_of((state.late > state.published.get(exchange), parameters.exchanges > 1))
    task = state.tasks.get(name)
    return implies(is_behind, all_of((equal(state.decided, state.late), equal(task.late, task.decided))))


def _published_is_decided(state: State, _parameters: Parameters, name: int, exchange: int) -> bool:
    """What is published of a batch that some exchange has not published was decided."""
    one = state.attempts.get(name)
    is_behind = all_of((negated(equal(state.decided, 0)), state.published.get(exchange) < state.decided))
    is_of_it = all_of((_is_in(one, "published"), equal(one.batch, state.decided)))
    return implies(all_of((is_behind, is_of_it)), equal(state.tasks.get(one.task - 1).decided, name + 1))


# Of two tasks, attempts or exchanges.


def _decided_of_one_run(state: State, _parameters: Parameters, name: int, other: int) -> bool:
    """All that a decision names is of one run."""
    one, another = (_at(state, state.tasks.get(each).decided) for each in (name, other))
    return implies(negated(equal(state.decided, 0)), equal(one.run, another.run))


def _late_of_one_run(state: State, _parameters: Parameters, name: int, other: int) -> bool:
    """All that a late order names is of one run."""
    one, another = (_at(state, state.tasks.get(each).late) for each in (name, other))
    return implies(negated(equal(state.late, 0)), equal(one.run, another.run))


def _published_once(state: State, _parameters: Parameters, name: int, other: int) -> bool:
    one, another = state.attempts.get(name), state.attempts.get(other)
    are_published = all_of((_is_in(one, "published"), _is_in(another, "published")))
    is_same = all_of((equal(one.task, another.task), equal(one.batch, another.batch)))
    return implies(all_of((are_published, is_same)), equal(name, other))


def _published_of_one_run(state: State, _parameters: Parameters, name: int, other: int) -> bool:
    one, another = state.attempts.get(name), state.attempts.get(other)
    are_published = all_of((_is_in(one, "published"), _is_in(another, "published")))
    return implies(all_of((are_published, equal(one.batch, another.batch))), equal(one.run, another.run))


def _even(state: State, _parameters: Parameters, name: int, other: int) -> bool:
    """Where nothing is decided, all exchanges have published the same batches."""
    return implies(equal(state.decided, 0), equal(state.published.get(name), state.published.get(other)))


# Of an attempt.


def _attempt_ok(state: State, parameters: Parameters, name: int) -> bool:
    one = state.attempts.get(name)
    is_ok = merged(partial(attempt_ok, name, one, state.begun, parameters.tasks, state.batch, state.run))
    return implies(name >= 0, is_ok)


def _given_back(state: State, _parameters: Parameters, name: int) -> bool:
    one = state.attempts.get(name)
    return merged(partial(is_given_back, one, state.tasks, state.published))


def _displaced(state: State, _parameters: Parameters, name: int) -> bool:
    """What is published or late is of a batch that was published."""
    one = state.attempts.get(name)
    return implies(_is_in(one, "published", "late"), one.batch <= _home(state, one))


# Of an exchange.


def _in_order(state: State, _parameters: Parameters, name: int) -> bool:
    return merged(partial(is_in_order, state.published.get(name), state.batch))


def _forgotten(state: State, parameters: Parameters, name: int) -> bool:
    """A decision is forgotten when each exchange has published."""
    is_over = all_of((_is_in(state, "publishing"), equal(state.decided, 0), parameters.exchanges > 1))
    return implies(is_over, state.published.get(name) >= state.batch)


_Of = Callable[..., bool]

_OF_TASKS: dict[str, _Of] = {"TaskOK": _task_ok, "Chosen": _chosen, "Late": _late}
_OF_TASKS_AND_EXCHANGES: dict[str, _Of] = {"Decided": _decided, "LateIsDecided": _late_is_decided}
_OF_TWO_TASKS: dict[str, _Of] = {"DecidedOfOneRun": _decided_of_one_run, "LateOfOneRun": _late_of_one_run}
_OF_ATTEMPTS: dict[str, _Of] = {"AttemptOK": _attempt_ok, "GivenBack": _given_back, "Displaced": _displaced}
_OF_ATTEMPTS_AND_EXCHANGES: dict[str, _Of] = {"PublishedIsDecided": _published_is_decided}
_OF_TWO_ATTEMPTS: dict[str, _Of] = {"PublishedOnce": _published_once, "PublishedOfOneRun": _published_of_one_run}
_OF_EXCHANGES: dict[str, _Of] = {"BatchesInOrder": _in_order, "Forgotten": _forgotten}
_OF_TWO_EXCHANGES: dict[str, _Of] = {"Even": _even}


def _of(clause: _Of, *names: int) -> Clause[State, Parameters]:
    return lambda state, parameters: clause(state, parameters, *names)


def _bound(clauses: dict[str, _Of], *names: int) -> Iterator[tuple[str, Clause[State, Parameters]]]:
    return ((name, _of(clause, *names)) for name, clause in clauses.items())


INVARIANT: dict[str, Clause[State, Parameters]] = {
    "TypeOK": _counts,
    "Decision": _decision,
    **dict(_bound(_OF_TASKS, _T)),
    **dict(_bound(_OF_TASKS_AND_EXCHANGES, _T, _E)),
    **dict(_bound(_OF_TWO_TASKS, _T, _U)),
    **dict(_bound(_OF_ATTEMPTS, _A)),
    **dict(_bound(_OF_ATTEMPTS_AND_EXCHANGES, _A, _E)),
    **dict(_bound(_OF_TWO_ATTEMPTS, _A, _B)),
    **dict(_bound(_OF_EXCHANGES, _E)),
    **dict(_bound(_OF_TWO_EXCHANGES, _E, _F)),
}
"""What every reachable state satisfies, of any tasks, attempts and exchanges; proved by induction."""


def _families(parameters: Parameters) -> tuple[Indexed[Task], Indexed[Attempt], Indexed[int]]:
    for name in (_TASK, _T, _U):
        assume(all_of((name >= 0, name < parameters.tasks)))
    for name in (_ATTEMPT, _A, _B):
        assume(all_of((name >= 0, name < parameters.attempts)))
    for name in (_EXCHANGE, _E, _F):
        assume(all_of((name >= 0, name < parameters.exchanges)))
    return (
        Indexed.any_family(member_by_name(Task, "task."), parameters.tasks, _TASK, _T, _U),
        Indexed.any_family(member_by_name(Attempt, "attempt."), parameters.attempts, _ATTEMPT, _A, _B),
        Indexed.any_family(function(own("published")), parameters.exchanges, _EXCHANGE, _E, _F),
    )


def _any_state(parameters: Parameters) -> State:
    """Any state of any tasks, attempts and exchanges that satisfies the invariant."""
    tasks, attempts, published = _families(parameters)
    state = arbitrary(State, special={"tasks": tasks, "attempts": attempts, "published": published})
    assume(_counts(state, parameters))
    assume(_decision(state, parameters))
    attempts_named = [_ATTEMPT, _A, _B]
    tasks_named = [_TASK, _T, _U, *(attempts.get(name).task - 1 for name in attempts_named)]
    for name in tasks_named[3:]:
        tasks.know(name)
    for name in (_T, _U):
        task = tasks.get(name)
        for number in (task.chosen, task.decided, task.late):
            attempts.know(number - 1)
    exchanges_named = [_EXCHANGE, _E, _F, *(tasks.get(name).home - 1 for name in tasks_named)]
    for name in exchanges_named[3:]:
        published.know(name)
    for clause in _OF_EXCHANGES.values():
        published.assume_every(partial(clause, state, parameters))
    for clause in _OF_TASKS.values():
        tasks.assume_every(partial(clause, state, parameters))
    for clause in _OF_ATTEMPTS.values():
        attempts.assume_every(partial(clause, state, parameters))
    for name in exchanges_named[:3]:
        for clause in _OF_TASKS_AND_EXCHANGES.values():
            tasks.assume_every(partial(_beside, clause, state, parameters, name))
        for clause in _OF_ATTEMPTS_AND_EXCHANGES.values():
            attempts.assume_every(partial(_beside, clause, state, parameters, name))
        for clause in _OF_TWO_EXCHANGES.values():
            published.assume_every(partial(clause, state, parameters, name))
    for clause, pair in product(_OF_TWO_TASKS.values(), ((_T, _U), (tasks_named[4], tasks_named[5]))):
        assume(clause(state, parameters, *pair))
    for clause in _OF_TWO_ATTEMPTS.values():
        assume(clause(state, parameters, _A, _B))
    return state


def _beside(clause: _Of, state: State, parameters: Parameters, exchange: int, name: int) -> bool:
    return clause(state, parameters, name, exchange)


_ARGUMENTS: dict[str, Callable[[Parameters], tuple[int, ...]]] = {
    **dict.fromkeys(("StartAttempt", "SpeculateAttempt", "RemoveChannel"), lambda _: (_TASK,)),
    **dict.fromkeys(
        ("LoseAttempt", "DiscardAttempt", "OpenAttempt", "EndAttempt", "HearAttempt"), lambda _: (_ATTEMPT,)
    ),
    **dict.fromkeys(("ExpireAttempts", "PublishLateOrder", "PrepareBatch", "PublishBatch"), lambda _: (_EXCHANGE,)),
}

SUBJECT = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_state, _ARGUMENTS)
"""Any tasks, attempts, batches, exchanges and faults."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "staging-",
    promises=frozenset(
        {"once", "of-one-run", "whole", "stays", "kept", "all-or-none", "in-order", "named", "given-back"}
    ),
)


# Mistakes of the twins.


def _is_there(family: NamedFamily[Any], name: int) -> bool:
    """Is there a member to make the mistake with?"""
    return all_of((name >= 0, name < family.size()))


def _task(state: State, name: int, **changed: object) -> State:
    assume(_is_there(state.tasks, name))
    one = state.tasks.get(name)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(tasks=state.tasks.put(name, one))


def _attempt(state: State, name: int, **changed: object) -> State:
    assume(_is_there(state.attempts, name))
    one = state.attempts.get(name)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(attempts=state.attempts.put(name, one))


def _publish(state: State, name: int, batch: int) -> State:
    return state._replace(published=state.published.put(name, batch))


def _of_two_runs(state: State) -> State:
    """One task names the attempt A, another one B, of another run."""
    return _attempt(_attempt(state, _A, run=1), _B, run=2)


def _not_decided(state: State, _parameters: Parameters) -> State:
    """Attempt A is published of a batch that an exchange has not published, and no decision names it."""
    batch = state.published.get(_E) + 1
    after = _attempt(state._replace(decided=batch), _A, task=_T + 1, batch=batch, phase="published")
    return _task(after, _T, decided=0)


def _twice(state: State, _parameters: Parameters) -> State:
    after = _attempt(state, _A, task=1, batch=1, phase="published")
    return _attempt(after, _B, task=1, batch=1, phase="published")


def _mixed(state: State, _parameters: Parameters) -> State:
    after = _attempt(state, _A, batch=1, run=1, phase="published")
    return _attempt(after, _B, batch=1, run=2, phase="published")


# What is published.


def _is_whole(number: Callable[[State, Task], int], before: State, after: State, _: Parameters, *, more: int) -> bool:
    """When an exchange has published, of each task that lies there the attempt that the order names is published."""
    task = after.tasks.get(_T)
    batch = _published(after, task)
    rises = negated(equal(batch, _published(before, task)))
    named = number(before, before.tasks.get(_T))
    one = _at(after, named)
    is_it = all_of((_is_in(one, "published"), equal(one.task, _T + 1), equal(one.batch, batch + more)))
    return implies(rises, is_it)


def _of_the_driver(state: State, task: Task) -> int:
    return task.decided if state.phase == "recovering" else task.chosen


def _of_the_dead(_state: State, task: Task) -> int:
    return task.late


def _stays(before: State, after: State, _parameters: Parameters, *, stays: bool) -> bool:
    old, one = before.attempts.get(_A), after.attempts.get(_A)
    is_same = all_of((equal(one.task, old.task), equal(one.batch, old.batch), equal(one.run, old.run)))
    is_published = _is_in(one, "published")
    return implies(_is_in(old, "published"), all_of((is_same, is_published)) if stays else negated(is_published))


def _is_kept(before: State, after: State, _parameters: Parameters, *, phase: str) -> bool:
    return implies(_is_in(before.attempts.get(_A), "prepared"), _is_in(after.attempts.get(_A), phase))


def _all_or_none(state: State, _parameters: Parameters, *, less: int) -> bool:
    """Two exchanges have published the same batches; or what was decided is prepared where one is behind."""
    task, mine, others = state.tasks.get(_T), state.published.get(_E), state.published.get(_F)
    is_there = _is_in(_at(state, task.decided), "prepared")
    is_decided = all_of(
        (
            equal(state.decided, others),
            equal(mine, others - 1 - less),
            implies(equal(task.home, _E + 1), is_there),
        )
    )
    return implies(mine < others, is_decided)


def _named_is_there(state: State, parameters: Parameters, *, phases: tuple[str, ...]) -> bool:
    task, mine = state.tasks.get(_T), state.published.get(_E)
    is_kept = any_of((parameters.exchanges > 1, negated(parameters.expires)))
    is_here = all_of((is_kept, equal(task.home, _E + 1)))
    chosen, decided = (_is_in(_at(state, number), *phases) for number in (task.chosen, task.decided))
    return all_of(
        (
            implies(all_of((is_here, _is_in(state, "publishing"))), any_of((mine >= state.batch, chosen))),
            implies(all_of((is_here, _is_in(state, "recovering"))), any_of((mine >= state.decided, decided))),
        )
    )


# Frames: in focus are a task, an attempt and an exchange.


def _any_places(parameters: Parameters) -> State:
    for name, size in ((_TASK, parameters.tasks), (_ATTEMPT, parameters.attempts), (_EXCHANGE, parameters.exchanges)):
        assume(all_of((name >= 0, name < size)))
    tasks = Indexed.any_family(member_by_name(Task, "task."), parameters.tasks, focus={"0": _TASK})
    attempts = Indexed.any_family(member_by_name(Attempt, "attempt."), parameters.attempts, focus={"0": _ATTEMPT})
    published = Indexed.any_family(function(own("published")), parameters.exchanges, focus={"0": _EXCHANGE})
    state = arbitrary(State, special={"tasks": tasks, "attempts": attempts, "published": published})
    assume(all_of((state.begun >= 0, _attempt_ok(state, parameters, _ATTEMPT))))
    home = state.tasks.get(_one(state).task - 1).home
    assume(implies(_one(state).task >= 1, all_of((home >= 1, home <= parameters.exchanges))))
    return state


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_places, _ARGUMENTS)
"""Any tasks, attempts and exchanges in any state, in which the attempt that acts and its home have the right type."""


def _names(family: object) -> tuple[int, ...]:
    return tuple(cast("Indexed[object]", family).focus.values())


def _one(state: State) -> Attempt:
    return state.attempts.get(_ATTEMPT)


def _may_fail(state: State, parameters: Parameters) -> bool:
    return state.faults < parameters.faults


def _is_another(one: Attempt, task: int, run: int, batch: int) -> bool:
    is_it = all_of((equal(one.task, task), equal(one.run, run), equal(one.batch, batch)))
    return negated(all_of((is_it, negated(_is_in(one, "forgotten")))))


def _nobody_is_at(state: State) -> bool:
    return state.attempts.every(_is_another, _TASK + 1, state.run, state.batch)


def _may_start(state: State, parameters: Parameters) -> bool:
    has_more = all_of((state.batch <= parameters.batches, state.begun < parameters.attempts))
    return all_of((_is_in(state, "running"), has_more))


def _may_start_again(state: State, parameters: Parameters, _name: int) -> bool:
    is_chosen = negated(equal(state.tasks.get(_TASK).chosen, 0))
    return all_of((_may_start(state, parameters), _nobody_is_at(state), negated(is_chosen)))


def _may_speculate(state: State, parameters: Parameters, _name: int) -> bool:
    return all_of((_may_start(state, parameters), negated(_nobody_is_at(state)), _may_fail(state, parameters)))


def _is_same(one: Attempt, old: Attempt) -> bool:
    is_same = all_of((equal(one.task, old.task), equal(one.batch, old.batch), equal(one.run, old.run)))
    return all_of((is_same, one.phase == old.phase))


def _starts(before: State, after: State, _parameters: Parameters) -> bool:
    """The next attempt is of this task, in this run of this batch."""

    def of(name: int) -> bool:
        one = after.attempts.get(name)
        is_new = all_of((equal(one.task, _TASK + 1), equal(one.batch, before.batch), equal(one.run, before.run)))
        if name == before.begun:
            return all_of((is_new, _is_in(one, "started")))
        return _is_same(one, before.attempts.get(name))

    return all(of(name) for name in _names(before.attempts))


def _may_be_discarded(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    is_dead = any_of((one.run < state.run, _is_in(state, "down")))
    is_decided = equal(state.tasks.get(one.task - 1).decided, _ATTEMPT + 1)
    return all_of((_is_in(one, "open", "ended", "prepared"), is_dead, negated(is_decided)))


def _lies_here(state: State, one: Attempt) -> bool:
    return equal(state.tasks.get(one.task - 1).home, _EXCHANGE + 1)


def _is_elsewhere(one: Attempt, phase: str, state: State) -> bool:
    return negated(all_of((_is_in(one, phase), _lies_here(state, one))))


def _may_expire(state: State, parameters: Parameters, _name: int) -> bool:
    is_quiet = state.attempts.every(_is_elsewhere, "open", state)
    has_none = state.attempts.every(_is_elsewhere, "ended", state)
    return all_of((parameters.expires, _may_fail(state, parameters), is_quiet, negated(has_none)))


def _expires(before: State, after: State, _parameters: Parameters) -> bool:
    def of(name: int) -> bool:
        one, old = after.attempts.get(name), before.attempts.get(name)
        goes = all_of((_is_in(old, "ended"), _lies_here(before, old)))
        return all_of((implies(goes, _is_in(one, "forgotten")), implies(negated(goes), one.phase == old.phase)))

    return all_of([of(name) for name in _names(before.attempts)])


def _is_without(one: Attempt, *phases: str) -> bool:
    """Is it none of the task in focus that has come so far?"""
    return negated(all_of((equal(one.task, _TASK + 1), _is_in(one, *phases))))


def _may_be_removed(state: State, parameters: Parameters, _name: int) -> bool:
    has_no_prepared = state.attempts.every(_is_without, "prepared")
    has_none = state.attempts.every(_is_without, "open", "ended", "prepared")
    return all_of((parameters.expires, _may_fail(state, parameters), has_no_prepared, negated(has_none)))


def _removes(before: State, after: State, _parameters: Parameters) -> bool:
    def of(name: int) -> bool:
        one, old = after.attempts.get(name), before.attempts.get(name)
        goes = all_of((equal(old.task, _TASK + 1), _is_in(old, "open", "ended", "prepared")))
        return all_of((implies(goes, _is_in(one, "forgotten")), implies(negated(goes), one.phase == old.phase)))

    return all_of([of(name) for name in _names(before.attempts)])


_Order = tuple[int, Callable[[Task], int]]


def _order(state: State) -> _Order:
    if state.phase == "recovering":
        return state.decided, lambda task: task.decided
    return state.batch, lambda task: task.chosen


def _late_order(state: State) -> _Order:
    return state.late, lambda task: task.late


def _crashes(before: State, after: State, _parameters: Parameters) -> bool:
    """An order may be on its way."""
    batch, number = _order(before)
    if before.phase == "running":
        batch, number = _late_order(before)
    names = _names(before.tasks)
    return equal(after.late, batch) and all_of(
        [equal(after.tasks.get(name).late, number(before.tasks.get(name))) for name in names]
    )


def _is_not_missing(task: Task, number: Callable[[Task], int], state: State) -> bool:
    is_there = _is_in(state.attempts.get(number(task) - 1), "ended", "prepared")
    return implies(equal(task.home, _EXCHANGE + 1), is_there)


def _has_all(state: State, number: Callable[[Task], int]) -> bool:
    return state.tasks.every(_is_not_missing, number, state)


def _publishes(before: State, after: State, order: _Order) -> bool:
    """The exchange has published this batch: what is named is published, what else was staged is late."""
    batch, number = order

    def of(name: int) -> bool:
        one, old = after.attempts.get(name), before.attempts.get(name)
        goes = all_of((_is_in(old, "open", "ended", "prepared"), _lies_here(before, old), old.batch <= batch))
        is_named = equal(number(before.tasks.get(old.task - 1)), name + 1)
        return all_of(
            (
                implies(all_of((goes, is_named)), _is_in(one, "published")),
                implies(all_of((goes, negated(is_named))), _is_in(one, "late")),
                implies(negated(goes), one.phase == old.phase),
            )
        )

    is_published = equal(after.published.get(_EXCHANGE), batch)
    return all_of([is_published, *(of(name) for name in _names(before.attempts))])


def _changes_nothing(before: State, after: State) -> bool:
    return all_of(
        [
            equal(after.published.get(_EXCHANGE), before.published.get(_EXCHANGE)),
            *(after.attempts.get(name).phase == before.attempts.get(name).phase for name in _names(before.attempts)),
        ]
    )


def _answers(before: State, after: State, _parameters: Parameters) -> bool:
    """Published before: nothing.  All there: it is published.  Else the query fails."""
    batch, number = _order(before)
    if before.published.get(_EXCHANGE) >= batch:
        return after.phase == before.phase and _changes_nothing(before, after)
    if _has_all(before, number):
        return after.phase == before.phase and _publishes(before, after, (batch, number))
    return after.phase == "down" and _changes_nothing(before, after)


def _may_come_late(state: State, _parameters: Parameters, _name: int) -> bool:
    is_new = all_of((negated(equal(state.late, 0)), state.published.get(_EXCHANGE) < state.late))
    return all_of((is_new, _has_all(state, lambda task: task.late)))


def _opens(before: State, after: State, _parameters: Parameters) -> bool:
    one = _one(before)
    return _one(after).phase == ("late" if _home(before, one) >= one.batch else "open")


def _may_be_heard(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    is_own = all_of((equal(one.run, state.run), equal(one.batch, state.batch)))
    is_first = equal(state.tasks.get(one.task - 1).chosen, 0)
    return all_of((_is_in(state, "running"), _is_in(one, "ended", "late"), is_own, is_first))


def _hears(before: State, after: State, _parameters: Parameters) -> bool:
    place = _one(before).task - 1
    return all(
        equal(after.tasks.get(name).chosen, _ATTEMPT + 1 if name == place else before.tasks.get(name).chosen)
        for name in _names(before.tasks)
    )


def _has_one(task: Task) -> bool:
    return negated(equal(task.chosen, 0))


def _is_ready(task: Task, state: State) -> bool:
    is_prepared = _is_in(state.attempts.get(task.chosen - 1), "prepared")
    return any_of((_published(state, task) >= state.batch, is_prepared))


def _is_ready_here(task: Task, state: State) -> bool:
    return implies(equal(task.home, _EXCHANGE + 1), _is_ready(task, state))


def _may_prepare(state: State, parameters: Parameters, _name: int) -> bool:
    is_done = all_of((_is_in(state, "running"), parameters.exchanges > 1, state.tasks.every(_has_one)))
    return all_of((is_done, negated(state.tasks.every(_is_ready_here, state))))


def _prepares(before: State, after: State, _parameters: Parameters) -> bool:
    """All there: it does not expire any more.  Else the query fails."""
    if not _has_all(before, lambda task: task.chosen):
        return after.phase == "down" and _changes_nothing(before, after)

    def of(name: int) -> bool:
        one, old = after.attempts.get(name), before.attempts.get(name)
        is_named = equal(before.tasks.get(old.task - 1).chosen, name + 1)
        goes = all_of((_is_in(old, "ended"), _lies_here(before, old), is_named))
        return all_of((implies(goes, _is_in(one, "prepared")), implies(negated(goes), one.phase == old.phase)))

    return after.phase == "running" and all_of([of(name) for name in _names(before.attempts)])


def _may_decide(state: State, parameters: Parameters) -> bool:
    is_ready = any_of((equal(parameters.exchanges, 1), state.tasks.every(_is_ready, state)))
    is_done = all_of((state.tasks.every(_has_one), is_ready))
    return all_of((_is_in(state, "running"), state.batch <= parameters.batches, is_done))


def _decides(before: State, after: State, parameters: Parameters) -> bool:
    """Where there are several exchanges, it is written down."""
    names = _names(before.tasks)
    if parameters.exchanges == 1:
        is_same = [equal(after.tasks.get(name).decided, before.tasks.get(name).decided) for name in names]
        return all_of((equal(after.decided, 0), *is_same))
    is_noted = [equal(after.tasks.get(name).decided, before.tasks.get(name).chosen) for name in names]
    return all_of((equal(after.decided, before.batch), *is_noted))


def _is_at_least(published: int, batch: int) -> bool:
    return published >= batch


def _may_forget(state: State, _parameters: Parameters) -> bool:
    is_over = state.published.every(_is_at_least, state.decided)
    return all_of((_is_in(state, "publishing", "recovering"), negated(equal(state.decided, 0)), is_over))


def _forgets(before: State, after: State, _parameters: Parameters) -> bool:
    is_gone = [equal(after.tasks.get(name).decided, 0) for name in _names(before.tasks)]
    phase = "running" if before.phase == "recovering" else "publishing"
    return after.phase == phase and all_of((equal(after.decided, 0), *is_gone))


def _may_finish(state: State, _parameters: Parameters) -> bool:
    is_over = state.published.every(_is_at_least, state.batch)
    return all_of((_is_in(state, "publishing"), equal(state.decided, 0), is_over))


def _names_none(before: State, after: State, _parameters: Parameters) -> bool:
    return all_of([equal(after.tasks.get(name).chosen, 0) for name in _names(before.tasks)])


def _begins_anew(before: State, after: State, parameters: Parameters) -> bool:
    phase = "running" if before.decided == 0 else "recovering"
    return after.phase == phase and _names_none(before, after, parameters)


def _each(family: str, *fields: str) -> dict[str, Change]:
    return dict.fromkeys(f"{family}.{name}.{field}" for name in ("0", "others") for field in fields)


_NEW = _each("attempts", "task", "batch", "run", "phase")
_PUBLISHED: dict[str, Change] = {"published.0": None, **_each("attempts", "phase")}

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: state.batch > parameters.batches,
        possible="when all batches are in the commit log",
    ),
    Frame(
        "SpeculateAttempt",
        {"begun": +1, "faults": +1, **_NEW},
        _starts,
        "the next attempt is one at this task",
        when=_may_speculate,
        possible="while a driver runs the batch and an attempt is at the task, up to Attempts and Faults",
    ),
    Frame(
        "LoseAttempt",
        {"faults": +1, "attempts.0.phase": "forgotten"},
        when=lambda state, parameters, _: _is_in(_one(state), "started", "open") and _may_fail(state, parameters),
        possible="before it has ended, up to Faults",
    ),
    Frame(
        "DiscardAttempt",
        {"attempts.0.phase": "forgotten"},
        when=_may_be_discarded,
        possible="for what is staged, of a driver that is dead, and not decided",
    ),
    Frame(
        "ExpireAttempts",
        {"faults": +1, **_each("attempts", "phase")},
        _expires,
        "what has ended at this exchange is forgotten",
        when=_may_expire,
        possible="where rows expire, some have ended at this exchange and none are open there, up to Faults",
    ),
    Frame(
        "RemoveChannel",
        {"faults": +1, **_each("attempts", "phase")},
        _removes,
        "what is staged for this task is forgotten",
        when=_may_be_removed,
        possible="where rows may be forgotten, some are staged for the task and none are prepared, up to Faults",
    ),
    Frame(
        "CrashDriver",
        {"faults": +1, "phase": "down", "late": None, **_each("tasks", "late")},
        _crashes,
        "its order, if it had one, is on its way",
        when=lambda state, parameters: (
            _is_in(state, "running", "publishing", "recovering")
            and state.batch <= parameters.batches
            and _may_fail(state, parameters)
        ),
        possible="while a driver is there, up to Faults",
    ),
    Frame(
        "PublishLateOrder",
        _PUBLISHED,
        lambda before, after, _: _publishes(before, after, _late_order(before)),
        "what it names is published, what else was staged for its batch or an older one is late",
        when=_may_come_late,
        possible="if its batch was not published, and what it names is there",
    ),
    Frame(
        "StartAttempt",
        {"begun": +1, **_NEW},
        _starts,
        "the next attempt is one at this task",
        when=_may_start_again,
        possible="while a driver runs the batch, and has no attempt at the task, up to Attempts",
    ),
    Frame(
        "OpenAttempt",
        {"attempts.0.phase": None},
        _opens,
        "open; late if its batch was published",
        when=lambda state, _parameters, _name: _is_in(_one(state), "started"),
        possible="when it was started",
    ),
    Frame(
        "EndAttempt",
        {"attempts.0.phase": "ended"},
        when=lambda state, _parameters, _name: _is_in(_one(state), "open"),
        possible="while it is open",
    ),
    Frame(
        "HearAttempt",
        _each("tasks", "chosen"),
        _hears,
        "it is the one of its task",
        when=_may_be_heard,
        possible="when it has ended or is late, in its own run, the first of its task",
    ),
    Frame(
        "PrepareBatch",
        {"phase": None, **_each("attempts", "phase")},
        _prepares,
        "what is named at this exchange is prepared; if something is missing, the driver is down",
        when=_may_prepare,
        possible="of several exchanges, when the driver has one of each task and this one has not prepared all of its",
    ),
    Frame(
        "DecideBatch",
        {"phase": "publishing", "decided": None, **_each("tasks", "decided")},
        _decides,
        "with several exchanges, batch and names are written down",
        when=_may_decide,
        possible="when the driver has one of each task, and several exchanges have prepared them",
    ),
    Frame(
        "PublishBatch",
        {"phase": None, **_PUBLISHED},
        _answers,
        "nothing, if it was published before; else what is named is published, and what else was staged is late; if "
        "something is missing, the driver is down",
        when=lambda state, _parameters, _name: _is_in(state, "publishing", "recovering"),
        possible="while the driver publishes",
    ),
    Frame(
        "ForgetDecision",
        {"phase": None, "decided": None, **_each("tasks", "decided")},
        _forgets,
        "nothing is decided; a driver that has carried it out runs the batch",
        when=_may_forget,
        possible="when each exchange has published what was decided",
    ),
    Frame(
        "FinishBatch",
        {"phase": "running", "batch": +1, **_each("tasks", "chosen")},
        _names_none,
        "no attempt is named",
        when=_may_finish,
        possible="when each exchange has published the batch, and nothing is decided",
    ),
    Frame(
        "RestartDriver",
        {"run": +1, "phase": None, **_each("tasks", "chosen")},
        _begins_anew,
        "it carries out what was decided, or runs the batch; no attempt is named",
        when=lambda state, _: _is_in(state, "down"),
        possible="when none is there",
    ),
)
"""What each action changes."""


_END_PREPARED = ("DiscardAttempt", "PublishBatch", "PublishLateOrder")
_CHANGE_ATTEMPTS = [
    frame.action
    for frame in FRAMES
    if frame.action not in _END_PREPARED and any(path.startswith("attempts.") for path in frame.changes)
]
"""All others leave attempts as they are: their frames say so."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    kept, follows = _CHAPTER.kept, SUBJECT.holds_whenever_invariant
    return (
        kept(
            "type-ok",
            "TypeOK",
            "All counts are in their ranges.",
            lambda state, _: state._replace(run=0),
            "after the step no driver has been there",
        ),
        kept(
            "decision",
            "Decision",
            "A decision is about the batch that is run now, and a driver that recovers has one.",
            lambda state, _: state._replace(phase="recovering", decided=0),
            "after the step it recovers, and nothing is decided",
            about="DecideBatch",
        ),
        kept(
            "task-ok",
            "TaskOK",
            "Each task lies at an exchange, and what is named of it was started.",
            lambda state, _: _task(state, _T, home=0),
            "after the step one lies nowhere",
            about="TypeOK",
        ),
        kept(
            "attempt-ok",
            "AttemptOK",
            "Each attempt that was started is one at a task, of a batch and a run that there were.",
            lambda state, _: _attempt(state, _A, task=0, batch=1, phase="none"),
            "after the step one is at no task",
            about="TypeOK",
        ),
        kept(
            "chosen",
            "Chosen",
            "The driver names attempts of its own run, one of each task, that have ended; of a batch that was not "
            "published they are there.",
            lambda state, _: _task(state._replace(phase="publishing"), _T, chosen=0),
            "after the step it publishes, and names none",
            about="HearAttempt",
        ),
        kept(
            "late",
            "Late",
            "The order of a dead driver names an attempt of each task, at its batch.",
            lambda state, _: _task(state._replace(late=1), _T, late=0),
            "after the step it names none",
            about="PublishLateOrder",
        ),
        kept(
            "decided",
            "Decided",
            "As long as an exchange has not published what was decided, it has prepared all that is named at it, and "
            "another one that has published it has published what is named there.",
            lambda state, _: _task(state._replace(decided=state.batch), _T, decided=0),
            "after the step the decision names none",
            about="DecideBatch",
        ),
        kept(
            "late-is-decided",
            "LateIsDecided",
            "Where there are several exchanges, an order of a dead driver that may still do something is the decision.",
            lambda state, _: state._replace(late=state.published.get(_E) + 1, decided=0),
            "after the step it is about a batch that is not decided",
            about="PublishLateOrder",
        ),
        kept(
            "decided-of-one-run",
            "DecidedOfOneRun",
            "All that a decision names is of one run.",
            lambda state, _: _task(
                _task(_of_two_runs(state)._replace(decided=1), _T, decided=_A + 1), _U, decided=_B + 1
            ),
            "after the step two are of two",
            about="DecideBatch",
        ),
        kept(
            "late-of-one-run",
            "LateOfOneRun",
            "All that the order of a dead driver names is of one run.",
            lambda state, _: _task(_task(_of_two_runs(state)._replace(late=1), _T, late=_A + 1), _U, late=_B + 1),
            "after the step two are of two",
            about="PublishLateOrder",
        ),
        kept(
            "given-back",
            "GivenBack",
            "Of a batch that an exchange has published, nothing is staged there any more.",
            lambda state, _: _attempt(state, _A, task=_T + 1, batch=-1, phase="ended"),
            "after the step an attempt at an older batch is",
        ),
        kept(
            "displaced",
            "Displaced",
            "Only what is of a batch that was published is published or late.",
            lambda state, _: _attempt(state, _A, task=_T + 1, batch=state.batch + 2, phase="late"),
            "after the step one at a later batch is late",
            about="GivenBack",
        ),
        kept(
            "published-is-decided",
            "PublishedIsDecided",
            "What is published of a batch that an exchange has not published was decided.",
            _not_decided,
            "after the step one that was not is published",
            about="PublishedOfOneRun",
        ),
        kept(
            "once",
            "PublishedOnce",
            "Of all attempts at a task of a batch, at most one is published.",
            _twice,
            "after the step two are",
        ),
        kept(
            "of-one-run",
            "PublishedOfOneRun",
            "All that is published of a batch was staged for one driver, at whichever exchange, though other drivers "
            "have run the batch again.",
            _mixed,
            "after the step two are of two",
        ),
        kept(
            "in-order",
            "BatchesInOrder",
            "Each exchange has published all batches that are in the commit log, and perhaps the next one.",
            lambda state, _: _publish(state, _E, state.batch + 1),
            "after the step one is ahead",
        ),
        kept(
            "forgotten",
            "Forgotten",
            "A decision is forgotten only when each exchange has published.",
            lambda state, _: _publish(state._replace(phase="publishing", decided=0), _E, state.batch - 1),
            "after the step one has not",
            about="ForgetDecision",
        ),
        kept(
            "even",
            "Even",
            "Where nothing is decided, all exchanges have published the same batches.",
            lambda state, _: _publish(state._replace(decided=0), _E, state.published.get(_F) + 1),
            "after the step one has published one more",
            about="DecideBatch",
        ),
        _CHAPTER.theorem(
            "whole",
            "PublishedWhole",
            "When an exchange publishes a batch, one attempt of each of its tasks is published: the one that the order "
            "names.",
            *SUBJECT.step_obligations(
                ("PublishBatch",),
                partial(_is_whole, _of_the_driver, more=0),
                partial(_is_whole, _of_the_driver, more=1),
                "of the batch behind",
            ),
            *SUBJECT.step_obligations(
                ("PublishLateOrder",),
                partial(_is_whole, _of_the_dead, more=0),
                partial(_is_whole, _of_the_dead, more=1),
                "of the batch behind",
            ),
        ),
        _CHAPTER.theorem(
            "stays",
            "PublishedOnce",
            "What is published stays so.",
            *SUBJECT.step_obligations(
                [action.name for action in SYSTEM.actions],
                partial(_stays, stays=True),
                partial(_stays, stays=False),
                "it does not",
            ),
        ),
        _CHAPTER.theorem(
            "kept",
            "AllOrNone",
            "What is prepared stays so until an order publishes or displaces it, or an abort of its dead driver drops "
            "it: whatever else happens, however long its query is silent, and whichever channels are removed or ended.",
            *SUBJECT.step_obligations(
                _CHANGE_ATTEMPTS,
                partial(_is_kept, phase="prepared"),
                partial(_is_kept, phase="forgotten"),
                "it is forgotten",
            ),
        ),
        _CHAPTER.theorem(
            "all-or-none",
            "AllOrNone",
            "An exchange that is behind another one has prepared all that a decision names at it, which it keeps: so "
            "a batch that is published in one is published in all, once a driver comes back.",
            follows("of any two", partial(_all_or_none, less=0), partial(_all_or_none, less=1), "behind by two"),
        ),
        _CHAPTER.theorem(
            "named",
            "NamedIsThere",
            "What a driver is about to publish is there, or its batch was published: with several exchanges always, "
            "with one where nothing is forgotten.",
            follows(
                "of any task",
                partial(_named_is_there, phases=("ended", "prepared")),
                partial(_named_is_there, phases=("open",)),
                "it goes on",
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
