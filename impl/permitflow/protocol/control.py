"""What a client asks or orders about channels that keep their rows, and what the exchange replies, as values.

Each request gets one reply, in order.  One that is refused has changed nothing at any of the channels that it names.
Where the exchange cannot write, a publication was done for none of its channels; of those that were to be acknowledged
or closed, each was or was not, and the request may be repeated.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from permitflow.protocol.flow import Parameters
from permitflow.protocol.traffic import Statistics

__all__ = [
    "Acknowledge",
    "AskPositions",
    "AskStatistics",
    "ChannelPosition",
    "ChannelRow",
    "ChannelState",
    "Close",
    "ControlReply",
    "ControlRequest",
    "Discard",
    "Discarded",
    "Positions",
    "Publish",
    "Published",
    "StagedPart",
]

S = TypeVar("S")


class ChannelState(StrEnum):
    """Will more rows come?"""

    OPEN = "open"
    ENDED = "ended"
    """No row will come any more: all are there."""
    BROKEN = "broken"
    """No row will come any more, although not all are there."""


class ChannelRow(NamedTuple):
    """A row of a channel."""

    channel: str
    row: int
    log_id: str = ""
    """The log in which the row was counted; empty: whichever there is."""


@dataclass(frozen=True, slots=True)
class AskPositions:
    """Where do the channels stand?"""

    channels: tuple[str, ...]
    consumer: str = ""
    """Whose position is wanted; empty: that of the consumer ``default``."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A consumer needs no row before these any more."""

    rows: tuple[ChannelRow, ...]
    consumer: str = ""


class StagedPart(NamedTuple):
    """The attempt at a partition of a batch whose rows count."""

    channel: str
    partition: int
    attempt: str
    rows: int
    """That the attempt says it has staged; the exchange compares."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Make one attempt at each partition of a batch part of its channel, all or none."""

    query: str
    batch: int
    parts: tuple[StagedPart, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Forget attempts at a batch that are not published."""

    query: str
    batch: int
    parts: tuple[StagedPart, ...]


@dataclass(frozen=True, slots=True)
class Close:
    """Nobody will put into these channels any more."""

    channels: tuple[str, ...]
    consumer: str = ""


@dataclass(frozen=True, slots=True)
class AskStatistics:
    """What has flowed through the channels?"""

    channels: tuple[str, ...] = ()
    """Of any kind; none: all that there are."""


@dataclass(frozen=True, slots=True)
class ChannelPosition(Generic[S]):
    """Where a channel stands; ``S`` is the type of schemas."""

    channel: str
    acknowledged_row: int
    """By the consumer: the first row that it may still read."""
    next_row: int
    """The number of the next row that will come; all before it can be read."""
    state: ChannelState
    reason: str
    """Why it is broken; else empty."""
    parameters: Parameters
    schema: S | None
    """None: no producer has stated it yet."""
    log_id: str = ""
    """Another one after rows were lost: then the same numbers mean other rows."""
    limit_rows: int = 0
    """The most rows that are kept at once, unless more are published."""


@dataclass(frozen=True, slots=True)
class Positions(Generic[S]):
    """The reply to AskPositions, Acknowledge and Close: in the order in which channels were named."""

    channels: tuple[ChannelPosition[S], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The reply to Publish."""

    was_published: bool
    """By an earlier request: this one has changed nothing."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """The reply to Discard."""

    rows: int


ControlRequest: TypeAlias = AskPositions | Acknowledge | Publish | Discard | Close | AskStatistics
ControlReply: TypeAlias = Positions[S] | Published | Discarded | Statistics
