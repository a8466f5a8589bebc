"""Mistakes on purpose in ``permit_channel``."""

from dataclasses import replace

from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Parameters, Permits, State, held, plus, successor

BARRIERS = Parameters(row_permits=2, permit_batch=2, max_chunk_cost=1, sizes=(1,), barrier_permits=2, waiters=2)
WITHDRAWALS_OF_ALL_CLASSES = Parameters(
    row_permits=1,
    permit_batch=1,
    max_chunk_cost=1,
    sizes=(1,),
    barrier_permits=1,
    watermarks=True,
    withdrawals=True,
    tags=4,
)
BARRIERS_IN_LINE = Parameters(
    row_permits=1, permit_batch=1, max_chunk_cost=1, sizes=(1,), barrier_permits=1, withdrawals=True, waiters=2, tags=5
)
FLUSH_IDLE = Parameters(row_permits=4, permit_batch=3, max_chunk_cost=4, sizes=(1, 2, 4), flush_idle=True)


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
    """Permits alone say nothing about the data."""
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
    """It was made in specification and model alike, and no theorem noticed it."""
    return SYSTEM.perform("WithdrawBarrier", state, parameters)._replace(watermark_pending=NO_WATERMARK)


def forgets_the_watermark_that_is_pending(state: State, parameters: Parameters) -> State:
    """A watermark that is consumed takes the pending one with it."""
    after = SYSTEM.perform("Consume", state, parameters)
    require(state.inbox.head().kind == "watermark")
    return after._replace(watermark_pending=NO_WATERMARK)


def withdraws_and_goes_on_counting(state: State, parameters: Parameters) -> State:
    return SYSTEM.perform("WithdrawChunk", state, parameters)._replace(offered=state.offered)


MISTAKES = (
    Mistake("SendChunk", sends_without_taking_permits, "Conservation", BARRIERS, "window"),
    Mistake("SendChunk", sends_without_asking, "TypeOK", BARRIERS, "window"),
    Mistake("SendChunk", sends_the_chunk_and_keeps_it, "Conservation", BARRIERS),
    Mistake("SendBarrier", sends_a_barrier_on_row_permits, "Conservation", BARRIERS),
    Mistake("Deliver", returns_on_arrival, "Conservation", BARRIERS, "returned-when-consumed"),
    Mistake("Consume", forgets_the_residue, "Conservation", BARRIERS),
    Mistake("Consume", returns_late, "GrantsBatched", BARRIERS),
    Mistake("Consume", returns_early, "GrantsBatched", BARRIERS),
    Mistake("Consume", returns_and_keeps, "Conservation", BARRIERS, "none-created"),
    Mistake("Consume", counts_past_the_ring, "TypeOK", BARRIERS),
    Mistake("Flush", flushes_nothing, "GrantsBringPermits", FLUSH_IDLE),
    Mistake("Flush", flushes_unasked, "GrantsBatched", BARRIERS),
    Mistake("AddPermits", adds_and_forgets_to_take, "Conservation", BARRIERS),
    Mistake("AddPermits", adds_rows_for_barriers, "Conservation", BARRIERS),
    Mistake("WithdrawChunk", withdraws_the_watermark_wrongly, "TypeOK", WITHDRAWALS_OF_ALL_CLASSES),
    Mistake(
        "WithdrawBarrier", withdraws_the_barrier_and_the_watermark, "NewestWatermarkKept", WITHDRAWALS_OF_ALL_CLASSES
    ),
    Mistake("Consume", forgets_the_watermark_that_is_pending, "NewestWatermarkKept", WITHDRAWALS_OF_ALL_CLASSES),
    Mistake("Deliver", delivers_the_newest_first, "BoundedQueue", WITHDRAWALS_OF_ALL_CLASSES),
    Mistake("Deliver", delivers_and_keeps, "BoundedQueue", BARRIERS),
    Mistake("Deliver", delivers_to_nobody, "BoundedQueue", BARRIERS, "exactly-once"),
    Mistake("SendChunk", sends_the_newest_first, "BoundedQueue", BARRIERS, "oldest-leaves-first"),
    Mistake("SendChunk", sends_without_asking, "BoundedQueue", BARRIERS),
    Mistake("Consume", consumes_a_chunk_behind_a_barrier, "ExactlyOnceInOrder", WITHDRAWALS_OF_ALL_CLASSES),
    Mistake(
        "SendBarrier",
        sends_the_barrier_before_what_waits,
        "ExactlyOnceInOrder",
        BARRIERS_IN_LINE,
        "barrier-keeps-its-place",
    ),
    Mistake("WithdrawChunk", withdraws_and_goes_on_counting, "ExactlyOnceInOrder", WITHDRAWALS_OF_ALL_CLASSES),
)
