"""``AdaptiveWindowRefinement.tla``: how a channel whose window adapts is a bounded queue of chunks.

It is the queue that a permit channel with the agreed window is.  Chunks that wait at the sender wait to go in; chunks
on the wire or in the inbox are in the queue.  A chunk is told from others by its cost.
"""

from permitflow_model import bounded_queue
from permitflow_model.adaptive_window import Parameters, State
from permitflow_model.bounded_queue import Chunk
from permitflow_model.kernel.queue import Fifo


def as_chunk(rows: int) -> Fifo[Chunk]:
    """A chunk in the user's view."""
    return Fifo((Chunk(rows, rows),))


def queue_parameters(parameters: Parameters) -> bounded_queue.Parameters:
    """The bound of the queue is the agreed window; less would not do."""
    return bounded_queue.Parameters(
        bound=parameters.row_permits,
        costs=parameters.row_costs,
        ids=parameters.row_costs,
        line=parameters.waiters,
    )


def queue_move(
    action: str, _before: State, _parameters: Parameters, *arguments: int
) -> tuple[str, tuple[int, ...]] | None:
    """The queue's action for a step of the channel, with its arguments; None for an invisible step."""
    if action == "Offer":
        (rows,) = arguments
        return "Offer", (rows, rows)
    return bounded_queue.MOVES.get(action)
