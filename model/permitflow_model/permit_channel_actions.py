"""The actions of ``PermitChannel.tla``: the same names, the same order, each one function."""

from permitflow_model.kernel.system import Action, require
from permitflow_model.permit_channel_state import (
    NO_WATERMARK,
    Message,
    Parameters,
    Permits,
    State,
    cost_of,
    held,
    next_sent,
    plus,
    successor,
)

__all__ = ["ACTIONS"]


# The environment: the application at the sender.


def _offer(state: State, parameters: Parameters, message: Message) -> State:
    """A message is put at the end of the line."""
    return state._replace(waiting=state.waiting.push(message), offered=successor(state.offered, parameters))


def offer_chunk(state: State, parameters: Parameters, rows: int) -> State:
    """The application wants to send a chunk."""
    require(state.waiting.size() < parameters.waiters)
    return _offer(state, parameters, Message("chunk", state.offered, rows, cost_of(rows, parameters)))


def offer_barrier(state: State, parameters: Parameters) -> State:
    """The application wants to send a barrier: it waits behind the chunks that were offered before it."""
    require(parameters.barrier_permits > 0)
    require(state.waiting.size() < parameters.waiters)
    return _offer(state, parameters, Message("barrier", state.offered, 0, 1))


def offer_watermark(state: State, parameters: Parameters) -> State:
    """The application announces a watermark: it never waits, and replaces an unsent one."""
    require(parameters.watermarks)
    return state._replace(watermark_pending=state.waiting.size(), newest_watermark="pending")


def _withdraw(state: State) -> State:
    """The newest message that waits is taken back."""
    pending = state.watermark_pending
    return state._replace(
        waiting=state.waiting.without_last(),
        offered=state.waiting.last().id,
        watermark_pending=pending - 1 if pending == state.waiting.size() else pending,
    )


def withdraw_chunk(state: State, parameters: Parameters) -> State:
    """The application gives up waiting with a chunk, its newest message: nothing was taken, nothing is lost."""
    require(parameters.withdrawals)
    require(not state.waiting.is_empty())
    require(state.waiting.last().kind == "chunk")
    return _withdraw(state)


def withdraw_barrier(state: State, parameters: Parameters) -> State:
    """The application gives up waiting with a barrier, its newest message."""
    require(parameters.withdrawals)
    require(not state.waiting.is_empty())
    require(state.waiting.last().kind == "barrier")
    return _withdraw(state)


# The protocol.


def _leave(state: State, permits: Permits) -> State:
    """The oldest message that waits gets onto the wire; so many permits are left."""
    pending = state.watermark_pending
    return state._replace(
        permits=permits,
        wire=state.wire.push(state.waiting.head()),
        waiting=state.waiting.without_head(),
        watermark_pending=pending - 1 if pending > 0 else pending,
    )


def send_chunk(state: State, parameters: Parameters) -> State:
    """The oldest message that waits is a chunk: it takes its permits and leaves."""
    require(not state.waiting.is_empty())
    chunk = state.waiting.head()
    require(chunk.kind == "chunk")
    require(chunk.cost <= state.permits.rows)
    return _leave(state, state.permits._replace(rows=state.permits.rows - chunk.cost))


def send_barrier(state: State, parameters: Parameters) -> State:
    """The oldest message that waits is a barrier: it waits for no row permits, and overtakes no chunk."""
    require(not state.waiting.is_empty())
    require(state.waiting.head().kind == "barrier")
    require(state.permits.barriers >= 1)
    return _leave(state, state.permits._replace(barriers=state.permits.barriers - 1))


def send_watermark(state: State, parameters: Parameters) -> State:
    """A watermark overtakes nothing that was offered before it."""
    require(state.watermark_pending == 0)
    require(state.permits.watermarks >= 1)
    return state._replace(
        permits=state.permits._replace(watermarks=state.permits.watermarks - 1),
        wire=state.wire.push(Message("watermark", next_sent(state), 0, 1)),
        watermark_pending=NO_WATERMARK,
        newest_watermark="sent",
    )


def deliver(state: State, parameters: Parameters) -> State:
    """A message arrives at the receiver."""
    require(not state.wire.is_empty())
    return state._replace(inbox=state.inbox.push(state.wire.head()), wire=state.wire.without_head())


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed a message; its permits are returned verbatim, rows in batches."""
    require(not state.inbox.is_empty())
    message = state.inbox.head()
    state = state._replace(inbox=state.inbox.without_head())
    if message.kind == "watermark":
        newest = "heard" if state.newest_watermark == "sent" else state.newest_watermark
        return state._replace(newest_watermark=newest, grants=state.grants.push(held(message)))
    state = state._replace(consumed=successor(state.consumed, parameters))
    if message.kind == "barrier":
        return state._replace(grants=state.grants.push(held(message)))
    unreturned = state.unreturned + message.cost
    if unreturned < parameters.batch:
        return state._replace(unreturned=unreturned)
    return state._replace(grants=state.grants.push(Permits(unreturned, 0, 0)), unreturned=0)


def flush(state: State, parameters: Parameters) -> State:
    """An idle receiver returns the residue (not in the published protocol)."""
    require(parameters.flush_idle)
    require(state.inbox.is_empty())
    require(state.unreturned > 0)
    return state._replace(grants=state.grants.push(Permits(state.unreturned, 0, 0)), unreturned=0)


def add_permits(state: State, parameters: Parameters) -> State:
    """Returned permits arrive at the sender."""
    require(not state.grants.is_empty())
    return state._replace(permits=plus(state.permits, state.grants.head()), grants=state.grants.without_head())


ACTIONS: tuple[Action[State, Parameters], ...] = (
    Action(
        "OfferChunk",
        offer_chunk,
        lambda parameters: [(rows,) for rows in parameters.sizes],
        is_environment=True,
    ),
    Action("OfferBarrier", offer_barrier, is_environment=True),
    Action("OfferWatermark", offer_watermark, is_environment=True),
    Action("WithdrawChunk", withdraw_chunk, is_environment=True),
    Action("WithdrawBarrier", withdraw_barrier, is_environment=True),
    Action("SendChunk", send_chunk),
    Action("SendBarrier", send_barrier),
    Action("SendWatermark", send_watermark),
    Action("Deliver", deliver),
    Action("Consume", consume),
    Action("Flush", flush),
    Action("AddPermits", add_permits),
)
