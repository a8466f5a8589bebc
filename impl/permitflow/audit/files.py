"""Audits trace files on this machine."""

import os
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np

from permitflow.audit.merging import merge
from permitflow.audit.part import Part, look_at
from permitflow.audit.report import Audit
from permitflow.audit.units import Plan, Unit, plan, read_units
from permitflow.protocol.parameters import ChannelParameters
from permitflow_model.side_by_side import in_processes

__all__ = ["audit_files", "examine", "examine_share"]

# Enough that a slow share does not hold up the others.
_SHARES_PER_PROCESS = 16
_KEPT_BYTES = 2**24


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
    with closing(_parts(whole, processes)) as parts:
        return merge(whole, _with_progress(parts, len(whole.units), on_progress))


def examine(units: Iterable[Unit], parameters: Mapping[str, ChannelParameters]) -> list[Part]:
    """Read units and look at each."""
    _keep_memory()
    return [look_at(table, parameters, source=unit.name) for unit, table in read_units(units)]


def _keep_memory() -> None:
    """Let the C library keep what arrays have used, for the next ones; asking the kernel each time takes longer."""
    # glibc's thresholds follow the largest array that was ever freed (mallopt(3)); this one is never touched.
    np.empty(_KEPT_BYTES, dtype=np.uint8)


def examine_share(number: int, shares: Sequence[list[Unit]], parameters: Mapping[str, ChannelParameters]) -> bytes:
    """The pickled parts of one of several shares."""
    return pickle.dumps(examine(shares[number], parameters))


def _parts(whole: Plan, processes: int) -> Generator[tuple[Unit, Part], None, None]:
    look = partial(examine, parameters=whole.parameters)
    shares = whole.shares(processes * _SHARES_PER_PROCESS)
    if processes == 1 or len(shares) < 2:
        for share in shares:
            yield from zip(share, look(share), strict=True)
        return
    with closing(in_processes(look, shares, processes=processes)) as looked_at:
        for share, parts in zip(shares, looked_at, strict=True):
            yield from zip(share, parts, strict=True)


def _with_progress(
    parts: Iterable[tuple[Unit, Part]], total: int, on_progress: Callable[[int, int], None] | None
) -> Iterator[tuple[Unit, Part]]:
    for done, part in enumerate(parts, start=1):
        yield part
        if on_progress is not None:
            on_progress(done, total)
