"""What a trace consists of."""

from typing import NamedTuple

from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters, End

__all__ = ["FORMAT_VERSION", "Event", "Header"]

FORMAT_VERSION = 1


class Header(NamedTuple):
    """Says that one end of a channel was recorded, and with which parameters the channel works."""

    channel: str
    """The name of one stream; equal at both of its ends, and different for every other stream."""

    end: End
    parameters: ChannelParameters


class Event(NamedTuple):
    """One action of the specification, as one end of a channel performed it."""

    channel: str
    end: End
    sequence: int
    """Counts the events of this end of this channel from 1, without gaps."""

    action: str
    """Spelt as in the specification."""

    rows: int
    """Rows of the chunk, or 0."""

    permits: Permits
    """Permits that the message holds or, for Flush and AddPermits, those that are returned."""

    time_seconds: float | None = None
    """By the monotonic clock of the end's machine: for people, never for the order of events."""

    counters: Counters | None = None
    """What the end itself counted after the action; ``protocol.recording.COUNTERS`` names the three numbers."""
