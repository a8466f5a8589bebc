"""``ByteWindowRefinement.tla``: how a channel with a byte window is a bounded queue of chunks, as without one.

Chunks that wait at the sender wait to go in; chunks on the wire or in the inbox are in the queue, where their row
permits are what they cost.  A chunk is told from others by its bytes.
"""

from permitflow_model import bounded_queue
from permitflow_model.bounded_queue import Chunk as QueuedChunk
from permitflow_model.byte_window import Chunk, Parameters, State
from permitflow_model.kernel.queue import Fifo


def as_chunk(chunk: Chunk) -> Fifo[QueuedChunk]:
    """A chunk in the user's view."""
    return Fifo((QueuedChunk(chunk.bytes, chunk.rows),))


def queue_parameters(parameters: Parameters) -> bounded_queue.Parameters:
    """The bound of the queue is row_permits; less would not do."""
    return bounded_queue.Parameters(
        bound=parameters.row_permits,
        costs=parameters.row_costs,
        ids=parameters.byte_costs,
        line=parameters.waiters,
    )


def queue_move(
    action: str, _before: State, _parameters: Parameters, *arguments: int
) -> tuple[str, tuple[int, ...]] | None:
    """The queue's action for a step of the channel, with its arguments; None for an invisible step."""
    if action == "Offer":
        rows, _expected, size_bytes = arguments
        return "Offer", (size_bytes, rows)
    return bounded_queue.MOVES.get(action)
