"""What an audit finds."""

from dataclasses import dataclass

from permitflow.audit.clauses import Clause
from permitflow.protocol.recording import Counters, End

__all__ = ["Violation"]


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
    before: Counters | None = None
    """What the end counted before the event; ``protocol.recording.COUNTERS`` says of what."""

    after: Counters | None = None
    """What it counted after it."""

    reason: str = ""
    """What is, and what should be."""
