"""The clauses that an audit checks, and its findings."""

from dataclasses import dataclass, field
from enum import StrEnum

from permitflow.flows.recording import End


class Clause(StrEnum):
    """A rule for recorded runs of any protocol; the protocol's laws define the quantities in it.

    A protocol may have clauses of its own beside these: ``permitflow_tools.audit.flows``.
    """

    SEQUENCE = "Sequence"
    """The events of an end count from 1, without gaps and repetitions.  (Of the recording, not of the protocol.)"""
    BOUNDED = "Bounded"
    """An end's counters stay between their bounds: no end spends more than it has."""
    CONSERVATION = "Conservation"
    """An end's counters after an event are those before it plus the event's effect.  None created, none lost."""
    OFFERED = "Offered"
    """A message that is sent or withdrawn was offered before, and was not sent or withdrawn already."""
    IN_ORDER = "ExactlyOnceInOrder"
    """Messages are delivered as sent and consumed as delivered: in that order, each once.

    Messages are distinguished by kind and rows.
    """
    RETURNED = "Returned"
    """The sender receives no more than the receiver has returned."""

    @property
    def words(self) -> str:
        """The rule in a few words."""
        return _WORDS[self]


_WORDS = {
    Clause.SEQUENCE: "events count from 1 without gaps",
    Clause.BOUNDED: "what an end counts stays between its bounds",
    Clause.CONSERVATION: "the ledger follows from the events",
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
    """The number of the event among those of its end, from 1."""
    clause: str
    """One of ``Clause``, or one of the protocol's own."""
    action: str
    arguments: tuple[int, ...]
    before: tuple[int, ...] | None = None
    """The end's counters before the event; its ``ActionTable`` names them."""
    after: tuple[int, ...] | None = None
    """The counters after it."""
    reason: str = ""
    """The found and the expected values."""


@dataclass(kw_only=True)
class ChannelAudit:
    """The audit of one channel."""

    channel: str
    ends: frozenset[End]
    """The recorded ends."""
    flow: str = ""
    """The name of its protocol."""
    events: int = 0
    sent_messages: int = 0
    sent_rows: int = 0
    consumed_messages: int = 0
    consumed_rows: int = 0
    violations: int = 0
    remarks: list[str] = field(default_factory=list)
    """The omitted checks, with reasons."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The audit of a whole recording."""

    channels: list[ChannelAudit]
    violations: list[Violation]
    """By channel, end and sequence."""
    untold: int = 0
    """Number of violations that are not listed, because there are too many in one part."""

    @property
    def holds(self) -> bool:
        """Is the recording free of violations?"""
        return not self.violations and not self.untold

    @property
    def events(self) -> int:
        """Number of events examined."""
        return sum(channel.events for channel in self.channels)
