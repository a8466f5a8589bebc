"""A permit channel is a bounded queue of chunks, whatever its parameters.

The model's own steps are taken in any state, and compared with the steps of the model's own queue in the user's view of
that state: chunks one after another, as sequences of any length.
"""

from collections.abc import Mapping
from functools import partial
from typing import cast

from permitflow_model.bounded_queue import SYSTEM as QUEUE
from permitflow_model.bounded_queue import Chunk, chunks_in, queue_in, total
from permitflow_model.bounded_queue import State as QueueState
from permitflow_model.kernel.queue import Queue
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, State
from permitflow_model.permit_channel_refinement import as_chunks, queue_move, queue_parameters
from permitflow_proofs.bounded_queue_refinement import View
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, Sums
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.sequence import no_items
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import any_message, any_parameters, any_rows, any_state, permits_in

_NOTHING = no_items(Chunk(0, 0))


def seen(state: State) -> QueueState:
    """The user's view of a state, as sequences of chunks."""
    return queue_in(state, as_chunks, _NOTHING)


def _chunks(messages: Sums) -> Queue[Chunk]:
    return chunks_in(cast("Queue[Message]", messages), as_chunks, _NOTHING)


SEEN_LAWS: Mapping[str, Law] = {
    "messages that are no chunks": lambda messages: messages.size() - _chunks(messages).size(),
    "permits held beyond the costs of the chunks": lambda messages: (
        permits_in(messages).rows - total(_chunks(messages))
    ),
}

SEEN = Subject(
    SYSTEM,
    any_parameters,
    partial(any_state, message_laws=tuple(SEEN_LAWS.values())),
    {"OfferChunk": any_rows},
)
"""The channel, with what a user sees of it."""


def _within_bound(state: State, parameters: Parameters) -> bool:
    return QUEUE.invariants["NeverAboveBound"](seen(state), queue_parameters(parameters))


def _below_bound(state: State, parameters: Parameters) -> bool:
    return total(seen(state).queue) < parameters.row_permits


def _a_chunk_from_nowhere(_before: State, after: State) -> State:
    return after._replace(wire=after.wire.push(Message("chunk", 0, 1, 1)))


def _offered_and_lost(before: State, after: State) -> State:
    return after._replace(waiting=before.waiting)


def _the_oldest_withdrawn(before: State, after: State) -> State:
    return after._replace(waiting=before.waiting.without_head())


def _sent_twice(before: State, after: State) -> State:
    return after._replace(wire=after.wire.push(before.waiting.head()))


def _overtaking(before: State, after: State) -> State:
    return after._replace(wire=before.wire.without_last(), inbox=before.inbox.push(before.wire.last()))


def _the_newest_consumed(before: State, after: State) -> State:
    return after._replace(inbox=before.inbox.without_last())


VIEW = View(
    seen=seen,
    queue=queue_parameters,
    move=queue_move,
    put="SendChunk",
    mistakes={
        "OfferChunk": (_offered_and_lost, "the chunk is lost"),
        "WithdrawChunk": (_the_oldest_withdrawn, "the oldest chunk is withdrawn"),
        "SendChunk": (_sent_twice, "the chunk is sent twice"),
        "Deliver": (_overtaking, "the newest message arrives first"),
        "Consume": (_the_newest_consumed, "the newest message is consumed"),
    },
    other_mistake=(_a_chunk_from_nowhere, "a chunk appears on the wire"),
)
"""The user's view of the channel."""


def _laws() -> tuple[SymbolicObligation, ...]:
    obligations: list[SymbolicObligation] = []
    for name, law in SEEN_LAWS.items():
        obligations += law_obligations(name, law, lambda: any_message("message"))
    return tuple(obligations)


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
                *VIEW.obligations(SEEN),
                SEEN.holds_whenever_invariant(
                    "the queue is never above its bound", _within_bound, _below_bound, "below"
                ),
                *_laws(),
            ),
        ),
    )
