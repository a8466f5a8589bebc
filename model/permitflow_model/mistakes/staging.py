"""Mistakes on purpose in ``staging``."""

from typing import cast

from permitflow_model.kernel.family import NamedFamily
from permitflow_model.mistakes import Mistake
from permitflow_model.staging import SYSTEM, Attempt, Parameters, State, Task, is_staged

ONE = Parameters(tasks=1, attempts=3, faults=1)
REMOVED = Parameters(tasks=1, attempts=2, faults=1, expires=True)
TWO_EXCHANGES = Parameters(tasks=2, attempts=4, exchanges=2, faults=1)
TWO_BATCHES = Parameters(tasks=1, attempts=3, batches=2, exchanges=2, faults=1)
EXPIRING = Parameters(tasks=2, attempts=2, exchanges=2, faults=1, expires=True)


# The driver.


def names_attempts_of_an_earlier_driver(state: State, parameters: Parameters, name: int) -> State:
    """The abort of that driver may discard them at any time."""
    one = state.attempts.get(name)._replace(run=state.run)
    own = state._replace(attempts=state.attempts.put(name, one))
    return SYSTEM.perform("HearAttempt", own, parameters, name)._replace(attempts=state.attempts)


def decides_before_all_have_prepared(state: State, parameters: Parameters) -> State:
    """The driver may be away for long between two publications; meanwhile what it has named expires."""
    ready = state._replace(attempts=cast("NamedFamily[Attempt]", state.attempts.map(_prepared)))
    return SYSTEM.perform("DecideBatch", ready, parameters)._replace(attempts=state.attempts)


def _prepared(one: Attempt) -> Attempt:
    return one if one.phase == "none" else one._replace(phase="prepared")


def writes_nothing_down(state: State, parameters: Parameters) -> State:
    """The batch that is run again has other attempts, and one exchange has published the first ones."""
    after = SYSTEM.perform("DecideBatch", state, parameters)
    return after._replace(decided=state.decided, tasks=state.tasks)


def runs_a_decided_batch_again(state: State, parameters: Parameters) -> State:
    """A driver that starts, and does not look whether something was decided."""
    return SYSTEM.perform("RestartDriver", state, parameters)._replace(phase="running")


def forgets_the_decision_too_early(state: State, parameters: Parameters) -> State:
    """The first exchange has published, and others have not."""
    published = cast("NamedFamily[int]", state.published.map(_at_least, state.published.get(0)))
    after = SYSTEM.perform("ForgetDecision", state._replace(published=published), parameters)
    return after._replace(published=state.published)


def _at_least(published: int, least: int) -> int:
    return published if published > least else least


def finishes_before_all_have_published(state: State, parameters: Parameters) -> State:
    published = cast("NamedFamily[int]", state.published.map(_at_least, state.published.get(0)))
    after = SYSTEM.perform("FinishBatch", state._replace(published=published, decided=0), parameters)
    return after._replace(published=state.published)


def discards_what_was_decided(state: State, parameters: Parameters, name: int) -> State:
    """The abort of a driver names all attempts of its batch."""
    undecided = state._replace(tasks=cast("NamedFamily[Task]", state.tasks.map(_undecided)))
    return SYSTEM.perform("DiscardAttempt", undecided, parameters, name)._replace(tasks=state.tasks)


def _undecided(task: Task) -> Task:
    return task._replace(decided=0)


# An exchange.


def keeps_what_comes_late(state: State, parameters: Parameters, name: int) -> State:
    """Nobody gives back the rows of an attempt that begins after its batch was published."""
    after = SYSTEM.perform("OpenAttempt", state, parameters, name)
    one = after.attempts.get(name)._replace(phase="open")
    return after._replace(attempts=after.attempts.put(name, one))


def publishes_all_that_has_ended(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("PublishBatch", state, parameters, name)
    return after._replace(attempts=after.attempts.map_by_name(_published_too, state.attempts))


def _published_too(name: int, after: Attempt, before: NamedFamily[Attempt]) -> Attempt:
    is_displaced = after.phase == "late" and before.get(name).phase == "ended"
    return after._replace(phase="published") if is_displaced else after


def publishes_what_is_there(state: State, parameters: Parameters, name: int) -> State:
    """What is not there any more is left out."""
    there = state._replace(attempts=cast("NamedFamily[Attempt]", state.attempts.map(_prepared)))
    after = SYSTEM.perform("PublishBatch", there, parameters, name)
    return after._replace(attempts=after.attempts.map_by_name(_if_it_was_there, state.attempts))


def _if_it_was_there(name: int, after: Attempt, before: NamedFamily[Attempt]) -> Attempt:
    one = before.get(name)
    return after if is_staged(one) and after.phase != "prepared" else one


def leaves_the_others_staged(state: State, parameters: Parameters, name: int) -> State:
    """A second attempt at a task stays for ever."""
    after = SYSTEM.perform("PublishBatch", state, parameters, name)
    return after._replace(attempts=after.attempts.map_by_name(_not_given_back, state.attempts))


def _not_given_back(name: int, after: Attempt, before: NamedFamily[Attempt]) -> Attempt:
    return before.get(name) if after.phase == "late" else after


def carries_out_an_older_order(state: State, parameters: Parameters, name: int) -> State:
    """The order of a dead driver comes when a newer batch was published."""
    unpublished = state._replace(published=state.published.put(name, state.late - 1))
    return SYSTEM.perform("PublishLateOrder", unpublished, parameters, name)


def forgets_what_it_has_prepared(state: State, parameters: Parameters, name: int) -> State:
    """A channel is removed though its rows are to be published."""
    unprepared = state._replace(attempts=cast("NamedFamily[Attempt]", state.attempts.map(_ended)))
    after = SYSTEM.perform("RemoveChannel", unprepared, parameters, name)
    return after._replace(attempts=after.attempts.map_by_name(_unless_ended, state.attempts))


def _ended(one: Attempt) -> Attempt:
    return one._replace(phase="ended") if one.phase == "prepared" else one


def _unless_ended(name: int, after: Attempt, before: NamedFamily[Attempt]) -> Attempt:
    return before.get(name) if after.phase == "ended" else after


def names_an_attempt_that_was_not_begun(state: State, parameters: Parameters, name: int) -> State:
    after = SYSTEM.perform("HearAttempt", state, parameters, name)
    place = state.attempts.get(name).task - 1
    one = after.tasks.get(place)._replace(chosen=state.begun + 1)
    return after._replace(tasks=after.tasks.put(place, one))


MISTAKES = (
    Mistake("OpenAttempt", keeps_what_comes_late, "GivenBack", ONE),
    Mistake("PublishBatch", leaves_the_others_staged, "GivenBack", ONE),
    Mistake("PublishBatch", publishes_all_that_has_ended, "PublishedOnce", ONE),
    Mistake("PublishBatch", publishes_what_is_there, "PublishedWhole", REMOVED),
    Mistake("PublishLateOrder", carries_out_an_older_order, "BatchesInOrder", TWO_BATCHES),
    Mistake("FinishBatch", finishes_before_all_have_published, "BatchesInOrder", TWO_BATCHES),
    Mistake("HearAttempt", names_attempts_of_an_earlier_driver, "NamedIsThere", ONE, at_once="Chosen"),
    Mistake("RemoveChannel", forgets_what_it_has_prepared, "NamedIsThere", EXPIRING, at_once="Decided"),
    Mistake("DiscardAttempt", discards_what_was_decided, "NamedIsThere", TWO_EXCHANGES, at_once="Decided"),
    Mistake("DecideBatch", decides_before_all_have_prepared, "AllOrNone", EXPIRING, at_once="Decided"),
    Mistake("ForgetDecision", forgets_the_decision_too_early, "AllOrNone", TWO_EXCHANGES, at_once="Forgotten"),
    Mistake("DecideBatch", writes_nothing_down, "PublishedOfOneRun", TWO_EXCHANGES, at_once="Forgotten"),
    Mistake("RestartDriver", runs_a_decided_batch_again, "PublishedOfOneRun", TWO_EXCHANGES, at_once="Decision"),
    Mistake("HearAttempt", names_an_attempt_that_was_not_begun, "TypeOK", ONE, at_once="Chosen"),
)
