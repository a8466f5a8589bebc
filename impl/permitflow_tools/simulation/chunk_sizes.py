"""Distributions of the producer's chunk sizes, in rows."""

import math
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate, repeat
from random import Random

from permitflow.errors import InvalidParametersError, counted

MOST_ROWS = 10**15
"""Far beyond any memory, and sums of some of them still fit into the integers of the wire and of the store."""

# More sizes than these are not listed.
_MOST_LISTED = 6


class ChunkSizes:
    """A distribution of chunk sizes, in rows; as a text, in words."""

    mean: float
    """Rows of a chunk on average."""
    possible: Sequence[int]
    """The possible sizes, ascending."""

    def draw(self, random: Random) -> int:
        """The size of the next chunk."""
        raise NotImplementedError


class WeightedSizes(ChunkSizes):
    """One size or several, each with a weight, observed or invented."""

    def __init__(self, rows: Sequence[int], weights: Sequence[float] | None = None) -> None:
        """Sizes in rows, and how often each occurs in relation to the others; by default equally often.

        Raises:
            InvalidParametersError: there is no size, a weight too many or too few, or an impossible one.
        """
        _require(len(rows) > 0, "rows", list(rows), "must name at least one size")
        _require(min(rows) >= 0, "rows", min(rows), "must not be negative")
        _require(max(rows) <= MOST_ROWS, "rows", max(rows), f"must be at most {MOST_ROWS:,}")
        _require(max(rows) > 0, "rows", list(rows), "must name a size above 0: rows have to flow")
        if weights is not None:
            _require(
                len(weights) == len(rows),
                "weights",
                list(weights),
                f"must have {counted(len(rows), 'value')}, one for each size",
            )
            _require(all(0 < weight < math.inf for weight in weights), "weights", list(weights), "must all be above 0")
        together: dict[int, float] = defaultdict(float)
        for size, weight in zip(rows, weights or repeat(1.0, len(rows)), strict=True):
            together[size] += weight
        self._sizes = sorted(together)
        self._cumulated = list(accumulate(together[size] for size in self._sizes))
        self.mean = sum(size * together[size] for size in self._sizes) / self._cumulated[-1]
        self.possible = tuple(self._sizes)

    def draw(self, random: Random) -> int:
        """One of the sizes."""
        return self._sizes[_place(self._cumulated, random)]

    def __str__(self) -> str:
        if len(self._sizes) > _MOST_LISTED:
            return f"{len(self._sizes):,} sizes from {self._sizes[0]:,} to {self._sizes[-1]:,} rows"
        return "1 row" if self._sizes == [1] else f"{', '.join(f'{size:,}' for size in self._sizes)} rows"


class UniformSizes(ChunkSizes):
    """Every size in a range, equally often."""

    def __init__(self, least: int, most: int) -> None:
        """Both ends belong to it.

        Raises:
            InvalidParametersError: the range is empty, negative or 0 only.
        """
        _require(least >= 0, "least", least, "must not be negative")
        _require(most >= max(least, 1), "most", most, f"must be at least {max(least, 1)}")
        _require(most <= MOST_ROWS, "most", most, f"must be at most {MOST_ROWS:,}")
        self.mean = (least + most) / 2
        self.possible = self._range = range(least, most + 1)

    def draw(self, random: Random) -> int:
        """One of the range."""
        return random.choice(self._range)

    def __str__(self) -> str:
        return f"{self._range[0]:,} to {self._range[-1]:,} rows, equally often"


def _place(cumulated: Sequence[float], random: Random) -> int:
    return min(bisect(cumulated, random.random() * cumulated[-1]), len(cumulated) - 1)


def _require(holds: bool, name: str, value: object, rule: str) -> None:
    if not holds:
        raise InvalidParametersError(name=name, value=value, rule=rule)
