"""``Staging.tla``, action for action: a query publishes one attempt of each task, all or none, once.

docs/protocols/staging.md explains it.  Tasks, attempts and exchanges are families, numbered from 0; where the state
names an attempt or a task it has their numbers in the specification, from 1, and 0 for none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias, cast

from permitflow_model.kernel.family import Members, NamedFamily, family, family_by_name
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Phase = Literal["running", "publishing", "recovering", "down"]
AttemptPhase = Literal["none", "started", "open", "ended", "prepared", "published", "late", "forgotten"]


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    tasks: Positive
    """Tasks of each batch."""

    attempts: Positive
    """Attempts that are started at most."""

    batches: Positive = 1
    """Batches of the query."""

    exchanges: Positive = 1
    """Exchanges at which the tasks lie, in turn."""

    faults: Natural = 0
    """Attempts, drivers and staged rows that are lost, and second attempts beside a first, at most."""

    expires: bool = False
    """May an exchange forget what is staged: after a long silence, or as its channel is removed or ended?"""


class Task(NamedTuple):
    """A task of each batch: where it lies, and which attempt is named; 0: none."""

    home: int
    """Its exchange, from 1."""
    chosen: int
    """By the driver that runs now."""
    decided: int
    """By the decision."""
    late: int
    """By the order that is on its way from a dead driver."""


class Attempt(NamedTuple):
    """Whose it is, and how far it has come."""

    task: int
    """From 1; 0: it was not started."""
    batch: int
    run: int
    phase: AttemptPhase


class State(NamedTuple):
    """The variables of the specification."""

    phase: Phase
    run: int
    batch: int
    begun: int
    decided: int
    late: int
    faults: int
    tasks: NamedFamily[Task]
    attempts: NamedFamily[Attempt]
    published: NamedFamily[int]


Named: TypeAlias = Callable[[Task], int]
"""Which attempt at a task an order names."""

NOT_BEGUN = Attempt(task=0, batch=0, run=0, phase="none")


def initial(parameters: Parameters) -> State:
    """A driver runs, and nothing has been started."""
    return State(
        phase="running",
        run=1,
        batch=1,
        begun=0,
        decided=0,
        late=0,
        faults=0,
        tasks=family_by_name(partial(_before, parameters.exchanges), parameters.tasks),
        attempts=cast("NamedFamily[Attempt]", family(NOT_BEGUN, parameters.attempts)),
        published=cast("NamedFamily[int]", family(0, parameters.exchanges)),
    )


def _before(exchanges: int, name: int) -> Task:
    return Task(home=name % exchanges + 1, chosen=0, decided=0, late=0)


def _failing(state: State, parameters: Parameters) -> State:
    require(state.faults < parameters.faults)
    return state._replace(faults=state.faults + 1)


# Of an attempt.


def home_of(one: Attempt, tasks: NamedFamily[Task]) -> int:
    """The exchange at which its task lies; it was started."""
    return tasks.get(one.task - 1).home


def is_staged(one: Attempt) -> bool:
    """Are its rows in an exchange, and belong to nothing yet?"""
    return one.phase == "open" or one.phase == "ended" or one.phase == "prepared"


def is_elsewhere(one: Attempt, task: int, run: int, batch: int) -> bool:
    """Is it at another task than this one, or of another run or batch, or forgotten?"""
    return one.task != task or one.run != run or one.batch != batch or one.phase == "forgotten"


def _nobody_at(state: State, task: int) -> bool:
    return state.attempts.every(is_elsewhere, task, state.run, state.batch)


def _moved(state: State, name: int, phase: AttemptPhase) -> State:
    one = state.attempts.get(name)._replace(phase=phase)
    return state._replace(attempts=state.attempts.put(name, one))


def _start(state: State, parameters: Parameters, name: int) -> State:
    require(state.phase == "running")
    require(state.batch <= parameters.batches)
    require(state.begun < parameters.attempts)
    one = Attempt(task=name + 1, batch=state.batch, run=state.run, phase="started")
    return state._replace(begun=state.begun + 1, attempts=state.attempts.put(state.begun, one))


# Orders to publish, of the driver that runs or of a dead one.


def chosen_of(task: Task) -> int:
    """The attempt that the driver names."""
    return task.chosen


def decided_of(task: Task) -> int:
    """The attempt that the decision names."""
    return task.decided


def late_of(task: Task) -> int:
    """The attempt that the order of a dead driver names."""
    return task.late


def ordered(state: State) -> tuple[int, Named]:
    """The batch of the driver's order, and what it names."""
    return (state.decided, decided_of) if state.phase == "recovering" else (state.batch, chosen_of)


def is_there_at(task: Task, home: int, named: Named, attempts: NamedFamily[Attempt]) -> bool:
    """If a task lies at this exchange, are all rows of the named attempt there?"""
    phase = attempts.get(named(task) - 1).phase
    return task.home != home or phase == "ended" or phase == "prepared"


def _is_there(state: State, name: int, named: Named) -> bool:
    return state.tasks.every(is_there_at, name + 1, named, state.attempts)


def published_at(name: int, one: Attempt, home: int, batch: int, named: Named, tasks: NamedFamily[Task]) -> Attempt:
    """It after this exchange has published a batch: what is named is published, what else is staged is late."""
    if not is_staged(one) or home_of(one, tasks) != home or one.batch > batch:
        return one
    return one._replace(phase="published" if named(tasks.get(one.task - 1)) == name + 1 else "late")


def _publishing(state: State, name: int, batch: int, named: Named) -> State:
    attempts = state.attempts.map_by_name(published_at, name + 1, batch, named, state.tasks)
    return state._replace(published=state.published.put(name, batch), attempts=attempts)


def has_published(published: int, batch: int) -> bool:
    """Has this exchange published this batch?"""
    return published >= batch


def is_ready(task: Task, attempts: NamedFamily[Attempt], published: NamedFamily[int], batch: int) -> bool:
    """Is what the driver names of it prepared, or was its batch published?"""
    return has_published(published.get(task.home - 1), batch) or attempts.get(task.chosen - 1).phase == "prepared"


def is_ready_at(task: Task, home: int, attempts: NamedFamily[Attempt], published: NamedFamily[int], batch: int) -> bool:
    """If a task lies at this exchange, has it nothing to prepare any more?"""
    return task.home != home or is_ready(task, attempts, published, batch)


def prepared_at(name: int, one: Attempt, home: int, tasks: NamedFamily[Task]) -> Attempt:
    """It after this exchange has prepared what the driver names."""
    if is_not_ended_at(one, home, tasks) or tasks.get(one.task - 1).chosen != name + 1:
        return one
    return one._replace(phase="prepared")


def _without_choice(task: Task) -> Task:
    return task._replace(chosen=0)


def _without_decision(task: Task) -> Task:
    return task._replace(decided=0)


def _with_decision(task: Task) -> Task:
    return task._replace(decided=task.chosen)


def _with_late(task: Task, named: Named) -> Task:
    return task._replace(late=named(task))


def is_chosen(task: Task) -> bool:
    """Has the driver heard of an attempt at it that has ended?"""
    return task.chosen != 0


# The driver.


def start_attempt(state: State, parameters: Parameters, name: int) -> State:
    """A task is run, or run again: nobody is at it."""
    require(_nobody_at(state, name + 1))
    require(not is_chosen(state.tasks.get(name)))
    return _start(state, parameters, name)


def hear_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """The driver hears that an attempt has ended, the first one of its task."""
    one = state.attempts.get(name)
    require(state.phase == "running")
    require(one.phase == "ended" or one.phase == "late")
    require(one.run == state.run)
    require(one.batch == state.batch)
    task = state.tasks.get(one.task - 1)
    require(not is_chosen(task))
    return state._replace(tasks=state.tasks.put(one.task - 1, task._replace(chosen=name + 1)))


def prepare_batch(state: State, parameters: Parameters, name: int) -> State:
    """All tasks are done: of several exchanges, each keeps what is named at it; if that is not there, the query fails.

    It is kept from now on, though nothing is heard for long; a query that has failed can be run again.
    """
    require(state.phase == "running")
    require(parameters.exchanges > 1)
    require(state.tasks.every(is_chosen))
    require(not state.tasks.every(is_ready_at, name + 1, state.attempts, state.published, state.batch))
    if not _is_there(state, name, chosen_of):
        return state._replace(phase="down")
    return state._replace(attempts=state.attempts.map_by_name(prepared_at, name + 1, state.tasks))


def decide_batch(state: State, parameters: Parameters) -> State:
    """What is named now stands: for several exchanges, which have prepared it, it is written down."""
    require(state.phase == "running")
    require(state.batch <= parameters.batches)
    require(state.tasks.every(is_chosen))
    if parameters.exchanges > 1:
        require(state.tasks.every(is_ready, state.attempts, state.published, state.batch))
    after = state._replace(phase="publishing", decided=0)
    if parameters.exchanges == 1:
        return after
    return after._replace(decided=state.batch, tasks=cast("NamedFamily[Task]", state.tasks.map(_with_decision)))


def publish_batch(state: State, _parameters: Parameters, name: int) -> State:
    """An exchange publishes what is named at it, at once and once; if that is not there, the query fails."""
    require(state.phase == "publishing" or state.phase == "recovering")
    batch, named = ordered(state)
    if has_published(state.published.get(name), batch):
        return state
    if _is_there(state, name, named):
        return _publishing(state, name, batch, named)
    return state._replace(phase="down")


def forget_decision(state: State, _parameters: Parameters) -> State:
    """Each exchange has published what was decided."""
    require(state.phase == "publishing" or state.phase == "recovering")
    require(state.decided != 0)
    require(state.published.every(has_published, state.decided))
    tasks = cast("NamedFamily[Task]", state.tasks.map(_without_decision))
    return state._replace(decided=0, tasks=tasks, phase="running" if state.phase == "recovering" else state.phase)


def finish_batch(state: State, _parameters: Parameters) -> State:
    """The batch is in the commit log."""
    require(state.phase == "publishing")
    require(state.decided == 0)
    require(state.published.every(has_published, state.batch))
    tasks = cast("NamedFamily[Task]", state.tasks.map(_without_choice))
    return state._replace(batch=state.batch + 1, tasks=tasks, phase="running")


def restart_driver(state: State, _parameters: Parameters) -> State:
    """A driver starts: it carries out what was decided, or runs the batch, perhaps again."""
    require(state.phase == "down")
    tasks = cast("NamedFamily[Task]", state.tasks.map(_without_choice))
    return state._replace(run=state.run + 1, tasks=tasks, phase="running" if state.decided == 0 else "recovering")


# An attempt, and the exchange at which its task lies.


def open_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """It begins to stage; what comes after its batch was published is late."""
    one = state.attempts.get(name)
    require(one.phase == "started")
    is_late = has_published(state.published.get(home_of(one, state.tasks) - 1), one.batch)
    return _moved(state, name, "late" if is_late else "open")


def end_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """All of its rows are there."""
    require(state.attempts.get(name).phase == "open")
    return _moved(state, name, "ended")


# What goes wrong.


def speculate_attempt(state: State, parameters: Parameters, name: int) -> State:
    """Another attempt begins beside one that is slow, or whose executor is lost."""
    require(not _nobody_at(state, name + 1))
    return _start(_failing(state, parameters), parameters, name)


def lose_attempt(state: State, parameters: Parameters, name: int) -> State:
    """Its stream breaks off: what it has staged is given back."""
    one = state.attempts.get(name)
    require(one.phase == "started" or one.phase == "open")
    return _moved(_failing(state, parameters), name, "forgotten")


def discard_attempt(state: State, _parameters: Parameters, name: int) -> State:
    """The abort of a driver that has failed, perhaps long ago, names it; a decided one is never named."""
    one = state.attempts.get(name)
    require(is_staged(one))
    require(one.run < state.run or state.phase == "down")
    require(state.tasks.get(one.task - 1).decided != name + 1)
    return _moved(state, name, "forgotten")


def is_not_open_at(one: Attempt, home: int, tasks: NamedFamily[Task]) -> bool:
    """Does it not go on at this exchange?"""
    return one.phase != "open" or home_of(one, tasks) != home


def is_not_ended_at(one: Attempt, home: int, tasks: NamedFamily[Task]) -> bool:
    """Is it not one that this exchange has as a whole?"""
    return one.phase != "ended" or home_of(one, tasks) != home


def _expired_at(one: Attempt, home: int, tasks: NamedFamily[Task]) -> Attempt:
    return one if is_not_ended_at(one, home, tasks) else one._replace(phase="forgotten")


def expire_attempts(state: State, parameters: Parameters, name: int) -> State:
    """Nothing was heard for long: an exchange where no attempt goes on forgets what is staged and not prepared."""
    require(parameters.expires)
    require(state.attempts.every(is_not_open_at, name + 1, state.tasks))
    require(not state.attempts.every(is_not_ended_at, name + 1, state.tasks))
    attempts = cast("NamedFamily[Attempt]", state.attempts.map(_expired_at, name + 1, state.tasks))
    return _failing(state, parameters)._replace(attempts=attempts)


def is_not_prepared_for(one: Attempt, task: int) -> bool:
    """Does no exchange keep it for this task until it is published?"""
    return one.task != task or one.phase != "prepared"


def is_not_staged_for(one: Attempt, task: int) -> bool:
    """Has no exchange rows of it for this task?"""
    return one.task != task or not is_staged(one)


def _removed_for(one: Attempt, task: int) -> Attempt:
    return one if is_not_staged_for(one, task) else one._replace(phase="forgotten")


def remove_channel(state: State, parameters: Parameters, name: int) -> State:
    """The channel of a task is removed or ended: its staged rows are forgotten.  Refused while some are prepared."""
    require(parameters.expires)
    require(state.attempts.every(is_not_prepared_for, name + 1))
    require(not state.attempts.every(is_not_staged_for, name + 1))
    attempts = cast("NamedFamily[Attempt]", state.attempts.map(_removed_for, name + 1))
    return _failing(state, parameters)._replace(attempts=attempts)


def crash_driver(state: State, parameters: Parameters) -> State:
    """The driver dies; an order to publish may be on its way."""
    require(state.phase == "running" or state.phase == "publishing" or state.phase == "recovering")
    require(state.batch <= parameters.batches)
    after = _failing(state, parameters)._replace(phase="down")
    if state.phase == "running":
        return after
    late, named = ordered(state)
    return after._replace(late=late, tasks=cast("NamedFamily[Task]", state.tasks.map(_with_late, named)))


def publish_late_order(state: State, _parameters: Parameters, name: int) -> State:
    """A late order to publish arrives, at any time; nobody hears the answer."""
    require(state.late != 0)
    require(not has_published(state.published.get(name), state.late))
    require(_is_there(state, name, late_of))
    return _publishing(state, name, state.late, late_of)


def done(state: State, parameters: Parameters) -> State:
    """All batches are in the commit log."""
    require(state.batch > parameters.batches)
    return state


# Invariants.


def task_ok(task: Task, exchanges: int, begun: int) -> bool:
    """Of one task: are its numbers in their ranges?"""
    return (
        1 <= task.home <= exchanges
        and 0 <= task.chosen <= begun
        and 0 <= task.decided <= begun
        and 0 <= task.late <= begun
    )


def attempt_ok(name: int, one: Attempt, begun: int, tasks: int, batch: int, run: int) -> bool:
    """Of one attempt: was it started if its number is that of one, and are its numbers in their ranges?"""
    if name >= begun:
        return one.phase == "none" and one.task == 0 and one.batch == 0 and one.run == 0
    return one.phase != "none" and 1 <= one.task <= tasks and 1 <= one.batch <= batch and 1 <= one.run <= run


def is_natural(published: int) -> bool:
    """Of one exchange."""
    return published >= 0


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    attempts = state.attempts.every_by_name(attempt_ok, state.begun, parameters.tasks, state.batch, state.run)
    tasks = state.tasks.every(task_ok, parameters.exchanges, state.begun)
    published = state.published.every(is_natural)
    return (
        state.run >= 1
        and state.batch >= 1
        and min(state.faults, state.decided, state.late) >= 0
        and 0 <= state.begun <= parameters.attempts
        and state.decided <= state.batch
        and state.late <= state.batch
        and attempts
        and tasks
        and published
    )


def _published_attempts(state: State) -> list[Attempt]:
    return [one for one in cast("Members[Attempt]", state.attempts) if one.phase == "published"]


def published_once(state: State, _parameters: Parameters) -> bool:
    """Of two attempts at the same, one at most is published."""
    places = [(one.task, one.batch) for one in _published_attempts(state)]
    return len(places) == len(set(places))


def published_whole(state: State, _parameters: Parameters) -> bool:
    """An exchange that has published a batch has published one attempt of each of its tasks."""
    places = {(one.task, one.batch) for one in _published_attempts(state)}
    tasks, published = cast("Members[Task]", state.tasks), cast("Members[int]", state.published)
    return all(
        (name + 1, batch) in places
        for name, task in enumerate(tasks)
        for batch in range(1, published[task.home - 1] + 1)
    )


def published_of_one_run(state: State, _parameters: Parameters) -> bool:
    """All that is published of a batch was staged for the same driver, though others have run the batch again."""
    runs = {(one.batch, one.run) for one in _published_attempts(state)}
    return len(runs) == len({batch for batch, _ in runs})


def all_or_none(state: State, _parameters: Parameters) -> bool:
    """A batch is published at each exchange, or at none, or what was decided is there to be published."""
    published = cast("Members[int]", state.published)
    newest = max(published)
    behind = [name for name, batch in enumerate(published) if batch < newest]
    if not behind or state.decided != newest:
        return not behind
    return all(published[name] == newest - 1 and _is_there(state, name, decided_of) for name in behind)


def is_in_order(published: int, batch: int) -> bool:
    """Of one exchange: has it published all batches but this one, and perhaps this one?"""
    return published == batch - 1 or published == batch


def batches_in_order(state: State, _parameters: Parameters) -> bool:
    """Batches are published one after the other, and those in the commit log are."""
    return state.published.every(is_in_order, state.batch)


def named_is_there(state: State, parameters: Parameters) -> bool:
    """What the driver is about to publish is there, unless the only exchange has forgotten it."""
    if state.phase not in ("publishing", "recovering") or (parameters.exchanges == 1 and parameters.expires):
        return True
    batch, named = ordered(state)
    published = cast("Members[int]", state.published)
    return all(done >= batch or _is_there(state, name, named) for name, done in enumerate(published))


def is_given_back(one: Attempt, tasks: NamedFamily[Task], published: NamedFamily[int]) -> bool:
    """Of one attempt: is it staged only while its batch was not published?"""
    return not is_staged(one) or one.batch > published.get(home_of(one, tasks) - 1)


def given_back(state: State, _parameters: Parameters) -> bool:
    """Of a batch that was published nothing is staged any more."""
    return state.attempts.every(is_given_back, state.tasks, state.published)


# Probes.


def newest_run(state: State, _parameters: Parameters) -> bool:
    """Rows that are published are those of the newest driver."""
    return all(one.run == state.run for one in _published_attempts(state) if one.batch == state.batch)


def no_repetition(state: State, _parameters: Parameters) -> bool:
    """No batch that was published is run again."""
    return state.phase != "running" or all(done < state.batch for done in cast("Members[int]", state.published))


def at_once(state: State, _parameters: Parameters) -> bool:
    """All exchanges have always published the same batches."""
    return len(set(cast("Members[int]", state.published))) == 1


def _task_names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.tasks))


def _attempt_names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.attempts))


def _exchange_names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in range(parameters.exchanges))


SYSTEM: System[State, Parameters] = System(
    module="Staging",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("SpeculateAttempt", speculate_attempt, _task_names, is_environment=True),
        Action("LoseAttempt", lose_attempt, _attempt_names, is_environment=True),
        Action("DiscardAttempt", discard_attempt, _attempt_names, is_environment=True),
        Action("ExpireAttempts", expire_attempts, _exchange_names, is_environment=True),
        Action("RemoveChannel", remove_channel, _task_names, is_environment=True),
        Action("CrashDriver", crash_driver, is_environment=True),
        Action("PublishLateOrder", publish_late_order, _exchange_names, is_environment=True),
        Action("StartAttempt", start_attempt, _task_names),
        Action("OpenAttempt", open_attempt, _attempt_names),
        Action("EndAttempt", end_attempt, _attempt_names),
        Action("HearAttempt", hear_attempt, _attempt_names),
        Action("PrepareBatch", prepare_batch, _exchange_names),
        Action("DecideBatch", decide_batch),
        Action("PublishBatch", publish_batch, _exchange_names),
        Action("ForgetDecision", forget_decision),
        Action("FinishBatch", finish_batch),
        Action("RestartDriver", restart_driver),
    ),
    invariants={
        "TypeOK": type_ok,
        "PublishedOnce": published_once,
        "PublishedWhole": published_whole,
        "PublishedOfOneRun": published_of_one_run,
        "AllOrNone": all_or_none,
        "BatchesInOrder": batches_in_order,
        "NamedIsThere": named_is_there,
        "GivenBack": given_back,
    },
    probes={"NewestRunProbe": newest_run, "NoRepetitionProbe": no_repetition, "AtOnceProbe": at_once},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.staging:theorems")
