"""Nobody's fault: a channel or its carrier is over, or not ready."""

from typing import Self

from permitflow.errors.base import PermitflowError, restored

__all__ = [
    "ChannelAbortedError",
    "ChannelClosedError",
    "ChannelError",
    "EndOfStream",
    "InterruptedEndError",
    "PeerGoneError",
    "PeerTimeoutError",
    "TransportError",
    "WouldBlock",
]


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

    undelivered: object = None

    def __init__(self, *, end: str, undelivered: object = None) -> None:
        """``end``: which end was closed, "sender" or "receiver"."""
        super().__init__(f"the {end} is closed", end=end, undelivered=undelivered)


class InterruptedEndError(ChannelError):
    """A signal's exception, as of Ctrl-C, has cut a change of this end's books in two: it cannot go on."""

    end: str
    channel: str

    def __init__(self, *, end: str, channel: str) -> None:
        """``end``: which end was interrupted, "sender" or "receiver"."""
        what = f"the {end} of channel {channel!r} was interrupted in the middle of a change, as by Ctrl-C"
        super().__init__(
            f"{what}: what it has counted can be wrong, so it was closed; open the channel again",
            end=end,
            channel=channel,
        )


class PeerGoneError(ChannelError):
    """The other end was closed or lost; ``undelivered`` hands a message that was waiting back."""

    who: str
    reason: str
    undelivered: object = None

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

    @classmethod
    def of_silence(cls, *, who: str, reason: str) -> "PeerTimeoutError":
        """The other end answers, and had nothing to say in this stream: the reason says for how long, and why."""
        error = restored(cls, f"{who} has sent nothing {reason}", {"who": who, "reason": reason, "undelivered": None})
        assert isinstance(error, PeerTimeoutError), "it was made of this class"
        return error


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
