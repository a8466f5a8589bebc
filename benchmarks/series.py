"""Several measurements of one thing, and how they are told: the median, and from where to where."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Series", "compact"]


@dataclass(frozen=True)
class Series:
    """One value for each round, in the order of the rounds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Series":
        """From any values."""
        return cls(tuple(values))

    @property
    def median(self) -> float:
        """In the middle."""
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The least."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The most."""
        return max(self.values)

    def ratio_to(self, other: "Series") -> "Series":
        """Round by round, so that what disturbed both is in both."""
        return Series(tuple(mine / theirs for mine, theirs in zip(self.values, other.values, strict=True)))

    def told(self, scale: float = 1.0) -> str:
        """Median and range, as in ``12.3k (11k to 13k)``."""
        low, high = compact(self.low * scale), compact(self.high * scale)
        return f"{compact(self.median * scale)} ({low} to {high})"


def compact(value: float) -> str:
    """Three digits at most, and k or M."""
    for limit, divisor, unit in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= limit:
            return f"{_three_digits(value / divisor)}{unit}"
    return _three_digits(value)


def _three_digits(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
