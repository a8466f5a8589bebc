"""What a channel may lack.  A rule that needs what is lacking is not checked, and the report says so."""

from enum import StrEnum

__all__ = ["Feature"]


class Feature(StrEnum):
    """What not every channel has."""

    WEIGHTS = "weights"
    """A chunk costs its rows; without them, every chunk costs 1."""

    OVERSIZE = "oversize"
    """A chunk above the clamp is admitted whole, for the clamped cost."""

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
