"""What an audit has found out."""

from dataclasses import dataclass, field

from permitflow.audit.violations import Violation
from permitflow.protocol.recording import End

__all__ = ["Audit", "ChannelAudit"]


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
