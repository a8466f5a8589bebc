"""``LossyChannelRefinement.tla`` and ``ResumeRefinement.tla``: how a stream of numbered messages is a bounded queue.

What was sent and has not arrived waits to go in; what is in the inbox is in the queue.  Sending is an offer, a delivery
puts the oldest message in, consumption gets one out; no other step can be seen.
"""

from collections.abc import Callable
from typing import Protocol

from permitflow_model import bounded_queue
from permitflow_model.bounded_queue import NO_CHUNKS, Chunk, Interval, chunks_in
from permitflow_model.kernel.queue import Fifo, Queue


class Numbered(Protocol):
    """A state of such a protocol."""

    @property
    def sent(self) -> int:
        """The number of the next message."""
        ...

    @property
    def received(self) -> int:
        """The number that is due."""
        ...

    @property
    def inbox(self) -> Queue[int]:
        """Numbers received, not yet consumed."""
        ...


class Windowed(Protocol):
    """Its constants."""

    @property
    def window(self) -> int:
        """The most messages that are sent and not consumed."""
        ...

    @property
    def total(self) -> int:
        """Messages that the application sends."""
        ...


def as_chunk(number: int) -> Fifo[Chunk]:
    """A message in the user's view."""
    return Fifo((Chunk(number, 1),))


def chunks_between(first: int, end: int) -> Fifo[Chunk]:
    """The messages with these numbers, in their order."""
    return Fifo(Chunk(number, 1) for number in range(first, end))


def queue_in(
    state: Numbered,
    nothing: Fifo[Chunk] = NO_CHUNKS,
    between: Callable[[int, int], Fifo[Chunk]] = chunks_between,
) -> bounded_queue.State:
    """The queue that a user sees; proofs pass their own kind of queue."""
    return bounded_queue.State(
        asked=between(state.received, state.sent), queue=chunks_in(state.inbox, as_chunk, nothing)
    )


def queue_parameters(parameters: Windowed) -> bounded_queue.Parameters:
    """The bound of the queue is the window, and so is that of its line; less would not do."""
    return bounded_queue.Parameters(
        bound=parameters.window, costs=(1,), ids=Interval(0, parameters.total - 1), line=parameters.window
    )


def queue_move(action: str, before: Numbered, *_: object) -> tuple[str, tuple[int, ...]] | None:
    """The queue's action for a step, with its arguments; None for an invisible step."""
    match action:
        case "Send":
            return "Offer", (before.sent, 1)
        case "Deliver":
            return "Put", ()
        case "Consume":
            return "Get", ()
        case _:
            return None
