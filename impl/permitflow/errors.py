"""Every exception that this package raises on purpose.  The type says which end is at fault; attributes hold the facts.

``ProtocolError``: one end broke the rules, and the stream is dead.  ``HandshakeError``: the two ends could not
agree, and no stream began.  ``SecurityError``: one end is not known or not allowed.  ``ChannelError``: no end is at
fault.  ``TransportError``: the carrier failed.
``StageError``: a stage of a stream cannot go on.
``ReplayError``: rows cannot be kept, read again or acknowledged.  ``StagingError``: a batch cannot be staged or
published; earlier batches stay whole.  ``StoreError``: the store of an exchange cannot be used or written.
``TraceError``: a recording cannot be written or used; the recorded channel is not affected.

An error is declared by a docstring, its facts with their types, and ``text``, a format of the facts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from inspect import get_annotations
from typing import ClassVar, Self, TypeVar, dataclass_transform

# Control characters, line separators and marks of text direction.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

_MOST_NAMES = 20


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """Escape the characters of a foreign text that would command a terminal: the escape character becomes ``\\x1b``.

    Args:
        text: a peer's name, reason or message; printable characters stay.
        keeps_lines: keep line breaks, too.
    """

    def escaped(found: re.Match[str]) -> str:
        return "\n" if keeps_lines and found[0] == "\n" else found[0].encode("unicode_escape").decode()

    return _UNPRINTABLE.sub(escaped, text)


def shortened(text: str, most_characters: int = 1_000) -> str:
    """The beginning of a foreign text, and how much of it is left out."""
    left = len(text) - most_characters
    return text if left <= 0 else f"{text[:most_characters]}… ({left:,} more characters)"


def counted(count: int, what: str) -> str:
    """A number of things: "1 move", "2 moves"."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _listed(names: Iterable[str]) -> str:
    """The first of some names, separated by commas."""
    shown = [*names]
    return ", ".join(shown[:_MOST_NAMES]) + (", …" if len(shown) > _MOST_NAMES else "")


@dataclass_transform(kw_only_default=True, eq_default=False)
class PermitflowError(Exception):
    """The base of all errors of this package.  Facts are attributes, and survive pickling.

    The message is one printable line, even if a peer wrote part of it; the facts are unchanged.
    """

    text: ClassVar[str] = ""
    status: ClassVar[str] = ""
    """gRPC's name of the status with which the error crosses the wire; empty: it does not.

    WouldBlock and EndOfStream do not: a status must not look like an ordinary end.
    """
    keeps_lines: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Give an error with facts the constructor that its annotations declare: each keyword argument is a fact."""
        super().__init_subclass__()
        if get_annotations(cls):
            dataclass(kw_only=True, eq=False, repr=False)(cls)

    def __init__(self, message: str, **facts: object) -> None:
        self.message = printable(message, keeps_lines=self.keeps_lines)
        super().__init__(self.message)
        self._facts = facts
        for name, value in facts.items():
            setattr(self, name, value)

    def __post_init__(self) -> None:
        # A declared error: its constructor has set the facts only.
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
    """Make an error from its message and facts: after pickling, or from the wire."""
    error = cls.__new__(cls)
    PermitflowError.__init__(error, message, **facts)
    return error


# A number, an option or a chunk that cannot be accepted.


class InvalidParametersError(PermitflowError, ValueError):
    """A parameter is out of its range."""

    status = "INVALID_ARGUMENT"
    name: str
    value: object
    rule: str  # for example "must be at least 1"
    text = "{name} {rule}, not {value!r}"


class AsyncFunctionError(PermitflowError, TypeError):
    """A function was given whose results must be awaited, where nobody awaits them."""

    place: str  # who calls it
    given: str
    hint: str
    text = "{place} must be a plain function, not {given}; {hint}"


class InvalidOptionError(PermitflowError, ValueError):
    """An option of a job is unknown, missing or out of its range."""

    option: str
    value: object  # as the user wrote it; None: show no value
    reason: str

    def _worded(self) -> str:
        return f"option {self.option!r} {self.reason}" + ("" if self.value is None else f": {self.value!r}")


class ChunkTooLargeError(PermitflowError, ValueError):
    """A row is larger than the carrier's largest message, with the dictionaries of its chunk; it was not sent."""

    status = "INVALID_ARGUMENT"
    rows: int
    size_bytes: int  # encoded for the wire, like the limit
    limit_bytes: int
    text = (
        "a chunk that cannot be cut (rows: {rows}) takes {size_bytes} bytes on the wire, which carries at most "
        "{limit_bytes} in one message; send large values in several rows, and smaller dictionaries"
    )


class RowFileError(PermitflowError, ValueError):
    """A file or a pipe does not hold such rows as were asked for, or cannot be read or written."""

    path: str  # as the user wrote it
    place: str  # where in it, in words, with a comma before them; empty: all of it
    reason: str
    text = "{path}{place}: {reason}"


class ParametersFileError(PermitflowError, ValueError):
    """A parameters file cannot be read, or a key of it is wrong."""

    file: str
    line: int  # from 1; 0 if it is not known
    key: str  # empty if the whole file is wrong
    reason: str

    def _worded(self) -> str:
        return f"{_place(self.file, self.line)}: {f'{self.key} ' if self.key else ''}{self.reason}"


def _place(path: str, line: int) -> str:
    return f"{path}, line {line}" if line else path


# A stage cannot go on.


class StageError(PermitflowError):
    """A stage of a stream cannot go on."""


class BufferOverflowError(StageError):
    """A buffer with the strategy ``FAIL`` was full when an element came; what it held is dropped."""

    capacity: int
    text = (
        "the buffer of {capacity} elements is full: the consumer is too slow for it; choose a larger capacity, "
        "or another strategy, such as Overflow.BLOCK"
    )


class RateExceededError(StageError):
    """An element came too early for a throttle that enforces its rate."""

    cost: int
    early_seconds: float
    text = (
        "an element of cost {cost} came {early_seconds:g} s too early for the throttle; slow the source down, "
        "choose a larger burst, or ThrottleMode.SHAPE"
    )


class FrameTooLongError(StageError):
    """A frame is longer than allowed, or its delimiter is missing."""

    length: int
    max_length: int
    text = "a frame of at least {length} is longer than max_length = {max_length}, or its delimiter is missing"


class TruncatedFrameError(StageError):
    """The stream has ended in the middle of a frame; ``undelivered`` is what there is of it."""

    length: int
    undelivered: object
    text = "the stream has ended after {length} of a frame, without its delimiter; allow_truncation emits such a rest"


class SourceInterruptedError(StageError):
    """A cancelled call has ended the generator that the stream reads, so that its rest is lost."""

    source: str  # its name
    text = (
        "the generator {source} was cancelled while it was asked for an element, which ends it; "
        "to cancel calls and go on, put an async_boundary behind it"
    )


class SpentSourceError(StageError):
    """A stream reads a generator that another run has read, or reads: it would be empty, or get a part."""

    source: str  # its name
    text = (
        "the generator {source} can be read by one run only, and another run has it, or has closed it; "
        "Source.from_iterator({source}), with the function and not its result, makes a new one for each run"
    )


class NotAwaitableError(StageError, TypeError):
    """A function whose results are awaited has returned something else."""

    place: str  # who calls it
    given: str  # its result's type
    text = (
        "{place} must return an awaitable, as an async def does, and has returned {given}; use map for a plain function"
    )


class IdleTimeoutError(StageError, TimeoutError):
    """An element that a stage has asked for did not come in time."""

    timeout_seconds: float
    text = "no element has come for {timeout_seconds:g} s, though one was asked for; is what the stream reads stuck?"


class StalledGraphError(StageError):
    """Nothing can happen in a run any more: stages wait for each other, and nobody else can move them."""

    chain: tuple[str, ...]  # who waits for whom
    text = (
        "the run stands still for ever: {waits}; where branches of a broadcast meet again, put a buffer into the "
        "shorter one that holds their difference; let elements leave a loop on its way back; consume branches at the "
        "same time; let no consumer await what only it moves"
    )

    def _worded(self) -> str:
        return self.text.format(waits="; ".join(self.chain))


class BlueprintError(StageError, ValueError):
    """A graph of stages that cannot be: a stage, a port or an arc of it is wrong."""

    stage: str  # its name; empty: the whole graph
    port: str  # for example "inlet 1"; empty: none of its ports
    arc: int  # its number among the arcs, from 1; 0: no arc
    reason: str

    def _worded(self) -> str:
        stage = f"stage {self.stage!r}" if self.stage else "graph"
        place = ", ".join(part for part in (f"arc {self.arc}" if self.arc else "", stage, self.port) if part)
        return f"{place}: {self.reason}"


class BlockedThreadError(StageError):
    """A thread that reads for a stream does not come back from the iterable, so that it could not be closed."""

    source: str  # what it reads
    waited_seconds: float
    text = (
        "the thread that reads {source} has not come back from next() for {waited_seconds:g} s after the run had "
        "ended; it is left, and closes what it reads when it comes back"
    )


# No end is at fault: the channel or its carrier has ended, or is not ready.


class ChannelError(PermitflowError):
    """The channel cannot do that now; no end broke a rule."""


class WouldBlock(ChannelError):
    """The operation would have to wait: permits are missing, or no message has arrived."""

    def __init__(self, message: str = "the operation would have to wait") -> None:
        """Say what the caller would wait for."""
        super().__init__(message)


class EndOfStream(ChannelError):
    """The sender has ended the stream, and every message has been consumed."""

    def __init__(self) -> None:
        super().__init__("the stream has ended")


class ChannelClosedError(ChannelError):
    """This end was closed; ``undelivered`` is the message that was waiting."""

    status = "FAILED_PRECONDITION"
    end: str  # "sender" or "receiver"
    undelivered: object = None
    text = "the {end} is closed"


class PeerGoneError(ChannelError):
    """The other end was closed or lost; ``undelivered`` is the message that was waiting."""

    status = "UNAVAILABLE"
    who: str  # for example "the receiver of channel 'orders/0' at localhost:5000"
    reason: str
    undelivered: object = None
    text = "{who} is gone: {reason}"

    @classmethod
    def of_own_silence(cls, *, who: str, seconds: float) -> Self:
        """What the end ``who`` is told if it comes back after its silence: the other end has ended the stream."""
        reason = f"it has given no sign of life for {seconds:.0f} s"
        words = (
            f"you were silent for {seconds:.0f} s, so the other end has ended the stream with {who}: was this process "
            "stopped or suspended, or its network cut off?"
        )
        return restored(cls, words, {"who": who, "reason": reason, "undelivered": None})


class PeerTimeoutError(PeerGoneError, TimeoutError):
    """The other end did not answer within its deadline."""

    status = "DEADLINE_EXCEEDED"
    text = "{who} does not answer: {reason}"

    @classmethod
    def of_silence(cls, *, who: str, reason: str) -> Self:
        """The other end is alive but sent nothing in this stream; the reason says for how long, and why."""
        facts: dict[str, object] = {"who": who, "reason": f"it has sent nothing {reason}", "undelivered": None}
        return restored(cls, f"{who} has sent nothing {reason}", facts)


class HandshakeTimeoutError(PeerTimeoutError):
    """An exchange has waited in vain for the beginning of a stream: it was not sent, or was lost on its way."""

    status = "DEADLINE_EXCEEDED"


class ResumeTimeoutError(PeerGoneError, TimeoutError):
    """A stream has lost its connection, and did not get another one in time."""

    status = "UNAVAILABLE"
    seconds: float
    attempts: int  # 0: of an end that waits to be dialled
    undelivered: object = None

    def _worded(self) -> str:
        tried = f"{self.attempts} attempts in {self.seconds:g} s" if self.attempts else f"it waited {self.seconds:g} s"
        return (
            f"{self.who} is gone: {self.reason}; the stream could not go on: {tried} for another connection, in vain; "
            "raise resume_seconds if the network needs longer"
        )


class ResumeRefusedError(PeerGoneError):
    """An exchange answers again, but does not go on with a stream that has lost its connection."""

    status = "NOT_FOUND"
    text = "{who} does not go on with the stream: {reason}; open a new one"


class ChannelCancelledError(ChannelError):
    """The consumer needs no more messages, and says so; ``undelivered`` is the message that was waiting."""

    status = "FAILED_PRECONDITION"
    channel: str
    reason: str  # the consumer's
    undelivered: object = None
    text = "channel {channel!r} was cancelled by its consumer: {reason}"


class ChannelAbortedError(ChannelError):
    """The sender gave up, or what it sent was lost: do not use the stream as a whole one."""

    status = "ABORTED"
    channel: str
    reason: str  # the sender's, or how it was lost
    text = "channel {channel!r} was aborted: {reason}"


class DispatchError(ChannelError):
    """One channel of a stream that is spread by a key takes no more, so all of its channels were aborted."""

    channel: str  # the one that takes no more
    reason: str
    text = "channel {channel!r} takes no more rows, so the stream's other channels were aborted: {reason}"


class ChannelRemovedError(ChannelAbortedError):
    """An administrator has removed the channel."""

    status = "ABORTED"
    channel: str
    reason: str = "it was removed from the exchange"
    text = "channel {channel!r} is gone: {reason}"


class ChannelResetError(ChannelAbortedError):
    """The channel was reset, or a job has failed before its first row there: it can be opened again."""

    status = "ABORTED"
    channel: str
    reason: str = "an administrator has reset it"
    text = "the stream of channel {channel!r} is over: {reason}; open it again"


class ChannelInUseError(ChannelError):
    """The channel cannot be changed while it is used: streams are open, or rows wait that would be lost."""

    status = "FAILED_PRECONDITION"
    channel: str
    deed: str  # "removed", "reset" or "purged"
    uses: str  # who uses it, and what waits, in words
    advice: str = "with force their streams end with an error, and the rows are dropped"
    text = "channel {channel!r} cannot be {deed}: {uses}; {advice}"


class InputLostError(ChannelError):
    """An input of a gate has failed; ``__cause__`` is its own error."""

    input: str  # its name
    reason: str
    text = "input {input!r} of the gate is lost: {reason}"


class InputStalledError(ChannelError, TimeoutError):
    """Inputs of a gate are blocked behind a barrier that others have not reached, and no message comes from those."""

    awaited: str  # the inputs that keep the others waiting
    blocked: str  # those that wait
    barrier: int
    seconds: float  # without any message
    text = "no message of {awaited} for {seconds:g} s: {blocked} wait behind barrier {barrier}"


class SinkStalledError(ChannelError, TimeoutError):
    """Sinks of a pipeline do not get rid of what waits there: their readers stand still."""

    sinks: tuple[str, ...]
    left: int  # in the units of the sinks' marks
    seconds: float
    text = "after {seconds:g} s {left} still wait at {sinks}: a reader does not read; close drops them"


class TransportError(PermitflowError):
    """The carrier failed; ``__cause__`` is the carrier's own exception."""

    @classmethod
    def of(cls, *, what: str, cause: BaseException) -> Self:
        """Name the operation that failed."""
        error = cls(f"{what}: {cause}", what=what)
        error.__cause__ = cause
        return error


class CallError(TransportError):
    """A gRPC call ends with a status that is not OK; a server that raises it sends this status.

    ``__cause__`` is gRPC's own exception.
    """

    code: str  # the name of the status, as in "RESOURCE_EXHAUSTED"
    details: str
    method: str = "the call"

    def _worded(self) -> str:
        return f"{self.method} ended with {self.code}: {self.details or 'no details'}"


class CallTimeoutError(CallError, TimeoutError):
    """A gRPC call has not ended within its deadline."""


class CallMethodError(PermitflowError, TypeError):
    """A method, or its request or context, is not one of the kind that a stream over gRPC needs."""

    given: str
    wanted: str
    hint: str
    text = "{wanted} is needed, and {given} was given: {hint}"


class AlteredMessageError(TransportError):
    """A message was altered or one before it lost, by its checksum: nothing of it was delivered, counted or kept."""

    status = "DATA_LOSS"
    size_bytes: int  # received, without the checksum
    stated: str  # the checksum in the message: 16 hexadecimal digits
    computed: str  # the checksum of the received bytes: likewise
    text = (
        "a message of {size_bytes} bytes was altered on the way, or one before it was lost: its checksum is {stated}, "
        "that of its bytes {computed}; nothing of it was used: open the stream again, and if this comes again test "
        "memory and network"
    )


class ForkedError(TransportError):
    """A channel or carrier from before a fork cannot be used in the forked process."""

    what: str
    text = "{what} in a forked process; open the channel there, over TCP or before the parent uses gRPC"


# Who is at the other end, and what may it do?


class SecurityError(PermitflowError):
    """The two ends do not trust each other, or one may not do what it asks for.  Trying again changes nothing."""


class TlsError(SecurityError):
    """TLS could not be begun: a certificate is missing or not accepted, or only one end uses TLS."""

    status = "FAILED_PRECONDITION"
    who: str  # the peer
    reason: str  # what is wrong, and what to do
    text = "no TLS with {who}: {reason}"


class UnauthenticatedError(SecurityError):
    """The exchange does not know who this client is: its token or its certificate is missing or unknown."""

    status = "UNAUTHENTICATED"
    reason: str
    text = "the exchange does not know this client: {reason}"


class ForbiddenError(SecurityError):
    """The exchange knows the client, which may not do this; or may not any more: the right was revoked."""

    status = "PERMISSION_DENIED"
    identity: str  # the client's name in the exchange's file of rights
    right: str  # produce, consume or administer; or "ask about", for which any of these will do
    channel: str
    reason: str  # whether the right was never there, or was taken away
    text = "{identity!r} may not {right} channel {channel!r}: {reason}"


# The two ends could not agree, and no stream began.


class HandshakeError(PermitflowError):
    """The two ends could not agree; no stream began."""


class UnknownChannelError(HandshakeError):
    """The exchange has no such channel."""

    status = "NOT_FOUND"
    channel: str
    known: tuple[str, ...] = ()  # the channels that exist

    def _worded(self) -> str:
        return f"unknown channel {self.channel!r}; known channels: {_listed(self.known) or 'none'}"


class MovedError(HandshakeError):
    """Another process of the exchange has the channel: dial that port of the same host.  Nothing was done."""

    status = "FAILED_PRECONDITION"
    what: str  # as in "channel 'orders/1'"
    port: int
    text = "{what} is served at port {port} of the same host: dial it there"


class ChannelBusyError(HandshakeError):
    """The channel has a consumer already; it serves one at a time."""

    status = "FAILED_PRECONDITION"
    channel: str
    consumer: str  # the one that reads the channel now
    text = (
        "channel {channel!r} is being read by {consumer}; one consumer at a time: wait for its end, or let the channel "
        "keep rows for several (permitflow serve --retention replay, and --consumer for each)"
    )


class ChannelSpentError(HandshakeError):
    """The channel was used: its producer has ended it, or a consumer has read it, or left while it was reading."""

    status = "FAILED_PRECONDITION"
    channel: str
    reason: str  # names the other end: "it was read to its end by …"
    text = (
        "channel {channel!r} cannot be used again: {reason}; a channel is written and read once: take another one, "
        "reset it (permitflow channel reset), or let it keep rows (permitflow serve --retention replay)"
    )


class LimitReachedError(HandshakeError):
    """The exchange serves no more of these, to this peer or to all together."""

    status = "RESOURCE_EXHAUSTED"
    what: str  # as in "streams of one peer"
    most: int
    option: str  # of permitflow serve
    text = "the exchange serves at most {most} {what}; close some, or start it with another {option}"


class VersionMismatchError(HandshakeError):
    """The peer speaks another version of the protocol."""

    status = "FAILED_PRECONDITION"
    ours: int
    theirs: int
    text = "the peer speaks protocol version {theirs}, this end {ours}: both need the same release"


class SchemaMismatchError(HandshakeError):
    """Two schemas differ: the channel's and a peer's, or a stream's and a batch's."""

    status = "FAILED_PRECONDITION"
    ours: str  # the fields in which they differ
    theirs: str
    text = "schemas differ: here {ours}; at the peer {theirs}"

    @classmethod
    def between(cls, first: tuple[str, str], second: tuple[str, str], *, hint: str) -> Self:
        """The schemas of two owners, each with the fields in which it differs; ``hint`` says what to do."""
        words = "; ".join(f"{owner} {fields}" for owner, fields in (first, second))
        return restored(cls, f"schemas differ: {words}: {hint}", {"ours": first[1], "theirs": second[1]})


class SameHostError(HandshakeError):
    """Shared memory was required, and cannot be used."""

    status = "FAILED_PRECONDITION"
    who: str  # the peer
    reason: str  # says which end refuses, and why
    text = "no memory can be shared with {who}: {reason}; without same_host=require the stream takes the network"


class ParameterMismatchError(HandshakeError):
    """The two ends' parameters cannot be reconciled."""

    status = "FAILED_PRECONDITION"
    name: str
    ours: object
    theirs: object
    rule: str  # for example "must be the same at both ends"
    text = "{name} {rule}; this end has {ours!r}, the peer {theirs!r}"


# One end has broken the rules, and the stream is dead.


class ProtocolError(PermitflowError):
    """The rules of the protocol were broken; the stream is dead."""


class LocalProtocolError(ProtocolError):
    """The caller of this end broke a rule."""

    status = "FAILED_PRECONDITION"


class UnsplittableChunkError(LocalProtocolError, TypeError):
    """A chunk is too large to be sent whole, and it cannot be split."""

    chunk_type: str
    rows: int
    max_rows: int  # of a message
    reason: str  # why slicing failed
    text = (
        "a {chunk_type} of {rows} rows cannot be split into slices of at most {max_rows}: {reason}; "
        "send smaller chunks, or choose oversize = 'whole'"
    )


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules."""


class PermitOverrunError(RemoteProtocolError):
    """The peer returned more permits than it holds."""

    status = "FAILED_PRECONDITION"
    permit_class: str  # rows, barriers or watermarks; messages, if it requests these
    returned: int
    outstanding: int

    def _worded(self) -> str:
        if self.permit_class == "messages":
            return f"the peer requested {self.returned} messages and may request only {self.outstanding}"
        return f"the peer returned {self.returned} {_permits(self.permit_class)} but holds only {self.outstanding}"


class OverspendError(RemoteProtocolError):
    """The peer sent a message without the permits for it."""

    status = "FAILED_PRECONDITION"
    permit_class: str  # rows, barriers or watermarks; messages, if these are requested
    cost: int
    available: int

    def _worded(self) -> str:
        if self.permit_class == "messages":
            return f"the peer sent {self.cost} messages but only {self.available} were requested"
        permits = _permits(self.permit_class)
        return f"the peer sent a message of {self.cost} {permits} but had only {self.available}"


class ByteOverrunError(RemoteProtocolError):
    """The peer returned more bytes of the byte window than it holds, or none."""

    status = "FAILED_PRECONDITION"
    returned: int
    outstanding: int  # bytes that the peer holds
    text = "the peer returned {returned} bytes but holds only {outstanding}"


class ByteOverspendError(RemoteProtocolError):
    """The peer sent chunks that the byte window does not admit."""

    status = "FAILED_PRECONDITION"
    size_bytes: int  # of the chunks
    outstanding: int  # bytes that were sent before and not returned
    window_bytes: int
    text = "the peer sent {size_bytes} bytes while {outstanding} of the byte window of {window_bytes} were out"


def _permits(permit_class: str) -> str:
    return f"{permit_class[:-1]} permits" if permit_class in ("rows", "barriers", "watermarks") else permit_class


class FalsePositionError(RemoteProtocolError):
    """The peer says that it has messages that were never sent, or has lost such as it had acknowledged."""

    status = "FAILED_PRECONDITION"
    position: int  # messages of the stream that the peer says it has
    first: int  # messages of the stream that it has acknowledged
    end: int  # messages of the stream that were sent
    text = "the peer says that it has {position} messages: it has acknowledged {first}, and {end} were sent"


class InboxOverflowError(RemoteProtocolError):
    """More messages came than the receiver has places for: the sender was faster, or word of it slower, than agreed."""

    status = "RESOURCE_EXHAUSTED"
    came: int
    held: int
    places: int
    rate: int  # messages in a tick, as agreed
    delay: int  # ticks, of a signal and a message together, as agreed
    losses: int  # of signals, as agreed
    text = (
        "{came} messages came on top of {held}, and there are places for {places}: more than {rate} messages left in a "
        "tick, a signal and a message took more than {delay} ticks together, or more than {losses} signals were lost: "
        "slow the sender down, or agree on a larger rate, signal_delay, data_delay or losses, which needs more places"
    )


class OversizeChunkError(RemoteProtocolError):
    """The peer sent a chunk that it should have split."""

    status = "FAILED_PRECONDITION"
    rows: int
    most: int  # of a chunk, as agreed
    text = "the peer sent a chunk of {rows} rows; on this channel it must be split into chunks of at most {most} rows"


class UnexpectedFrameError(RemoteProtocolError):
    """The peer sent a frame that this state of the stream does not allow."""

    status = "FAILED_PRECONDITION"
    frame: str  # its name in the protocol definition
    expected: str  # likewise
    text = "the peer sent {frame}, expected {expected}"


class UndecodableDataError(RemoteProtocolError):
    """The peer's data cannot be decoded."""

    status = "INVALID_ARGUMENT"
    what: str  # the frame or chunk
    reason: str  # the decoder's
    text = "{what} cannot be decoded: {reason}"


class LedgerError(RemoteProtocolError):
    """The ledgers of the two ends differ at the end of the stream."""

    status = "FAILED_PRECONDITION"
    what: str  # the things counted
    here: int
    peer: int  # as the peer reported it, or should hold
    text = "at the end of the stream {what}: {here} here, {peer} at the peer"

    @classmethod
    def of_early_close(cls, what: str, count: int) -> Self:
        """The error of a downstream that has closed its half, and still owes feedback."""
        words = f"it closed the stream before it had consumed all that it was sent ({what}: {count} here)"
        return restored(cls, words, {"what": what, "here": count, "peer": 0})


# Rows cannot be kept, read again or acknowledged.


class ReplayError(PermitflowError):
    """Rows cannot be kept, read again or acknowledged as requested; the channel's rows are unchanged."""


class RetentionError(ReplayError):
    """The channel does not keep its rows, or it keeps rows only: no barriers, no watermarks."""

    status = "FAILED_PRECONDITION"
    channel: str
    retention: str
    rule: str  # for example "cannot be read by ranges"

    def _worded(self) -> str:
        advice = "; let it keep rows: permitflow serve --retention replay" if self.retention == "once" else ""
        return f"channel {self.channel!r}, whose retention is {self.retention}, {self.rule}{advice}"


class UnknownConsumerError(ReplayError):
    """This consumer was not declared: rows that it needs may be gone already."""

    status = "NOT_FOUND"
    channel: str
    consumer: str
    known: tuple[str, ...]  # the consumers for which the channel keeps rows

    def _worded(self) -> str:
        names = _listed(map(repr, self.known))
        return (
            f"channel {self.channel!r} keeps no rows for a consumer {self.consumer!r}; it does for: {names}; declare "
            "others when the exchange starts (permitflow serve --consumer)"
        )


class RowsForgottenError(ReplayError):
    """The consumer has acknowledged these rows; the channel keeps them no longer."""

    status = "OUT_OF_RANGE"
    channel: str
    wanted_row: int
    first_kept_row: int  # the first one that this consumer may still read
    text = (
        "row {wanted_row} of channel {channel!r} was acknowledged and is forgotten; the first row that can still "
        "be read is {first_kept_row}"
    )


class RowsExpiredError(ReplayError):
    """These rows have expired by time or bytes, though the consumer has not acknowledged them."""

    status = "DATA_LOSS"
    channel: str
    wanted_row: int  # the next one to be sent; of those before it, what has not arrived is gone as well
    first_kept_row: int  # the first one that is still there
    text = (
        "row {wanted_row} of channel {channel!r} has expired: the exchange keeps rows for a limited time, or up to so "
        "many bytes (permitflow serve --expire-seconds, --expire-bytes); the first row that is still there is "
        "{first_kept_row}: to go on without the rows before, read from it on (permitflow get --from-row "
        "{first_kept_row}), or acknowledge up to it"
    )


class RowsNotThereError(ReplayError):
    """The channel never had these rows, or lost its log with them."""

    status = "OUT_OF_RANGE"
    channel: str
    wanted_row: int  # the end of the requested range
    next_row: int  # the number of the next row to arrive
    text = (
        "channel {channel!r} has no rows up to {wanted_row}: its next row is {next_row} (was an exchange without a "
        "durable store restarted, or an older copy of its store put back?)"
    )


class LogReplacedError(ReplayError):
    """The channel has a new log; the rows of the requested log are lost."""

    status = "DATA_LOSS"
    channel: str
    wanted_log: str
    log: str
    text = (
        "channel {channel!r} has a new log, {log!r}: the rows of {wanted_log!r} are lost, and the same numbers "
        "mean other rows now; an exchange without a durable store was restarted, or the channel was removed and added "
        "again, or is that of another exchange"
    )


class ProducerReplacedError(ReplayError):
    """A newer producer of the same name has connected, and continues after this producer's last row."""

    status = "ABORTED"
    channel: str
    producer: str
    by: str  # the address of the newer one
    text = (
        "producer {producer!r} of channel {channel!r} was replaced by a newer one of the same name at {by}; "
        "each producer needs a name of its own"
    )


class ProducerEndedError(ReplayError):
    """The channel has ended, so this named producer, which comes again, can send nothing more."""

    status = "FAILED_PRECONDITION"
    channel: str
    producer: str
    rows: int  # of this producer, kept
    text = (
        "channel {channel!r} has ended, with {rows} rows of producer {producer!r}: if these are all, its work is done; "
        "more rows need another channel, or this one after permitflow channel reset"
    )


class TooManyProducersError(ReplayError):
    """The channel cannot remember another named producer (it keeps a row count for each)."""

    status = "RESOURCE_EXHAUSTED"
    channel: str
    producer: str
    limit: int
    text = (
        "producer {producer!r} cannot begin: channel {channel!r} remembers {limit} named producers already, the most "
        "that there may be; a producer that needs no resuming needs no name"
    )


class EpochTooLargeError(ReplayError):
    """The rows between two barriers are more than the channel keeps, so the second barrier can never come."""

    channel: str
    kept_rows: int  # of the epoch that are here
    limit_rows: int  # the most that are kept
    waiting_rows: int  # of the chunk for which there is no room
    barrier: int  # before the epoch; 0: it is the first one
    text = (
        "the epoch behind barrier {barrier} of channel {channel!r} does not fit: {kept_rows} rows of it are here, a "
        "chunk of {waiting_rows} waits, and the channel keeps {limit_rows}: let the exchange keep more "
        "(permitflow serve --kept-rows), or send barriers more often"
    )


# Rows cannot be staged or published together.


class StagingError(PermitflowError):
    """A batch cannot be staged or published; earlier batches stay whole."""


class StagingFullError(StagingError):
    """A batch does not fit into the channel's room for unpublished rows, at all or beside others."""

    status = "RESOURCE_EXHAUSTED"
    channel: str
    query: str
    batch: int
    rows: int  # of the batch, so far, that the channel would hold at once
    limit_rows: int
    other_rows: int  # that other batches, and other attempts at this one, hold
    text = (
        "batch {batch} of query {query!r} has at least {rows} rows for channel {channel!r}, which stages at most "
        "{limit_rows}, and {other_rows} of other batches and attempts are there: make the exchange's staging_rows "
        "larger (permitflow serve --staging-rows) or the batches smaller, or let fewer queries write at a time"
    )


class TooManyAttemptsError(StagingError):
    """The exchange cannot keep another attempt that is neither published nor discarded."""

    status = "RESOURCE_EXHAUSTED"
    channel: str
    query: str
    limit: int
    text = (
        "no attempt of query {query!r} for channel {channel!r} can begin: {limit} attempts, the most that there may "
        "be, are neither published nor discarded; those of queries that are gone are forgotten after their time-out"
    )


class StagedPartError(StagingError):
    """An attempt at a part of a batch is missing, or not in the required state."""

    status = "FAILED_PRECONDITION"
    channel: str
    query: str
    batch: int
    partition: int
    attempt: str
    reason: str  # what is wrong with it
    text = (
        "attempt {attempt!r} at partition {partition} of batch {batch} of query {query!r} for channel {channel!r} "
        "{reason}; nothing of it was published by this order: write the batch again"
    )


class PreparedRowsError(StagingError):
    """The channel cannot be ended or removed: rows of it are prepared, and other exchanges may publish their batch."""

    status = "FAILED_PRECONDITION"
    channel: str
    deed: str  # "ended" or "removed"
    rows: int  # that are prepared
    query: str  # of those that are prepared for longest
    batch: int
    seconds: float  # for which they are
    advice: str
    text = (
        "channel {channel!r} cannot be {deed}: {rows:,} rows are prepared, and wait to be published, the oldest for "
        "{seconds:.1f} s, of batch {batch} of query {query!r}; other exchanges may publish the rest of it: {advice}"
    )


# The durable store of an exchange cannot be used, or cannot write.


class StoreError(PermitflowError):
    """The store of an exchange has failed."""


class StoreInUseError(StoreError):
    """Another exchange has the store open: each would delete the other's rows."""

    path: str  # the store's folder or address
    by: str = "another exchange"  # who has it, as far as that is known
    text = "the store {path} is in use by {by}: stop that one, or take another store"


class StoreTakenOverError(StoreError):
    """Another exchange has taken the store over: this one may write nothing any more.  Confirmed rows are safe."""

    status = "UNAVAILABLE"
    path: str
    by: str  # the exchange that has it now
    text = "the exchange has lost its store {path} to {by}, and no longer confirms anything: dial that one"


class StoreUnusableError(StoreError):
    """No store is here, or it is damaged, newer than this release, or lacks confirmed rows; nothing was changed."""

    path: str  # the file or folder
    reason: str  # the fault, and what to do
    text = "{path} cannot be used as a store: {reason}"


class StoreLeftoverError(StoreError):
    """The store holds channels that the exchange does not serve, so that their rows could not be read."""

    path: str
    channels: tuple[str, ...]  # that the exchange was not asked to serve

    def _worded(self) -> str:
        return (
            f"the store {self.path} holds channels that are not to be served: {_listed(map(repr, self.channels))}; "
            "name their streams as well, or take another store"
        )


class StoreMismatchError(StoreError):
    """The store holds the channel with another setting than the exchange was given.  The store was not changed."""

    path: str
    channel: str
    what: str  # the setting, as in "row permits"
    stored: str
    given: str
    text = (
        "channel {channel!r} was stored in {path} with {what} {stored}, and {given} was given now: "
        "use the stored setting, or take another store"
    )


class StoreWriteError(StoreError):
    """A write failed: the disk is full or broken.  Confirmed rows are safe."""

    status = "UNAVAILABLE"
    path: str
    reason: str  # the database's own, as in "database or disk is full"
    text = (
        "the exchange cannot write to its store {path}: {reason}; "
        "confirmed rows are safe, rows that were being written are not: send those again once they can be written"
    )


# A recording cannot be written or used; the recorded channel is not affected.


class TraceError(PermitflowError):
    """A recorded run cannot be written or used."""


class TraceWriteError(TraceError):
    """The recording stopped, the channel did not; ``__cause__`` is the operating system's exception."""

    path: str
    reason: str  # as in "No space left on device"
    text = "the recording in {path} is incomplete: {reason}; the recorded channels were not disturbed"


class TraceUnreadableError(TraceError):
    """A trace file cannot be read."""

    path: str
    line: int  # from 1; 0: the whole file
    reason: str

    def _worded(self) -> str:
        return f"{_place(self.path, self.line)}: {self.reason}"


class TraceTruncatedError(TraceUnreadableError):
    """The last line of a trace file is half written: its writer was killed, or the disk was full."""


class TraceMismatchError(TraceError):
    """Recordings of one channel do not belong together, or do not begin at its beginning."""

    channel: str
    reason: str  # names the two things that do not fit
    text = "the trace of channel {channel!r}: {reason}"


# A Spark job, a streaming query or the demonstration cannot go on.


class CheckpointError(PermitflowError):
    """The query's checkpoint cannot be used with this source and these options."""

    reason: str
    hint: str  # what to do
    text = "the query's checkpoint {reason}: {hint}"


class RowsLostError(PermitflowError):
    """Rows that the query needs are gone from the exchange; the query stops instead of skipping them."""

    channel: str
    consumer: str
    wanted_row: int  # the first row that the query needs
    reason: str  # why it is gone
    text = (
        "channel {channel!r} no longer has all rows that this query needs from row {wanted_row} on, as "
        "consumer {consumer!r}; {reason}. The query stops here and skips nothing. To go on without these rows, "
        "set failOnDataLoss to false; or start it with a new checkpoint and a new table (into an old one, Spark's file "
        "sinks do not write batches whose numbers it has), and with startingOffsets if rows have expired"
    )


class SparkSetupError(PermitflowError):
    """Spark's workers cannot use this package."""

    python: str  # the interpreter that the workers run
    reason: str  # the fault
    hint: str  # what to do
    text = "Spark's workers run {python}, {reason}: {hint}"


class TaskRetryError(PermitflowError):
    """An attempt at a task is refused: another one may have sent rows, or is to send them."""

    status = "FAILED_PRECONDITION"
    partition: int
    attempt: int  # Spark's taskAttemptId: no other attempt has it
    reason: str = (
        "it is written for the second time, and rows of the first attempt may have been consumed already and would "
        "come twice; run the whole job again, and without speculation, or write with delivery=staged, which takes "
        "second attempts"
    )
    text = "task attempt {attempt} may not write partition {partition}: {reason}"


class JobTotalError(PermitflowError):
    """The rows of a job that the exchange has taken are not those that count at the job's end."""

    status = "FAILED_PRECONDITION"
    job: str
    channel: str
    rows: int  # that count, as the job says
    taken: int
    sending: int  # streams of attempts that are still open
    text = (
        "{rows} rows of job {job!r} count in channel {channel!r}, and the exchange has taken {taken} since it was "
        "started ({sending} attempts still send): an attempt that does not count has sent rows, or the exchange was "
        "started again meanwhile, and may have others from before; run the whole job again, into a new channel"
    )


class TooManyTasksError(PermitflowError):
    """A job has more tasks than an exchange remembers, so that it could not refuse their second attempts."""

    status = "RESOURCE_EXHAUSTED"
    job: str
    limit: int
    text = (
        "no further task of job {job!r} can begin: the exchange remembers {limit} tasks, the most that there may be, "
        "and other jobs that have open streams; coalesce the rows into fewer partitions, or write with delivery=staged"
    )


class RepeatedCallError(PermitflowError):
    """A gRPC call was, or would be, made for the second time, and the service need not answer the same again."""

    method: str
    reason: str
    text = "{method} {reason}"


class EarlyAnswerError(PermitflowError):
    """A service has answered a client-streaming call before all rows of a task were sent: others were not delivered."""

    method: str
    sent: int
    text = (
        "{method} has answered after {sent} messages, before all rows of this task were sent: the others are not "
        "delivered; a service that takes rows must answer after the last one"
    )


class BatchOrderError(PermitflowError):
    """A staged job has a lower batch number than the last published one of its query: its rows were dropped."""

    query: str
    batch: int
    last_batch: int
    text = (
        "batch {batch} of query {query!r} is not published, and its rows are dropped: batch {last_batch} was published "
        "before, and numbers must rise; give the job a higher number or another query; a streaming query that has gone "
        "back to an older checkpoint needs a new one"
    )


class KafkaRefusedError(PermitflowError):
    """librdkafka or a broker refuses: a configuration, a topic, a record."""

    place: str  # a topic, or the client
    code: str  # librdkafka's name of the error
    reason: str
    text = "Kafka refuses, at {place!r}: {reason} ({code})"


class BrokersUnreachableError(PermitflowError):
    """No broker of a Kafka cluster has answered for too long; nothing that was consumed is lost."""

    servers: str
    waited_seconds: float
    reason: str
    text = (
        "no Kafka broker of {servers} has answered for {waited_seconds:g} s: {reason}; what was not consumed "
        "comes again to the next consumer of the group; unreachable_seconds is the longest wait"
    )


class PoisonRecordError(PermitflowError):
    """A record of a topic could not be decoded; it is not consumed, and would come again."""

    topic: str
    partition: int
    offset: int
    reason: str
    text = (
        "the record at offset {offset} of {topic}/{partition} cannot be decoded: {reason}; it comes again to the next "
        "consumer of the group, unless when_poisoned takes such records, as into a topic of their own"
    )


class ResponseCountError(PermitflowError):
    """A service was to answer each request of a bidirectional call with one response, and has not."""

    method: str
    requests: int  # sent
    responses: int
    text = (
        "{method} has given {responses} responses to {requests} requests, and each must have one: a service that "
        "answers otherwise needs one_to_one=False"
    )


class UnknownBatchError(PermitflowError):
    """Spark has not told a task of a streaming query which batch the task writes."""

    missing: str  # the task's local property that names the batch
    text = (
        "this task does not know which batch of which query it writes: Spark has not set its local property "
        "{missing!r}; is this release of Spark a supported one?"
    )


class DemoError(PermitflowError):
    """The demo cannot be run on this machine, or one of its processes failed."""

    keeps_lines = True  # it shows the end of a log
