"""Every deliberate exception.  The type says whose fault it is, the attributes hold the facts.

``ProtocolError``: one end broke the rules, and the stream is dead.  ``HandshakeError``: the two ends could not
agree, and no stream began.  ``ChannelError``: no end is at fault.  ``TransportError``: the carrier failed.
``ReplayError``: rows cannot be kept, read again or acknowledged.  ``StagingError``: a batch cannot be staged or
published; what was published before is whole.  ``StoreError``: where an exchange keeps its rows cannot be used, or
cannot write.  ``TraceError``: a recording cannot be written or used; the channel that was recorded is not concerned.

An error is declared: ``@_declared``, a docstring, its facts with their types, and ``text``, a format of the facts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar, dataclass_transform

__all__ = [
    "AlteredMessageError",
    "ChannelAbortedError",
    "ChannelBusyError",
    "ChannelClosedError",
    "ChannelError",
    "ChannelSpentError",
    "CheckpointError",
    "ChunkTooLargeError",
    "DemoError",
    "EndOfStream",
    "ForkedError",
    "HandshakeError",
    "InvalidOptionError",
    "InvalidParametersError",
    "LedgerError",
    "LocalProtocolError",
    "LogReplacedError",
    "OversizeChunkError",
    "OverspendError",
    "ParameterMismatchError",
    "ParametersFileError",
    "PeerGoneError",
    "PeerTimeoutError",
    "PermitOverrunError",
    "PermitflowError",
    "ProducerReplacedError",
    "ProtocolError",
    "RemoteProtocolError",
    "ReplayError",
    "RetentionError",
    "RowsForgottenError",
    "RowsLostError",
    "RowsNotThereError",
    "SameHostError",
    "SchemaMismatchError",
    "SparkSetupError",
    "StagedPartError",
    "StagingError",
    "StagingFullError",
    "StoreError",
    "StoreInUseError",
    "StoreLeftoverError",
    "StoreMismatchError",
    "StoreUnusableError",
    "StoreWriteError",
    "TaskRetryError",
    "TooManyAttemptsError",
    "TooManyProducersError",
    "TraceError",
    "TraceMismatchError",
    "TraceTruncatedError",
    "TraceUnreadableError",
    "TraceWriteError",
    "TransportError",
    "UndecodableDataError",
    "UnexpectedFrameError",
    "UnknownBatchError",
    "UnknownChannelError",
    "UnknownConsumerError",
    "UnsplittableChunkError",
    "VersionMismatchError",
    "WouldBlock",
    "printable",
    "restored",
]

# Control characters, what ends a line, and what turns the direction of a line.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_MOST_NAMES = 20


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """A text of anybody as a terminal or a log may show it: ``\\x1b`` in words for what would command a terminal.

    Args:
        text: a peer's name, reason or message; what is printable is left as it is.
        keeps_lines: the text is of several lines, and may be.
    """

    def escaped(found: re.Match[str]) -> str:
        return "\n" if keeps_lines and found[0] == "\n" else found[0].encode("unicode_escape").decode()

    return _UNPRINTABLE.sub(escaped, text)


def _listed(names: Iterable[str]) -> str:
    """The first of some names, separated by commas."""
    shown = [*names]
    return ", ".join(shown[:_MOST_NAMES]) + (", …" if len(shown) > _MOST_NAMES else "")


class PermitflowError(Exception):
    """The base of all errors of this package.  Facts are attributes, and survive pickling.

    The message is one line that may be printed, whatever a peer has written into it; the facts are as they came.
    """

    text: ClassVar[str] = ""
    keeps_lines: ClassVar[bool] = False

    def __init__(self, message: str, **facts: object) -> None:
        """Keep the message, and the facts as attributes."""
        self.message = printable(message, keeps_lines=self.keeps_lines)
        super().__init__(self.message)
        self._facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __post_init__(self) -> None:
        # A declared error: its constructor has set the facts, and nothing else.
        PermitflowError.__init__(self, self._worded(), **vars(self))

    def _worded(self) -> str:
        return self.text.format_map(vars(self))

    @property
    def facts(self) -> dict[str, object]:
        """The facts by their names."""
        return dict(self._facts)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call the subclass's keyword-only __init__ with the finished message.
        return restored, (type(self), self.message, self._facts)


E = TypeVar("E", bound=PermitflowError)


def restored(cls: type[E], message: str, facts: dict[str, object]) -> E:
    """Make an error anew from its message and facts, as after pickling or on the other side of a wire."""
    error = cls.__new__(cls)
    PermitflowError.__init__(error, message, **facts)
    return error


@dataclass_transform(kw_only_default=True, eq_default=False)
def _declared(cls: type[E]) -> type[E]:
    """Give an error the constructor that its annotations declare: keyword arguments, all of them facts."""
    return dataclass(kw_only=True, eq=False, repr=False)(cls)


# A number, an option or a chunk that cannot be accepted.


@_declared
class InvalidParametersError(PermitflowError, ValueError):
    """A parameter is out of its range."""

    name: str
    value: object
    rule: str  # what would be right, as in "must be at least 1"
    text = "{name} {rule}, not {value!r}"


@_declared
class InvalidOptionError(PermitflowError, ValueError):
    """An option of a job is unknown, missing or out of its range."""

    option: str
    value: object  # as the user wrote it; None if there is none to show
    reason: str

    def _worded(self) -> str:
        return f"option {self.option!r} {self.reason}" + ("" if self.value is None else f": {self.value!r}")


@_declared
class ChunkTooLargeError(PermitflowError, ValueError):
    """A chunk is larger than the carrier takes in one piece; it was not sent."""

    rows: int
    size_bytes: int  # as encoded for the wire, as the limit
    limit_bytes: int
    text = (
        "a chunk of {rows} rows takes {size_bytes} bytes on the wire, which carries at most {limit_bytes} "
        "in one piece; send chunks of fewer rows"
    )


@_declared
class ParametersFileError(PermitflowError, ValueError):
    """A file that describes a channel cannot be read, or something in it cannot be meant."""

    file: str
    line: int  # counts from 1; 0 if it is not known
    key: str  # empty if the file as a whole is wrong
    reason: str

    def _worded(self) -> str:
        return f"{_place(self.file, self.line)}: {f'{self.key} ' if self.key else ''}{self.reason}"


def _place(path: str, line: int) -> str:
    return f"{path}, line {line}" if line else path


# No end is at fault: a channel or its carrier is over, or not ready.


class ChannelError(PermitflowError):
    """The channel cannot do that now; nobody broke a rule."""


class WouldBlock(ChannelError):
    """Not now: there are no permits, or there is no message."""

    def __init__(self, message: str = "the operation would have to wait") -> None:
        """Say what would have to be waited for."""
        super().__init__(message)


class EndOfStream(ChannelError):
    """The sender has ended the stream and everything has been consumed."""

    def __init__(self) -> None:
        """It has no facts."""
        super().__init__("the stream has ended")


@_declared
class ChannelClosedError(ChannelError):
    """This end was closed; ``undelivered`` hands a message that was waiting back."""

    end: str  # "sender" or "receiver"
    undelivered: object = None
    text = "the {end} is closed"


@_declared
class PeerGoneError(ChannelError):
    """The other end was closed or lost; ``undelivered`` hands a message that was waiting back."""

    who: str  # as in "the receiver of channel 'orders/0' at localhost:5000"
    reason: str
    undelivered: object = None
    text = "{who} is gone: {reason}"


@_declared
class PeerTimeoutError(PeerGoneError, TimeoutError):
    """The other end did not answer within the time that was allowed."""

    text = "{who} does not answer: {reason}"

    @classmethod
    def of_silence(cls, *, who: str, reason: str) -> Self:
        """The other end answers, and had nothing to say in this stream: the reason says for how long, and why."""
        return restored(cls, f"{who} has sent nothing {reason}", {"who": who, "reason": reason, "undelivered": None})


@_declared
class ChannelAbortedError(ChannelError):
    """The sender gave up: the stream is incomplete and must not be used as if it were whole."""

    channel: str
    reason: str  # the sender's
    text = "channel {channel!r} was aborted by its sender: {reason}"


class TransportError(PermitflowError):
    """The carrier failed; ``__cause__`` is the carrier's own exception."""

    @classmethod
    def of(cls, *, what: str, cause: BaseException) -> Self:
        """Say what was being done when the carrier failed."""
        error = cls(f"{what}: {cause}", what=what)
        error.__cause__ = cause
        return error


@_declared
class AlteredMessageError(TransportError):
    """A message was altered or one before it lost, by its checksum: nothing of it was delivered, counted or kept."""

    size_bytes: int  # without the checksum, as it came
    stated: str  # the checksum that came with it: 16 hexadecimal digits, as the other
    computed: str  # that of the bytes that came
    text = (
        "a message of {size_bytes} bytes was altered on the way, or one before it was lost: its checksum is {stated}, "
        "that of its bytes {computed}; nothing of it was used: open the stream again, and if this comes again test "
        "memory and network"
    )


@_declared
class ForkedError(TransportError):
    """What was begun before a fork cannot be used in the process that was forked off."""

    what: str
    text = "{what} in a process that was forked off; open the channel there, over TCP or before gRPC is used at all"


# The two ends could not agree, and no stream began.


class HandshakeError(PermitflowError):
    """The two ends could not agree; no stream began."""


@_declared
class UnknownChannelError(HandshakeError):
    """The exchange has no such channel."""

    channel: str
    known: tuple[str, ...] = ()  # the channels that exist

    def _worded(self) -> str:
        return f"unknown channel {self.channel!r}; known channels: {_listed(self.known) or 'none'}"


@_declared
class ChannelBusyError(HandshakeError):
    """The channel has a consumer already, and serves one at a time."""

    channel: str
    consumer: str  # the one that reads the channel now
    text = "channel {channel!r} is being read by {consumer}; one consumer at a time"


@_declared
class ChannelSpentError(HandshakeError):
    """The channel's data are gone: somebody has read them, or was to read them and left."""

    channel: str
    reason: str  # says who, as in "it was read to its end by …"
    text = "channel {channel!r} cannot be read any more: {reason}; a channel is read once"


@_declared
class VersionMismatchError(HandshakeError):
    """The peer speaks another version of the protocol."""

    ours: int
    theirs: int
    text = "the peer speaks protocol version {theirs}, this end {ours}"


@_declared
class SchemaMismatchError(HandshakeError):
    """The peer's schema differs from the channel's."""

    ours: str  # the fields in which they differ
    theirs: str
    text = "schemas differ: here {ours}; at the peer {theirs}"


@_declared
class SameHostError(HandshakeError):
    """Memory was to be shared, and cannot be."""

    who: str  # the peer in words
    reason: str  # says which end refuses, and why
    text = "no memory can be shared with {who}: {reason}"


@_declared
class ParameterMismatchError(HandshakeError):
    """The two ends' parameters cannot be reconciled."""

    name: str
    ours: object
    theirs: object
    rule: str  # what would be acceptable
    text = "{name} {rule}; this end has {ours!r}, the peer {theirs!r}"


# One end has broken the rules, and the stream is dead.


class ProtocolError(PermitflowError):
    """The rules of the protocol were broken; the stream is dead."""


class LocalProtocolError(ProtocolError):
    """This end was used against the rules."""


@_declared
class UnsplittableChunkError(LocalProtocolError, TypeError):
    """A chunk is too large to be sent whole and offers no way to split it."""

    chunk_type: str
    rows: int
    max_rows: int  # of a message
    reason: str  # what went wrong when it was sliced
    text = (
        "a {chunk_type} of {rows} rows cannot be split into slices of at most {max_rows}: {reason}; "
        "send smaller chunks, or choose oversize = 'whole'"
    )


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules."""


@_declared
class PermitOverrunError(RemoteProtocolError):
    """The peer returned more permits than it holds."""

    permit_class: str  # rows, barriers or watermarks
    returned: int
    outstanding: int
    text = "the peer returned {returned} {permit_class} permits but holds only {outstanding}"


@_declared
class OverspendError(RemoteProtocolError):
    """The peer sent a message that it had no permits for."""

    permit_class: str  # rows, barriers or watermarks
    cost: int
    available: int
    text = "the peer sent a message of {cost} {permit_class} permits but had only {available}"


@_declared
class OversizeChunkError(RemoteProtocolError):
    """The peer sent a chunk that it should have split."""

    rows: int
    most: int  # of a chunk, as agreed
    text = "the peer sent a chunk of {rows} rows; on this channel it must be split into chunks of at most {most} rows"


@_declared
class UnexpectedFrameError(RemoteProtocolError):
    """The peer sent a frame that this state of the stream does not allow."""

    frame: str  # as in the protocol definition, as the other
    expected: str
    text = "the peer sent {frame}, expected {expected}"


@_declared
class UndecodableDataError(RemoteProtocolError):
    """The peer's data cannot be decoded."""

    what: str  # the frame or chunk
    reason: str  # the decoder's
    text = "{what} cannot be decoded: {reason}"


@_declared
class LedgerError(RemoteProtocolError):
    """At the end of the stream the two ends' books differ."""

    what: str  # was counted
    here: int
    peer: int  # what the peer reported, or should hold
    text = "at the end of the stream {what}: {here} here, {peer} at the peer"


# Rows cannot be kept, read again or acknowledged.


class ReplayError(PermitflowError):
    """Rows cannot be kept, read again or acknowledged as it was asked; what the channel keeps is as it was."""


@_declared
class RetentionError(ReplayError):
    """The channel does not keep its rows, or keeps nothing but rows."""

    channel: str
    retention: str
    rule: str  # what the channel cannot do, as in "cannot be read by ranges"
    text = "channel {channel!r}, whose retention is {retention}, {rule}"


@_declared
class UnknownConsumerError(ReplayError):
    """Nobody has declared this consumer: rows that it needs may be gone already."""

    channel: str
    consumer: str
    known: tuple[str, ...]  # the consumers for which the channel keeps rows

    def _worded(self) -> str:
        names = _listed(map(repr, self.known))
        return f"channel {self.channel!r} keeps no rows for a consumer {self.consumer!r}; it does for: {names}"


@_declared
class RowsForgottenError(ReplayError):
    """The consumer has acknowledged these rows: they need not be kept any more."""

    channel: str
    wanted_row: int
    first_kept_row: int  # the first one that this consumer may still read
    text = (
        "row {wanted_row} of channel {channel!r} was acknowledged and is forgotten; the first row that can still "
        "be read is {first_kept_row}"
    )


@_declared
class RowsNotThereError(ReplayError):
    """The channel never had these rows, or has them no more since it lost all it had."""

    channel: str
    wanted_row: int  # the end of what was asked for
    next_row: int  # the number of the next row that will come
    text = (
        "channel {channel!r} has no rows up to {wanted_row}: its next one will be row {next_row}; has an "
        "exchange without a durable store started again?"
    )


@_declared
class LogReplacedError(ReplayError):
    """The rows are those of another log than the one that is meant: what that one had and kept is lost."""

    channel: str
    wanted_log: str
    log: str
    text = (
        "channel {channel!r} has a new log, {log!r}: the rows of {wanted_log!r} are lost, and the same numbers "
        "mean other rows now; an exchange without a durable store has started again"
    )


@_declared
class ProducerReplacedError(ReplayError):
    """A producer of the same name has come: it goes on where this one has got to."""

    channel: str
    producer: str
    by: str  # the address of the newer one
    text = (
        "producer {producer!r} of channel {channel!r} was replaced by a newer one of the same name at {by}; "
        "each producer needs a name of its own"
    )


@_declared
class TooManyProducersError(ReplayError):
    """The channel remembers no more named producers: of each, it keeps how many rows have come."""

    channel: str
    producer: str
    limit: int
    text = (
        "producer {producer!r} cannot begin: channel {channel!r} remembers {limit} named producers already, the most "
        "that there may be; a producer that needs no resuming needs no name"
    )


# Rows that were to be staged and published together cannot be.


class StagingError(PermitflowError):
    """A batch cannot be staged or published; what was published before is whole."""


@_declared
class StagingFullError(StagingError):
    """A batch does not fit into what a channel has for rows that are not published yet."""

    channel: str
    query: str
    batch: int
    rows: int  # of the batch that the channel would have to hold at once, so far
    limit_rows: int
    text = (
        "batch {batch} of query {query!r} has at least {rows} rows for channel {channel!r}, which stages at most "
        "{limit_rows}: make the batches smaller, or staging_rows of the exchange larger"
    )


@_declared
class TooManyAttemptsError(StagingError):
    """An exchange keeps no more attempts that are neither published nor given up."""

    channel: str
    query: str
    limit: int
    text = (
        "no attempt of query {query!r} for channel {channel!r} can begin: {limit} attempts, the most that there may "
        "be, are neither published nor discarded; those of queries that are gone are forgotten after their time-out"
    )


@_declared
class StagedPartError(StagingError):
    """One attempt at a part of a batch is not there, or not as it should be."""

    channel: str
    query: str
    batch: int
    partition: int
    attempt: str
    reason: str  # what is wrong with it
    text = (
        "attempt {attempt!r} at partition {partition} of batch {batch} of query {query!r} for channel {channel!r} "
        "{reason}"
    )


# The durable store of an exchange cannot be used, or cannot write.


class StoreError(PermitflowError):
    """Where an exchange keeps its rows does not do what it should."""


@_declared
class StoreInUseError(StoreError):
    """Another exchange has it open: two of them would forget each other's rows."""

    path: str  # the store's folder
    text = "the store {path} is in use by another exchange: stop that one, or take another folder"


@_declared
class StoreUnusableError(StoreError):
    """It is no store, or a newer release's, or damaged, or lacks what it confirmed.  Nothing in it was changed."""

    path: str  # the file or folder
    reason: str  # what is wrong with it and what to do
    text = "{path} cannot be used as a store: {reason}"


@_declared
class StoreLeftoverError(StoreError):
    """The store holds channels that the exchange is not to serve: nobody could read their rows."""

    path: str
    channels: tuple[str, ...]  # that the exchange was not asked to serve

    def _worded(self) -> str:
        return (
            f"the store {self.path} has kept channels that are not to be served: {_listed(map(repr, self.channels))}; "
            "name their streams as well, or take another folder"
        )


@_declared
class StoreMismatchError(StoreError):
    """The store holds a channel, but not as the exchange was told to serve it.  Nothing in it was changed."""

    path: str
    channel: str
    what: str  # differs, as in "row permits"
    stored: str
    given: str
    text = (
        "channel {channel!r} was stored in {path} with {what} {stored}, and is now to have {given}: "
        "go on as it was stored, or take another folder"
    )


@_declared
class StoreWriteError(StoreError):
    """Something could not be written: a full disk, or a broken one.  What was confirmed before is safe."""

    path: str
    reason: str  # the database's own, as in "database or disk is full"
    text = (
        "the exchange cannot write to its store {path}: {reason}; "
        "what it has confirmed is safe, what was being written is not: send that again once the disk works"
    )


# A recording cannot be written or used; the channel that was recorded is not concerned.


class TraceError(PermitflowError):
    """A recorded run cannot be written or used."""


@_declared
class TraceWriteError(TraceError):
    """The recording stopped; ``__cause__`` is the operating system's own exception.  The channel went on."""

    path: str
    reason: str  # as in "No space left on device"
    text = "the recording in {path} is incomplete: {reason}; the recorded channels were not disturbed"


@_declared
class TraceUnreadableError(TraceError):
    """A trace file is not what it should be."""

    path: str
    line: int  # counts from 1; 0: it is the file as a whole
    reason: str

    def _worded(self) -> str:
        return f"{_place(self.path, self.line)}: {self.reason}"


class TraceTruncatedError(TraceUnreadableError):
    """The last line of a trace file is half written: whoever wrote it was killed, or the disk was full."""


@_declared
class TraceMismatchError(TraceError):
    """Recordings of one channel do not belong together, or do not begin at its beginning."""

    channel: str
    reason: str  # names both of the things that do not fit
    text = "the trace of channel {channel!r}: {reason}"


# A Spark job, a streaming query or the demonstration cannot go on.


@_declared
class CheckpointError(PermitflowError):
    """The query's checkpoint cannot be used with this source and these options."""

    reason: str
    hint: str  # something to do
    text = "the query's checkpoint {reason}: {hint}"


@_declared
class RowsLostError(PermitflowError):
    """Rows that the query needs are gone from the exchange: it must not go on as if they had never been there."""

    channel: str
    consumer: str
    wanted_row: int  # the first row that is needed
    reason: str  # what became of it
    text = (
        "channel {channel!r} has not all rows any more that this query needs: from row {wanted_row} on, as "
        "consumer {consumer!r}; {reason}. Nothing was skipped: the query stops here. To go on without these rows, "
        "start it with a new checkpoint (and into a new table, or remove what is there twice)"
    )


@_declared
class SparkSetupError(PermitflowError):
    """Spark's workers cannot use this package."""

    python: str  # the interpreter that the workers run
    reason: str  # what is wrong with it
    hint: str  # what to do
    text = "Spark's workers run {python}, {reason}: {hint}"


@_declared
class TaskRetryError(PermitflowError):
    """Spark started a task again whose first attempt may have sent rows."""

    partition: int
    attempt: int  # counts from 0
    text = (
        "partition {partition} is written for the second time (attempt {attempt}): rows of the first attempt may "
        "have been consumed already and would come twice; run the whole job again, and without speculation"
    )


@_declared
class UnknownBatchError(PermitflowError):
    """Spark does not tell a task of a streaming query which batch it writes."""

    missing: str  # the task's local property that should say it
    text = (
        "this task does not know which batch of which query it writes: Spark has not set its local property "
        "{missing!r}; is this release of Spark a supported one?"
    )


class DemoError(PermitflowError):
    """The demo cannot be run on this machine, or one of its processes failed."""

    keeps_lines = True  # it shows the end of a log
