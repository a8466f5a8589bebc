"""A mistake in a copy of the model makes a proof fail, and the counterexample is a step of the copy."""

from dataclasses import replace

import pytest

from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import require
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Parameters, Permits, State, held, plus, successor
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, INVARIANT
from permitflow_proofs.permit_channel.inductive import NUMBERED
from permitflow_proofs.permit_channel.refinement import SEEN, implements
from tests.support.faults import Fault, is_kept, with_fault


def sends_without_taking_permits(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("SendChunk", state, parameters)._replace(permits=state.permits)


def sends_without_asking(state: State, parameters: Parameters) -> State:
    require(not state.waiting.is_empty())
    rich = state._replace(permits=plus(state.permits, Permits(parameters.row_permits, 0, 0)))
    after = SYSTEM.perform("SendChunk", rich, parameters)
    return after._replace(permits=after.permits._replace(rows=after.permits.rows - parameters.row_permits))


def sends_the_chunk_and_keeps_it(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("SendChunk", state, parameters)._replace(waiting=state.waiting, permits=state.permits)


def sends_a_barrier_on_row_permits(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("SendBarrier", state, parameters)
    return after._replace(permits=state.permits._replace(rows=state.permits.rows - 1))


def returns_on_arrival(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Deliver", state, parameters)
    return after._replace(grants=state.grants.push(held(state.wire.head())))


def forgets_the_residue(state: State, parameters: Parameters) -> State:
    """``=`` for ``+=``."""
    require(not state.inbox.is_empty())
    return SYSTEM.perform("Consume", state._replace(unreturned=0), parameters)


def returns_late(state: State, parameters: Parameters) -> State:
    """``>`` for ``>=``."""
    return SYSTEM.perform("Consume", state, replace(parameters, permit_batch=parameters.permit_batch + 1))


def returns_early(state: State, parameters: Parameters) -> State:
    """Each chunk at once."""
    return SYSTEM.perform("Consume", state, replace(parameters, permit_batch=1))


def returns_and_keeps(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(unreturned=state.unreturned)


def counts_past_the_ring(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("Consume", state, parameters)
    return after._replace(consumed=successor(state.consumed, parameters) + 1)


def flushes_nothing(state: State, parameters: Parameters) -> State:
    require(parameters.flush_idle)
    require(state.inbox.is_empty())
    return state._replace(grants=state.grants.push(Permits(state.unreturned, 0, 0)), unreturned=0)


def flushes_unasked(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Flush", state, replace(parameters, flush_idle=True))


def adds_and_forgets_to_take(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("AddPermits", state, parameters)._replace(grants=state.grants)


def adds_rows_for_barriers(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("AddPermits", state, parameters)
    rows, barriers, watermarks = after.permits
    return after._replace(permits=Permits(rows + barriers, 0, watermarks))


def withdraws_the_watermark_wrongly(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("WithdrawChunk", state, parameters)
    return after._replace(watermark_pending=state.watermark_pending)


def delivers_the_newest_first(state: State, parameters: Parameters) -> State:
    require(not state.wire.is_empty())
    return state._replace(inbox=state.inbox.push(state.wire.last()), wire=state.wire.without_last())


def delivers_and_keeps(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Deliver", state, parameters)._replace(wire=state.wire)


def delivers_to_nobody(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("Deliver", state, parameters)._replace(inbox=state.inbox)


def sends_the_newest_first(state: State, parameters: Parameters) -> State:
    after = SYSTEM.perform("SendChunk", state, parameters)
    return after._replace(wire=state.wire.push(state.waiting.last()), waiting=state.waiting.without_last())


def consumes_a_chunk_behind_a_barrier(state: State, parameters: Parameters) -> State:
    """The barrier is put back at the end."""
    after = SYSTEM.perform("Consume", state, parameters)
    require(state.inbox.head().kind != "chunk")
    return state._replace(inbox=after.inbox.push(state.inbox.head()))


def sends_the_barrier_before_what_waits(state: State, parameters: Parameters) -> State:
    """The newest message is a barrier, and leaves as soon as its permit is there."""
    require(not state.waiting.is_empty())
    barrier = state.waiting.last()
    require(barrier.kind == "barrier")
    alone = state._replace(waiting=SYSTEM.initial(parameters).waiting.push(barrier))
    return SYSTEM.perform("SendBarrier", alone, parameters)._replace(waiting=state.waiting.without_last())


def withdraws_the_barrier_and_the_watermark(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("WithdrawBarrier", state, parameters)._replace(watermark_pending=NO_WATERMARK)


def forgets_the_watermark_that_is_pending(state: State, parameters: Parameters) -> State:
    """A watermark that is consumed takes the pending one with it."""
    after = SYSTEM.perform("Consume", state, parameters)
    require(state.inbox.head().kind == "watermark")
    return after._replace(watermark_pending=NO_WATERMARK)


def withdraws_and_goes_on_counting(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("WithdrawChunk", state, parameters)._replace(offered=state.offered)


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
    Fault("WithdrawBarrier", withdraws_the_barrier_and_the_watermark, "NewestWatermarkKept"),
    Fault("Consume", forgets_the_watermark_that_is_pending, "NewestWatermarkKept"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_faulty_action_breaks_the_clause_that_is_about_it(fault: Fault) -> None:
    assert not is_kept(INVARIANT[fault.breaks], with_fault(fault, CHANNEL), fault.action)


# Faults that the ledger does not see: the data itself.

SEEN_FAULTS = [
    Fault("Deliver", delivers_the_newest_first, "the queue"),
    Fault("Deliver", delivers_and_keeps, "the queue"),
    Fault("Deliver", delivers_to_nobody, "the queue"),
    Fault("SendChunk", sends_the_newest_first, "the queue"),
    Fault("SendChunk", sends_without_asking, "the queue"),
    Fault("Consume", consumes_a_chunk_behind_a_barrier, "the order"),
    Fault("SendBarrier", sends_the_barrier_before_what_waits, "the order"),
    Fault("WithdrawChunk", withdraws_and_goes_on_counting, "the order"),
]


def breaks_queue(subject: Subject[State, Parameters], action: str) -> bool:
    return decide(lambda: implements(subject, action)).outcome == "refuted"


def breaks_order(subject: Subject[State, Parameters], action: str) -> bool:
    return not is_kept(SYSTEM.invariants["ExactlyOnceInOrder"], subject, action)


@pytest.mark.parametrize("fault", SEEN_FAULTS, ids=str)
def test_a_faulty_action_is_seen_by_the_user_of_the_queue_or_breaks_the_order(fault: Fault) -> None:
    if fault.breaks == "the queue":
        assert breaks_queue(with_fault(fault, SEEN), fault.action)
    else:
        assert breaks_order(with_fault(fault, NUMBERED), fault.action)


@pytest.mark.parametrize("action", sorted({fault.action for fault in SEEN_FAULTS}))
def test_the_same_action_without_the_fault_is_not_and_does_not(action: str) -> None:
    assert not breaks_queue(SEEN, action)
    assert not breaks_order(NUMBERED, action)


# A mistake that specification and model make alike leaves their state graphs equal: only a statement can notice it.


def test_the_explorer_finds_the_shortest_run_in_which_withdrawing_a_barrier_loses_the_newest_watermark() -> None:
    fault = Fault("WithdrawBarrier", withdraws_the_barrier_and_the_watermark, "NewestWatermarkKept")
    system = with_fault(fault, CHANNEL).system
    parameters = Parameters(
        row_permits=1,
        permit_batch=1,
        max_chunk_cost=1,
        sizes=(1,),
        barrier_permits=1,
        watermarks=True,
        withdrawals=True,
    )
    violation = explore(system, parameters, stop_at_violation=True).violations[0]
    assert violation.invariant == "NewestWatermarkKept"
    assert [step.action for step in violation.steps] == ["OfferBarrier", "OfferWatermark", "WithdrawBarrier"]
    assert not explore(SYSTEM, parameters).violations
