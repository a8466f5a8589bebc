"""A mistake in a copy of the streaming query makes a proof fail; without one, the same proof holds."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from permitflow_model.spark_micro_batch import SYSTEM, Parameters, Rows, State
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.spark_micro_batch import INVARIANT, QUERY

Perform = Callable[..., State]


def original(name: str) -> Perform:
    return SYSTEM.action(name).perform


def takes_over_without_asking(state: State, parameters: Parameters) -> State:
    after = original("Produce")(state._replace(acknowledged=state.produced), parameters)
    return after._replace(acknowledged=state.acknowledged)


def publishes_without_asking(state: State, parameters: Parameters, rows: int) -> State:
    after = original("ProduceBatch")(state._replace(acknowledged=state.produced), parameters, rows)
    return after._replace(acknowledged=state.acknowledged)


def plans_all_there_is(state: State, parameters: Parameters) -> State:
    return original("PlanBatch")(state, parameters)._replace(plan=state.produced)


def acknowledges_what_runs(state: State, parameters: Parameters) -> State:
    return original("RunTask")(state, parameters)._replace(acknowledged=state.end)


def stages_from_the_beginning(state: State, parameters: Parameters) -> State:
    return original("Stage")(state, parameters)._replace(staged=Rows(0, state.end))


def publishes_again(state: State, parameters: Parameters) -> State:
    return original("Publish")(state, replace(parameters, sink="again"))


def commits_unpublished(state: State, parameters: Parameters) -> State:
    return original("Publish")(state, parameters)._replace(
        phase="idle", committed=True, published=False, output=state.output, misplaced=state.misplaced
    )


def begins_anew(state: State, parameters: Parameters) -> State:
    return original("Restart")(state, parameters)._replace(phase="idle")


def aborts_what_is_published(state: State, parameters: Parameters) -> State:
    after = original("AbortLate")(state, parameters)
    return after._replace(output=state.output - (state.staged.end - state.staged.start))


def aborts_what_is_to_be_published(state: State, parameters: Parameters) -> State:
    return original("AbortLate")(state._replace(phase="ready"), parameters)._replace(phase=state.phase)


def acknowledges_the_last_batch(state: State, parameters: Parameters) -> State:
    after = original("AcknowledgeForDriver")(state._replace(committed=True), parameters)
    return after._replace(committed=state.committed)


def loses_what_it_keeps(state: State, parameters: Parameters) -> State:
    return original("CrashDriver")(state, parameters)._replace(lost=state.produced)


@dataclass(frozen=True)
class Fault:
    """A faulty action, and the clause that it breaks."""

    action: str
    perform: Perform
    breaks: str


FAULTS = [
    Fault("Produce", takes_over_without_asking, "Bounded"),
    Fault("ProduceBatch", publishes_without_asking, "Bounded"),
    Fault("PlanBatch", plans_all_there_is, "BatchCapped"),
    Fault("RunTask", acknowledges_what_runs, "AcknowledgedIsCommitted"),
    Fault("Stage", stages_from_the_beginning, "PhasesAgree"),
    Fault("Publish", publishes_again, "PublishedOnceInOrder"),
    Fault("Publish", commits_unpublished, "CommittedIsPublished"),
    Fault("Restart", begins_anew, "PhasesAgree"),
    Fault("AbortLate", aborts_what_is_published, "PublishedOnceInOrder"),
    Fault("AbortLate", aborts_what_is_to_be_published, "PhasesAgree"),
    Fault("AcknowledgeForDriver", acknowledges_the_last_batch, "AcknowledgedIsCommitted"),
    Fault("CrashDriver", loses_what_it_keeps, "NothingLostIfDurable"),
]


def is_kept(clause: str, action: str, perform: Perform) -> bool:
    actions = tuple(replace(a, perform=perform) if a.name == action else a for a in SYSTEM.actions)
    faulty = replace(QUERY, system=replace(SYSTEM, actions=actions))
    (obligation,) = (
        one
        for one in faulty.induction(INVARIANT[clause], lambda state, _parameters: state, "no fault")
        if one.name == f"kept by {action}"
    )
    return decide(obligation.claim).outcome == "proved"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.perform.__name__)
def test_a_fault_makes_the_proof_fail(fault: Fault) -> None:
    assert is_kept(fault.breaks, fault.action, original(fault.action))
    assert not is_kept(fault.breaks, fault.action, fault.perform)
