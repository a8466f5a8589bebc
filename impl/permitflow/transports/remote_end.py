"""What both ends of a remote stream do alike: carry frames between the session and the carrier until it is over.

Messages are taken in where they come, and written where they come up (``Writing``): within callbacks of the event loop,
for as long as ``run`` runs; nothing goes on after it.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Generic, TypeVar

import pyarrow as pa

from permitflow.errors import (
    AlteredMessageError,
    ChannelClosedError,
    PeerGoneError,
    PermitflowError,
    RemoteProtocolError,
    TransportError,
)
from permitflow.protocol.compression import Compression, decided, require_none_in_memory
from permitflow.protocol.flow import Flow, Parameters
from permitflow.protocol.frames import Agreement, Failure, Get, Put
from permitflow.protocol.session import DownstreamSession, State, UpstreamSession
from permitflow.transports.arrow import BatchCodec, read_schema, require_equal_schemas
from permitflow.transports.arrow_compression import available_codecs, log_answer
from permitflow.transports.carrier import Buffer, Carrier, Ear, Received
from permitflow.transports.same_host import SHARED_MEMORY, HostCarrier, Offer, SameHost, meet, settle
from permitflow.transports.wire_errors import copy_error, decode_error, encode_error, forget_frames
from permitflow.transports.writing import Writing

__all__ = ["RemoteEnd"]

# Time for the peer to hear of it and to close its half.
BREAK_OFF_SECONDS = 1.0
_OPEN = State.OPEN  # reading an enumeration's attribute costs more than asking for it

S = TypeVar("S", bound=UpstreamSession[object] | DownstreamSession[object])


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
        compression: Compression = Compression.AUTO,
        checksums: bool = True,
    ) -> None:
        """Call ``run`` to set it going.

        Args:
            session: as it is before anything was written.
            carrier: of the open stream.
            schema: of an end that dials: what the agreement must say; None: whatever it says.
            offer: of an end that dials: to share memory.
            compression: of an end that is dialled: what it wants; the others say so in their first frame.
            checksums: of an end that is dialled: does each message on a network carry one?  The others do as it does.
        """
        self._session = session
        self._carrier = HostCarrier(carrier, who=session.peer, checksums=checksums if session.is_acceptor else None)
        # Nothing is known of the chunks before the agreement.
        self._batches: BatchCodec | None = None
        self._flow: Flow | None = None
        self._wanted_schema, self._offer, self._compression = schema, offer, compression
        self._failure: PermitflowError | None = None
        self.has_told_failure = False
        """Has the application heard why the stream has failed?"""
        self._is_closed = False
        self.is_breaking_off = False
        """Is the peer being told why the stream ends here?"""
        self._patience = asyncio.timeout(None)
        self._runner: asyncio.Task[object] | None = None
        self._clock = asyncio.get_running_loop().time
        self._opened_at = self._clock()
        self._over_at: float | None = None
        # Set and cleared at once: tasks that wait see each change.
        self._changed = asyncio.Event()
        self._writing = Writing(self._carrier, self._messages, self._on_writing_over)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_read_all = self._is_writing_over = False

    # What is known of the stream once both ends have agreed.

    @property
    def name(self) -> str:
        """The channel's name."""
        return self._session.channel

    @property
    def stream(self) -> str:
        """The name of this stream, which both of its ends know."""
        return self._session.agreement.stream

    @cached_property  # it is asked for with every chunk
    def parameters(self) -> Parameters:
        """What both ends agreed on."""
        return self._session.parameters

    @property
    def first_row(self) -> int | None:
        """Of a channel that keeps its rows: as ``Agreement.first_row``."""
        return self._session.agreement.first_row

    @property
    def schema(self) -> pa.Schema:
        """The schema of the chunks."""
        return self._codec.schema

    @property
    def shares_memory(self) -> bool:
        """Does what is received lie in memory that the peer has, too?"""
        return self._carrier.meeting.path == SHARED_MEMORY

    @cached_property
    def _codec(self) -> BatchCodec:
        assert self._batches is not None, "the session has refused everything that comes before the agreement"
        return self._batches

    @property
    def state(self) -> State:
        """How far the stream has come."""
        return State.FAILED if self._failure is not None else self._session.state

    @property
    def failure(self) -> PermitflowError | None:
        """Why the stream has failed, if it has."""
        return self._failure

    # Carrying.

    async def run(self) -> None:
        """Carry frames until the stream is over.

        Raises:
            PermitflowError: it did not end well; every call that waits gets the same error.
        """
        self._runner = asyncio.current_task()
        try:
            async with self._patience:
                self._carrier.listen(
                    Ear(self._on_message, self._writing.on_writable, self._on_end, self._on_carrier_error)
                )
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
            self._stop_clock()
            self._wake_all()
            await self._carrier.stop()
            if not self._over.cancel() and not self._over.cancelled():
                self._over.exception()  # it has been told, or this end was closed at the same time

    def _on_end(self) -> None:
        """The peer has closed its half."""
        try:
            if self._failure is not None:
                raise self._failure
            self._session.peer_closed()
        except PermitflowError as error:
            self._on_error(error)
            return
        self._has_read_all = True
        self._wake_all()
        self._end_if_over()

    def _on_writing_over(self, error: Exception | None) -> None:
        if error is not None:
            self._on_error(error)
            return
        self._is_writing_over = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._has_read_all and self._is_writing_over and not self._over.done():
            self._over.set_result(None)

    def _on_carrier_error(self, error: PermitflowError) -> None:
        """Nothing more will come.  Of an acceptor, the peer is told why by the status."""
        can_tell = self._carrier.takes_last_words and not self._session.is_acceptor and not self.is_breaking_off
        if not can_tell or not self.break_off(error):
            self._on_error(error)

    def _on_error(self, error: Exception) -> None:
        """The stream is over; nobody may find it dead without its reason."""
        failure = self._fail(error)
        if not self._over.done():
            self._over.set_exception(failure)

    def _fail(self, error: BaseException) -> PermitflowError:
        if not isinstance(error, PermitflowError):
            error = TransportError.of(what=f"the {self.END} of channel {self.name!r} failed", cause=error)
        if isinstance(error, RemoteProtocolError | AlteredMessageError):
            forget_frames(error)  # this end keeps it for those who will still ask
        if self._failure is None:
            self._failure = error
        self._wake_all()
        return self._failure

    def break_off(self, error: PermitflowError) -> bool:
        """Tell the peer why the stream must end here, and give it a little time to end it as well.

        Says whether that is possible; else the stream is over, or a peer that has dialled has no agreement yet, and the
        status tells it.
        """
        can_tell = not self._session.is_acceptor or self._batches is not None
        if can_tell and self._failure is None and self._over_at is None and not self._is_writing_over:
            self.is_breaking_off = True
            self._session.fail(encode_error(error))
            self._patience.reschedule(self._clock() + BREAK_OFF_SECONDS)
            self._fail(error)
        return self.is_breaking_off

    def _on_failure(self, failure: Failure) -> None:
        """The peer has broken the stream off; to one that has dialled a status follows once this half is closed."""
        who, reason = self._session.peer, "it broke the stream off"
        error = decode_error(failure.error, who=who)
        # What a dialler says is about itself: the errors of an acceptor are its own.
        if error is None or self._session.is_acceptor:
            error = PeerGoneError(who=who, reason=reason if error is None else f"{reason}: {error}")
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

    @property
    def _open_seconds(self) -> float:
        return (self._clock() if self._over_at is None else self._over_at) - self._opened_at

    def _begin(self, batches: BatchCodec) -> None:
        """Both ends have agreed."""
        self._batches, self._flow = batches, self._session.parameters.flow
        log_answer(self._session.compression, who=self._session.peer)
        self._opened()

    def _on_message(self, message: Received, has_more: bool) -> None:
        """Take a message in, and let everybody see what has changed."""
        if self.is_breaking_off or self._over.done():
            return
        session = self._session
        before = session.state
        try:
            self._take_in(self._carrier.checked(message))
            if not has_more and self._batches is not None:
                self._advance()
        except Exception as error:
            if not isinstance(error, PermitflowError) or not self.break_off(error):
                self._on_error(error)
                return
        # Data and permits have nothing for the writer that has not woken it already.
        if before is not _OPEN or session.state is not before:
            self._writing.soon()
        # Tasks that wait are told once for all messages that have come together.
        if not has_more:
            self._announce()

    @abstractmethod
    def _advance(self) -> None:
        """Do what the flow lets happen now: something was consumed, or all messages that came together are taken in."""

    def _announce(self) -> None:
        """Let every task that waits for a change see what it is."""
        self._changed.set()
        self._changed.clear()

    def _wake_all(self) -> None:
        """Something has changed: let the writer look, and everybody else who waits for a change."""
        self._writing.soon()
        self._announce()

    @abstractmethod
    def _take_in(self, message: Received) -> None:
        """Take a message of the peer in."""

    @abstractmethod
    def _messages(self) -> Iterable[Sequence[Buffer]]:
        """What is to be written now, encoded one after the other; tells ``Writing`` if nothing will follow."""

    async def dialled(self) -> Get | Put:
        """Wait for the first frame of a peer that dials.

        Raises:
            PermitflowError: it was another frame, or the peer is gone.
        """
        await self._until_past(State.AWAITING_GET, State.AWAITING_PUT)
        return self._session.request

    async def meet(self, policy: SameHost) -> None:
        """Share memory with the peer that dialled, if it offers that and both can; to be done before ``accept``.

        Raises:
            SameHostError: this end insists, and it is impossible.
        """
        offer, who = self._session.request.same_host, self._session.peer
        self._carrier.prepare(await meet(offer, policy, writes=self.WRITES, who=who))

    def accept(self, own: Parameters, *, schema: pa.Schema, stream: str, first_row: int | None = None) -> None:
        """Agree with the peer that dialled.

        Raises:
            HandshakeError: version or parameters cannot be reconciled.
            InvalidParametersError: the peer's wishes cannot work at all.
        """
        met, offer = self._carrier.meeting.answer, self._session.request.compression
        answer = decided(offer, self._compression, available_codecs(), shares_memory=self.shares_memory)
        batches = BatchCodec(schema, answer.codec)
        encoded = batches.schema_bytes
        self._session.accept(own, schema=encoded, stream=stream, same_host=met, first_row=first_row, compression=answer)
        self._carrier.change_over()
        self._begin(batches)
        self._wake_all()

    async def agreed(self) -> None:
        """Wait until the peer that was dialled has agreed.

        Raises:
            PermitflowError: it has refused, or is gone.
        """
        await self._until_past(State.AWAITING_AGREEMENT)

    async def changed(self) -> None:
        """Wait until something has come, or the stream is over."""
        await self._changed.wait()

    async def _until_past(self, *states: State) -> None:
        while True:
            if (failure := self._failure_again()) is not None:
                raise failure
            if self._session.state not in states:
                return
            await self._changed.wait()

    def _note_agreement(self, agreement: Agreement) -> None:
        if self._offer is not None:
            self._carrier.prepare(settle(self._offer, agreement.same_host))
        self._carrier.change_over()  # the acceptor has; what is wrong with the agreement is told there
        schema = read_schema(agreement.schema)
        if self._wanted_schema is not None:
            require_equal_schemas(ours=self._wanted_schema, theirs=schema)
        if self.shares_memory:
            require_none_in_memory(self._session.compression)
        self._begin(BatchCodec(schema, self._session.compression.codec))

    @abstractmethod
    def _opened(self) -> None:
        """The parameters are known now."""

    def _failure_again(self, undelivered: object = None) -> PermitflowError | None:
        """The error that ended the stream, for one more caller, who gets back what it could not send."""
        if self._failure is None:
            return None
        self.has_told_failure = True
        return copy_error(self._failure, undelivered)
