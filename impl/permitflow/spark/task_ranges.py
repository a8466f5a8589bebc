"""Divides the rows of a batch among tasks: several for a channel, or one for several channels."""

from collections.abc import Sequence
from itertools import pairwise
from math import floor

from permitflow.spark.stream_planning import RowRange

Ranges = tuple[RowRange, ...]


def task_ranges(ranges: Sequence[RowRange], *, least: int = 1, most: int | None = None) -> list[Ranges]:
    """The ranges of each task: each of ``ranges`` in a task of its own, unless that is too few or too many.

    Args:
        ranges: one for each channel, none empty.
        least: at least this many tasks, if there are as many rows: large ranges are cut into equal parts.
        most: at most this many tasks: ranges are read one after the other, and tasks have about as many rows each.
    """
    return _grouped(_cut(ranges, least), most)


def _cut(ranges: Sequence[RowRange], least: int) -> list[RowRange]:
    parts = [1] * len(ranges)
    sizes = [each.to_row - each.from_row for each in ranges]
    while sum(parts) < min(least, sum(sizes)):
        parts[max(range(len(ranges)), key=lambda number: sizes[number] / parts[number])] += 1
    return [piece for each, number in zip(ranges, parts, strict=True) for piece in _pieces(each, number)]


def _pieces(rows: RowRange, number: int) -> list[RowRange]:
    size = rows.to_row - rows.from_row
    ends = [rows.from_row + size * part // number for part in range(number + 1)]
    return [RowRange(rows.channel, rows.log_id, start, end) for start, end in pairwise(ends) if start < end]


def _grouped(ranges: Sequence[RowRange], most: int | None) -> list[Ranges]:
    if most is None or len(ranges) <= most:
        return [(each,) for each in ranges]
    rows = [0] * most
    tasks: list[list[RowRange]] = [[] for _ in range(most)]
    for each in sorted(ranges, key=lambda each: each.from_row - each.to_row):  # the largest first
        lightest = rows.index(min(rows))
        rows[lightest] += each.to_row - each.from_row
        tasks[lightest].append(each)
    order = {each: number for number, each in enumerate(ranges)}
    return [tuple(sorted(task, key=order.__getitem__)) for task in tasks]


def rows_within(max_bytes: int, sampled: Sequence[tuple[int, float]]) -> int:
    """How many rows take this many bytes, at least 1.

    Args:
        max_bytes: the bytes.
        sampled: of each channel, how many rows wait, and the average bytes of those that come next.
    """
    rows = sum(each for each, _ in sampled)
    size = sum(each * average for each, average in sampled)
    return max(1, rows if size <= max_bytes else floor(rows * max_bytes / size))
