"""A part of a trace as arrays: the events of each end of each channel side by side, in the order of the recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import COUNTERS, End

__all__ = ["ACTIONS", "Columns", "Integers", "Marks", "columns_of"]

Integers: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]

ACTIONS = (
    "OfferChunk",
    "OfferBarrier",
    "OfferWatermark",
    "WithdrawChunk",
    "WithdrawBarrier",
    "SendChunk",
    "SendBarrier",
    "SendWatermark",
    "AddPermits",
    "Deliver",
    "Consume",
    "Flush",
)
"""An action is its index here; those of the receiver are the last three."""

_FIRST_OF_RECEIVER = ACTIONS.index("Deliver")
_ENDS: tuple[End, End] = ("sender", "receiver")
_PERMITS = ("permits_rows", "permits_barriers", "permits_watermarks")


@dataclass(frozen=True, slots=True)
class Columns:
    """Events of the two ends of channels; all arrays have a place for each event."""

    channels: Sequence[str]
    channel: Integers
    """Index into ``channels``."""

    is_receiver: Marks
    sequence: Integers
    action: Integers
    rows: Integers
    permits: Integers
    """n by 3: rows, barriers, watermarks."""

    counters: Integers
    """n by 3: those of the event's own end, after it."""

    has_counters: Marks
    total: Integers
    """n by 3: all permits of the channel."""

    batch: Integers
    clamp: Integers
    splits: Marks

    def __len__(self) -> int:
        return len(self.sequence)

    def starts(self) -> Integers:
        """Where another end or another channel begins."""
        key = self.channel * 2 + self.is_receiver
        return np.flatnonzero(np.diff(key, prepend=-1)).astype(np.int64)

    def only(self, channel: str, end: End) -> "Columns":
        """The events of one end of one channel."""
        of_channel = self.channel == (self.channels.index(channel) if channel in self.channels else -1)
        chosen = of_channel & (self.is_receiver == (end == "receiver"))
        arrays = {name: getattr(self, name)[chosen] for name in self.__slots__ if name != "channels"}
        return replace(self, **arrays)

    def end_of(self, index: int) -> End:
        """The end at which an event happened."""
        return _ENDS[int(self.is_receiver[index])]

    def counters_of(self, index: int) -> tuple[int, int, int] | None:
        """What the end counted after an event."""
        if not self.has_counters[index]:
            return None
        first, second, third = self.counters[index].tolist()
        return first, second, third


def columns_of(table: pa.Table, parameters: Mapping[str, ChannelParameters], *, source: str) -> Columns:
    """Bring a table with the columns of a trace into this form.

    Raises:
        TraceUnreadableError: a channel without parameters, or an action that does not happen at its end.
    """
    channels, channel = _coded(table, "channel")
    ends, end = _coded(table, "end")
    actions, action = _coded(table, "action")
    if unknown := [name for name in channels if name not in parameters]:
        raise TraceUnreadableError(path=source, line=0, reason=f"no header opened channel {unknown[0]!r}")
    is_receiver = _translated(ends, _ENDS, end, "end", source) == 1
    action = _translated(actions, ACTIONS, action, "action", source)
    if (wrong := np.flatnonzero((action >= _FIRST_OF_RECEIVER) != is_receiver)).size:
        first = int(wrong[0])
        reason = f"the {_ENDS[int(is_receiver[first])]} has no action {ACTIONS[action[first]]!r} (row {first + 1})"
        raise TraceUnreadableError(path=source, line=0, reason=reason)
    order = np.argsort(channel * 2 + is_receiver, kind="stable")
    of_sender, of_receiver = (_counted(table, names) for names in COUNTERS.values())
    counters = np.where(is_receiver[:, None], of_receiver[0], of_sender[0])
    has_counters = np.where(is_receiver, of_receiver[1], of_sender[1])
    stated = _stated([parameters[name] for name in channels])[channel]
    return Columns(
        channels=channels,
        channel=channel[order],
        is_receiver=is_receiver[order],
        sequence=_numbers(table, "sequence")[order],
        action=action[order],
        rows=_numbers(table, "rows")[order],
        permits=np.stack([_numbers(table, name) for name in _PERMITS], axis=1)[order],
        counters=counters[order],
        has_counters=has_counters[order],
        total=stated[order, :3],
        batch=stated[order, 3],
        clamp=stated[order, 4],
        splits=stated[order, 5] == 1,
    )


def _stated(parameters: Sequence[ChannelParameters]) -> Integers:
    rows = [
        (of.row_permits, of.barrier_permits, 1, of.permit_batch, of.max_chunk_cost, of.oversize == "split")
        for of in parameters
    ]
    return np.array(rows, dtype=np.int64).reshape(-1, 6)


def _coded(table: pa.Table, name: str) -> tuple[list[str], Integers]:
    coded = table.column(name).combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _translated(names: Sequence[str], known: Sequence[str], codes: Integers, what: str, source: str) -> Integers:
    if unknown := [name for name in names if name not in known]:
        raise TraceUnreadableError(path=source, line=0, reason=f"{what} must be one of {', '.join(known)}: {unknown}")
    return np.array([known.index(name) for name in names], dtype=np.int64)[codes]


def _numbers(table: pa.Table, name: str) -> Integers:
    column: Integers = table.column(name).to_numpy().astype(np.int64, copy=False)
    return column


def _counted(table: pa.Table, names: Sequence[str]) -> tuple[Integers, Marks]:
    columns = [table.column(name) for name in names]
    known = ~np.logical_or.reduce([column.is_null().to_numpy() for column in columns])
    return np.stack([column.fill_null(0).to_numpy() for column in columns], axis=1).astype(np.int64, copy=False), known
