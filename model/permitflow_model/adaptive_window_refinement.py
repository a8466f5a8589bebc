"""``AdaptiveWindowRefinement.tla``: how a channel whose window adapts is a bounded queue of chunks.

It is the queue that a permit channel with the agreed window is.  Chunks that wait at the sender wait to go in; chunks
on the wire or in the inbox are in the queue.  A chunk is told from others by its cost.
"""

from permitflow_model import bounded_queue
from permitflow_model.adaptive_window import Parameters, State
from permitflow_model.bounded_queue import Chunk
from permitflow_model.kernel.queue import Fifo, Queue

NO_CHUNKS: Fifo[Chunk] = Fifo()


def as_chunk(rows: int) -> Fifo[Chunk]:
    """A chunk in the user's view."""
    return Fifo((Chunk(rows, rows),))


def _joined(ahead: Fifo[Chunk], behind: Fifo[Chunk]) -> Fifo[Chunk]:
    return ahead.join(behind)


def chunks_in(chunks: Queue[int], nothing: Fifo[Chunk] = NO_CHUNKS) -> Fifo[Chunk]:
    """Chunks in the user's view, oldest first; proofs pass their own empty queue."""
    return chunks.sum_of(as_chunk, _joined, nothing)


def queue_in(state: State, nothing: Fifo[Chunk] = NO_CHUNKS) -> bounded_queue.State:
    """The queue that a user of the channel sees."""
    return bounded_queue.State(
        asked=chunks_in(state.waiting, nothing),
        queue=chunks_in(state.inbox, nothing).join(chunks_in(state.wire, nothing)),
    )


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
    match action:
        case "Offer":
            (rows,) = arguments
            return "Offer", (rows, rows)
        case "Withdraw":
            return "Withdraw", ()
        case "Send":
            return "Put", ()
        case "Consume":
            return "Get", ()
        case _:
            return None
