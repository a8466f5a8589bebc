"""A permit channel is a bounded queue of chunks, whatever its parameters.

The model's own steps are taken in any state, and compared with the steps of the model's own queue in the user's view of
that state: chunks one after another, as sequences of any length.
"""

from functools import partial

from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import total
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, State
from permitflow_model.permit_channel_refinement import as_chunks, queue_move, queue_parameters
from permitflow_proofs.bounded_queue_view import ChunkView
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import any_message, any_parameters, any_rows, any_state, permits_in


def _offered_and_lost(before: State, after: State) -> State:
    return after._replace(waiting=before.waiting)


def _the_oldest_withdrawn(before: State, after: State) -> State:
    return after._replace(waiting=before.waiting.without_head())


def _overtaking(before: State, after: State) -> State:
    return after._replace(wire=before.wire.without_last(), inbox=before.inbox.push(before.wire.last()))


CHUNKS = ChunkView(
    as_chunk=as_chunks,
    queue=queue_parameters,
    move=queue_move,
    rows_held=lambda messages: permits_in(messages).rows,
    stray=Message("chunk", 0, 1, 1),
    put="SendChunk",
    more_mistakes={
        "OfferChunk": (_offered_and_lost, "the chunk is lost"),
        "WithdrawChunk": (_the_oldest_withdrawn, "the oldest chunk is withdrawn"),
        "Deliver": (_overtaking, "the newest message arrives first"),
    },
)
"""The user's view of the channel."""

SEEN = Subject(
    SYSTEM,
    any_parameters,
    partial(any_state, message_laws=tuple(CHUNKS.laws.values())),
    {"OfferChunk": any_rows},
)
"""The channel, with what a user sees of it."""


def _within_bound(state: State, parameters: Parameters) -> bool:
    return QUEUE.invariants["NeverAboveBound"](CHUNKS.seen(state), queue_parameters(parameters))


def _below_bound(state: State, parameters: Parameters) -> bool:
    return total(CHUNKS.seen(state).queue) < parameters.row_permits


def theorems() -> tuple[Theorem, ...]:
    """The theorems about the user's view."""
    return (
        Theorem(
            id="bounded-queue",
            is_promise=True,
            statement=(
                "A permit channel is a first-in, first-out queue of chunks that together cost at most row_permits: "
                "SendChunk puts the oldest waiting chunk in, Consume gets the oldest one out, OfferChunk and "
                "WithdrawChunk change the line of waiting chunks, and no other step can be seen."
            ),
            module="PermitChannelRefinement",
            operator="IsQueue",
            obligations=(
                *CHUNKS.obligations(SEEN, partial(any_message, "message")),
                SEEN.holds_whenever_invariant(
                    "the queue is never above its bound", _within_bound, _below_bound, "below"
                ),
            ),
        ),
    )
