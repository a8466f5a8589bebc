"""The same channel with other numbers: one run for each combination of values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from permitflow.simulation.chunk_sizes import ConstantSize
from permitflow.simulation.setting import Setting

__all__ = ["AXES", "Axis", "Point", "points"]


def _rtt(setting: Setting, seconds: float) -> Setting:
    """There and back in the same proportion as before; half and half if there was no delay."""
    share = setting.forward_seconds / setting.rtt_seconds if setting.rtt_seconds else 0.5
    return replace(setting, forward_seconds=seconds * share, return_seconds=seconds * (1 - share))


class Axis(NamedTuple):
    """What is varied, and the values it takes: rows, seconds, or rows a second."""

    name: str
    values: Sequence[float]


_NUMBERS: Mapping[str, str] = {"row_count": "row_permits", "batch": "permit_batch", "max_chunk": "max_chunk_cost"}
_OTHERS: Mapping[str, Callable[[Setting, float], Setting]] = {
    "chunk_rows": lambda setting, rows: replace(setting, chunks=ConstantSize(int(rows))),
    "rtt": _rtt,
    "producer_rate": lambda setting, rows_per_second: replace(setting, producer_rate=rows_per_second),
    "consumer_rate": lambda setting, rows_per_second: replace(setting, consumer_rate=rows_per_second),
    "link_rate": lambda setting, rows_per_second: replace(setting, link_rate=rows_per_second),
}
AXES = (*_NUMBERS, *_OTHERS)
"""What can be varied; the first three at both ends alike."""


@dataclass(frozen=True)
class Point:
    """One combination of values."""

    values: Mapping[str, float]
    """By the name of the axis."""

    def applied_to(self, setting: Setting) -> Setting:
        """The same setting with these values.

        Raises:
            InvalidParametersError: the combination cannot be.
        """
        # All at once: one number alone may not fit the others as they were.
        numbers = {_NUMBERS[name]: int(value) for name, value in self.values.items() if name in _NUMBERS}
        setting = replace(
            setting,
            upstream=setting.upstream._replace(**numbers),  # type: ignore[arg-type]  # whole numbers
            downstream=setting.downstream._replace(**dict.fromkeys(numbers)),
        )
        for name, value in self.values.items():
            if name in _OTHERS:
                setting = _OTHERS[name](setting, value)
        return setting


def points(axes: Sequence[Axis]) -> Iterator[Point]:
    """All combinations; the last axis turns fastest."""
    for combination in product(*(axis.values for axis in axes)):
        yield Point(dict(zip((axis.name for axis in axes), combination, strict=True)))
