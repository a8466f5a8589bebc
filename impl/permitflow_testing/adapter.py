"""The adapter that a third party writes for its channel, and the features that a channel may lack."""

from collections.abc import Set
from enum import StrEnum
from inspect import iscoroutinefunction
from typing import Any, ClassVar, NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.flows.messages import Kind
from permitflow.flows.recording import RecorderFactory


class Feature(StrEnum):
    """A feature that a channel may lack."""

    WEIGHTS = "weights"
    """A chunk costs its rows; without them, every chunk costs 1."""
    OVERSIZE = "oversize"
    """A chunk above ``max_chunk_cost`` is admitted whole, for that cost."""
    BATCHING = "batching"
    """Permits come back in batches; without them, each at once."""
    IDLE_FLUSH = "idle-flush"
    """An idle receiver returns a residue below the batch."""
    ACKNOWLEDGEMENT = "acknowledgement"
    """The application reports when it has consumed a message; without it, taking a message consumes it."""
    CANCELLATION = "cancellation"
    """A waiting send or receive may be cancelled."""
    BARRIERS = "barriers"
    WATERMARKS = "watermarks"

    REFUSALS = "refusals"
    """A chunk can be sent at once or refused, without waiting."""
    END = "end"
    """The sender can end the stream in band."""
    ABORT = "abort"
    """The sender can abort the stream."""
    STOP = "stop"
    """The receiver can end the stream: it needs no more."""
    RECORDING = "recording"
    """The channel reports its actions to a recorder."""


class Refused(Exception):
    """The channel refuses the operation now, and has changed nothing."""


class Ended(Exception):
    """The sender has ended the stream, and all messages were taken."""


class Aborted(Exception):
    """The sender has aborted the stream."""


class ReceivedMessage(NamedTuple):
    """A message as the receiving application gets it."""

    kind: Kind
    value: int | None = 0
    """A chunk's serial number, or a watermark's value; None if the payload is too small to carry it."""
    rows: int = 0
    """Rows of a chunk."""


class ChannelAdapter:
    """One channel with an application at each end; the kit makes a new one for every run.

    Methods are named after the actions of the permit channel, and mean the same in every protocol.  ``open``,
    ``offer_chunk`` and ``take`` are required; a missing method means that the channel lacks the feature.  ``lacks``
    lists other missing features.  The kit calls all methods in one event loop.
    """

    lacks: ClassVar[frozenset[Feature]] = frozenset()
    """Features that the channel lacks, beyond those of missing methods."""
    hops: ClassVar[int] = 1
    """Control loops in a chain that a message passes; each has a window of its own."""
    timeout_seconds: ClassVar[float] = 0.2
    """Seconds without progress after which a channel counts as stuck; only failing runs wait that long."""
    call_seconds: ClassVar[float | None] = None
    """The longest ``open``, ``settled`` and ``close`` of an adapter that bounds its own waits; None: as usual."""
    quiet_seconds: ClassVar[float] = 0.0
    """Seconds to watch that a channel does nothing that it must not do.

    0 for a channel that needs only the event loop: some turns of the loop decide, without a clock.  A channel
    with threads, timers or a network needs time, in both directions; or it has a method ``settled``, which is better:
    then no verdict depends on a clock.
    """

    async def open(self, parameters: Any, record: RecorderFactory) -> None:
        """Open a channel with these parameters of the flow: with permits, they are ``ChannelParameters``.

        A channel that can record uses ``record``.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Release everything; the applications' tasks are already cancelled."""

    async def settled(self) -> None:
        """Return once everything that came was handled: nothing is on a wire, in a thread or due to a timer.

        Optional; with it, the kit needs no ``quiet_seconds``.  A call that waits for the other application, such as a
        send without permits, is settled.
        """
        raise NotImplementedError

    # At the sender.

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Send a chunk that carries its serial number; return when it has left.

        Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk.
        """
        raise NotImplementedError

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Send a chunk without waiting.

        Raises:
            Refused: there are too few permits, or other messages wait.
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
        """End the stream in band."""
        raise NotImplementedError

    def abort(self) -> None:
        """Abort the stream."""
        raise NotImplementedError

    # At the receiver.

    async def take(self) -> ReceivedMessage:
        """Take the oldest message that was not taken yet; wait until there is one.

        Without a method ``consume``, this is Consume; with one, the message keeps its permits until ``consume``.

        Raises:
            Ended: the sender has ended the stream.
            Aborted: the sender has aborted it.
        """
        raise NotImplementedError

    def consume(self) -> None:
        """Report the oldest taken message as consumed.

        Spec: Consume.
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """End the stream from this end: nothing more is taken, and sends that wait raise any exception."""
        raise NotImplementedError


_METHODS = {
    Feature.REFUSALS: "send_chunk_now",
    Feature.BARRIERS: "offer_barrier",
    Feature.WATERMARKS: "offer_watermark",
    Feature.END: "end",
    Feature.ABORT: "abort",
    Feature.STOP: "stop",
    Feature.ACKNOWLEDGEMENT: "consume",
}


def lacks_of(adapter: ChannelAdapter) -> frozenset[Feature]:
    """The features that it declares missing, and those for which it has no method."""
    left_out = {
        feature
        for feature, method in _METHODS.items()
        if getattr(type(adapter), method) is getattr(ChannelAdapter, method)
    }
    return adapter.lacks | left_out


_AWAITED = frozenset({"open", "close", "settled", "offer_chunk", "offer_barrier", "end", "take", "stop"})
_CALLED = frozenset({"send_chunk_now", "offer_watermark", "abort", "consume"})


def require_methods(adapter: ChannelAdapter) -> None:
    """Require the three methods that every run needs, that each is of the kind that the kit calls, and fit numbers.

    Raises:
        InvalidParametersError: one is missing, or is ``async`` where it must not be, or the other way round; a number
            is out of its range, or ``lacks`` has something else than features.
    """
    name = type(adapter).__name__
    for number, least, is_allowed in (("hops", 1, True), ("timeout_seconds", 0, False), ("quiet_seconds", 0, True)):
        value = getattr(adapter, number)
        if not isinstance(value, int | float) or not (value > least or (is_allowed and value == least)):
            rule = f"must have {number} {'of at least' if is_allowed else 'above'} {least} instead of {value!r}"
            raise InvalidParametersError(name="adapter", value=name, rule=rule)
    # The word of a feature is equal to it, and is none.
    if not isinstance(adapter.lacks, Set) or not all(isinstance(feature, Feature) for feature in adapter.lacks):
        features = ", ".join(map("Feature.{0.name}".format, Feature))
        rule = f"must have a set of features as lacks, of {features}, instead of {adapter.lacks!r}"
        raise InvalidParametersError(name="adapter", value=name, rule=rule)
    for method in ("open", "offer_chunk", "take"):
        if getattr(type(adapter), method) is getattr(ChannelAdapter, method):
            raise InvalidParametersError(name="adapter", value=name, rule=f"must have a method {method}")
    for method in sorted(_AWAITED | _CALLED):
        is_async = iscoroutinefunction(getattr(adapter, method))
        if is_async and method in _CALLED:
            rule = f"must have {method} as a plain method, because nobody awaits it: def {method}, not async def"
            raise InvalidParametersError(name="adapter", value=name, rule=rule)
        if not is_async and method in _AWAITED:
            rule = f"must have {method} as a coroutine, because it is awaited: async def {method}"
            raise InvalidParametersError(name="adapter", value=name, rule=rule)
