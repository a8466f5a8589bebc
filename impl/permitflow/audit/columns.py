"""A part of a trace as arrays: for each end of each channel its events, in the order of the recording."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import COUNTERS, RECEIVER_ACTIONS, SENDER_ACTIONS, Counters, End
from permitflow.tracing.parquet import PERMITS

__all__ = ["ACTIONS", "CODE", "Codes", "Events", "Integers", "Marks", "events_of", "initial_counters"]

Integers: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.intp]

ACTIONS = (*sorted(SENDER_ACTIONS), *sorted(RECEIVER_ACTIONS))
"""An action is its index here; those of the receiver come last."""

CODE = {name: code for code, name in enumerate(ACTIONS)}
"""The other way round."""

_ENDS: tuple[End, End] = ("sender", "receiver")


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one end of one channel; all arrays have a place for each event."""

    channel: str
    end: End
    parameters: ChannelParameters
    sequence: Integers
    action: Codes
    rows: Integers
    permits: tuple[Integers, Integers, Integers]
    """Rows, barriers, watermarks."""

    counters: tuple[Integers, Integers, Integers]
    """The end's own, after the event; ``protocol.recording.COUNTERS`` says of what."""

    has_counters: Marks

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def total(self) -> Counters:
        """All permits of the channel."""
        return self.parameters.row_permits, self.parameters.barrier_permits, 1

    def permits_of(self, index: int) -> tuple[int, int, int]:
        """Those of one event."""
        first, second, third = self.permits
        return int(first[index]), int(second[index]), int(third[index])

    def counters_of(self, index: int) -> Counters | None:
        """What the end counted after an event."""
        if not self.has_counters[index]:
            return None
        first, second, third = self.counters
        return int(first[index]), int(second[index]), int(third[index])


def initial_counters(end: End, parameters: ChannelParameters) -> Counters:
    """What an end counts before its first event: the sender has all permits, the receiver nothing.

    Spec: Init.
    """
    return (parameters.row_permits, parameters.barrier_permits, 1) if end == "sender" else (0, 0, 0)


def events_of(table: pa.Table, parameters: Mapping[str, ChannelParameters], *, source: str) -> Iterator[Events]:
    """The events of each end of each channel in a table with the columns of a trace.

    Raises:
        TraceUnreadableError: a channel without parameters, or an action that does not happen at its end.
    """
    if not len(table):
        return
    channels, channel = _coded(table, "channel")
    ends, end = _coded(table, "end")
    actions, action = _coded(table, "action")
    if unknown := [name for name in channels if name not in parameters]:
        raise TraceUnreadableError(path=source, line=0, reason=f"no header opened channel {unknown[0]!r}")
    end, action = _translated(ends, _ENDS, end, "end", source), _translated(actions, ACTIONS, action, "action", source)
    if (wrong := np.flatnonzero((action >= len(SENDER_ACTIONS)) != (end == 1))).size:
        first = int(wrong[0])
        reason = f"the {_ENDS[end[first]]} has no action {ACTIONS[action[first]]!r} (row {first + 1})"
        raise TraceUnreadableError(path=source, line=0, reason=reason)
    columns = _Columns(table)
    for places, channel_code, end_code in _groups(channel * 2 + end):
        name = channels[channel_code]
        yield columns.chosen(places, name, _ENDS[end_code], parameters[name], action)


def _groups(keys: Codes) -> Iterator[tuple[Codes, int, int]]:
    """Places of equal keys, in their order, with the two halves of the key."""
    # Short numbers are sorted without comparing them.
    order = np.argsort(keys.astype(np.uint16) if keys.max(initial=0) < 2**16 else keys, kind="stable")
    in_order = keys[order]
    starts = np.flatnonzero(np.diff(in_order, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(keys)], strict=True):
        yield order[start:stop], *divmod(int(in_order[start]), 2)


class _Columns:
    """The numbers of a table."""

    def __init__(self, table: pa.Table) -> None:
        self._sequence, self._rows = _numbers(table, "sequence"), _numbers(table, "rows")
        self._permits = [_numbers(table, name) for name in PERMITS]
        self._counters = {end: [_counted(table, name) for name in names] for end, names in COUNTERS.items()}

    def chosen(self, places: Codes, channel: str, end: End, parameters: ChannelParameters, action: Codes) -> Events:
        rows, barriers, watermarks = (column[places] for column in self._permits)
        first, second, third = self._counters[end]
        known = first[1] & second[1] & third[1]
        return Events(
            channel=channel,
            end=end,
            parameters=parameters,
            sequence=self._sequence[places],
            action=action[places],
            rows=self._rows[places],
            permits=(rows, barriers, watermarks),
            counters=(first[0][places], second[0][places], third[0][places]),
            has_counters=known[places],
        )


def _coded(table: pa.Table, name: str) -> tuple[list[str], Codes]:
    coded = table.column(name).combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.intp)


def _translated(names: Sequence[str], known: Sequence[str], codes: Codes, what: str, source: str) -> Codes:
    if unknown := [name for name in names if name not in known]:
        raise TraceUnreadableError(path=source, line=0, reason=f"{what} must be one of {', '.join(known)}: {unknown}")
    return np.array([known.index(name) for name in names], dtype=np.intp)[codes]


def _numbers(table: pa.Table, name: str) -> Integers:
    column: Integers = table.column(name).to_numpy().astype(np.int64, copy=False)
    return column


def _counted(table: pa.Table, name: str) -> tuple[Integers, Marks]:
    """A column's numbers, and where there are any."""
    column = table.column(name).combine_chunks()
    known = column.is_valid().to_numpy(zero_copy_only=False)
    numbers: Integers = column.fill_null(0).to_numpy().astype(np.int64, copy=False)
    return numbers, known
