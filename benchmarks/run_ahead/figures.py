"""What Spark hides, as a record."""

from dataclasses import dataclass

from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["HEAD", "PART", "RunAhead"]

PART = "run_ahead"
"""Under this name it stands among all results."""
HEAD = (
    "settings, stalled consumer, rows of a chunk",
    "hidden rows",
    "KiB",
    "metered at most, rows",
    "rows/s without a stall",
)
ROW_BYTES = 24
CONSUMERS = {"jvm": "in the JVM", "writer": "a writer"}


@dataclass(frozen=True)
class RunAhead(Record):
    """One stalled consumer behind one reader."""

    settings: str
    consumer: str
    """One of ``CONSUMERS``."""
    chunk_rows: int
    hidden_rows: int
    """Their permits are back, and the consumer has not processed them."""
    metered: int | None
    """What the reader's own meter says at most; None: it cannot know."""
    free_rows_per_second: Series
    """While nobody stalls; one value for each job."""

    def row(self) -> list[str]:
        """For a table."""
        return [
            f"{self.settings}, {CONSUMERS[self.consumer]}, {self.chunk_rows:,}",
            f"{self.hidden_rows:,}",
            f"{self.hidden_rows * ROW_BYTES / 1024:,.0f}",
            "unknown" if self.metered is None else f"{self.metered:,}",
            self.free_rows_per_second.told(),
        ]
