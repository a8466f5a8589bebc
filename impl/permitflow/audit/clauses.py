"""What an audit checks."""

from enum import StrEnum

__all__ = ["Clause"]


class Clause(StrEnum):
    """A rule that a recorded run must keep; where the specification has a name for it, that one."""

    SEQUENCE = "Sequence"
    """The events of an end count from 1, without gaps and repetitions.  (Of the recording, not of the protocol.)"""

    COST = "Cost"
    """A message holds what it costs, of one class; permits that are returned are at least one, and no class negative.

    Spec: Cost, Held.
    """

    BOUNDED = "Bounded"
    """The sender has 0 to all permits of each class: it spends none that it does not have, and gets none that are not
    out.  The rows of the inbox hold no more than all permits.

    Spec: Bounded, TypeOK.
    """

    CONSERVATION = "Conservation"
    """What an end counts after an event is what it counted before, and what the event did.  None created, none lost.

    Spec: Conservation; the updates of permits, inbox and unreturned.
    """

    GRANTS_BATCHED = "GrantsBatched"
    """Row permits are kept back until there are a batch of them, and returned then; a residue only when idle.

    Spec: GrantsBatched, Consume, Flush.
    """

    OFFERED = "Offered"
    """What is sent or withdrawn has been offered before, and was not sent or withdrawn already.

    Spec: the guards of SendChunk, WithdrawChunk, SendBarrier, WithdrawBarrier.
    """

    IN_ORDER = "ExactlyOnceInOrder"
    """What is delivered is what was sent, and what is consumed is what was delivered: in that order, each once.

    Spec: ExactlyOnceInOrder, as far as kinds and rows of messages tell them apart.
    """

    RETURNED = "Returned"
    """No more permits arrive at the sender than the receiver has returned.

    Spec: the guard of AddPermits.
    """

    @property
    def words(self) -> str:
        """The rule in a few words."""
        return _WORDS[self]


_WORDS = {
    Clause.SEQUENCE: "events count from 1 without gaps",
    Clause.COST: "a message holds what it costs",
    Clause.BOUNDED: "nobody has or spends more permits than there are",
    Clause.CONSERVATION: "an end's books follow from its events",
    Clause.GRANTS_BATCHED: "permits are returned in batches, a residue only when idle",
    Clause.OFFERED: "only what was offered is sent or withdrawn, once",
    Clause.IN_ORDER: "delivered and consumed as sent, in order, once",
    Clause.RETURNED: "no permits arrive that were not returned",
}
