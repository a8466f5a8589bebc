"""What an audit checks, and what it has found."""

from dataclasses import dataclass, field
from enum import StrEnum

from permitflow.protocol.recording import End

__all__ = ["Audit", "ChannelAudit", "Clause", "Violation"]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """An event that breaks a clause."""

    channel: str
    end: End
    sequence: int
    """Of the event among those of its end, from 1."""

    clause: Clause
    action: str
    rows: int
    permits: tuple[int, int, int]
    before: tuple[int, int, int] | None = None
    """What the end counted before the event; its ``ActionTable`` says of what."""

    after: tuple[int, int, int] | None = None
    """What it counted after it."""

    reason: str = ""
    """What is, and what should be."""


@dataclass(kw_only=True)
class ChannelAudit:
    """One channel of a recording."""

    channel: str
    ends: frozenset[End]
    """Those that were recorded."""

    events: int = 0
    sent_messages: int = 0
    sent_rows: int = 0
    consumed_messages: int = 0
    consumed_rows: int = 0
    violations: int = 0
    remarks: list[str] = field(default_factory=list)
    """What could not be checked, and why."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A whole recording."""

    channels: list[ChannelAudit]
    violations: list[Violation]
    """By channel, end and sequence."""

    untold: int = 0
    """Violations that were counted only, because there are too many in one part."""

    @property
    def holds(self) -> bool:
        """Has nothing been found?"""
        return not self.violations and not self.untold

    @property
    def events(self) -> int:
        """All that were looked at."""
        return sum(channel.events for channel in self.channels)
