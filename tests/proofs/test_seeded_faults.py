"""A mistake in a copy of the model makes a proof fail, and the counterexample is a step of the copy."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from permitflow_model.kernel.system import require
from permitflow_model.permit_channel import SYSTEM, Parameters, Permits, State, held, plus
from permitflow_model.permit_channel_state import successor
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, INVARIANT

Perform = Callable[[State, Parameters], State]


def original(name: str) -> Perform:
    return SYSTEM.action(name).perform


def sends_without_taking_permits(state: State, parameters: Parameters) -> State:
    return original("SendChunk")(state, parameters)._replace(permits=state.permits)


def sends_without_asking(state: State, parameters: Parameters) -> State:
    require(not state.waiting.is_empty())
    rich = state._replace(permits=plus(state.permits, Permits(parameters.row_count, 0, 0)))
    after = original("SendChunk")(rich, parameters)
    return after._replace(permits=after.permits._replace(rows=after.permits.rows - parameters.row_count))


def sends_the_chunk_and_keeps_it(state: State, parameters: Parameters) -> State:
    return original("SendChunk")(state, parameters)._replace(waiting=state.waiting, permits=state.permits)


def sends_a_barrier_on_row_permits(state: State, parameters: Parameters) -> State:
    after = original("SendBarrier")(state, parameters)
    return after._replace(permits=state.permits._replace(rows=state.permits.rows - 1))


def returns_on_arrival(state: State, parameters: Parameters) -> State:
    after = original("Deliver")(state, parameters)
    return after._replace(grants=state.grants.push(held(state.wire.head())))


def forgets_the_residue(state: State, parameters: Parameters) -> State:
    """``=`` for ``+=``."""
    require(not state.inbox.is_empty())
    return original("Consume")(state._replace(unreturned=0), parameters)


def returns_late(state: State, parameters: Parameters) -> State:
    """``>`` for ``>=``."""
    return original("Consume")(state, replace(parameters, batch=parameters.batch + 1))


def returns_early(state: State, parameters: Parameters) -> State:
    """Each chunk at once."""
    return original("Consume")(state, replace(parameters, batch=1))


def returns_and_keeps(state: State, parameters: Parameters) -> State:
    after = original("Consume")(state, parameters)
    return after._replace(unreturned=state.unreturned)


def counts_past_the_ring(state: State, parameters: Parameters) -> State:
    after = original("Consume")(state, parameters)
    return after._replace(consumed=successor(state.consumed, parameters) + 1)


def flushes_nothing(state: State, parameters: Parameters) -> State:
    require(parameters.flush_idle)
    require(state.inbox.is_empty())
    return state._replace(grants=state.grants.push(Permits(state.unreturned, 0, 0)), unreturned=0)


def flushes_unasked(state: State, parameters: Parameters) -> State:
    return original("Flush")(state, replace(parameters, flush_idle=True))


def adds_and_forgets_to_take(state: State, parameters: Parameters) -> State:
    return original("AddPermits")(state, parameters)._replace(grants=state.grants)


def adds_rows_for_barriers(state: State, parameters: Parameters) -> State:
    after = original("AddPermits")(state, parameters)
    rows, barriers, watermarks = after.permits
    return after._replace(permits=Permits(rows + barriers, 0, watermarks))


def withdraws_the_watermark_wrongly(state: State, parameters: Parameters) -> State:
    after = original("WithdrawChunk")(state, parameters)
    return after._replace(watermark_pending=state.watermark_pending)


@dataclass(frozen=True)
class Fault:
    """A faulty action, and the clause that it breaks."""

    action: str
    perform: Perform
    breaks: str


FAULTS = [
    Fault("SendChunk", sends_without_taking_permits, "Conservation"),
    Fault("SendChunk", sends_without_asking, "TypeOK"),
    Fault("SendChunk", sends_the_chunk_and_keeps_it, "Conservation"),
    Fault("SendBarrier", sends_a_barrier_on_row_permits, "Conservation"),
    Fault("Deliver", returns_on_arrival, "Conservation"),
    Fault("Consume", forgets_the_residue, "Conservation"),
    Fault("Consume", returns_late, "GrantsBatched"),
    Fault("Consume", returns_early, "GrantsBatched"),
    Fault("Consume", returns_and_keeps, "Conservation"),
    Fault("Consume", counts_past_the_ring, "TypeOK"),
    Fault("Flush", flushes_nothing, "GrantsBringPermits"),
    Fault("Flush", flushes_unasked, "GrantsBatched"),
    Fault("AddPermits", adds_and_forgets_to_take, "Conservation"),
    Fault("AddPermits", adds_rows_for_barriers, "Conservation"),
    Fault("WithdrawChunk", withdraws_the_watermark_wrongly, "TypeOK"),
]


def with_fault(fault: Fault | None) -> Subject[State, Parameters]:
    """The channel with one action replaced."""
    actions = tuple(
        replace(action, perform=fault.perform) if fault is not None and action.name == fault.action else action
        for action in SYSTEM.actions
    )
    return replace(CHANNEL, system=replace(SYSTEM, actions=actions))


def refuted_clauses(subject: Subject[State, Parameters], action: str) -> set[str]:
    refuted = set()
    for name, clause in INVARIANT.items():
        for obligation in subject.induction(clause, lambda state, _parameters: state, "no fault"):
            if obligation.name == f"kept by {action}" and decide(obligation.claim).outcome == "refuted":
                refuted.add(name)
    return refuted


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.perform.__name__)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert fault.breaks in refuted_clauses(with_fault(fault), fault.action)


@pytest.mark.parametrize("action", sorted({fault.action for fault in FAULTS}))
def test_the_same_action_without_the_fault_breaks_none(action: str) -> None:
    assert refuted_clauses(with_fault(None), action) == set()
