"""The runs that the model of a streaming query is about, and its invariants: each can fail."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest

from permitflow_model.exploration import explore_model
from permitflow_model.kernel.explore import Graph, explore
from permitflow_model.kernel.system import require
from permitflow_model.spark_micro_batch import SYSTEM, Parameters, Phase, Rows, Staged, State
from permitflow_proofs import catalogue
from tests.support.specification import MODELS, SPEC

TEXT = (SPEC / "spark_micro_batch/SparkMicroBatch.tla").read_text()
QUERY = Parameters(row_permits=4, batch_cap=2, sizes=(1,), horizon=9)
START = SYSTEM.initial(QUERY)
# The second batch is in the offset log.
LOGGED = START._replace(
    phase="ready", produced=4, acknowledged=2, start=2, end=4, committed=False, published=False, output=2
)


def test_the_phases_are_those_of_the_specification() -> None:
    found = re.search(r"^Phases == {(.*)}$", TEXT, re.MULTILINE)
    assert found is not None
    assert tuple(re.findall(r'"(\w+)"', found[1])) == get_args(Phase)


def test_all_invariants_are_checked_by_default() -> None:
    assert set(MODELS["spark-published"].invariants) == set(SYSTEM.invariants)


# Stories.


def actions_into(model_name: str) -> list[str]:
    counterexample = explore_model(MODELS[model_name]).counterexample
    assert counterexample is not None
    return [step.action for step in counterexample.steps]


def test_the_deadlock_of_commit_is_one_batch_of_the_whole_window() -> None:
    actions = actions_into("spark-commit-stuck")
    batch = ["PlanBatch", "WriteOffsetLog", "Acknowledge", "RunTask", "Stage", "Publish", "WriteCommitLog"]
    assert actions == [*["Offer", "Produce"] * 2, "Offer", *batch]


# Batches that end at barriers: the cap is what is left of the epoch, and a batch waits until all of it is there.

BARRIERS = (1, 4, 6)
"""Rows before which barriers stand; the largest epoch has three rows."""


def next_barrier(row: int) -> int:
    return min(barrier for barrier in BARRIERS if barrier > row)


def offer_of_one_epoch(state: State, parameters: Parameters, rows: int) -> State:
    after = SYSTEM.perform("Offer", state, parameters, rows)
    require(state.produced + rows <= next_barrier(state.produced))
    return after


def plan_epoch(state: State, parameters: Parameters) -> State:
    require(state.end < BARRIERS[-1])
    barrier = next_barrier(state.end)
    require(barrier <= state.produced)
    return SYSTEM.perform("PlanBatch", state, replace(parameters, batch_cap=barrier - state.end))


OTHERWISE: Mapping[str, Callable[..., State]] = {"Offer": offer_of_one_epoch, "PlanBatch": plan_epoch}
ALIGNED = replace(
    SYSTEM,
    actions=tuple(replace(action, perform=OTHERWISE.get(action.name, action.perform)) for action in SYSTEM.actions),
)


def never_stuck_with_epochs(state: State, parameters: Parameters) -> bool:
    return state.waiting == 0 or ALIGNED.can_move(state, parameters)


def explored_with_epochs(row_permits: int) -> Graph[State]:
    """All runs of a query whose driver may crash, with attempts that fail and run on."""
    query = Parameters(
        row_permits=row_permits, batch_cap=3, sizes=(1, 2), horizon=BARRIERS[-1], driver_crashes=True, faults=2
    )
    inherited = {
        name: holds for name, holds in SYSTEM.invariants.items() if name not in ("NeverStuck", "WholeWhenIdle")
    }
    return explore(ALIGNED, query, invariants={**inherited, "NeverStuckWithEpochs": never_stuck_with_epochs})


def test_batches_that_end_at_barriers_are_safe_and_live() -> None:
    graph = explored_with_epochs(row_permits=3)
    assert (graph.violations, graph.deadlock) == ([], None)
    ends = {(state.start, state.end) for state in graph.states if state.phase == "published"}
    assert ends == {(0, 1), (1, 4), (4, 6)}


def test_an_epoch_that_does_not_fit_in_the_kept_rows_is_a_deadlock() -> None:
    violations = explored_with_epochs(row_permits=2).violations
    assert {violation.invariant for violation in violations} == {"NeverStuckWithEpochs"}


def actions_into_a_repetition(faulty: str, perform: Callable[[State, Parameters], State]) -> list[str]:
    """The shortest run into a table that is wrong, if this action is done like that."""
    actions = tuple(replace(action, perform=perform) if action.name == faulty else action for action in SYSTEM.actions)
    graph = explore(
        replace(SYSTEM, actions=actions),
        Parameters(row_permits=2, batch_cap=1, sizes=(1,), horizon=4, driver_crashes=faulty == "Publish", faults=1),
        invariants={"PublishedOnceInOrder": SYSTEM.invariants["PublishedOnceInOrder"]},
        stop_at_violation=True,
    )
    (violation,) = graph.violations
    return [step.action for step in violation.steps]


def test_a_forgetful_sink_repeats_a_batch_after_a_crash() -> None:
    publish = SYSTEM.action("Publish").perform
    actions = actions_into_a_repetition("Publish", lambda state, p: publish(state._replace(published=False), p))
    again = ["RunTask", "Stage", "Publish"]
    assert actions[-8:] == [*again, "CrashDriver", "Restart", *again]


def test_a_late_attempt_replaces_the_next_batchs_rows_when_shared() -> None:
    stage_late = SYSTEM.action("StageLate").perform

    def in_a_shared_place(state: State, parameters: Parameters) -> State:
        return stage_late(state, parameters)._replace(staged=Staged(state.attempts, *state.late))

    actions = actions_into_a_repetition("StageLate", in_a_shared_place)
    assert actions[-3:] == ["Stage", "StageLate", "Publish"]
    assert actions.count("WriteOffsetLog") == 2


@pytest.mark.parametrize("batch_cap", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("largest", [1, 2, 4])
def test_the_threshold_of_commit_is_exact(batch_cap: int, largest: int) -> None:
    """As the theorem says: live if and only if cap + largest chunk <= row permits."""
    parameters = Parameters(
        row_permits=4, batch_cap=batch_cap, sizes=tuple({1, largest}), horizon=8, acknowledge_in="commit"
    )
    found = explore(SYSTEM, parameters, invariants={"NeverStuck": SYSTEM.invariants["NeverStuck"]})
    assert (not found.violations) == (batch_cap + largest <= 4)


# Each invariant can fail, and it alone notices.

BROKEN_STATES = {
    "a batch ends before it starts": ("TypeOK", LOGGED._replace(late=Rows(4, 3))),
    "a plan is left over": ("TypeOK", START._replace(phase="idle", produced=3, plan=1)),
    "more rows than there are permits": ("Bounded", LOGGED._replace(produced=7)),
    "rows of a batch that is not committed are forgotten": ("AcknowledgedIsCommitted", LOGGED._replace(acknowledged=3)),
    "a row is published twice": ("PublishedOnceInOrder", LOGGED._replace(output=3, misplaced=1)),
    "a row is left out": ("PublishedOnceInOrder", LOGGED._replace(output=1)),
    "what is to be published has other rows": (
        "ToPublishIsStaged",
        LOGGED._replace(phase="staged", attempts=2, staged=Staged(2, 0, 0)),
    ),
    "an abort names an attempt that has not begun": ("TypeOK", LOGGED._replace(aborting=1)),
    "committed, and not published": ("CommittedIsPublished", LOGGED._replace(committed=True)),
    "a batch above the cap": ("BatchCapped", LOGGED._replace(start=1, output=1, acknowledged=1)),
    "the exchange has all rows, and the query fails": ("NeverFails", LOGGED._replace(phase="failed")),
}


def test_the_states_that_are_broken_below_are_sound_otherwise() -> None:
    assert SYSTEM.broken_invariants(START, QUERY) == []
    assert SYSTEM.broken_invariants(LOGGED, QUERY) == []


@pytest.mark.parametrize("case", BROKEN_STATES)
def test_an_invariant_notices(case: str) -> None:
    name, state = BROKEN_STATES[case]
    assert SYSTEM.broken_invariants(state, QUERY) == [name]


def test_a_query_that_cannot_move_is_stuck_and_keeps_permits() -> None:
    idle = LOGGED._replace(
        phase="idle", produced=4, start=0, end=4, acknowledged=0, committed=True, published=True, output=4, waiting=1
    )
    in_commit = replace(QUERY, acknowledge_in="commit", batch_cap=4)
    assert SYSTEM.broken_invariants(idle, in_commit) == ["NeverStuck", "WholeWhenIdle"]
    assert SYSTEM.broken_invariants(idle, replace(QUERY, batch_cap=4)) == []


# Steps.


# The document.


def test_the_document_names_models_and_theorems_that_exist() -> None:
    text = (SPEC.parent / "docs/protocols/spark-micro-batch.md").read_text()
    named = set(re.findall(r"\b(spark(?:-[a-z]+)+)\b(?!\.md)", text))
    assert len(named) >= 12
    assert named <= {*MODELS, *(theorem.id for theorem in catalogue())}


# Parameters.


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (0, 1)}, r"a chunk has at least one row, but sizes are \(0, 1\)"),
        ({"acknowledge_in": "abort"}, "must be latestOffset or commit, not 'abort'"),
    ],
)
def test_parameters_out_of_range_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(QUERY, **change)
