"""Every deliberate exception.  The type says whose fault it is, the attributes hold the facts.

``ProtocolError``: somebody broke the rules, and the stream is dead.  ``HandshakeError``: the two ends could not
agree, and no stream began.  ``ChannelError``: nobody's fault.  ``TransportError``: the carrier failed.
``TraceError``: a recording cannot be written or used; the channel that was recorded is not concerned.
"""

from typing import Self

__all__ = [
    "ChannelAbortedError",
    "ChannelBusyError",
    "ChannelClosedError",
    "ChannelError",
    "ChannelSpentError",
    "ChunkTooLargeError",
    "DemoError",
    "EndOfStream",
    "HandshakeError",
    "InvalidOptionError",
    "InvalidParametersError",
    "LedgerError",
    "LocalProtocolError",
    "MispricedError",
    "OverspendError",
    "ParameterMismatchError",
    "PeerGoneError",
    "PeerTimeoutError",
    "PermitOverrunError",
    "PermitflowError",
    "ProtocolError",
    "RemoteProtocolError",
    "SchemaMismatchError",
    "SparkSetupError",
    "TaskRetryError",
    "TraceError",
    "TraceMismatchError",
    "TraceTruncatedError",
    "TraceUnreadableError",
    "TraceWriteError",
    "TransportError",
    "UndecodableDataError",
    "UnexpectedFrameError",
    "UnknownChannelError",
    "UnsplittableChunkError",
    "VersionMismatchError",
    "WouldBlock",
    "restored",
]


class PermitflowError(Exception):
    """The base of all errors of this package.  Facts are attributes, and survive pickling."""

    def __init__(self, message: str, **facts: object) -> None:
        """Keep the message and the facts that the subclass wants to be readable as attributes."""
        super().__init__(message)
        self.message = message
        self._facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    @property
    def facts(self) -> dict[str, object]:
        """The facts by their names."""
        return dict(self._facts)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would call the subclass's keyword-only __init__ with the finished message.
        return restored, (type(self), self.message, self._facts)


def restored(cls: type[PermitflowError], message: str, facts: dict[str, object]) -> PermitflowError:
    """Make an error anew from its message and facts, as after pickling or on the other side of a wire."""
    error = cls.__new__(cls)
    PermitflowError.__init__(error, message, **facts)
    return error


class InvalidParametersError(PermitflowError, ValueError):
    """A parameter is out of its range."""

    name: str
    value: object
    rule: str

    def __init__(self, *, name: str, value: object, rule: str) -> None:
        """``rule`` says what would be right, as in "must be at least 1"."""
        super().__init__(f"{name} {rule}, not {value!r}", name=name, value=value, rule=rule)


class InvalidOptionError(PermitflowError, ValueError):
    """An option of a job is unknown, missing or out of its range."""

    option: str
    value: object

    def __init__(self, *, option: str, value: object, reason: str) -> None:
        """``value`` as the user wrote it; None if there is none to show."""
        given = "" if value is None else f": {value!r}"
        super().__init__(f"option {option!r} {reason}{given}", option=option, value=value, reason=reason)


class ChunkTooLargeError(PermitflowError, ValueError):
    """A chunk is larger than the carrier takes in one piece; it was not sent."""

    rows: int
    size_bytes: int
    limit_bytes: int

    def __init__(self, *, rows: int, size_bytes: int, limit_bytes: int) -> None:
        """Sizes as encoded for the wire."""
        super().__init__(
            f"a chunk of {rows} rows takes {size_bytes} bytes on the wire, which carries at most {limit_bytes} "
            "in one piece; send chunks of fewer rows",
            rows=rows,
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
        )


# The rules were broken.


class ProtocolError(PermitflowError):
    """The rules of the protocol were broken; the stream is dead."""


class LocalProtocolError(ProtocolError):
    """This end was used against the rules."""


class UnsplittableChunkError(LocalProtocolError, TypeError):
    """A chunk is too large to be sent whole and offers no way to split it."""

    rows: int
    max_rows: int

    def __init__(self, *, chunk_type: str, rows: int, max_rows: int, reason: str) -> None:
        """``rows`` it has, ``max_rows`` a message may have; ``reason`` is what went wrong when it was sliced."""
        super().__init__(
            f"a {chunk_type} of {rows} rows cannot be split into slices of at most {max_rows}: {reason}; "
            "send smaller chunks, or choose oversize = 'whole'",
            chunk_type=chunk_type,
            rows=rows,
            max_rows=max_rows,
            reason=reason,
        )


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules."""


class PermitOverrunError(RemoteProtocolError):
    """The peer returned more permits than it holds."""

    permit_class: str
    returned: int
    outstanding: int

    def __init__(self, *, permit_class: str, returned: int, outstanding: int) -> None:
        """Both numbers are permits of one class: rows, barriers or watermarks."""
        super().__init__(
            f"the peer returned {returned} {permit_class} permits but holds only {outstanding}",
            permit_class=permit_class,
            returned=returned,
            outstanding=outstanding,
        )


class OverspendError(RemoteProtocolError):
    """The peer sent a message that it had no permits for."""

    permit_class: str
    cost: int
    available: int

    def __init__(self, *, permit_class: str, cost: int, available: int) -> None:
        """Both numbers are permits of one class: rows, barriers or watermarks."""
        super().__init__(
            f"the peer sent a message of {cost} {permit_class} permits but had only {available}",
            permit_class=permit_class,
            cost=cost,
            available=available,
        )


class MispricedError(RemoteProtocolError):
    """The peer sent a message for other permits than it costs, or one that it should have split."""

    kind: str
    rows: int
    permits: int
    cost: int

    def __init__(self, *, kind: str, rows: int, permits: int, cost: int, split: bool = False) -> None:
        """``permits`` is what the message holds, ``cost`` what the agreement says; ``split``: it had to be split."""
        rule = f"on this channel it must be split into chunks of at most {cost} rows" if split else f"it costs {cost}"
        super().__init__(
            f"the peer sent a {kind} of {rows} rows for {permits} permits; {rule}",
            kind=kind,
            rows=rows,
            permits=permits,
            cost=cost,
            split=split,
        )


class UnexpectedFrameError(RemoteProtocolError):
    """The peer sent a frame that this state of the stream does not allow."""

    frame: str
    expected: str

    def __init__(self, *, frame: str, expected: str) -> None:
        """Both are frame names as in the protocol definition."""
        super().__init__(f"the peer sent {frame}, expected {expected}", frame=frame, expected=expected)


class UndecodableDataError(RemoteProtocolError):
    """The peer's data cannot be decoded."""

    def __init__(self, *, what: str, reason: str) -> None:
        """``what`` names the frame or chunk, ``reason`` is the decoder's."""
        super().__init__(f"{what} cannot be decoded: {reason}", what=what, reason=reason)


class LedgerError(RemoteProtocolError):
    """At the end of the stream the two ends' books differ."""

    def __init__(self, *, what: str, here: int, peer: int) -> None:
        """``what`` was counted: the number here, and the number that the peer reported or should hold."""
        super().__init__(f"at the end of the stream {what}: {here} here, {peer} at the peer", what=what)
        self._facts.update(here=here, peer=peer)
        self.here = here
        self.peer = peer


# No agreement.


class HandshakeError(PermitflowError):
    """The two ends could not agree; no stream began."""


class UnknownChannelError(HandshakeError):
    """The exchange has no such channel."""

    channel: str
    known: tuple[str, ...]

    def __init__(self, *, channel: str, known: tuple[str, ...] = ()) -> None:
        """``known`` lists the channels that exist."""
        names = ", ".join(known[:20]) + (", …" if len(known) > 20 else "") if known else "none"
        super().__init__(f"unknown channel {channel!r}; known channels: {names}", channel=channel, known=known)


class ChannelBusyError(HandshakeError):
    """The channel has a consumer already, and serves one at a time."""

    channel: str
    consumer: str

    def __init__(self, *, channel: str, consumer: str) -> None:
        """``consumer`` is whoever reads the channel now."""
        super().__init__(
            f"channel {channel!r} is being read by {consumer}; one consumer at a time",
            channel=channel,
            consumer=consumer,
        )


class ChannelSpentError(HandshakeError):
    """The channel's data are gone: somebody has read them, or was to read them and left."""

    channel: str

    def __init__(self, *, channel: str, reason: str) -> None:
        """``reason`` says who, as in "it was read to its end by …"."""
        super().__init__(
            f"channel {channel!r} cannot be read any more: {reason}; a channel is read once",
            channel=channel,
            reason=reason,
        )


class VersionMismatchError(HandshakeError):
    """The peer speaks another version of the protocol."""

    def __init__(self, *, ours: int, theirs: int) -> None:
        """Protocol versions."""
        super().__init__(f"the peer speaks protocol version {theirs}, this end {ours}", ours=ours, theirs=theirs)


class SchemaMismatchError(HandshakeError):
    """The peer's schema differs from the channel's."""

    def __init__(self, *, ours: str, theirs: str) -> None:
        """Schemas as text."""
        super().__init__(f"schemas differ; here:\n{ours}\nat the peer:\n{theirs}", ours=ours, theirs=theirs)


class ParameterMismatchError(HandshakeError):
    """The two ends' parameters cannot be reconciled."""

    name: str

    def __init__(self, *, name: str, ours: object, theirs: object, rule: str) -> None:
        """``rule`` says what would be acceptable."""
        super().__init__(
            f"{name} {rule}; this end has {ours!r}, the peer {theirs!r}",
            name=name,
            ours=ours,
            theirs=theirs,
            rule=rule,
        )


# Nobody's fault.


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
        """Carries no facts."""
        super().__init__("the stream has ended")


class ChannelClosedError(ChannelError):
    """This end was closed; ``undelivered`` hands a message that was waiting back."""

    undelivered: object

    def __init__(self, *, end: str, undelivered: object = None) -> None:
        """``end``: which end was closed, "sender" or "receiver"."""
        super().__init__(f"the {end} is closed", end=end, undelivered=undelivered)


class PeerGoneError(ChannelError):
    """The other end was closed or lost; ``undelivered`` hands a message that was waiting back."""

    who: str
    reason: str
    undelivered: object

    def __init__(self, *, who: str, reason: str, undelivered: object = None) -> None:
        """``who`` is gone, as in "the receiver of channel 'orders/0' at localhost:5000"."""
        super().__init__(f"{who} is gone: {reason}", who=who, reason=reason, undelivered=undelivered)


class PeerTimeoutError(PeerGoneError, TimeoutError):
    """The other end did not answer within the time that was allowed."""

    def __init__(self, *, who: str, reason: str, undelivered: object = None) -> None:
        """``who`` was asked; the reason says how long, and what for."""
        PermitflowError.__init__(
            self, f"{who} does not answer: {reason}", who=who, reason=reason, undelivered=undelivered
        )


class ChannelAbortedError(ChannelError):
    """The sender gave up: the stream is incomplete and must not be used as if it were whole."""

    channel: str
    reason: str

    def __init__(self, *, channel: str, reason: str) -> None:
        """The reason is the sender's."""
        super().__init__(f"channel {channel!r} was aborted by its sender: {reason}", channel=channel, reason=reason)


class TransportError(PermitflowError):
    """The carrier failed; ``__cause__`` is the carrier's own exception."""

    @classmethod
    def of(cls, *, what: str, cause: BaseException) -> Self:
        """Say what was being done when the carrier failed."""
        error = cls(f"{what}: {cause}", what=what)
        error.__cause__ = cause
        return error


# Recordings.


class TraceError(PermitflowError):
    """A recorded run cannot be written or used."""


class TraceWriteError(TraceError):
    """The recording stopped; ``__cause__`` is the operating system's own exception.  The channel went on."""

    path: str
    reason: str

    def __init__(self, *, path: str, reason: str) -> None:
        """``reason`` says why, as in "No space left on device"."""
        super().__init__(
            f"the recording in {path} is incomplete: {reason}; the recorded channels were not disturbed",
            path=path,
            reason=reason,
        )


class TraceUnreadableError(TraceError):
    """A trace file is not what it should be."""

    path: str
    line: int

    def __init__(self, *, path: str, line: int, reason: str) -> None:
        """``line`` counts from 1; 0: it is the file as a whole."""
        where = f"{path}, line {line}" if line else path
        super().__init__(f"{where}: {reason}", path=path, line=line, reason=reason)


class TraceTruncatedError(TraceUnreadableError):
    """The last line of a trace file is half written: whoever wrote it was killed, or the disk was full."""


class TraceMismatchError(TraceError):
    """Recordings of one channel do not belong together, or do not begin at its beginning."""

    channel: str

    def __init__(self, *, channel: str, reason: str) -> None:
        """``reason`` names both of the things that do not fit."""
        super().__init__(f"the trace of channel {channel!r}: {reason}", channel=channel, reason=reason)


# Jobs.


class SparkSetupError(PermitflowError):
    """Spark's workers cannot use this package."""

    python: str
    hint: str

    def __init__(self, *, python: str, hint: str) -> None:
        """``python`` is the interpreter that the workers run; the hint is something to do."""
        message = f"Spark's workers run {python}, which cannot import permitflow: {hint}"
        super().__init__(message, python=python, hint=hint)


class TaskRetryError(PermitflowError):
    """Spark started a task again whose first attempt may have sent rows."""

    partition: int
    attempt: int

    def __init__(self, *, partition: int, attempt: int) -> None:
        """Attempts count from 0."""
        super().__init__(
            f"partition {partition} is written for the second time (attempt {attempt}): rows of the first attempt may "
            "have been consumed already and would come twice; run the whole job again, and without speculation",
            partition=partition,
            attempt=attempt,
        )


class DemoError(PermitflowError):
    """The demo cannot be run on this machine, or one of its processes failed."""
