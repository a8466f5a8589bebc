"""The way of each message and of each return of permits through the channel, as steps at which it moved.

That is all a page needs to draw any state, and it takes a few numbers for each message however long the run is.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import NO_WATERMARK, Message, Permits, State

__all__ = ["NEVER", "Lifelines", "Messages", "Returns"]

NEVER = -1
T = TypeVar("T")


@dataclass
class Messages:
    """A table: one entry in each column for each message, in the order in which they were offered.

    A step's number is that of the state it leads to; 0 is what the run begins with.
    """

    kind: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    offered: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)

    def add(self, message: Message, offered: int, *, sent: int = NEVER, delivered: int = NEVER) -> int:
        """Enter a message and tell its index."""
        self.kind.append(message.kind)
        self.rows.append(message.rows)
        self.cost.append(message.cost)
        self.offered.append(offered)
        self.sent.append(sent)
        self.delivered.append(delivered)
        self.consumed.append(NEVER)
        self.withdrawn.append(NEVER)
        return len(self.kind) - 1


@dataclass
class Returns:
    """A table: one entry in each column for each return of permits, in the order in which the receiver sent them."""

    rows: list[int] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)

    def add(self, permits: Permits, returned: int) -> int:
        """Enter a return and tell its index."""
        self.rows.append(permits.rows)
        self.barriers.append(permits.barriers)
        self.watermarks.append(permits.watermarks)
        self.returned.append(returned)
        self.arrived.append(NEVER)
        return len(self.rows) - 1


class Lifelines:
    """Watches states and notes who moved.  It knows the places, not the rules by which one moves between them."""

    def __init__(self, start: State) -> None:
        """Begin with what is in the channel already."""
        self.messages = Messages()
        self.returns = Returns()
        add = self.messages.add
        self._inbox = deque(add(message, 0, sent=0, delivered=0) for message in start.inbox)
        self._wire = deque(add(message, 0, sent=0) for message in start.wire)
        self._waiting = deque(add(message, 0) for message in start.waiting)
        self._grants = deque(self.returns.add(grant, 0) for grant in start.grants)
        self._barrier = self._waiting_barrier(0) if start.barrier_waiting else NEVER
        self._watermark = self._pending_watermark(0) if start.watermark_pending != NO_WATERMARK else NEVER

    def take(self, number: int, before: State, step: Step[State]) -> None:
        """Note what moved from the state ``before`` to the one after it, which is number ``number``."""
        after = step.state
        newest = after.wire.last() if after.wire.size() > before.wire.size() else None
        self._offer_or_withdraw(number, before, after, leaves=newest is not None and newest.kind == "chunk")
        self._barrier_and_watermark(number, before, step)
        if newest is not None:
            self._send(number, newest)
        if after.inbox.size() > before.inbox.size():
            self._inbox.append(self._moves(number, self._wire.popleft(), self.messages.delivered))
        elif after.inbox.size() < before.inbox.size():
            self._moves(number, self._inbox.popleft(), self.messages.consumed)
        if after.grants.size() > before.grants.size():
            self._grants.append(self.returns.add(after.grants.last(), number))
        elif after.grants.size() < before.grants.size():
            self._moves(number, self._grants.popleft(), self.returns.arrived)
        self._agree(number, after)

    def _offer_or_withdraw(self, number: int, before: State, after: State, *, leaves: bool) -> None:
        if after.waiting.size() > before.waiting.size():
            self._waiting.append(self.messages.add(after.waiting.last(), number))
        elif after.waiting.size() < before.waiting.size() and not leaves:
            self._moves(number, self._waiting.pop(), self.messages.withdrawn)

    def _barrier_and_watermark(self, number: int, before: State, step: Step[State]) -> None:
        after = step.state
        if after.barrier_waiting and not before.barrier_waiting:
            self._barrier = self._waiting_barrier(number)
        elif before.barrier_waiting and not after.barrier_waiting and after.wire.size() == before.wire.size():
            self._moves(number, self._barrier, self.messages.withdrawn)
        if step.action == "OfferWatermark":  # a newer one may take the very place of the one it replaces
            if before.watermark_pending != NO_WATERMARK:
                self._moves(number, self._watermark, self.messages.withdrawn)
            self._watermark = self._pending_watermark(number)

    def _send(self, number: int, message: Message) -> None:
        match message.kind:
            case "chunk":
                index = self._waiting.popleft()
            case "barrier":
                index = self._barrier
            case "watermark":
                index = self._watermark
        self._wire.append(self._moves(number, index, self.messages.sent))

    def _waiting_barrier(self, number: int) -> int:
        return self.messages.add(Message("barrier", 0, 0, 1), number)

    def _pending_watermark(self, number: int) -> int:
        return self.messages.add(Message("watermark", 0, 0, 1), number)

    @staticmethod
    def _moves(number: int, index: int, column: list[int]) -> int:
        column[index] = number
        return index

    def _agree(self, number: int, state: State) -> None:
        """The places must hold what the model says; a wrong picture is worse than none."""
        cost = self.messages.cost
        agree = (
            _agree(self._waiting, state.waiting, lambda index, message: cost[index] == message.cost)
            and _agree(self._wire, state.wire, lambda index, message: cost[index] == message.cost)
            and _agree(self._inbox, state.inbox, lambda index, message: cost[index] == message.cost)
            and _agree(self._grants, state.grants, lambda index, grant: self.returns.rows[index] == grant.rows)
        )
        if not agree:
            raise AssertionError(f"at state {number} the picture has lost track of what is where in {state}")


def _agree(places: deque[int], queue: Queue[T], same: Callable[[int, T], bool]) -> bool:
    if len(places) != queue.size():
        return False
    return queue.is_empty() or same(places[0], queue.head())
