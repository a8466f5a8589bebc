"""``PermitChannelRefinement.tla``: how a permit channel is a bounded queue of chunks.

Chunks that wait at the sender wait to go in; chunks on the wire or in the inbox are in the queue; barriers and
watermarks are left out.  Each step of the channel is one step of the queue, or invisible.
"""

from permitflow_model import bounded_queue
from permitflow_model.bounded_queue import Chunk, Interval
from permitflow_model.kernel.queue import Fifo
from permitflow_model.permit_channel import Message, Parameters, State, cost_of


def as_chunks(message: Message) -> Fifo[Chunk]:
    """A chunk in the user's view; nothing for a barrier or a watermark."""
    return Fifo((Chunk(message.id, message.cost),)) if message.kind == "chunk" else Fifo()


def queue_parameters(parameters: Parameters) -> bounded_queue.Parameters:
    """The bound of the queue is row_permits; less would not do."""
    return bounded_queue.Parameters(
        bound=parameters.row_permits,
        costs=Interval(1, parameters.max_chunk_cost),
        ids=Interval(0, parameters.tags - 1),
        line=parameters.waiters,
    )


def queue_move(
    action: str, before: State, parameters: Parameters, *arguments: int
) -> tuple[str, tuple[int, ...]] | None:
    """The queue's action for a step of the channel, with its arguments; None for an invisible step."""
    match action:
        case "OfferChunk":
            (rows,) = arguments
            return "Offer", (before.offered, cost_of(rows, parameters))
        case "WithdrawChunk":
            return "Withdraw", ()
        case "SendChunk":
            return "Put", ()
        case "Consume" if before.inbox.head().kind == "chunk":
            return "Get", ()
        case _:
            return None
