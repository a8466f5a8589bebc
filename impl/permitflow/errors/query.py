"""A streaming query cannot go on."""

from permitflow.errors.base import PermitflowError

__all__ = ["CheckpointError", "RowsLostError"]


class CheckpointError(PermitflowError):
    """The query's checkpoint cannot be used with this source and these options."""

    reason: str
    hint: str

    def __init__(self, *, reason: str, hint: str) -> None:
        """The hint is something to do."""
        super().__init__(f"the query's checkpoint {reason}: {hint}", reason=reason, hint=hint)


class RowsLostError(PermitflowError):
    """Rows that the query needs are gone from the exchange: it must not go on as if they had never been there."""

    channel: str
    consumer: str
    wanted_row: int

    def __init__(self, *, channel: str, consumer: str, wanted_row: int, reason: str) -> None:
        """``wanted_row`` is the first row that is needed; the reason says what became of it."""
        super().__init__(
            f"channel {channel!r} has not all rows any more that this query needs: from row {wanted_row} on, as "
            f"consumer {consumer!r}; {reason}. Nothing was skipped: the query stops here. To go on without these rows, "
            "start it with a new checkpoint (and into a new table, or remove what is there twice)",
            channel=channel,
            consumer=consumer,
            wanted_row=wanted_row,
            reason=reason,
        )
