"""What the two ends of a stream say to each other, as values.

Numbers of a frame are the peer's claims: they are kept as they came, and checked by the handshake and the sessions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from permitflow.protocol.compression import CompressionAnswer, CompressionOffer
from permitflow.protocol.flow import AnyFeedback, Wishes
from permitflow.protocol.messages import Message

__all__ = [
    "Abort",
    "Agreement",
    "Chunks",
    "Data",
    "DownstreamFrame",
    "End",
    "EndOutcome",
    "Ended",
    "Failure",
    "Feedback",
    "Frame",
    "Get",
    "Put",
    "SameHostAnswer",
    "SameHostOffer",
    "Staging",
    "UpstreamFrame",
    "frame_name",
]

T = TypeVar("T")


class SameHostOffer(NamedTuple):
    """A dialer offers to share memory, if the acceptor runs on its host."""

    socket: str
    """The name at which the memory can be fetched."""
    is_required: bool = False
    """The acceptor must refuse the stream if it cannot accept the offer."""


class SameHostAnswer(NamedTuple):
    """What the acceptor says to that."""

    proof: bytes
    """That it has read the memory; empty: the stream stays where it is."""
    refusal: str = ""
    """Why."""


class Staging(NamedTuple):
    """One attempt at one partition of one batch of one query."""

    query: str
    batch: int
    partition: int
    attempt: str
    """Unique among the attempts at this partition, also after a restart of the query."""


@dataclass(frozen=True, slots=True)
class Get:
    """First frame of a downstream that dials."""

    protocol_version: int
    channel: str
    """Its name."""
    flow: str = ""
    """The flow that it wants; empty: whichever the channel has."""
    wanted: Wishes | None = None
    """Of that flow's parameters; None: it says nothing."""
    schema: bytes | None = None
    """The serialised schema that it expects; None: whatever the channel has."""
    probe: bool = False
    """Only the agreement is wanted; the stream will be empty, and the channel keeps its data."""
    same_host: SameHostOffer | None = None
    from_row: int | None = None
    """Of a channel that keeps its rows: the first row that is wanted; None: the consumer's first that is not
    acknowledged."""
    to_row: int | None = None
    """The first row that is not wanted any more; None: all that will ever come."""
    consumer: str = ""
    """Whose reading this is; empty: that of the consumer ``default``."""
    log_id: str = ""
    """The log in which these rows were counted; empty: whichever there is."""
    compression: CompressionOffer | None = None
    """None: it can read nothing that is compressed, or wants nothing of the kind."""


@dataclass(frozen=True, slots=True)
class Put:
    """First frame of an upstream that dials."""

    protocol_version: int
    channel: str
    """Its name."""
    flow: str = ""
    """The flow that it wants; empty: whichever the channel has."""
    wanted: Wishes | None = None
    """Of that flow's parameters; None: it says nothing."""
    schema: bytes | None = None
    """The serialised schema of the chunks that will come."""
    same_host: SameHostOffer | None = None
    producer: str = ""
    """Of a channel that keeps its rows: a name that may have been here before; empty: nobody in particular."""
    staging: Staging | None = None
    """Of a channel that keeps its rows: what comes is not to be seen before it is published."""
    compression: CompressionOffer | None = None
    """None: it can write nothing that is compressed, or wants nothing of the kind."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The acceptor's answer: the numbers by which both ends will count."""

    protocol_version: int
    flow: str
    parameters: Wishes
    """All of them."""
    schema: bytes
    stream: str = ""
    """The acceptor's name for this stream; both ends use it in statistics and traces."""
    same_host: SameHostAnswer | None = None
    """None: there was no offer, or the acceptor does not know of such things."""
    first_row: int | None = None
    """Of a channel that keeps its rows.  Get: the number of the first row that follows.  Put with a producer: how many
    rows of this producer are kept, or were."""
    compression: CompressionAnswer | None = None
    """None: there was no offer, or the acceptor does not know of such things."""


# Nothing changes these three either, but frozen they would take three times as long to make, for every message.


@dataclass(slots=True, unsafe_hash=True)
class Data(Generic[T]):
    """A barrier or a watermark."""

    message: Message[T]


@dataclass(slots=True, unsafe_hash=True)
class Chunks(Generic[T]):
    """Chunks that travel together, as if each had come alone."""

    payloads: Sequence[T]
    rows: Sequence[int]
    """Of each of them."""


@dataclass(slots=True, unsafe_hash=True)
class Feedback:
    """What the receiver's end of the flow says to the sender's: in a flow of permits, those that go back."""

    said: AnyFeedback


class EndOutcome(StrEnum):
    """What has become of a stream's messages when its end is answered."""

    CONSUMED = "consumed"
    """The channel's consumer has consumed them all, and whatever was in the channel before them."""
    ACCEPTED = "accepted"
    """The exchange has them all; nobody has confirmed yet that they were consumed.

    Of a channel that is read once: no consumer has come yet, or the sender did not want to wait for it.  Of a channel
    that keeps its rows: they are kept, or staged.
    """


@dataclass(frozen=True, slots=True)
class End:
    """Nothing follows.  Totals are those of the whole stream."""

    chunks: int
    rows: int
    barriers: int
    closes_channel: bool = False
    """Nobody else will put into the channel: its consumers come to the end as well."""
    until: EndOutcome | None = None
    """What the answer is to wait for, in an ``Ended``; None: the answer is the closed half, and waits until all was
    consumed."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The upstream gives up; what it sent is incomplete."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The acceptor breaks the stream off; the dialer closes its half, and a status follows."""

    error: bytes
    """The error as the carrier encodes it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The downstream's answer to an End that asks for one; it follows the last permits."""

    outcome: EndOutcome


UpstreamFrame: TypeAlias = Put | Agreement | Data[T] | Chunks[T] | End | Abort | Failure
DownstreamFrame: TypeAlias = Get | Agreement | Feedback | Ended | Failure
Frame: TypeAlias = UpstreamFrame[T] | DownstreamFrame


def frame_name(frame: object) -> str:
    """The name of a frame, or of a frame's type, as in the protocol definition."""
    return frame.__name__ if isinstance(frame, type) else type(frame).__name__
