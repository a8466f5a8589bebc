"""Requests of a client about the channels of an exchange, and the exchange's replies, as values.

Each request gets one reply, in order.  A refused request has changed none of its channels.  If the exchange cannot
write its store, a publication has changed none of its channels; an acknowledgement or a closing has changed some or
all of them, and the client may repeat it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from permitflow.flows.seam import Parameters
from permitflow.stream.traffic import ChannelTraffic, Statistics

S = TypeVar("S")

MOST_CHANNELS = 1_000
"""Channels, rows or discarded attempts in a request: what the exchange does for each takes up to 50 microseconds."""

MOST_PUBLISHED = 20_000
"""Attempts in a publication, which cannot be split."""

MOST_PEEKED = 10_000
"""Rows in a peek; of long rows fewer come."""


class Right(StrEnum):
    """What a peer may be allowed to do with a channel."""

    PRODUCE = "produce"
    """Put rows into it, and prepare, publish, discard or end what was put."""
    CONSUME = "consume"
    """Get and peek at its rows, acknowledge."""
    ADMINISTER = "administer"
    """See its peers; add, reset, purge and remove it; roll back what is in doubt."""


class BaseRequest:
    """What all requests have."""

    __slots__ = ()

    right: ClassVar[Right | None] = Right.CONSUME
    """What the peer needs at each channel in ``named``; None: any right at the channel will do."""
    is_repeatable: ClassVar[bool] = True
    """Does a request that is carried out twice do the same as once?"""

    @property
    def named(self) -> tuple[str, ...]:
        """The names of the channels concerned, also of those that it makes; empty: all that the exchange has."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _OfChannels(BaseRequest):
    channels: tuple[str, ...]

    @property
    def named(self) -> tuple[str, ...]:
        return self.channels


class Retention(StrEnum):
    """Whether a channel keeps rows that a consumer has read."""

    ONCE = "once"
    """Each row is read once, then dropped."""
    REPLAY = "replay"
    """Rows are kept until every consumer has acknowledged them; until then they can be read again."""


class ChannelState(StrEnum):
    """Whether more rows will arrive."""

    OPEN = "open"
    ENDED = "ended"
    """No more rows will arrive: the channel is complete."""
    BROKEN = "broken"
    """No more rows will arrive, and some are missing."""


class ChannelRow(NamedTuple):
    """A row of a channel."""

    channel: str
    row: int
    log_id: str = ""
    """The log that the row number belongs to; empty: the current log."""
    next_barrier: int = 0
    """The least number of a barrier that the consumer still needs; 0: none that stands at the row or before it."""


class KeptBarrier(NamedTuple):
    """A barrier among the rows of a channel."""

    number: int
    """At least 1, and above the numbers of the barriers before it."""
    row: int
    """The row before which it stands."""


@dataclass(frozen=True, slots=True)
class AskPositions(_OfChannels):
    """Ask for the positions of channels: a producer that publishes does so, too."""

    right = None

    consumer: str = ""
    """The consumer whose position is asked for; empty: ``default``."""


@dataclass(frozen=True, slots=True)
class Acknowledge(BaseRequest):
    """A consumer no longer needs the rows before these."""

    rows: tuple[ChannelRow, ...]
    consumer: str = ""

    @property
    def named(self) -> tuple[str, ...]:
        """The channels of the rows."""
        return tuple(row.channel for row in self.rows)


class StagedPart(NamedTuple):
    """The attempt whose rows are published for a partition of a batch."""

    channel: str
    partition: int
    attempt: str
    rows: int
    """The number of rows that the attempt reports; the exchange compares it."""


@dataclass(frozen=True, slots=True)
class _OfParts(BaseRequest):
    right = Right.PRODUCE

    query: str
    batch: int
    parts: tuple[StagedPart, ...]

    @property
    def named(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part.channel for part in self.parts))


@dataclass(frozen=True, slots=True)
class Prepare(_OfParts):
    """Keep one attempt at each partition of a batch until it is published, however long that takes."""


@dataclass(frozen=True, slots=True)
class Publish(_OfParts):
    """Add one attempt at each partition of a batch to its channel: all of them or none."""


@dataclass(frozen=True, slots=True)
class Discard(_OfParts):
    """Delete unpublished attempts at a batch."""


@dataclass(frozen=True, slots=True)
class Close(_OfChannels):
    """No producer will put into these channels any more."""

    right = Right.PRODUCE
    consumer: str = ""


@dataclass(frozen=True, slots=True)
class _OfAnyChannels(BaseRequest):
    channels: tuple[str, ...] = ()
    """Channels of any retention; empty: ``MOST_CHANNELS`` of all channels, in the order in which they were added."""
    first: int = 0
    """How many channels are passed over, if there are no names."""

    @property
    def named(self) -> tuple[str, ...]:
        return self.channels

    def portion_of(self, known: Collection[str]) -> tuple[str, ...]:
        """The channels that are asked about where these are all, if there are no names."""
        first = min(max(0, self.first), len(known))
        return tuple(islice(known, first, first + MOST_CHANNELS))


@dataclass(frozen=True, slots=True)
class AskStatistics(_OfAnyChannels):
    """Ask for the statistics of channels."""

    right = None


# Administration.


@dataclass(frozen=True, slots=True)
class AskChannels(_OfAnyChannels):
    """Ask what channels there are, and who uses them."""

    right = Right.ADMINISTER


@dataclass(frozen=True, slots=True)
class AddStream(BaseRequest, Generic[S]):
    """Add a stream of channels, all or none."""

    right = Right.ADMINISTER
    is_repeatable = False

    stream: str
    channels: int
    """At most ``MOST_CHANNELS``: ``stream/0``, ``stream/1`` and so on."""
    parameters: Parameters | None = None
    """The parameters, of any flow; None: the exchange's own."""
    retention: Retention = Retention.ONCE
    consumers: tuple[str, ...] = ()
    """The consumers for whom rows are kept, with ``REPLAY``; empty: one, ``default``."""
    kept_rows: int | None = None
    """The most rows to keep before producers wait, with ``REPLAY``; None: the exchange's own rule."""
    staging_rows: int | None = None
    """The most rows to stage, with ``REPLAY``; None: likewise."""
    byte_window: int | None = None
    """The most bytes in a channel at once; None: the exchange's own."""
    target_latency_seconds: float | None = None
    """How long rows may wait at the exchange, whose windows adapt to it; None: the exchange's own."""
    schema: S | None = None
    """The schema of the chunks; None: the first producer's."""
    expire_seconds: float | None = None
    """Rows expire after this time, with ``REPLAY``; None: never."""
    expire_bytes: int | None = None
    """The oldest rows expire above this many bytes, with ``REPLAY``; None: never."""

    @property
    def named(self) -> tuple[str, ...]:
        """The channels to be made."""
        return tuple(f"{self.stream}/{position}" for position in range(min(self.channels, MOST_CHANNELS)))


@dataclass(frozen=True, slots=True)
class _OfSomeChannels(_OfChannels):
    right = Right.ADMINISTER
    is_repeatable = False

    force: bool = False
    """Act also if they are used: their streams end with a typed error, and rows that wait are dropped."""


@dataclass(frozen=True, slots=True)
class RemoveChannels(_OfSomeChannels):
    """Forget channels, with all rows that they keep."""


@dataclass(frozen=True, slots=True)
class ResetChannels(_OfSomeChannels):
    """Make channels usable again that are spent, broken or ended."""


@dataclass(frozen=True, slots=True)
class Purge(_OfChannels):
    """Drop the rows that wait in channels."""

    right = Right.ADMINISTER
    is_repeatable = False

    consumer: str = ""
    """The consumer that no longer needs these rows, where channels keep them; empty: all consumers."""


@dataclass(frozen=True, slots=True)
class Rollback(_OfChannels):
    """Forget attempts that are in doubt: prepared, of queries of which nothing was heard for long."""

    right = Right.ADMINISTER


@dataclass(frozen=True, slots=True)
class Peek(BaseRequest):
    """Ask for the first rows that wait in a channel; they stay there."""

    channel: str
    rows: int
    """At most ``MOST_PEEKED``."""
    consumer: str = ""
    """The consumer whose rows are shown, of a channel that keeps them; empty: ``default``."""

    @property
    def named(self) -> tuple[str, ...]:
        """This channel."""
        return (self.channel,)


@dataclass(frozen=True, slots=True)
class StreamConnection:
    """A stream between the exchange and a producer or consumer."""

    stream: str
    """Its name, which both ends know."""
    peer: str
    """The address of the other end."""
    direction: str
    """``put``: from a producer; ``get``: to a consumer."""
    state: str
    """The stream's state: open, ended, closed or failed."""
    is_suspended: bool = False
    """Has it lost its connection, and waits for another one?"""
    rows_held: int = 0
    """Rows that have left one end, and are not consumed at the other."""


@dataclass(frozen=True, slots=True)
class ListedChannel(Generic[S]):
    """A channel, and who is connected; ``S`` is the type of schemas."""

    traffic: ChannelTraffic
    """Its name, its state and the reason for it, and its counts."""
    retention: Retention
    parameters: Parameters
    schema: S | None
    """None: no producer has stated it yet."""
    connections: tuple[StreamConnection, ...] = ()
    """The streams that are open, in the order in which they began."""
    limit_rows: int = 0
    """The most rows that it keeps before producers wait; 0: it keeps none."""
    is_durable: bool = False
    """Do its rows survive the exchange?"""


@dataclass(frozen=True, slots=True)
class Channels(Generic[S]):
    """The reply to AskChannels and AddStream."""

    channels: tuple[ListedChannel[S], ...]


class ChangedChannel(NamedTuple):
    """What an order has done to a channel."""

    channel: str
    rows: int
    """Rows that waited and were dropped."""
    barriers: int
    """Likewise."""
    streams: int
    """Streams that were ended."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The reply to RemoveChannels, ResetChannels, Purge and Rollback: what was done to each channel, in order."""

    channels: tuple[ChangedChannel, ...]


class PeekedBatch(NamedTuple):
    """Rows as they travel, with the schema of their channel."""

    rows: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Peeked(Generic[S]):
    """The reply to Peek."""

    schema: S | None
    """None: no producer has stated it yet."""
    batches: tuple[PeekedBatch, ...]


@dataclass(frozen=True, slots=True)
class ChannelPosition(Generic[S]):
    """The position of a channel; ``S`` is the type of schemas."""

    channel: str
    acknowledged_row: int
    """The first row that the consumer has not acknowledged."""
    next_row: int
    """The number of the next row to arrive; all rows before it can be read."""
    state: ChannelState
    reason: str
    """Why the channel is broken; empty if it is not."""
    parameters: Parameters
    schema: S | None
    """None: no producer has stated a schema yet."""
    log_id: str = ""
    """A new name after rows were lost: then the same row numbers mean other rows."""
    limit_rows: int = 0
    """The most rows kept at once, except for published ones beyond it."""
    barriers: tuple[KeptBarrier, ...] = ()
    """The kept barriers that the consumer has not passed, in order."""
    waiting_rows: int = 0
    """The rows of a producer's chunk for which there is no room; 0: none waits."""
    waiting_seconds: float = 0.0
    """The time in which some row of a producer waited for room, since the exchange has opened the channel."""
    expired_row: int = 0
    """All rows before it are gone, though the consumer may need them."""

    @property
    def first_row(self) -> int:
        """The first row that the consumer can still read."""
        return max(self.acknowledged_row, self.expired_row)


@dataclass(frozen=True, slots=True)
class Positions(Generic[S]):
    """The reply to AskPositions, Acknowledge and Close: one position for each named channel, in order."""

    channels: tuple[ChannelPosition[S], ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The reply to Prepare and to Publish."""

    was_published: bool
    """An earlier request has published the batch, or a later one; this request has changed nothing."""
    last_batch: int = 0
    """The query's last published batch."""


@dataclass(frozen=True, slots=True)
class Discarded:
    """The reply to Discard."""

    rows: int


ControlRequest: TypeAlias = (
    AskPositions
    | Acknowledge
    | Prepare
    | Publish
    | Discard
    | Close
    | AskStatistics
    | AskChannels
    | AddStream[Any]
    | RemoveChannels
    | ResetChannels
    | Purge
    | Rollback
    | Peek
)
ControlReply: TypeAlias = Positions[S] | Published | Discarded | Statistics | Channels[S] | Changed | Peeked[S]
