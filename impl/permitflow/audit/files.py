"""Audits trace files on this machine."""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from permitflow.audit.merging import merge
from permitflow.audit.part import Part, look_at
from permitflow.audit.report import Audit
from permitflow.audit.units import Plan, Unit, plan, read_unit
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["audit_files", "examine"]


def audit_files(
    *paths: str | os.PathLike[str], processes: int = 1, on_progress: Callable[[int, int], None] | None = None
) -> Audit:
    """Audit trace files, and all trace files of folders, as one recording.

    Args:
        paths: files (``*.parquet``, ``*.jsonl``) and folders of them.
        processes: that look at row groups side by side.
        on_progress: is told after each part how many of how many are done.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    whole = plan(paths)
    return merge(whole, _with_progress(_parts(whole, processes), len(whole.units), on_progress))


def examine(unit: Unit, parameters: dict[str, ChannelParameters]) -> Part:
    """Read a unit and look at it."""
    return look_at(read_unit(unit), parameters, source=unit.name)


def _parts(whole: Plan, processes: int) -> Iterator[tuple[Unit, Part]]:
    look = partial(examine, parameters=whole.parameters)
    if processes == 1 or len(whole.units) < 2:
        yield from ((unit, look(unit)) for unit in whole.units)
        return
    # Not forked: the caller may have threads, and Arrow has its own.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from zip(whole.units, pool.map(look, whole.units, chunksize=4), strict=True)


def _with_progress(
    parts: Iterable[tuple[Unit, Part]], total: int, on_progress: Callable[[int, int], None] | None
) -> Iterator[tuple[Unit, Part]]:
    for done, part in enumerate(parts, start=1):
        yield part
        if on_progress is not None:
            on_progress(done, total)
