"""Mistakes on purpose in ``spark_micro_batch``."""

from permitflow_model.mistakes import Mistake
from permitflow_model.spark_micro_batch import NOTHING_STAGED, SYSTEM, Parameters, Staged, State

PUBLISHED_BEYOND_THE_WINDOW = Parameters(
    row_permits=2, batch_cap=1, sizes=(1, 2), horizon=5, staging_rows=2, driver_crashes=True, faults=1
)


def takes_over_without_asking(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Produce", state._replace(acknowledged=state.produced), parameters)
    return after._replace(acknowledged=state.acknowledged)


def publishes_without_asking(state: State, parameters: Parameters, rows: int) -> State:
    after = SYSTEM.perform("ProduceBatch", state._replace(acknowledged=state.produced), parameters, rows)
    return after._replace(acknowledged=state.acknowledged)


def plans_all_there_is(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("PlanBatch", state, parameters)._replace(plan=state.produced)


def acknowledges_what_runs(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("RunTask", state, parameters)._replace(acknowledged=state.end)


def stages_from_the_beginning(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Stage", state, parameters)._replace(staged=Staged(state.attempts, 0, state.end))


def publishes_again(state: State, parameters: Parameters) -> State:
    """A crash between publishing and the commit log runs the batch again: its rows are there twice."""
    return SYSTEM.perform("Publish", state._replace(published=False), parameters)


def commits_unpublished(state: State, parameters: Parameters) -> State:
    return (
        SYSTEM.action("Publish")
        .perform(state, parameters)
        ._replace(phase="idle", committed=True, published=False, output=state.output, misplaced=state.misplaced)
    )


def begins_anew(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Restart", state, parameters)._replace(phase="idle")


def aborts_what_is_published(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("AbortLate", state, parameters)
    return after._replace(output=state.output - (state.staged.end - state.staged.start))


def aborts_what_is_to_be_published(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("AbortLate", state, parameters)._replace(staged=NOTHING_STAGED)


def names_attempts_anew(state: State, parameters: Parameters) -> State:
    """Spark's attempt numbers are no names: the abort of a dead driver names the attempt of the next one."""
    return SYSTEM.perform("RunTask", state, parameters)._replace(attempts=state.attempts)


def acknowledges_the_last_batch(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("AcknowledgeForDriver", state._replace(committed=True), parameters)
    return after._replace(committed=state.committed)


def loses_what_it_keeps(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("CrashDriver", state, parameters)._replace(lost=state.produced)


def stages_more_than_its_batch(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Stage", state, parameters)
    return after._replace(staged=after.staged._replace(end=state.end + 1))


MISTAKES = (
    Mistake("Produce", takes_over_without_asking, "Bounded", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("ProduceBatch", publishes_without_asking, "Bounded", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("PlanBatch", plans_all_there_is, "BatchCapped", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("RunTask", acknowledges_what_runs, "AcknowledgedIsCommitted", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("Stage", stages_from_the_beginning, "ToPublishIsStaged", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("Publish", publishes_again, "PublishedOnceInOrder", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("Publish", commits_unpublished, "CommittedIsPublished", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("Restart", begins_anew, "PhasesAgree", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("AbortLate", aborts_what_is_published, "PublishedOnceInOrder", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("AbortLate", aborts_what_is_to_be_published, "ToPublishIsStaged", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("RunTask", names_attempts_anew, "NamesAreUnique"),
    Mistake(
        "AcknowledgeForDriver", acknowledges_the_last_batch, "AcknowledgedIsCommitted", PUBLISHED_BEYOND_THE_WINDOW
    ),
    Mistake("CrashDriver", loses_what_it_keeps, "NothingLostIfDurable", PUBLISHED_BEYOND_THE_WINDOW),
    Mistake("Stage", stages_more_than_its_batch, "TypeOK", PUBLISHED_BEYOND_THE_WINDOW),
)
