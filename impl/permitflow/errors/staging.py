"""Rows that were to be staged and published together cannot be."""

from permitflow.errors.base import PermitflowError

__all__ = ["StagedPartError", "StagingError", "StagingFullError"]


class StagingError(PermitflowError):
    """A batch cannot be staged or published; what was published before is whole."""


class StagingFullError(StagingError):
    """A batch does not fit into what a channel has for rows that are not published yet."""

    channel: str
    query: str
    batch: int
    rows: int
    limit_rows: int

    def __init__(self, *, channel: str, query: str, batch: int, rows: int, limit_rows: int) -> None:
        """``rows`` are those of the batch that the channel would have to hold at once, so far."""
        super().__init__(
            f"batch {batch} of query {query!r} has at least {rows} rows for channel {channel!r}, which stages at most "
            f"{limit_rows}: make the batches smaller, or staging_rows of the exchange larger",
            channel=channel,
            query=query,
            batch=batch,
            rows=rows,
            limit_rows=limit_rows,
        )


class StagedPartError(StagingError):
    """One attempt at a part of a batch is not there, or not as it should be."""

    channel: str
    query: str
    batch: int
    partition: int
    attempt: str
    reason: str

    def __init__(self, *, channel: str, query: str, batch: int, partition: int, attempt: str, reason: str) -> None:
        """``reason`` says what is wrong with it."""
        super().__init__(
            f"attempt {attempt!r} at partition {partition} of batch {batch} of query {query!r} for channel "
            f"{channel!r} {reason}",
            channel=channel,
            query=query,
            batch=batch,
            partition=partition,
            attempt=attempt,
            reason=reason,
        )
