"""Trace files as arguments of a command."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from permitflow.cli.outcomes import requires_extra, unusable

if TYPE_CHECKING:
    from permitflow.tracing import ChannelTrace, Trace

__all__ = ["files_of", "read_files", "select_channels"]


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files that are read if these are named; end the command if a folder has none."""
    from permitflow.errors import TraceError
    from permitflow.tracing.reader import trace_files

    try:
        return [file for path in paths for file in trace_files(path)]
    except TraceError as error:
        unusable(str(error))


def read_files(files: Sequence[Path], allow_truncated: bool) -> "Trace":
    """Read the files of one run, or end the command."""
    from permitflow.errors import TraceError, TraceTruncatedError
    from permitflow.tracing import read_trace

    try:
        with requires_extra("grpc"):
            return read_trace(*files, allow_truncated=allow_truncated)
    except TraceTruncatedError as error:
        unusable(f"{error} (--allow-truncated)")
    except TraceError as error:
        unusable(str(error))


def select_channels(read: "Trace", names: Sequence[str]) -> "list[ChannelTrace]":
    """The channels of these names, or all if there are none; end the command if there is nothing to look at."""
    if not read.channels:
        unusable("the trace holds no channel: nothing was recorded, so nothing can be checked")
    if unknown := [name for name in names if name not in read.channels]:
        near = get_close_matches(unknown[0], read.channels, n=3, cutoff=0.4) or list(read.channels)[:5]
        unusable(f"--channel: the trace has no channel {unknown[0]!r}; it has {', '.join(near)}")
    return [channel for name, channel in read.channels.items() if not names or name in names]
