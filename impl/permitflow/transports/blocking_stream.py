"""What both blocking ends of a stream share: bounded waits, the peer's end, and errors that say who and where.

A signal's handler may raise an exception anywhere, KeyboardInterrupt for one, and the caller may go on afterwards.
While an end waits or writes, its books are whole and what is left to write is kept, so it goes on where it was.
Elsewhere it is halfway through a change; an end that was left like that refuses to go on (``InterruptedEndError``).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from time import monotonic
from types import TracebackType
from typing import NoReturn, Self

import pyarrow as pa

from permitflow.errors import (
    ChannelClosedError,
    InterruptedEndError,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
)
from permitflow.protocol.compression import require_none_in_memory
from permitflow.protocol.frames import Agreement
from permitflow.protocol.lifecycle import State
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import DownstreamSession, UpstreamSession
from permitflow.transports.arrow import BatchCodec, read_schema
from permitflow.transports.arrow_compression import log_answer
from permitflow.transports.blocking_host_call import BlockingHostCall
from permitflow.transports.blocking_replies import Closed
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.diagnosis import Explain, explained
from permitflow.transports.same_host import SHARED_MEMORY
from permitflow.transports.shared_memory.meeting import Offer
from permitflow.transports.shared_memory.outgoing import Outgoing
from permitflow.transports.status import heard

__all__ = ["BlockingStream"]


class BlockingStream:
    """One end of a stream, driven by one thread at a time; a context manager that leaves nothing behind."""

    def __init__(
        self,
        address: str,
        method: str,
        session: UpstreamSession[object] | DownstreamSession[object],
        timeout_seconds: float,
        offer: Offer | None = None,
    ) -> None:
        """Dial; an ``offer`` to share memory belongs to this object now."""
        if not timeout_seconds > 0:
            raise InvalidParametersError(name="timeout_seconds", value=timeout_seconds, rule="must be above 0")
        self._address = address
        self._peer_session = session
        self._timeout_seconds = timeout_seconds
        self._batches: BatchCodec | None = None
        self._is_peer_closed = self._is_half_closed = False
        # Who finds this set when he comes has been interrupted in the middle of a change.
        self._is_halfway = False
        self._unwritten: deque[Outgoing] = deque()
        self._opened_at = monotonic()
        self._over_at: float | None = None
        self._call = BlockingHostCall(address, method, who=session.peer, offer=offer)

    @property
    def name(self) -> str:
        """The channel's name, as error messages give it."""
        return self._peer_session.channel

    @property
    def stream(self) -> str:
        """The exchange's name for this stream, as in traces; equal at both ends."""
        return self._peer_session.agreement.stream or self.name

    @property
    def parameters(self) -> ChannelParameters:
        """What both ends agreed on."""
        return self._peer_session.parameters

    @property
    def first_row(self) -> int | None:
        """Of a channel that keeps its rows.

        Of a source: the number of the first row that follows.  Of a sink with a producer's name: how many rows of this
        producer were kept before, so that the next one to send is the row of this number.
        """
        return self._peer_session.agreement.first_row

    @property
    def schema(self) -> pa.Schema:
        """The schema of all batches."""
        return self._codec.schema

    @cached_property  # from then on it answers without a call
    def _codec(self) -> BatchCodec:
        assert self._batches is not None, "nobody has this end before there is an agreement"
        return self._batches

    @property
    def open_seconds(self) -> float:
        """Since dialling, until the stream was over."""
        return (self._over_at or monotonic()) - self._opened_at

    def close(self) -> None:
        """Release this end, whatever state it is in; never waits for the peer.  Closing twice is harmless."""
        if self._over_at is None:
            self._over_at = monotonic()
        self._call.close()

    def __enter__(self) -> Self:
        """Close at the end of the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _write(self) -> None:
        raise NotImplementedError

    def _write_out(self, messages: Iterable[Sequence[Buffer]]) -> None:
        """Write these, after what an interrupt has kept from being written."""
        unwritten = self._unwritten
        unwritten.extend(map(Outgoing, messages))
        self._is_halfway = False
        while unwritten:
            if self._call.is_cut:
                self._is_halfway = True
                self._require_open()
            self._call.write(unwritten[0])
            unwritten.popleft()
        self._is_halfway = True

    def _half_close(self) -> None:
        if not self._is_half_closed:
            self._call.half_close()
            self._is_half_closed = True

    def _take_in(self, message: Received) -> None:
        raise NotImplementedError

    def _note_agreement(self, agreement: Agreement) -> None:
        self._batches = BatchCodec(read_schema(agreement.schema), self._peer_session.compression.codec)

    def open(self, cause: str, explain: Explain | None = None) -> None:
        """Wait for the agreement; whatever goes wrong, including an interrupt, leaves no call behind.

        Args:
            cause: what a missing answer most likely means.
            explain: says more, if the exchange can be asked.
        """
        try:
            self._write()
            while self._peer_session.state is State.AWAITING_AGREEMENT:
                self._await_reply(cause, explain)
            self._call.settle(self._peer_session.agreement.same_host)
            if self._call.path == SHARED_MEMORY:
                require_none_in_memory(self._peer_session.compression)
            log_answer(self._peer_session.compression, who=self._peer_session.peer)
            self._is_halfway = False
        except BaseException:
            self.close()
            raise

    def _require_open(self) -> None:
        if self._is_halfway:
            self.close()
            raise InterruptedEndError(end=self._peer_session.END, channel=self.name)
        if self._over_at is not None:
            raise ChannelClosedError(end=self._peer_session.END)

    def _absorb(self) -> None:
        """Take in what has come."""
        while not self._is_peer_closed and (reply := self._call.receive_nowait()) is not None:
            self._take_reply(reply)

    def _await_reply(self, cause: str, explain: Explain | None = None) -> None:
        """Take in one reply; what has come behind it is taken in by whoever comes next.

        Args:
            cause: what it most likely means if none comes; empty: nobody will want to know.
            explain: says more, if the exchange can be asked.

        Raises:
            PeerTimeoutError: none came in time.
            PermitflowError: the peer's typed error, or the peer is gone; this end is closed then.
        """
        if not self._takes_reply_within(self._timeout_seconds):
            self._is_halfway = False
            raise self._timed_out(cause, explain)

    def _takes_reply_within(self, seconds: float) -> bool:
        """As ``_await_reply``, for so many seconds; False: none came."""
        call, until = self._call, monotonic() + seconds
        reply: Received | Closed | None = None
        while reply is None:
            self._is_halfway = False
            may_have_come = call.wait(until - monotonic())
            self._is_halfway = True
            if not may_have_come:
                return False
            reply = call.receive_nowait()
        self._take_reply(reply)
        return True

    def _timed_out(self, cause: str, explain: Explain | None) -> PeerTimeoutError:
        is_alive, why = explained(self._address, self.name, explain, cause) if cause else (False, cause)
        waited, who = f"for {self._timeout_seconds:g} s", self._peer_session.peer
        if is_alive:
            return PeerTimeoutError.of_silence(who=who, reason=f"{waited}: {why}")
        return PeerTimeoutError(who=who, reason=f"nothing came {waited}; {why}")

    def _take_reply(self, reply: Received | Closed) -> None:
        try:
            if isinstance(reply, Closed):
                self._take_close(reply)
            else:
                self._take_in(reply)
                if self._peer_session.failure is not None:
                    self._heed_failure(self._peer_session.failure)
        except PermitflowError:
            self.close()
            raise

    def _heed_failure(self, failure: bytes) -> NoReturn:
        """The peer has broken the stream off: say at once that it was heard, so that it need not wait."""
        who = self._peer_session.peer
        self._call.half_close()
        raise heard(failure, who=who) or PeerGoneError(who=who, reason="it broke the stream off")

    def _take_close(self, closed: Closed) -> None:
        self._is_peer_closed = True
        if closed.error is not None:
            raise closed.error
        self._peer_session.peer_closed()
