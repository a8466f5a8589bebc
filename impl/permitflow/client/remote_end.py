"""The common part of a remote stream's ends: carries frames between session and carrier until the stream is over.

Messages are read on arrival, and written as soon as they are due (``Writing``): within callbacks of the event loop, as
long as ``run`` runs, and not after it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from permitflow.carriers.carrier import Carrier, Ear, FirstMessage
from permitflow.carriers.same_host import SHARED_MEMORY, HostCarrier, Offer, SameHost, meet, settle
from permitflow.change import Change
from permitflow.channels.statistics import ChannelStatistics
from permitflow.client.writing import Writing
from permitflow.errors import (
    AlteredMessageError,
    ChannelClosedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    RemoteProtocolError,
    TransportError,
)
from permitflow.flows.byte_window import DEFAULT_WINDOW, ByteWindow
from permitflow.flows.seam import Flow, Inbound, Outbound, Parameters
from permitflow.stream.compression import Compression, decided, require_none_in_memory
from permitflow.stream.frames import Agreement, Failure, Get, Put
from permitflow.stream.resuming import ResumeAnswer
from permitflow.stream.session import DownstreamSession, State, UpstreamSession
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.arrow_compression import available_codecs, log_answer
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.schemas import OF_CONSUMER, facts_of, read_schema, require_equal_schemas
from permitflow.wire.signs import SIGN_BYTES
from permitflow.wire.wire_errors import copy_error, decode_error, encode_error, forget_frames, told_reason

# Time for the peer to learn of the failure and to close its half.
BREAK_OFF_SECONDS = 1.0
# The same, where it is to have all that was sent before, which may still lie in buffers of the network: some megabytes,
# at 20 KB/s.
_ARRIVAL_SECONDS = 300.0
# How long an end waits for the peer to close its half when all else is done, by the time between signs.  The close of
# a dialler's half may be lost as a message may; then the acceptor closes the stream, before the dialler gives up.
_ACCEPTOR_SIGNS, _DIALLER_SIGNS = 2, 4
_OPEN = State.OPEN  # reading an enumeration's attribute costs more than asking for it

S = TypeVar("S", bound=UpstreamSession[object] | DownstreamSession[object])


class AcceptorTerms(NamedTuple):
    """What an acceptor decides about all of its streams; a dialler states its own wishes in its first frame."""

    same_host: SameHost = SameHost.AUTO
    """Whether to share memory with a dialler that offers it."""
    compression: Compression = Compression.AUTO
    checksums: bool = True
    """Do messages over a network carry one?  The dialler follows it."""


_USUAL_TERMS = AcceptorTerms()


class RemoteEnd(ABC, Generic[S]):
    """One end of a stream: a session and a carrier."""

    END: str
    WRITES: bool

    def __init__(
        self,
        session: S,
        carrier: Carrier,
        *,
        schema: pa.Schema | None = None,
        offer: Offer | None = None,
        terms: AcceptorTerms = _USUAL_TERMS,
        first: FirstMessage | None = None,
    ) -> None:
        """Call ``run`` to start the end.

        Args:
            session: a new one, before anything was written.
            carrier: of the open stream.
            schema: of a dialler: the required schema of the agreement; None: any.
            offer: of a dialler: to share memory.
            terms: of an acceptor.
            first: of an acceptor: the first message, if it was taken out of the carrier.
        """
        self._session = session
        self._first = first
        self._carrier = HostCarrier(
            carrier, who=session.peer, checksums=terms.checksums if session.is_acceptor else None
        )
        # The chunks' schema is unknown before the agreement.
        self._batches: BatchCodec | None = None
        self._flow: Flow | None = None
        self._has_opened = False
        """Is everything agreed, so that the application may use this end, also if it has failed since?"""
        self._wanted_schema, self._offer, self._terms = schema, offer, terms
        self._failure: PermitflowError | None = None
        self.has_told_failure = False
        """Has the application received the stream's error?"""
        self._is_closed = False
        self.is_breaking_off = False
        """Is the reason of the end being sent to the peer?"""
        self._is_patient = False
        """Is that reason true only once the peer has all that was sent before?"""
        self._patience = asyncio.timeout(None)
        self._runner: asyncio.Task[object] | None = None
        self._clock = asyncio.get_running_loop().time
        self._opened_at = self._clock()
        self._over_at: float | None = None
        self._changed = Change()
        self._writing = Writing(self._carrier, self._messages, self._on_writing_over, self._on_silence)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_read_all = self._is_writing_over = False
        self._last_wait: asyncio.TimerHandle | None = None
        self._set_up()

    @abstractmethod
    def _set_up(self) -> None:
        """Set the fields of this kind of end."""

    # The stream's properties, known after the agreement.

    @property
    def name(self) -> str:
        """The channel's name."""
        return self._session.channel

    @property
    def stream(self) -> str:
        """The name of this stream, equal at both ends."""
        return self._session.agreement.stream

    @cached_property  # read for every chunk
    def parameters(self) -> Parameters:
        """The agreed parameters."""
        return self._session.parameters

    @property
    def byte_window(self) -> ByteWindow:
        """The agreed window in bytes."""
        return ByteWindow(self._session.agreement.byte_window)

    @property
    def first_row(self) -> int | None:
        """``Agreement.first_row``, if the channel keeps its rows."""
        return self._session.agreement.first_row

    @property
    def schema(self) -> pa.Schema:
        """The schema of the chunks."""
        return self._codec.schema

    @property
    def shares_memory(self) -> bool:
        """Do received messages lie in memory shared with the peer?"""
        return self._carrier.meeting.path == SHARED_MEMORY

    @cached_property
    def _codec(self) -> BatchCodec:
        assert self._batches is not None, "the session has refused everything that comes before the agreement"
        return self._batches

    @property
    def state(self) -> State:
        """The stream's state; of an end that has broken off behind all that was sent: it is not over before that."""
        if self._is_patient and not self._over.done():
            return State.ENDED
        return State.FAILED if self._failure is not None else self._session.state

    @property
    def resumes(self) -> int:
        """How often the stream has gone on over another connection."""
        return self._carrier.interruptions.resumes

    @property
    def suspended_since(self) -> float | None:
        """The loop's time at which the stream lost its connection, while it waits for another one."""
        return self._carrier.interruptions.since

    @property
    def failure(self) -> PermitflowError | None:
        """Why the stream has failed, if it has."""
        return self._failure

    # Carrying.

    async def run(self) -> None:
        """Carry frames until the stream is over.

        Raises:
            PermitflowError: the stream failed; every waiting call gets the same error.
        """
        self._runner = asyncio.current_task()
        try:
            async with self._patience:
                ear = Ear(self._on_message, self._writing.on_writable, self._on_end, self._on_carrier_error)
                self._carrier.listen(ear)
                first, self._first = self._first, None
                if first is not None:
                    first.hand_over(ear)
                self._writing.start()
                await self._over
            self._session.close()
        except Exception as ended:
            error = self._fail(ended)
            raise error from error.__cause__
        except asyncio.CancelledError:
            self._fail(ChannelClosedError(end=self.END))
            raise
        finally:
            self._writing.stop()
            if self._last_wait is not None:
                self._last_wait.cancel()
            self._stop_clock()
            self._wake_all()
            await self._carrier.stop()
            if not self._over.cancel() and not self._over.cancelled():
                self._over.exception()  # already reported, or this end was closed at the same time

    def _on_end(self) -> None:
        """React to the peer's closed half."""
        try:
            if self._failure is not None:
                raise self._failure
            self._session.peer_closed()
        except PermitflowError as error:
            self._on_error(error)
            return
        self._has_read_all = True
        self._writing.ask_no_more()
        self._wake_all()
        self._end_if_over()

    def _on_writing_over(self, error: Exception | None) -> None:
        if error is not None:
            self._on_error(error)
            return
        self._is_writing_over = True
        if self._is_patient:  # ``delivered`` waits for it
            self._announce()
        if not self._session.is_acceptor:  # an acceptor's half closes with its status
            self._writing.ask_no_more()
        self._end_if_over()

    def _end_if_over(self) -> None:
        if not self._is_writing_over or self._over.done():
            return
        if self._has_read_all:
            self._over.set_result(None)
            return
        sign_seconds = self._carrier.sign_seconds
        if self._last_wait is None and sign_seconds is not None and self._session.is_settled:
            seconds = sign_seconds * (_ACCEPTOR_SIGNS if self._session.is_acceptor else _DIALLER_SIGNS)
            self._wait_for_end(seconds)

    def _wait_for_end(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._last_wait = loop.call_later(seconds, self._close_alone, seconds, self.resumes)

    def _close_alone(self, seconds: float, resumes: int) -> None:
        """End a settled stream whose peer does not close its half; it had a connection all the time."""
        if self._over.done():
            return
        if self._session.is_acceptor:
            self._on_end()
            return
        if self.suspended_since is not None or self.resumes > resumes:
            self._wait_for_end(seconds)
            return
        reason = f"all of the stream was sent and settled, and it has not closed it for {seconds:g} s"
        self._on_error(PeerTimeoutError(who=self._session.peer, reason=reason))

    def _on_silence(self, seconds: float) -> bool:
        """Distrust a connection that may have lost messages: the peer does not answer.  False: the stream ends."""
        since = f"it has not answered for {seconds:g} s, though its connection lives"
        reason = f"{since}: is it busy, or was a message damaged on the way?"
        error = PeerTimeoutError(who=self._session.peer, reason=reason)
        if self._carrier.distrust(error):
            return True
        self._on_carrier_error(error)
        return False

    def _on_carrier_error(self, error: PermitflowError) -> None:
        """End a stream whose carrier failed; an acceptor's peer learns the reason from the status."""
        can_tell = self._carrier.takes_last_words and not self._session.is_acceptor and not self.is_breaking_off
        if not can_tell or not self.break_off(error):
            self._on_error(error)

    def _on_error(self, error: Exception) -> None:
        """End the stream; every later caller gets the reason."""
        failure = self._fail(error)
        if not self._over.done():
            self._over.set_exception(failure)

    def _fail(self, error: BaseException) -> PermitflowError:
        if not isinstance(error, PermitflowError):
            error = TransportError.of(what=f"the {self.END} of channel {self.name!r} failed", cause=error)
        if isinstance(error, RemoteProtocolError | AlteredMessageError):
            forget_frames(error)  # this end keeps it for later callers
        if self._failure is None or self._is_patient:
            self._failure = error
        self._wake_all()
        return self._failure

    def break_off(self, error: PermitflowError, *, behind_all: bool = False) -> bool:
        """Tell the peer why the stream must end, and give it a short time to end it as well.

        Returns whether that is possible.  If not, the stream is over, or the dialler has no agreement yet and learns
        the reason from the status.  An acceptor whose dialler has no connection ends at once: the dialler hears why
        if it comes again.

        Args:
            error: the reason.
            behind_all: the peer first gets all that was sent, however long that takes, also over another connection;
                if it does not, the stream ends with what has prevented it.  Await ``delivered``, and then call this
                again without it: a call without it waits no longer.
        """
        is_acceptor = self._session.is_acceptor
        if is_acceptor and self.suspended_since is not None and not behind_all:
            self._on_error(error)
            return True
        can_tell = not is_acceptor or self._batches is not None
        is_over = self._is_closed or self._over.done() or self._is_writing_over
        if can_tell and self._failure is None and not is_over:
            self.is_breaking_off = self._is_patient = True
            self._session.fail(encode_error(error))
            self._fail(error)
            if not behind_all:
                self._lose_patience_soon()
        elif self._is_patient and not (behind_all or self._over.done()):
            self._fail(error)
            self._lose_patience_soon()
        return self.is_breaking_off

    async def delivered(self) -> None:
        """Wait until all was written, and the peer has it, as far as it shows that.

        The peer of a stream that resumes acknowledges it.  Any other one closes its half, or is not waited for after
        some time.

        Raises:
            PermitflowError: it lacks some, and has not come again.
        """
        while not self._is_writing_over:
            await self._changed.wait()
        if self._carrier.resume_seconds:
            await self._carrier.settled()
        else:
            await asyncio.wait((self._over,), timeout=_ARRIVAL_SECONDS)

    def _lose_patience_soon(self) -> None:
        self._is_patient = False
        self._patience.reschedule(self._clock() + BREAK_OFF_SECONDS)

    def hang_up(self, error: PermitflowError) -> None:
        """Of an acceptor: end a stream at once that cannot be broken off; the status tells the peer why.

        Not one in which all is said but the close of the peer's half.
        """
        if not (self._over.done() or self._session.is_settled):
            self._on_error(error)

    def _on_failure(self, failure: Failure) -> None:
        """React to a peer that broke the stream off; a dialler gets a status once this half is closed."""
        who = self._session.peer
        error = decode_error(failure.error, who=who)
        # A dialler's failure concerns the dialler: an acceptor raises its own errors.
        if error is None or self._session.is_acceptor:
            why = told_reason(failure.error) if error is None else str(error)
            error = PeerGoneError(who=who, reason=f"it broke the stream off{why and f': {why}'}")
        self._fail(error)

    def close(self) -> None:
        """Release this end at once.  Closing twice is harmless."""
        self._is_closed = True
        self._writing.stop()
        self._stop_clock()
        if self._runner is not None:
            self._runner.cancel()
        self._wake_all()

    def _stop_clock(self) -> None:
        if self._over_at is None:
            self._over_at = self._clock()

    def _statistics(self, core: Inbound[object] | Outbound[object], **counts: Any) -> ChannelStatistics:
        return ChannelStatistics(
            name=self.name,
            path=self._carrier.meeting.path,
            resumes=self._carrier.interruptions.resumes,
            suspended_seconds=self._carrier.interruptions.seconds,
            compression=self._session.compression.words,
            window_rows=self.parameters.window_rows,
            open_seconds=(self._clock() if self._over_at is None else self._over_at) - self._opened_at,
            gauges=core.gauges(),
            **counts,
        )

    def _begin(self, batches: BatchCodec) -> None:
        """Start after the agreement."""
        self._batches, self._flow = batches, self._session.parameters.flow
        log_answer(self._session.compression, who=self._session.peer)
        self._opened()
        self._has_opened = True

    def _on_message(self, message: Received, has_more: bool) -> None:
        """Process a message, and wake the tasks that wait for a change."""
        if self._over.done() or (self.is_breaking_off and not self._is_patient):
            return
        session = self._session
        before = session.state
        try:
            message = self._carrier.checked(message)
            if len(message) != SIGN_BYTES or not self._writing.take_sign(message):
                if self.is_breaking_off:
                    return
                self._take_in(message)
            if not has_more and self._batches is not None:
                self._advance()
        except Exception as error:
            if isinstance(error, AlteredMessageError) and self._carrier.distrust(error):
                return  # it comes again
            if not isinstance(error, PermitflowError) or not self.break_off(error):
                self._on_error(error)
                return
        # Data and permits have already woken the writer if it has work.
        if before is not _OPEN or session.state is not before:
            self._writing.soon()
        # Waiting tasks are woken once for all messages that came together.
        if not has_more:
            self._end_if_over()
            self._announce()

    @abstractmethod
    def _advance(self) -> None:
        """Act after a consumption, or after all messages that came together: do what the flow allows now."""

    def _announce(self) -> None:
        """Wake every task that waits for a change."""
        self._changed.note()

    def _wake_all(self) -> None:
        """Wake the writer and every task that waits for a change."""
        self._writing.soon()
        self._announce()

    @abstractmethod
    def _take_in(self, message: Received) -> None:
        """Process a message of the peer."""

    @abstractmethod
    def _messages(self) -> Iterable[Sequence[Buffer]]:
        """Encode the due messages one after the other; tell ``Writing`` if none will follow."""

    async def dialled(self) -> Get | Put:
        """Wait for the dialler's first frame.

        Raises:
            PermitflowError: it was another frame, or the peer is gone.
        """
        await self._until_past(State.AWAITING_GET, State.AWAITING_PUT)
        return self._session.request

    async def meet(self) -> None:
        """Share memory with the dialler, if it offers that and both can; call this before ``accept``.

        Raises:
            SameHostError: this end requires shared memory, and it is impossible.
        """
        offer, who = self._session.request.same_host, self._session.peer
        self._carrier.prepare(await meet(offer, self._terms.same_host, writes=self.WRITES, who=who))

    def accept(
        self,
        own: Parameters,
        *,
        schema: pa.Schema,
        stream: str,
        rows: pa.Schema | None = None,
        first_row: int | None = None,
        window: ByteWindow = DEFAULT_WINDOW,
    ) -> None:
        """Agree with the dialler; ``own`` and ``window`` are the limits of this end.

        ``rows``: the schema in which a producer's rows are read, see ``fitted``; None: ``schema``, which it has stated.

        Raises:
            ParameterMismatchError: the parameters cannot be reconciled.
            InvalidParametersError: the peer's parameters are invalid.
        """
        met, offer = self._carrier.meeting.answer, self._session.request.compression
        answer = decided(offer, self._terms.compression, available_codecs(), shares_memory=self.shares_memory)
        batches = BatchCodec(rows or schema, answer.codec)
        seconds = self._carrier.resume_seconds
        self._session.accept(
            own,
            schema=facts_of(schema).encoded,
            stream=stream,
            same_host=met,
            first_row=first_row,
            compression=answer,
            resume=None if seconds is None else ResumeAnswer(seconds),
            window=window,
        )
        self._carrier.change_over()
        self._begin(batches)
        self._wake_all()

    async def agreed(self) -> None:
        """Wait until the acceptor has agreed.

        Raises:
            PermitflowError: it has refused, or is gone.  Not a failure behind the agreement: rows may be between.
        """
        while not self._has_opened:
            if (failure := self._failure_again()) is not None:
                raise failure
            await self._changed.wait()

    async def changed(self) -> None:
        """Wait until a message has come, or the stream is over."""
        await self._changed.wait()

    def wake(self) -> None:
        """Let those that wait for a change look again."""
        self._announce()

    async def _until_past(self, *states: State) -> None:
        while True:
            if (failure := self._failure_again()) is not None:
                raise failure
            if self._session.state not in states:
                return
            await self._changed.wait()

    def _note_agreement(self, agreement: Agreement) -> None:
        self._carrier.survive(0.0 if agreement.resume is None else agreement.resume.seconds)
        if self._offer is not None:
            self._carrier.prepare(settle(self._offer, agreement.same_host))
        self._carrier.change_over()  # the acceptor has; errors of the agreement go there
        schema = read_schema(agreement.schema)
        if self._wanted_schema is not None:
            require_equal_schemas(ours=schema, theirs=self._wanted_schema, owners=OF_CONSUMER)
        if self.shares_memory:
            require_none_in_memory(self._session.compression)
        self._begin(BatchCodec(schema, self._session.compression.codec))

    @abstractmethod
    def _opened(self) -> None:
        """Use the parameters, which are known now."""

    def _failure_again(self, undelivered: object = None) -> PermitflowError | None:
        """The error that ended the stream, for one more caller, with its undelivered chunks."""
        if self._failure is None:
            return None
        self.has_told_failure = True
        return copy_error(self._failure, undelivered)
