"""How far a stream has come, and what both of its ends do alike: the handshake, and refusing what the state forbids."""

from abc import ABC, abstractmethod
from enum import StrEnum
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

from permitflow.errors import LocalProtocolError, PeerGoneError, UnexpectedFrameError
from permitflow.protocol import handshake
from permitflow.protocol.compression import UNCOMPRESSED, CompressionAnswer, require_offered
from permitflow.protocol.frames import Agreement, Failure, Frame, Get, Put, SameHostAnswer, frame_name
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Recorder, RecorderFactory

__all__ = ["FrameType", "Session", "State"]

T = TypeVar("T")
FrameType: TypeAlias = type[object]


class State(StrEnum):
    """How far a session has come."""

    AWAITING_GET = "awaiting Get"
    """An upstream was dialled."""
    AWAITING_PUT = "awaiting Put"
    """A downstream was dialled."""
    DECIDING = "deciding"
    """The dialer's wishes are here; the application has yet to accept."""
    AWAITING_AGREEMENT = "awaiting Agreement"
    """This end dialled."""
    OPEN = "open"
    """Data go down, permits come back."""
    ENDED = "ended"
    """End or Abort has passed; an upstream still takes permits, a downstream still consumes."""
    CLOSED = "closed"
    """All is over, and the books agree."""
    FAILED = "failed"
    """The rules were broken or the peer is gone."""


class Session(ABC, Generic[T]):
    """What both ends share: the state, the handshake and the peer's name."""

    END: Literal["sender", "receiver"]
    TABLE: dict[tuple[State, FrameType], State]

    def __init__(self, state: State, request: Get | Put | None, peer: str, record: RecorderFactory | None) -> None:
        """Begin in this state; ``request`` is the dialer's first frame, if it is this end that dials."""
        self.state = state
        self.is_acceptor = request is None
        """Has the peer dialled?"""
        self.peer = peer
        """Who is at the other end, in words for an error."""
        self.failure: bytes | None = None
        """The error with which the peer has broken the stream off."""
        self._request = request
        self._agreement: Agreement | None = None
        self._parameters: ChannelParameters | None = None
        self._factory = record
        self.compression = UNCOMPRESSED
        """Whether chunks may come compressed."""

    # What is known once stays as it is, and is asked for with every chunk: these answer without a call from then on.

    @cached_property
    def request(self) -> Get | Put:
        """The dialer's first frame."""
        if self._request is None:
            raise LocalProtocolError(f"nobody has dialled yet: {self.state}")
        return self._request

    @cached_property
    def channel(self) -> str:
        """The channel's name."""
        return self.request.channel

    @cached_property
    def agreement(self) -> Agreement:
        """What both ends agreed on."""
        if self._agreement is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._agreement

    @cached_property
    def parameters(self) -> ChannelParameters:
        """The numbers by which both ends count."""
        if self._parameters is None:
            raise LocalProtocolError(f"there is no agreement yet: {self.state}")
        return self._parameters

    def accept(
        self,
        own: ChannelParameters,
        *,
        schema: bytes,
        stream: str = "",
        same_host: SameHostAnswer | None = None,
        first_row: int | None = None,
        compression: CompressionAnswer = UNCOMPRESSED,
    ) -> Agreement:
        """Agree with the peer that dialled; the agreement is the next frame to write.

        Raises:
            HandshakeError: version or parameters cannot be reconciled.
            InvalidParametersError: the dialer's wishes cannot work at all.
        """
        self._require(State.DECIDING, "accept")
        agreement = handshake.accept(
            self.request,
            own=own,
            schema=schema,
            stream=stream,
            same_host=same_host,
            first_row=first_row,
            compression=compression,
        )
        self.compression = compression
        self._agree(agreement, agreement.parameters.checked())
        self.state = State.OPEN
        self._answer(agreement)
        return agreement

    @abstractmethod
    def _answer(self, agreement: Agreement) -> None:
        """Let the agreement be the next frame to write."""

    def _agree(self, agreement: Agreement, parameters: ChannelParameters) -> None:
        self._agreement, self._parameters = agreement, parameters

    def _recorder(self) -> Recorder | None:
        if self._factory is None:
            return None
        return self._factory(self.agreement.stream or self.channel, self.END, self.parameters)

    def receive(self, frame: Frame[T]) -> None:
        """Take a frame of the peer.

        Raises:
            UnexpectedFrameError: this state does not allow it.
            HandshakeError: the agreement is not acceptable.
            PermitOverrunError: the peer returned more permits than it holds.
            OverspendError: the peer had no permits for what it sent.
            LedgerError: the totals of End are not those of what came.
        """
        following = self.TABLE.get((self.state, type(frame)))
        if following is None or (isinstance(frame, Failure) and self.is_acceptor):
            expected = [
                frame_name(kind)
                for state, kind in self.TABLE
                if state is self.state and not (kind is Failure and self.is_acceptor)
            ]
            self.state = State.FAILED
            raise UnexpectedFrameError(frame=frame_name(frame), expected=" or ".join(expected) or "nothing")
        try:
            self._take_in(frame)
        except Exception:
            self.state = State.FAILED
            raise
        self.state = following

    def _take_in(self, frame: Frame[T]) -> None:
        match frame:
            case Get() | Put():
                self._request = frame
            case Agreement():
                self.compression = require_offered(frame.compression, self.request.compression)
                self._agree(frame, handshake.verify(frame, wanted=self.request.wanted))
            case Failure():
                self.failure = frame.error

    def _require(self, state: State, deed: str) -> None:
        if self.state is not state:
            raise LocalProtocolError(f"cannot {deed}: the stream is {self.state}, not {state}")

    def _gone(self) -> PeerGoneError:
        reason = f"its stream broke off before the end (it was {self.state})"
        self.state = State.FAILED
        return PeerGoneError(who=self.peer, reason=reason)
