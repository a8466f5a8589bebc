"""How fast an audit on Spark was, beside the same clauses in SQL."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["LEAST_AUDIT", "PART", "AuditSpeed"]

PART = "audit"
"""Under this name it stands among all results."""

LEAST_AUDIT = 8.0
"""As a multiple of the speed of window functions."""


@dataclass(frozen=True)
class AuditSpeed(Record):
    """One recording, audited and queried in turns."""

    events: int
    channels: int
    violations: int
    """That are there, and were found, and no other."""
    seen_by_sql: int
    """Ends of channels at which SQL found a violation, and where their first one is."""
    seconds: Series
    sql_seconds: Series

    @property
    def ratio(self) -> Series:
        """How many times as fast as SQL."""
        return self.sql_seconds.ratio_to(self.seconds)

    @property
    def promise(self) -> str:
        """For a table."""
        return f"Spark audit of {self.events / 1e6:.0f} million events ÷ window functions"

    def rows(self) -> Iterator[list[str]]:
        """For a table: who, seconds, million events a second."""
        for who, seconds in (("permitflow.spark.audit", self.seconds), ("window functions in SQL", self.sql_seconds)):
            rate = Series.of(self.events / value / 1e6 for value in seconds.values)
            yield [f"{who}, {self.events / 1e6:.0f} million events", seconds.told(), rate.told()]
