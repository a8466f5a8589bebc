"""Distributions of the producer's chunk sizes, in rows."""

import math
from bisect import bisect
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from random import Random
from typing import Protocol

from permitflow.errors import InvalidParametersError

# Beyond so many standard deviations, a Poisson distribution holds less than a float can tell from 0.
_POISSON_REACH = 12


class ChunkSizes(Protocol):
    """A distribution of chunk sizes, in rows."""

    @property
    def mean(self) -> float:
        """Rows of a chunk on average."""

    @property
    def possible(self) -> Sequence[int] | None:
        """The possible sizes, ascending; None: every size from 1 on."""

    def draw(self, random: Random) -> int:
        """The size of the next chunk."""

    def __str__(self) -> str:
        """In words."""


class ConstantSize:
    """Every chunk has the same number of rows."""

    def __init__(self, rows: int) -> None:
        """Rows of every chunk.

        Raises:
            InvalidParametersError: fewer than 1.
        """
        _require(rows >= 1, "rows", rows, "must be at least 1")
        self.rows = rows
        self.mean = float(rows)
        self.possible: Sequence[int] | None = (rows,)

    def draw(self, random: Random) -> int:
        """Always the same."""
        return self.rows

    def __str__(self) -> str:
        return "1 row" if self.rows == 1 else f"{self.rows:,} rows"


class WeightedSizes:
    """Some sizes, each with a weight, observed or invented."""

    def __init__(self, rows: Sequence[int], weights: Sequence[float] | None = None) -> None:
        """Sizes in rows, and how often each occurs in relation to the others; by default equally often.

        Raises:
            InvalidParametersError: there is no size, a weight too many or too few, or an impossible one.
        """
        weights = [1.0] * len(rows) if weights is None else weights
        _require(len(rows) > 0, "rows", list(rows), "must name at least one size")
        _require(min(rows) >= 0, "rows", min(rows), "must not be negative")
        _require(len(weights) == len(rows), "weights", list(weights), f"must be {len(rows)}, one for each size")
        _require(all(0 < weight < math.inf for weight in weights), "weights", list(weights), "must all be above 0")
        together: dict[int, float] = {}
        for size, weight in zip(rows, weights, strict=True):
            together[size] = together.get(size, 0.0) + weight
        self._sizes = sorted(together)
        _require(self._sizes[-1] > 0, "rows", list(rows), "must name a size above 0: rows have to flow")
        self._cumulated = list(accumulate(together[size] for size in self._sizes))
        self.mean = sum(size * together[size] for size in self._sizes) / self._cumulated[-1]
        self.possible: Sequence[int] | None = tuple(self._sizes)

    def draw(self, random: Random) -> int:
        """One of the sizes."""
        return self._sizes[min(bisect(self._cumulated, random.random() * self._cumulated[-1]), len(self._sizes) - 1)]

    def __str__(self) -> str:
        if len(self._sizes) > 6:
            return f"{len(self._sizes):,} sizes from {self._sizes[0]:,} to {self._sizes[-1]:,} rows"
        return f"{', '.join(f'{size:,}' for size in self._sizes)} rows"


class UniformSizes:
    """Every size in a range, equally often."""

    def __init__(self, least: int, most: int) -> None:
        """Both ends belong to it.

        Raises:
            InvalidParametersError: the range is empty, negative or 0 only.
        """
        _require(least >= 0, "least", least, "must not be negative")
        _require(most >= max(least, 1), "most", most, f"must be at least {max(least, 1)}")
        self.mean = (least + most) / 2
        self.possible: Sequence[int] | None = range(least, most + 1)
        self._least, self._most = least, most

    def draw(self, random: Random) -> int:
        """One of the range."""
        return random.randint(self._least, self._most)

    def __str__(self) -> str:
        return f"{self._least:,} to {self._most:,} rows, equally often"


class GeometricSizes:
    """Many small chunks, few large ones: each row is the last one with the same probability."""

    possible: Sequence[int] | None = None

    def __init__(self, mean: float) -> None:
        """Rows on average.

        Raises:
            InvalidParametersError: at most 1.
        """
        _require(1 < mean < math.inf, "mean", mean, "must be above 1")
        self.mean = mean
        self._log_of_not_last = math.log1p(-1 / mean)

    def draw(self, random: Random) -> int:
        """At least one row."""
        return 1 + int(math.log1p(-random.random()) / self._log_of_not_last)

    def __str__(self) -> str:
        return f"{self.mean:,g} rows on average, geometrically distributed"


class PoissonSizes:
    """The number of random arrivals in an interval: sizes near the mean; 0 is an empty chunk."""

    possible: Sequence[int] | None = None

    def __init__(self, mean: float) -> None:
        """Rows on average.

        Raises:
            InvalidParametersError: not above 0, or above a million.
        """
        _require(0 < mean <= 1_000_000, "mean", mean, "must be above 0 and at most 1,000,000")
        self.mean = mean

    @cached_property
    def _table(self) -> tuple[int, list[float]]:
        reach = _POISSON_REACH * math.sqrt(self.mean) + _POISSON_REACH
        least = max(0, int(self.mean - reach))
        sizes = range(least, int(self.mean + reach) + 1)
        log_mean = math.log(self.mean)
        return least, list(accumulate(math.exp(n * log_mean - self.mean - math.lgamma(n + 1)) for n in sizes))

    def draw(self, random: Random) -> int:
        """By its place in the table of cumulated probabilities."""
        least, cumulated = self._table
        return least + min(bisect(cumulated, random.random() * cumulated[-1]), len(cumulated) - 1)

    def __str__(self) -> str:
        return f"{self.mean:,g} rows on average, Poisson distributed"


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise InvalidParametersError(name=name, value=value, rule=rule)
