"""The inductive invariant: every clause holds at the start, and every action keeps it.

Each clause is shown in states that satisfy all clauses, so they are inductive together.
"""

from collections.abc import Iterator
from functools import partial

from permitflow_model.permit_channel import (
    NO_WATERMARK,
    NOTHING,
    Message,
    Parameters,
    Permits,
    State,
    held_by,
    plus,
)
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law
from permitflow_proofs.kernel.queue_facts import queue_obligations
from permitflow_proofs.kernel.queue_laws import law_obligations
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import (
    CHANNEL,
    GRANT_LAWS,
    INVARIANT,
    MESSAGE_LAWS,
    any_message,
    any_parameters,
    any_permits,
    lawful_grant,
    lawful_message,
)

__all__ = ["theorems"]


def _with_a_negative_residue(state: State, _parameters: Parameters) -> State:
    return state._replace(unreturned=-1)


def _with_a_permit_more(state: State, _parameters: Parameters) -> State:
    return state._replace(permits=plus(state.permits, Permits(1, 0, 0)))


def _with_a_batch_kept(state: State, parameters: Parameters) -> State:
    return state._replace(unreturned=state.unreturned + parameters.batch)


def _with_a_larger_chunk(state: State, parameters: Parameters) -> State:
    return state._replace(wire=state.wire.push(Message("chunk", 0, max(parameters.sizes) + 1, 1)))


def _with_an_empty_grant(state: State, _parameters: Parameters) -> State:
    return state._replace(grants=state.grants.push(NOTHING))


def _with_a_barrier(state: State, _parameters: Parameters) -> State:
    return state._replace(waiting=state.waiting.push(Message("barrier", 0, 0, 1)))


def _barriers_need_two_permits(state: State, parameters: Parameters) -> bool:
    return held_by(state.waiting).barriers == 0 or parameters.barrier_permits > 1


def _with_the_newest_watermark_lost(state: State, _parameters: Parameters) -> State:
    return state._replace(newest_watermark="pending", watermark_pending=NO_WATERMARK)


def _laws_of_messages() -> Iterator[SymbolicObligation]:
    for name, law in MESSAGE_LAWS.items():
        yield from law_obligations(
            name, partial(_itself, law), lambda: lawful_message(any_parameters()), lambda: any_message("message")
        )


def _laws_of_grants() -> Iterator[SymbolicObligation]:
    for name, law in GRANT_LAWS.items():
        yield from law_obligations(
            name, partial(_itself, law), lambda: lawful_grant(any_parameters()), lambda: any_permits("grant")
        )


def _itself(law: Law) -> Law:
    return law


def _laws() -> tuple[Theorem, ...]:
    return (
        Theorem(
            id="queue-sums",
            statement=(
                "What the proofs assume of a queue when an item is pushed or taken holds for every queue, "
                "by induction over its length."
            ),
            module="PermitChannel",
            operator="SumHeld",
            obligations=queue_obligations(),
            scope="all queues",
        ),
        Theorem(
            id="queue-laws",
            statement=(
                "Messages in a queue together hold no negative number of permits, and at least one each; "
                "so do the grants in flight."
            ),
            module="PermitChannel",
            operator="Held",
            obligations=(*_laws_of_messages(), *_laws_of_grants()),
        ),
    )


def _clause(name: str) -> Clause[State, Parameters]:
    return INVARIANT[name]


def theorems() -> tuple[Theorem, ...]:
    """Conservation and the clauses it needs."""
    return (
        Theorem(
            id="conservation",
            statement=(
                "For rows, barriers and watermarks alike: permits at the sender + data in flight + inbox + unreturned "
                "+ permits in flight = Buf, after any number of steps."
            ),
            module="PermitChannel",
            operator="Conservation",
            obligations=CHANNEL.induction(
                _clause("Conservation"), _with_a_permit_more, "after the step there is one row permit too many"
            ),
        ),
        Theorem(
            id="type-ok",
            statement="No count is ever negative, and every message keeps the cost that its rows have.",
            module="PermitChannel",
            operator="TypeOK",
            obligations=CHANNEL.induction(
                _clause("TypeOK"), _with_a_negative_residue, "after the step the receiver owes minus one permit"
            ),
        ),
        Theorem(
            id="residue-below-batch",
            statement=(
                "The receiver keeps back less than BATCH row permits, and without the idle flush each return of rows "
                "carries at least BATCH."
            ),
            module="PermitChannel",
            operator="GrantsBatched",
            obligations=CHANNEL.induction(
                _clause("GrantsBatched"), _with_a_batch_kept, "after the step the receiver keeps back a batch more"
            ),
        ),
        Theorem(
            id="sizes-offered",
            statement="No chunk in the channel is larger than the largest that may be offered.",
            module="PermitChannel",
            operator="OfferChunk",
            obligations=CHANNEL.induction(
                _clause("SizesOffered"), _with_a_larger_chunk, "a larger chunk gets onto the wire"
            ),
        ),
        Theorem(
            id="no-empty-grant",
            statement="Every return of permits brings at least one.",
            module="PermitChannel",
            operator="AddPermits",
            obligations=CHANNEL.induction(
                _clause("GrantsBringPermits"), _with_an_empty_grant, "an empty grant is returned"
            ),
        ),
        Theorem(
            id="only-what-is-offered",
            statement="Without barrier permits no barrier waits, and where no watermarks are offered there are none.",
            module="PermitChannel",
            operator="OfferBarrier",
            obligations=CHANNEL.induction(
                _clause("OnlyWhatIsOffered"),
                _with_a_barrier,
                "a barrier appears, and barriers need two permits",
                twin_clause=_barriers_need_two_permits,
            ),
        ),
        Theorem(
            id="newest-watermark-kept",
            statement=(
                "The newest watermark is never lost: it is pending, or the one that is on its way, or it has been "
                "consumed."
            ),
            module="PermitChannel",
            operator="NewestWatermarkKept",
            obligations=CHANNEL.induction(
                _clause("NewestWatermarkKept"),
                _with_the_newest_watermark_lost,
                "after the step the newest watermark is nowhere",
            ),
        ),
        *_laws(),
    )
