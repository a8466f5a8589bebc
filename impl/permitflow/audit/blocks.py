"""Where in a table each end of each channel lies."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.tracing.tables import by_end, coded

__all__ = ["in_blocks"]


def in_blocks(table: pa.Table) -> tuple[pa.Table, npt.NDArray[np.intp]]:
    """The events end by end, of each end channel by channel; and where each of these blocks begins.

    A table in which they lie like that, as in files of our own, is not copied.
    """
    starts = _starts(table)
    if starts is None:
        table = by_end(table)
        starts = _starts(table)
        assert starts is not None, "it has just been arranged"
    return table, starts


def _starts(table: pa.Table) -> npt.NDArray[np.intp] | None:
    """The places at which another channel or end begins; None: to some of them the table comes back."""
    channel, end = _codes(table, "channel"), _codes(table, "end")
    changes = channel[1:] != channel[:-1]
    changes |= end[1:] != end[:-1]
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    channel, end = channel.take(starts), end.take(starts)
    if len(set(zip(end.tolist(), channel.tolist(), strict=True))) < len(starts):
        return None
    return starts if np.count_nonzero(np.diff(end)) + 1 == len(np.unique(end)) else None


def _codes(table: pa.Table, name: str) -> npt.NDArray[np.int32]:
    codes: npt.NDArray[np.int32] = coded(table, name).indices.to_numpy(zero_copy_only=False)
    return codes
