"""A hook for whoever wants to see the specification's actions as they happen.  Without one it costs nothing."""

from typing import Literal, Protocol, TypeAlias

from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters

__all__ = [
    "COUNTERS",
    "RECEIVER_ACTIONS",
    "SENDER_ACTIONS",
    "Counters",
    "End",
    "Recorder",
    "RecorderFactory",
]

End = Literal["sender", "receiver"]

Counters: TypeAlias = tuple[int, int, int]
"""An end's own count of what it has, after the action; ``COUNTERS`` says of what."""

COUNTERS: dict[End, tuple[str, str, str]] = {
    "sender": ("row_permits", "barrier_permits", "watermark_permits"),
    "receiver": ("inbox_messages", "inbox_rows", "unreturned_permits"),
}
"""The sender counts its unspent permits; the receiver what has arrived and was not consumed, and the row permits of
consumed chunks that it has not returned yet."""

SENDER_ACTIONS = frozenset(
    {
        "OfferChunk",
        "OfferBarrier",
        "OfferWatermark",
        "WithdrawChunk",
        "WithdrawBarrier",
        "SendChunk",
        "SendBarrier",
        "SendWatermark",
        "AddPermits",
    }
)
"""Actions that happen at the sender."""

RECEIVER_ACTIONS = frozenset({"Deliver", "Consume", "Flush"})
"""Actions that happen at the receiver."""


class Recorder(Protocol):
    """Takes note of one action at one end of a channel, at the moment at which the state changes."""

    def __call__(self, action: str, rows: int, permits: Permits, counters: Counters | None = None) -> None:
        """``action`` is spelt as in the specification; ``rows`` are the chunk's, or 0.

        ``permits`` are those that the message holds or, for Flush and AddPermits, those that are returned.
        ``counters`` are the end's own, after the action; None if it keeps none.
        A recorder never raises: it is called in the middle of a change of state.
        """
        ...


class RecorderFactory(Protocol):
    """Opens the recorder of one end of a channel, once the two ends have agreed on the parameters."""

    def __call__(self, channel: str, end: End, parameters: ChannelParameters) -> Recorder:
        """``channel`` names one stream: both of its ends give the same name, and no other stream does."""
        ...
