"""What a third party writes: a channel, as the applications at its two ends see it, and what the channel may lack."""

from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.protocol.messages import Kind
from permitflow.protocol.recording import RecorderFactory

__all__ = ["Aborted", "ChannelAdapter", "Ended", "Feature", "Received", "Refused", "lacks_of", "require_methods"]


class Feature(StrEnum):
    """What not every channel has."""

    WEIGHTS = "weights"
    """A chunk costs its rows; without them, every chunk costs 1."""

    OVERSIZE = "oversize"
    """A chunk above ``max_chunk_cost`` is admitted whole, for that cost."""

    BATCHING = "batching"
    """Permits come back in batches; without them, each at once."""

    IDLE_FLUSH = "idle-flush"
    """An idle receiver returns a residue below the batch."""

    ACKNOWLEDGEMENT = "acknowledgement"
    """The application says when it is done with a message; without it, a message is consumed when it is taken."""

    CANCELLATION = "cancellation"
    """A send or a receive that waits may be cancelled."""

    BARRIERS = "barriers"
    WATERMARKS = "watermarks"

    REFUSALS = "refusals"
    """A chunk can be sent at once or refused, without waiting."""

    END = "end"
    """The sender says in band that nothing follows."""

    ABORT = "abort"
    """The sender gives the stream up."""

    RECORDING = "recording"
    """It tells a recorder what it does, action by action."""


class Refused(Exception):
    """The channel does not do that now, and has changed nothing."""


class Ended(Exception):
    """The sender has ended the stream, and all of it was taken."""


class Aborted(Exception):
    """The sender gave the stream up."""


class Received(NamedTuple):
    """A message as the receiving application gets it."""

    kind: Kind
    value: int | None = 0
    """A chunk's serial number, or a watermark's value; None where the payload is too small to tell."""

    rows: int = 0
    """Rows of a chunk."""


class ChannelAdapter:
    """One channel with an application at each end; the kit makes a new one for every run.

    Methods are named after the actions of the permit channel, and mean the same in every protocol.  ``open``,
    ``offer_chunk`` and ``take`` must be there; a method that is left out is a feature that the channel lacks.  What
    else it lacks stands in ``lacks``.  All is called in one event loop.
    """

    lacks: ClassVar[frozenset[Feature]] = frozenset()
    """What the channel does not claim to have, beyond methods that are left out."""

    hops: ClassVar[int] = 1
    """Control loops in a chain that a message passes; each has a window of its own."""

    timeout_seconds: ClassVar[float] = 0.2
    """After how long a channel that has not moved never will; only failing runs wait that long."""

    quiet_seconds: ClassVar[float] = 0.0
    """How long to watch that a channel does not do what it must not.

    0 for a channel that needs nothing but the event loop: some turns of the loop decide, and no clock.  A channel
    with threads, timers or a network needs time, in both directions.
    """

    async def open(self, parameters: Any, record: RecorderFactory) -> None:
        """Open a channel with these parameters of the flow: with permits, they are ``ChannelParameters``.

        One that can record does so with ``record``.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Release everything; tasks of the applications have been cancelled before."""

    # At the sender.

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Send a chunk that can be recognised by its serial number; return when it has left.

        Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk.
        """
        raise NotImplementedError

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Send a chunk without waiting.

        Raises:
            Refused: its permits are not here, or others wait.
        """
        raise NotImplementedError

    async def offer_barrier(self) -> None:
        """Send a barrier; return when it has left.

        Spec: OfferBarrier, SendBarrier; cancelled, WithdrawBarrier.
        """
        raise NotImplementedError

    def offer_watermark(self, value: int) -> None:
        """Announce a watermark; does not wait.

        Spec: OfferWatermark.
        """
        raise NotImplementedError

    async def end(self) -> None:
        """Say that nothing follows."""
        raise NotImplementedError

    def abort(self) -> None:
        """Give the stream up."""
        raise NotImplementedError

    # At the receiver.

    async def take(self) -> Received:
        """Take the oldest message that was not taken yet; wait until there is one.

        Where there is no ``consume``, this is Consume; where there is one, the message keeps its permits until then.

        Raises:
            Ended: the sender has ended the stream.
            Aborted: the sender gave it up.
        """
        raise NotImplementedError

    def consume(self) -> None:
        """The application is done with the oldest message that it took.

        Spec: Consume.
        """
        raise NotImplementedError


_METHODS = {
    Feature.REFUSALS: "send_chunk_now",
    Feature.BARRIERS: "offer_barrier",
    Feature.WATERMARKS: "offer_watermark",
    Feature.END: "end",
    Feature.ABORT: "abort",
    Feature.ACKNOWLEDGEMENT: "consume",
}


def lacks_of(adapter: ChannelAdapter) -> frozenset[Feature]:
    """What it says that it lacks, and what it has no method for."""
    left_out = {
        feature
        for feature, method in _METHODS.items()
        if getattr(type(adapter), method) is getattr(ChannelAdapter, method)
    }
    return adapter.lacks | left_out


def require_methods(adapter: ChannelAdapter) -> None:
    """Insist on the three methods without which nothing can be asked.

    Raises:
        InvalidParametersError: one is missing.
    """
    for method in ("open", "offer_chunk", "take"):
        if getattr(type(adapter), method) is getattr(ChannelAdapter, method):
            rule = f"must have a method {method}"
            raise InvalidParametersError(name="adapter", value=type(adapter).__name__, rule=rule)
