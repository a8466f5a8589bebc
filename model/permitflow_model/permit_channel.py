"""``PermitChannel.tla``, action for action: what must hold, and the whole as one system.

Read it beside the specification: the same names, the same order; first ``permit_channel_state``, then
``permit_channel_actions``, then this.  All numbers are permits unless their name says otherwise; a chunk of ``n`` rows
costs ``n`` permits, an empty one costs 1, an oversize one the clamp.
"""

from collections.abc import Iterable
from operator import add

from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.system import System
from permitflow_model.permit_channel_actions import ACTIONS
from permitflow_model.permit_channel_state import (
    NO_WATERMARK,
    NOTHING,
    Message,
    Parameters,
    Permits,
    State,
    cost_of,
    held,
    initial,
    plus,
    successor,
    total,
)

__all__ = [
    "NOTHING",
    "NO_WATERMARK",
    "OUT_OF_ORDER",
    "SYSTEM",
    "Message",
    "Parameters",
    "Permits",
    "State",
    "carried",
    "carried_by",
    "cost_of",
    "due_after",
    "held",
    "held_by",
    "in_channel",
    "initial",
    "is_message",
    "is_permits",
    "is_protocol_enabled",
    "is_stuck",
    "plus",
    "row_bound_of",
    "rows_in",
    "rows_of",
    "sum_permits",
    "total",
]

OUT_OF_ORDER = -1
"""No message has this number: after one that is out of order, none is due."""


def sum_permits(parts: Iterable[Permits]) -> Permits:
    """Permits of all parts together, class by class."""
    rows = barriers = watermarks = 0
    for part in parts:
        rows += part.rows
        barriers += part.barriers
        watermarks += part.watermarks
    return Permits(rows, barriers, watermarks)


def held_by(messages: Queue[Message]) -> Permits:
    """Permits that the messages of a queue hold together."""
    return messages.sum_of(held, plus, NOTHING)


def carried(grant: Permits) -> Permits:
    """Permits that a grant brings back: itself."""
    return grant


def carried_by(grants: Queue[Permits]) -> Permits:
    """Permits on their way back."""
    return grants.sum_of(carried, plus, NOTHING)


def in_channel(state: State) -> tuple[Message, ...]:
    """The messages between sender and application, the next to be consumed first."""
    return (*state.inbox, *state.wire)


def is_message(message: Message, parameters: Parameters) -> bool:
    """Number, rows and cost of a message are in their ranges."""
    if not 0 <= message.id < parameters.tags:
        return False
    if message.kind != "chunk":
        return (message.rows, message.cost) == (0, 1)
    return message.rows >= 0 and message.cost == cost_of(message.rows, parameters)


def may_wait(message: Message, parameters: Parameters) -> bool:
    """It is a chunk or a barrier, with number, rows and cost in their ranges."""
    return message.kind != "watermark" and is_message(message, parameters)


def is_permits(permits: Permits, parameters: Parameters) -> bool:
    """No class is negative."""
    return permits.rows >= 0 and permits.barriers >= 0 and permits.watermarks >= 0


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.offered < parameters.tags
        and 0 <= state.consumed < parameters.tags
        and state.waiting.size() <= parameters.waiters
        and NO_WATERMARK <= state.watermark_pending <= state.waiting.size()
        and is_permits(state.permits, parameters)
        and state.unreturned >= 0
        and state.waiting.every(may_wait, parameters)
        and state.wire.every(is_message, parameters)
        and state.inbox.every(is_message, parameters)
        and state.grants.every(is_permits, parameters)
    )


def conservation(state: State, parameters: Parameters) -> bool:
    """Permits + data in flight + inbox + unreturned + permits in flight = Buf, for each class."""
    circulating = (
        state.permits,
        held_by(state.wire),
        held_by(state.inbox),
        Permits(state.unreturned, 0, 0),
        carried_by(state.grants),
    )
    return sum_permits(circulating) == total(parameters)


def bounded(state: State, parameters: Parameters) -> bool:
    """The channel never holds more than it has permits for, in any class."""
    now = plus(held_by(state.wire), held_by(state.inbox))
    return now.rows <= parameters.row_count and now.barriers <= parameters.barrier_permits and now.watermarks <= 1


def messages_bounded(state: State, parameters: Parameters) -> bool:
    """Each message holds a permit, or brings one back: their number is bounded in both directions."""
    messages = state.wire.size() + state.inbox.size() + state.grants.size()
    return messages <= parameters.row_count + parameters.barrier_permits + 1


def row_bound_of(row_count: int, clamp: int, largest_rows: int) -> int:
    """The most rows a channel holds when a chunk above the clamp is admitted whole."""
    return row_count + (row_count // clamp) * max(0, largest_rows - clamp)


def rows_of(message: Message) -> int:
    """Rows that a message carries."""
    return message.rows


def rows_in(messages: Queue[Message]) -> int:
    """Rows that the messages of a queue carry together."""
    return messages.sum_of(rows_of, add, 0)


def row_bound(state: State, parameters: Parameters) -> bool:
    """Rows, not permits: an oversize chunk is admitted whole and exceeds its cost."""
    rows = rows_in(state.wire) + rows_in(state.inbox)
    return rows <= row_bound_of(parameters.row_count, parameters.clamp, max(parameters.sizes, default=0))


def is_protocol_enabled(state: State, parameters: Parameters) -> bool:
    """Can the protocol move without the application?"""
    return any(
        SYSTEM.is_enabled(action.name, state, parameters) for action in SYSTEM.actions if not action.is_environment
    )


def is_stuck(state: State, parameters: Parameters) -> bool:
    """Somebody waits, and nothing that the protocol can do will ever change that."""
    return not state.waiting.is_empty() and not is_protocol_enabled(state, parameters)


def never_stuck(state: State, parameters: Parameters) -> bool:
    """Whoever waits can still be served."""
    return not is_stuck(state, parameters)


def due_after(due: int, message: Message, parameters: Parameters) -> int:
    """The number that is due after a message, or ``OUT_OF_ORDER`` if the message was not the one that was due."""
    if message.id != due:
        return OUT_OF_ORDER
    return due if message.kind == "watermark" else successor(due, parameters)


def exactly_once_in_order(state: State, parameters: Parameters) -> bool:
    """Chunks and barriers leave in the order in which they were offered, each once; watermarks keep their place."""
    due = state.consumed
    for queue in (state.inbox, state.wire, state.waiting):
        due = queue.fold(due_after, due, parameters)
    return due == state.offered


def newest_watermark_kept(state: State, parameters: Parameters) -> bool:
    """The newest watermark is not lost: it is pending, or on its way, or has been consumed."""
    if state.newest_watermark == "pending":
        return state.watermark_pending >= 0
    if state.watermark_pending >= 0:
        return False
    on_its_way = held_by(state.wire).watermarks + held_by(state.inbox).watermarks
    return state.newest_watermark == "heard" or on_its_way == 1


def is_batched(grant: Permits, parameters: Parameters) -> bool:
    """A return of rows carries at least a batch."""
    return grant.rows == 0 or grant.rows >= parameters.batch


def grants_batched(state: State, parameters: Parameters) -> bool:
    """The residue stays below the batch, and each return of rows carries at least a batch."""
    if state.unreturned >= parameters.batch:
        return False
    return parameters.flush_idle or state.grants.every(is_batched, parameters)


def whole_when_idle(state: State, parameters: Parameters) -> bool:
    """With the idle flush, a channel in which nothing can move holds all its permits again."""
    if not parameters.flush_idle or is_protocol_enabled(state, parameters):
        return True
    return state.permits == total(parameters)


SYSTEM: System[State, Parameters] = System(
    module="PermitChannel",
    initial=initial,
    actions=ACTIONS,
    invariants={
        "TypeOK": type_ok,
        "Conservation": conservation,
        "Bounded": bounded,
        "MessagesBounded": messages_bounded,
        "RowBound": row_bound,
        "NeverStuck": never_stuck,
        "ExactlyOnceInOrder": exactly_once_in_order,
        "NewestWatermarkKept": newest_watermark_kept,
        "GrantsBatched": grants_batched,
        "WholeWhenIdle": whole_when_idle,
    },
)
