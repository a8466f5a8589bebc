"""What an audit checks, and what it has found."""

from dataclasses import dataclass, field
from enum import StrEnum

from permitflow.protocol.recording import End

__all__ = ["Audit", "ChannelAudit", "Clause", "Violation"]


class Clause(StrEnum):
    """A rule that a recorded run of any protocol must keep, as far as its laws say what that means there.

    A protocol may have clauses of its own beside these: ``permitflow.audit.flows``.
    """

    SEQUENCE = "Sequence"
    """The events of an end count from 1, without gaps and repetitions.  (Of the recording, not of the protocol.)"""

    BOUNDED = "Bounded"
    """What an end counts stays between its bounds: nobody spends what it does not have."""

    CONSERVATION = "Conservation"
    """What an end counts after an event is what it counted before, and what the event did.  None created, none lost."""

    OFFERED = "Offered"
    """What is sent or withdrawn has been offered before, and was not sent or withdrawn already."""

    IN_ORDER = "ExactlyOnceInOrder"
    """What is delivered is what was sent, and what is consumed is what was delivered: in that order, each once.

    As far as kinds and rows of messages tell them apart.
    """

    RETURNED = "Returned"
    """No more comes back to the sender than the receiver has returned."""

    @property
    def words(self) -> str:
        """The rule in a few words."""
        return _WORDS[self]


_WORDS = {
    Clause.SEQUENCE: "events count from 1 without gaps",
    Clause.BOUNDED: "what an end counts stays between its bounds",
    Clause.CONSERVATION: "an end's books follow from its events",
    Clause.OFFERED: "only what was offered is sent or withdrawn, once",
    Clause.IN_ORDER: "delivered and consumed as sent, in order, once",
    Clause.RETURNED: "nothing comes back that was not returned",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """An event that breaks a clause."""

    channel: str
    end: End
    sequence: int
    """Of the event among those of its end, from 1."""

    clause: str
    """One of ``Clause``, or of the protocol's own."""

    action: str
    arguments: tuple[int, ...]
    before: tuple[int, ...] | None = None
    """What the end counted before the event; its ``ActionTable`` says of what."""

    after: tuple[int, ...] | None = None
    """What it counted after it."""

    reason: str = ""
    """What is, and what should be."""


@dataclass(kw_only=True)
class ChannelAudit:
    """One channel of a recording."""

    channel: str
    ends: frozenset[End]
    """Those that were recorded."""

    flow: str = ""
    """The name of its protocol."""

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
