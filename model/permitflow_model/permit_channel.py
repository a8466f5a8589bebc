"""``PermitChannel.tla``, action for action, and its probes (``PermitChannelProbes.tla``).

Read it beside the specification: the same names, the same order; first constants, variables and the arithmetic of
permits, then the actions, then the invariants, and last the statements that are false, each for a reason worth knowing.
All numbers are permits unless their name says otherwise; a chunk of ``n`` rows costs ``n`` permits, an empty one costs
1, an oversize one ``max_chunk_cost``.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Kind = Literal["chunk", "barrier", "watermark"]
Whereabouts = Literal["pending", "sent", "heard"]

ALL = -1
"""No number of ``initial_permits``, but all of ``row_permits``."""


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    row_permits: Positive
    """Row permits of the channel."""

    initial_permits: int = ALL
    """Row permits at the sender from the start; the receiver withholds the others."""

    permit_batch: Positive
    """The receiver returns row permits once it holds this many."""

    max_chunk_cost: Positive
    """The most a chunk costs; a larger one is admitted whole."""

    sizes: tuple[int, ...]
    """Chunk sizes that may be offered, in rows (for bounded exploration)."""

    barrier_permits: Natural = 0
    """Barriers that may be in the channel at once; 0: none are offered."""

    watermarks: bool = False
    """Are watermarks offered?"""

    flush_idle: bool = False
    """Does an idle receiver return a residue below ``permit_batch``?"""

    withdrawals: bool = False
    """May the sender give up waiting?"""

    waiters: Positive = 1
    """Chunks and barriers that may wait for permits at once."""

    tags: Positive = 1
    """Numbers of chunks and barriers are taken modulo this; 1: they are anonymous."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.initial_permits == ALL:
            object.__setattr__(self, "initial_permits", self.row_permits)
        if not 0 <= self.initial_permits <= self.row_permits:
            most = self.row_permits
            raise ValueError(f"initial_permits must be in 0 .. row_permits = {most}, not {self.initial_permits}")
        if any(rows < 0 for rows in self.sizes):
            raise ValueError(f"a chunk size must not be negative, but sizes are {self.sizes}")
        most = self.row_permits + self.barrier_permits + self.waiters
        if 1 < self.tags <= most:
            raise ValueError(
                f"tags must be 1 or above row_permits + barrier_permits + waiters = {most}, not {self.tags}"
            )


class Permits(NamedTuple):
    """Permits by class."""

    rows: int
    barriers: int
    watermarks: int


class Message(NamedTuple):
    """A message: a chunk of data, a barrier or a watermark, with the permits it holds."""

    kind: Kind
    id: int
    """The number of a chunk or barrier; for a watermark, the number of the one that it stands before."""
    rows: int
    cost: int


class State(NamedTuple):
    """The variables of the specification."""

    offered: int
    consumed: int
    waiting: Queue[Message]
    watermark_pending: int
    newest_watermark: Whereabouts
    permits: Permits
    wire: Queue[Message]
    inbox: Queue[Message]
    unreturned: int
    grants: Queue[Permits]


NO_WATERMARK = -1
NOTHING = Permits(0, 0, 0)


def plus(left: Permits, right: Permits) -> Permits:
    """Add class by class."""
    return Permits(left.rows + right.rows, left.barriers + right.barriers, left.watermarks + right.watermarks)


def total(parameters: Parameters) -> Permits:
    """All permits of the channel: Buf, for each class."""
    return Permits(parameters.row_permits, parameters.barrier_permits, 1)


def cost_of(rows: int, parameters: Parameters) -> int:
    """Permits that a chunk of this many rows takes."""
    return min(max(rows, 1), parameters.max_chunk_cost)


def held(message: Message) -> Permits:
    """Permits that a message holds while it is in the channel."""
    match message.kind:
        case "chunk":
            return Permits(message.cost, 0, 0)
        case "barrier":
            return Permits(0, message.cost, 0)
        case "watermark":
            return Permits(0, 0, message.cost)


def successor(number: int, parameters: Parameters) -> int:
    """The number of the next chunk or barrier."""
    return (number + 1) % parameters.tags


def next_sent(state: State) -> int:
    """The number of the next chunk or barrier to be sent: the place of a watermark among them."""
    return state.offered if state.waiting.is_empty() else state.waiting.head().id


def withheld(parameters: Parameters) -> int:
    """Row permits that the sender does not have at the start."""
    return parameters.row_permits - parameters.initial_permits


def initial(parameters: Parameters) -> State:
    """Nothing is offered.  The receiver grants what it withholds before all else: these permits are in flight."""
    withholds = withheld(parameters)
    none: Fifo[Permits] = Fifo()
    return State(
        offered=0,
        consumed=0,
        waiting=Fifo(),
        watermark_pending=NO_WATERMARK,
        newest_watermark="heard",
        permits=total(parameters)._replace(rows=parameters.initial_permits),
        wire=Fifo(),
        inbox=Fifo(),
        unreturned=0,
        grants=none.push(Permits(withholds, 0, 0)) if withholds > 0 else none,
    )


# The environment: the application at the sender.


def _offer(state: State, parameters: Parameters, message: Message) -> State:
    """Put a message at the end of the line."""
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
    """Take back the newest waiting message."""
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
    """The oldest waiting message leaves; the sender still has ``permits``."""
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
    """The application has consumed a message; its permits are returned as they came; those of rows in batches."""
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
    if unreturned < parameters.permit_batch:
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
        end="sender",
    ),
    Action("OfferBarrier", offer_barrier, is_environment=True, end="sender"),
    Action("OfferWatermark", offer_watermark, is_environment=True, end="sender"),
    Action("WithdrawChunk", withdraw_chunk, is_environment=True, end="sender"),
    Action("WithdrawBarrier", withdraw_barrier, is_environment=True, end="sender"),
    Action("SendChunk", send_chunk, end="sender"),
    Action("SendBarrier", send_barrier, end="sender"),
    Action("SendWatermark", send_watermark, end="sender"),
    Action("Deliver", deliver, is_arrival=True, end="receiver"),
    Action("Consume", consume, end="receiver"),
    Action("Flush", flush, end="receiver"),
    Action("AddPermits", add_permits, is_arrival=True, end="sender"),
)


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
    return now.rows <= parameters.row_permits and now.barriers <= parameters.barrier_permits and now.watermarks <= 1


def messages_bounded(state: State, parameters: Parameters) -> bool:
    """Each message holds a permit, or brings one back: their number is bounded in both directions."""
    messages = state.wire.size() + state.inbox.size() + state.grants.size()
    return messages <= parameters.row_permits + parameters.barrier_permits + 1


def row_bound_of(row_permits: int, max_chunk_cost: int, largest_rows: int) -> int:
    """The most rows a channel holds when a chunk above ``max_chunk_cost`` is admitted whole."""
    return row_permits + (row_permits // max_chunk_cost) * max(0, largest_rows - max_chunk_cost)


def rows_of(message: Message) -> int:
    """Rows that a message carries."""
    return message.rows


def rows_in(messages: Queue[Message]) -> int:
    """Rows that the messages of a queue carry together."""
    return messages.sum_of(rows_of, add, 0)


def row_bound(state: State, parameters: Parameters) -> bool:
    """Rows, not permits: an oversize chunk is admitted whole and exceeds its cost."""
    rows = rows_in(state.wire) + rows_in(state.inbox)
    return rows <= row_bound_of(parameters.row_permits, parameters.max_chunk_cost, max(parameters.sizes, default=0))


def is_stuck(state: State, parameters: Parameters) -> bool:
    """A message waits, and no sequence of the protocol's steps can ever send it."""
    return not state.waiting.is_empty() and not SYSTEM.can_move(state, parameters)


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A message that waits can still be served."""
    return not is_stuck(state, parameters)


def due_after(due: int, message: Message, parameters: Parameters) -> int:
    """The number that is due after a message, or ``OUT_OF_ORDER`` if another message was due."""
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
    """A return of rows carries at least ``permit_batch``, or is the grant of what was withheld."""
    return grant.rows in (0, withheld(parameters)) or grant.rows >= parameters.permit_batch


def grants_batched(state: State, parameters: Parameters) -> bool:
    """The residue stays below ``permit_batch``, and each return of rows carries at least that."""
    if state.unreturned >= parameters.permit_batch:
        return False
    return parameters.flush_idle or state.grants.every(is_batched, parameters)


def whole_when_idle(state: State, parameters: Parameters) -> bool:
    """With the idle flush, a channel in which nothing can move holds all its permits again."""
    if not parameters.flush_idle or SYSTEM.can_move(state, parameters):
        return True
    return state.permits == total(parameters)


Probe = Callable[[State, Parameters], bool]


def _rows(state: State) -> int:
    return sum(message.rows for message in in_channel(state))


def _is_blocked(state: State) -> bool:
    if state.waiting.is_empty():
        return False
    head = state.waiting.head()
    return head.kind == "chunk" and head.cost > state.permits.rows


def _barrier_waits(state: State) -> bool:
    return any(message.kind == "barrier" for message in state.waiting)


def _is_everywhere(state: State) -> bool:
    queues = (state.wire, state.inbox, state.grants)
    return state.permits.rows > 0 and state.unreturned > 0 and not any(queue.is_empty() for queue in queues)


def _most_rows(parameters: Parameters) -> int:
    return row_bound_of(parameters.row_permits, parameters.max_chunk_cost, max(parameters.sizes, default=0))


def _returned_rows(state: State) -> int:
    return sum_permits(state.grants).rows


def _rows_in_flight(state: State) -> int:
    return sum_permits(map(held, state.wire)).rows


_PROBES: Mapping[str, Probe] = {
    "SenderNeverWaitsProbe": lambda state, _: not _is_blocked(state),
    "PermitsNeverUsedUpProbe": lambda state, _: state.permits.rows > 0,
    "NeverTwoInInboxProbe": lambda state, _: state.inbox.size() < 2,
    "GrantNeverAboveBatchProbe": lambda state, parameters: all(
        grant.rows <= parameters.permit_batch for grant in state.grants
    ),
    "PermitsNeverEverywhereProbe": lambda state, _: not _is_everywhere(state),
    "WholeWithoutFlushProbe": lambda state, parameters: (
        SYSTEM.can_move(state, parameters) or state.permits == total(parameters)
    ),
    "RowPermitsNeverExceededProbe": lambda state, parameters: _rows(state) <= parameters.row_permits,
    "RowBoundNeverReachedProbe": lambda state, parameters: _rows(state) < _most_rows(parameters),
    "EmptyChunkFreeProbe": lambda state, _: sum_permits(map(held, in_channel(state))).rows <= _rows(state),
    "BarrierNeverWaitsForRowsProbe": lambda state, _: (
        not _barrier_waits(state) or state.permits.barriers == 0 or not _is_blocked(state)
    ),
    "BarrierNeverStuckProbe": lambda state, parameters: not _barrier_waits(state) or SYSTEM.can_move(state, parameters),
    "WatermarkNeverConflatedProbe": lambda state, _: state.watermark_pending < 0 or state.permits.watermarks == 1,
    "MailWrongSignProbe": lambda state, parameters: (
        state.permits.rows + _returned_rows(state) == parameters.row_permits + _rows_in_flight(state)
    ),
    "MailWithoutPendingProbe": lambda state, parameters: (
        state.permits.rows + _returned_rows(state) + _rows_in_flight(state) == parameters.row_permits
    ),
}

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
    probes=_PROBES,
    counters={
        "sender": lambda state: state.permits,
        "receiver": lambda state: (state.inbox.size(), rows_in(state.inbox), state.unreturned),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    probes="PermitChannelProbes",
    steps="PermitChannelTrace",
    theorems="permitflow_proofs.permit_channel:theorems",
    flow="permits",
)
