"""How well a sweep on Spark uses the cores that it has."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["LEAST_SWEEP", "PART", "SweepSpeed"]

PART = "sweep"
"""Under this name it stands among all results."""

LEAST_SWEEP = 0.9
"""Of what as many processes do that share nothing."""


@dataclass(frozen=True)
class SweepSpeed(Record):
    """One grid, explored on Spark and by plain processes, in turns."""

    channels: int
    states: int
    """Of all channels together."""
    slots: int
    """Of Spark, and as many processes beside it."""
    seconds: Series
    ideal_seconds: Series
    """Of the processes."""
    busy_seconds: Series
    """Of all channels of the sweep together, as each was timed where it was explored."""

    @property
    def of_ideal(self) -> Series:
        """Speed, as a share of what the processes do."""
        return self.ideal_seconds.ratio_to(self.seconds)

    @property
    def slots_busy(self) -> Series:
        """Of the time of all slots, the share in which channels were explored."""
        return Series.of(
            busy / (self.slots * wall) for busy, wall in zip(self.busy_seconds.values, self.seconds.values, strict=True)
        )

    @property
    def promise(self) -> str:
        """For a table."""
        return f"Spark sweep of {self.channels} channels ÷ {self.slots} processes that share nothing"

    def rows(self) -> Iterator[list[str]]:
        """For a table: who, seconds, thousand states a second."""
        ours = f"permitflow.spark.sweep, {self.channels} channels"
        for who, seconds in ((ours, self.seconds), (f"{self.slots} plain processes", self.ideal_seconds)):
            yield [who, seconds.told(), Series.of(self.states / value / 1e3 for value in seconds.values).told()]
