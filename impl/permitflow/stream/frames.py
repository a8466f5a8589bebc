"""The frames that the two ends of a stream exchange, as values.

The numbers in a frame are the peer's claims: a frame keeps them unchecked; the handshake and the sessions check them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW
from permitflow.flows.messages import Message
from permitflow.flows.seam import AnyAnnouncement, AnyFeedback, Wishes
from permitflow.stream.compression import CompressionAnswer, CompressionOffer
from permitflow.stream.resuming import ResumeAnswer, ResumeOffer

T = TypeVar("T")


class SameHostOffer(NamedTuple):
    """The client offers to share memory, if the server runs on the same host."""

    socket: str
    """The name of the socket from which the server fetches the memory."""
    is_required: bool = False
    """The server must refuse the stream if it cannot accept the offer."""


class SameHostAnswer(NamedTuple):
    """The server's answer to a ``SameHostOffer``."""

    proof: bytes
    """Proof that the server has read the memory; empty: the stream stays on the network."""
    refusal: str = ""
    """Why."""


class Staging(NamedTuple):
    """One attempt at one partition of one batch of one query."""

    query: str
    batch: int
    partition: int
    attempt: str
    """Unique among the attempts at this partition, even after a restart of the query."""


class TaskAttempt(NamedTuple):
    """One attempt at one task of a job whose rows are delivered as they come."""

    job: str
    """Unique, also among the runs of the same program."""
    partition: int
    """Which of the job's tasks."""
    attempt: int
    """Unique among the attempts at this task; later ones have higher numbers."""
    is_retry: bool = False
    """Was there an attempt at this task before, of which the exchange may not know?"""


class JobTotal(NamedTuple):
    """How many rows in a channel the tasks of a job have sent that count."""

    job: str
    rows: int


@dataclass(frozen=True, slots=True)
class Opening:
    """The first frame of a client."""

    protocol_version: int
    channel: str
    """Its name."""
    flow: str = ""
    """The flow that the client wants; empty: the channel's flow."""
    wanted: Wishes | None = None
    """The client's wishes for that flow's parameters; None: it has none."""
    schema: bytes | None = None
    """The serialised schema of the chunks that follow, or that are expected; None: the channel's schema."""
    byte_window: int = 0
    """The most bytes that the client wants in the stream at once; 0: it has no wish."""
    same_host: SameHostOffer | None = None
    compression: CompressionOffer | None = None
    """None: the client cannot read or write compressed chunks, or does not want them."""
    resume: ResumeOffer | None = None
    """None: the stream ends with its connection."""


@dataclass(frozen=True, slots=True)
class Get(Opening):
    """The first frame of a downstream client."""

    probe: bool = False
    """Ask for the agreement only; the stream will be empty, and the channel keeps its data."""
    from_row: int | None = None
    """For a channel that keeps its rows: the first row to read; None: the consumer's first row that is not
    acknowledged."""
    to_row: int | None = None
    """The row before which reading ends; None: read every row that will ever arrive."""
    consumer: str = ""
    """The consumer that reads; empty: ``default``."""
    log_id: str = ""
    """The log that these row numbers belong to; empty: the current log."""
    columns: tuple[str, ...] = ()
    """The columns that are enough, of a channel that keeps its rows; none, or an unknown one: all."""
    with_time: bool = False
    """A last column ``_time`` says when the exchange took each row over; of a channel that keeps its rows."""


@dataclass(frozen=True, slots=True)
class Put(Opening):
    """The first frame of an upstream client."""

    producer: str = ""
    """The producer's name, by which it resumes, in a channel that keeps its rows; empty: it has no name."""
    staging: Staging | None = None
    """The attempt that stages these rows, in a channel that keeps them; they are visible once published."""
    attempt: TaskAttempt | None = None
    """The attempt that sends these rows directly; the exchange refuses it if another one at the task has sent rows."""
    total: JobTotal | None = None
    """All tasks of a job are done, and this stream sends no rows: the exchange compares its own count."""
    failed_job: str = ""
    """This job has failed, and this stream sends no rows but an Abort; refused where the channel has no rows of it."""
    spread_over: int = 0
    """The producer spreads rows over this many channels of the stream; the exchange refuses if it has more.  0: it does
    not spread rows."""
    job_channels: tuple[str, ...] = ()
    """Channels into which other tasks of the job write; the exchange refuses if it lacks one."""
    job_since_row: int | None = None
    """The next row of a channel that keeps its rows, when the job was planned: earlier ones are not its own."""
    job_log_id: str = ""
    """The log in which that row is counted; empty: not known.  The exchange refuses if the channel has another one."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The server's answer: the numbers by which both ends will count."""

    protocol_version: int
    flow: str
    parameters: Wishes
    """All parameters of the flow."""
    schema: bytes
    stream: str = ""
    """The server's name for this stream; both ends use it in statistics and traces."""
    same_host: SameHostAnswer | None = None
    """None: there was no offer, or the server does not know the feature."""
    first_row: int | None = None
    """For a channel that keeps its rows.  Get: the number of the first row that follows.  Put with a producer's name:
    how many rows of this producer have been kept so far."""
    compression: CompressionAnswer | None = None
    """None: there was no offer, or the server does not know the feature."""
    resume: ResumeAnswer | None = None
    """None: there was no offer, or the server does not know the feature."""
    byte_window: int = DEFAULT_BYTE_WINDOW
    """The most bytes in the stream at once, unless a frame of chunks is larger."""


# Code must not change these five either; they are not frozen because that triples the time to make one per message.


@dataclass(slots=True, unsafe_hash=True)
class Data(Generic[T]):
    """A barrier or a watermark."""

    message: Message[T]


@dataclass(slots=True, unsafe_hash=True)
class Chunks(Generic[T]):
    """Chunks that travel together and count as if each travelled alone."""

    payloads: Sequence[T]
    rows: Sequence[int]
    """The rows of each chunk."""
    size_bytes: int | None = None
    """What all of them take of the byte window; None at the sender, before they are encoded."""


@dataclass(slots=True, unsafe_hash=True)
class ReturnedBytes:
    """Bytes of consumed chunks, which the receiver's end returns to the sender's."""

    size_bytes: int


@dataclass(slots=True, unsafe_hash=True)
class Feedback:
    """The flow's feedback from the receiver's end to the sender's: with permits, the returned permits."""

    content: AnyFeedback


@dataclass(slots=True, unsafe_hash=True)
class Announcement:
    """What the flow's sender tells its receiver beside data; the codec keeps the flow's encoding of it."""

    content: AnyAnnouncement


class EndOutcome(StrEnum):
    """The fate of a stream's messages at the time its end is answered."""

    CONSUMED = "consumed"
    """The channel's consumer has consumed all of them, and every message before them."""
    ACCEPTED = "accepted"
    """The exchange has all of them; no consumer has confirmed them yet.

    Channel that is read once: no consumer has connected yet, or the sender did not ask to wait for one.  Channel that
    keeps its rows: the rows are kept, or staged.
    """
    CANCELLED = "cancelled"
    """The consumer has cancelled: it needs no more messages, and those that it has not consumed are dropped."""


@dataclass(frozen=True, slots=True)
class End:
    """The last frame of data.  Totals are those of the whole stream."""

    chunks: int
    rows: int
    barriers: int
    closes_channel: bool = False
    """No other producer will put into the channel: its consumers reach the end as well."""
    until: EndOutcome = EndOutcome.CONSUMED
    """What the answer, an ``Ended``, waits for."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The upstream gives up; the stream is incomplete."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """The server breaks the stream off; the client closes its half, and a status follows."""

    error: bytes
    """The error as the carrier encodes it."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """The downstream needs no more messages; the upstream answers with End, behind the messages that have left.

    The downstream drops the messages until then.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The downstream's answer to End; it follows the last feedback."""

    outcome: EndOutcome


UpstreamFrame: TypeAlias = Put | Agreement | Data[T] | Chunks[T] | Announcement | End | Abort | Failure
DownstreamFrame: TypeAlias = Get | Agreement | Feedback | ReturnedBytes | Cancel | Ended | Failure
Frame: TypeAlias = UpstreamFrame[T] | DownstreamFrame


def frame_name(frame: object) -> str:
    """The name of a frame, or of a frame's type, as in the protocol definition."""
    return frame.__name__ if isinstance(frame, type) else type(frame).__name__
