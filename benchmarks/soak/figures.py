"""What is measured of a process over time, how much of it may grow, and whether it does."""

import asyncio
import gc
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import psutil

MEBIBYTE = 2**20
# The first part of a run fills caches and pools.
WARM_UP_SHARE = 0.3
# Of the slopes between any two looks, this many lie below the one that is judged: rounds come and go, and nearly all
# slopes of what grows all the time are alike.
SLOPE_SHARE = 0.25
# This many show a slope as well as more do.
MOST_SAMPLES = 400


class Figure(NamedTuple):
    """One that must not grow."""

    unit: str
    may_grow: float
    """Over the whole run, at the pace of all of it but the beginning: what the last pools and buffers take."""


FIGURES: Mapping[str, Figure] = {
    "memory": Figure("MiB", 24.0),
    "descriptors": Figure("", 8.0),
    "tasks": Figure("", 12.0),
    "threads": Figure("", 4.0),
    "objects": Figure("", 3_000.0),
    "store": Figure("MiB", 8.0),
}
"""Figures of each process; ``objects``: Python's that may refer to others, once what nobody needs is collected."""
LEAST_SHARE_OF_ROWS = 0.5
"""This share of the first rows a second must still come at the end.  Other programs slow a run, too."""


def measured(process: psutil.Process) -> dict[str, float]:
    """The figures of the calling process; ``process`` is it."""
    gc.collect()
    with process.oneshot():
        return {
            "memory": process.memory_info().rss / MEBIBYTE,
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "tasks": len(asyncio.all_tasks()),
            "objects": len(gc.get_objects()),
        }


@dataclass
class Course:
    """The figures of one process over time."""

    at: list[float] = field(default_factory=list)
    """Seconds since the beginning."""
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, at: float, figures: Mapping[str, float]) -> None:
        """Add the figures of one moment."""
        self.at.append(at)
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def growth(self, name: str) -> float:
        """Over the whole time, at the pace that three quarters of it exceed; the beginning does not count.

        A pool that is filled late is a single step, between few of the looks; what grows all the time does so between
        nearly all.
        Source: P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, 1968.
        """
        begin = int(len(self.at) * WARM_UP_SHARE)
        samples = [*zip(self.at[begin:], self.figures[name][begin:], strict=True)]
        pairs = itertools.combinations(samples[:: len(samples) // MOST_SAMPLES + 1], 2)
        slopes = sorted((later - earlier) / (end - at) for (at, earlier), (end, later) in pairs)
        return slopes[int(len(slopes) * SLOPE_SHARE)] * self.at[-1] if slopes else 0.0


Courses = Mapping[str, Course]
"""By the name of the process."""


def growths(courses: Courses) -> Iterator[tuple[str, str, float, float, float, float]]:
    """The process, the figure, its median in the first and in the last tenth after the beginning, growth, and limit."""
    for process, course in courses.items():
        for name, values in course.figures.items():
            if name in FIGURES:
                warm = values[int(len(values) * WARM_UP_SHARE) :]
                tenth = max(1, len(warm) // 10)
                ends = (_median(warm[:tenth]), _median(warm[-tenth:]))
                yield process, name, *ends, course.growth(name), FIGURES[name].may_grow


def found(courses: Courses, rows_per_second: Course) -> Iterator[str]:
    """What grows, and whether the pace falls."""
    for process, name, _, end, growth, limit in growths(courses):
        if growth > limit:
            unit = FIGURES[name].unit
            yield f"{name} of {process} grew by {growth:,.1f} {unit}".rstrip() + f" to {end:,.1f}; {limit:g} is allowed"
    rows = rows_per_second.figures["rows"]
    warm = rows[int(len(rows) * WARM_UP_SHARE) :]
    third = max(1, len(warm) // 3)
    before, after = _median(warm[:third]), _median(warm[-third:])
    if after < LEAST_SHARE_OF_ROWS * before:
        yield f"the pace fell from {before:,.0f} to {after:,.0f} rows a second"


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
