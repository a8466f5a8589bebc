"""How fast models are checked, recorded runs judged and theorems proved."""

from dataclasses import dataclass

from benchmarks.records import Record

__all__ = ["PART", "CheckingSpeed"]

PART = "checking"
"""Under this name it stands among all results."""


@dataclass(frozen=True)
class CheckingSpeed(Record):
    """Of one task, the best of its rounds."""

    what: str
    unit: str
    """What is counted: states, events, theorems."""
    count: int
    cpu_seconds: float
    """Of all processes."""

    @property
    def rate(self) -> float:
        """Units for each CPU second."""
        return self.count / self.cpu_seconds

    def row(self) -> list[str]:
        """For a table: what, how many, CPU seconds, and how many a second."""
        rate = f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.1f}"
        return [self.what, f"{self.count:,} {self.unit}", f"{self.cpu_seconds:.2f}", rate]
