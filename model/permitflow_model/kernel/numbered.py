"""Messages that are numbers, in the line, on the wire and in the inbox: the common part of several protocols."""

from typing import Any, Protocol, Self, TypeVar

from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.system import require


class Line(Protocol):
    """The constants about messages that wait."""

    @property
    def waiters(self) -> int:
        """Messages that may wait at once."""

    @property
    def withdrawals(self) -> bool:
        """May the sender give up waiting?"""

    @property
    def tags(self) -> int:
        """Numbers of messages are taken modulo this; 1: they are anonymous."""


class Numbered(Protocol):
    """The variables about messages."""

    @property
    def offered(self) -> int:
        """The number of the next message that is offered."""

    @property
    def consumed(self) -> int:
        """The number of the next message that is consumed."""

    @property
    def waiting(self) -> Queue[int]:
        """The line."""

    @property
    def wire(self) -> Queue[int]:
        """The messages in flight."""

    @property
    def inbox(self) -> Queue[int]:
        """The messages that arrived and were not consumed."""

    def _replace(self, *_: Any, **changes: Any) -> Self: ...


S = TypeVar("S", bound=Numbered)


def successor(number: int, parameters: Line) -> int:
    """The number of the next message."""
    return (number + 1) % parameters.tags


def offer(state: S, parameters: Line) -> S:
    """The application wants to send a message."""
    require(state.waiting.size() < parameters.waiters)
    return state._replace(waiting=state.waiting.push(state.offered), offered=successor(state.offered, parameters))


def withdraw(state: S, parameters: Line) -> S:
    """The application gives up waiting with its newest message."""
    require(parameters.withdrawals)
    require(not state.waiting.is_empty())
    return state._replace(offered=state.waiting.last(), waiting=state.waiting.without_last())


def deliver(state: S, _parameters: Line) -> S:
    """A message arrives at the receiver."""
    require(not state.wire.is_empty())
    return state._replace(inbox=state.inbox.push(state.wire.head()), wire=state.wire.without_head())


OUT_OF_ORDER = -1
"""No message has this number: after one that is out of order, none is due."""


def due_after(due: int, message: int, parameters: Line) -> int:
    """The number that is due after a message, or ``OUT_OF_ORDER`` if another message was due."""
    return successor(due, parameters) if message == due else OUT_OF_ORDER


def is_number(message: int, parameters: Line) -> bool:
    """Is it the number of a message?"""
    return 0 <= message < parameters.tags


def is_in_range(state: Numbered, parameters: Line) -> bool:
    """Is every variable about messages in its range?"""
    return (
        is_number(state.offered, parameters)
        and is_number(state.consumed, parameters)
        and state.waiting.size() <= parameters.waiters
        and all(queue.every(is_number, parameters) for queue in (state.waiting, state.wire, state.inbox))
    )


def exactly_once_in_order(state: Numbered, parameters: Line) -> bool:
    """Messages are consumed in the order in which they were offered, each once."""
    due = state.consumed
    for queue in (state.inbox, state.wire, state.waiting):
        due = queue.fold(due_after, due, parameters)
    return due == state.offered
