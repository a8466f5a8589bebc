"""A part of a trace as arrays: for each end its events, channel by channel, in the order of the recording."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.audit.limits import Limits, limits_of
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import COUNTERS, RECEIVER_ACTIONS, SENDER_ACTIONS, Counters, End
from permitflow.tracing.parquet import PERMITS

__all__ = ["ACTIONS", "CODE", "Codes", "Events", "Integers", "Marks", "events_of"]

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
    """Events of one end of any number of channels, at least one each; arrays have a place for each event."""

    end: End
    channels: list[str]
    starts: Codes
    """For each channel: the place of its first event.  Its others follow, up to the next channel's."""

    limits: Limits
    """What the parameters of the channels allow."""

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
    def stops(self) -> Codes:
        """For each channel: the place behind its last event."""
        return np.append(self.starts[1:], len(self))

    def channel_of(self, index: int) -> str:
        """The channel of one event."""
        return self.channels[int(np.searchsorted(self.starts, index, side="right")) - 1]

    def of(self, channel: str) -> "Events":
        """Those of one of the channels."""
        number = self.channels.index(channel)
        places = slice(self.starts[number], self.stops[number])
        rows, barriers, watermarks = self.permits
        first, second, third = self.counters
        return Events(
            end=self.end,
            channels=[channel],
            starts=self.starts[:1],
            limits=limits_of(self.limits.parameters[number : number + 1]),
            sequence=self.sequence[places],
            action=self.action[places],
            rows=self.rows[places],
            permits=(rows[places], barriers[places], watermarks[places]),
            counters=(first[places], second[places], third[places]),
            has_counters=self.has_counters[places],
        )

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


def events_of(table: pa.Table, parameters: Mapping[str, ChannelParameters], *, source: str) -> Iterator[Events]:
    """The events of each end in a table with the columns of a trace.

    Raises:
        TraceUnreadableError: a channel without parameters, or an action that does not happen at its end.
    """
    if not len(table):
        return
    channels, channel = _coded(table, "channel")
    if unknown := [name for name in channels if name not in parameters]:
        raise TraceUnreadableError(path=source, line=0, reason=f"no header opened channel {unknown[0]!r}")
    end, action = _translated(table, "end", _ENDS, source), _translated(table, "action", ACTIONS, source)
    is_receiver = end == _ENDS.index("receiver")
    misplaced = (action >= len(SENDER_ACTIONS)) != is_receiver
    if misplaced.any():
        first = int(np.argmax(misplaced))
        reason = f"the {_ENDS[end[first]]} has no action {ACTIONS[action[first]]!r} (row {first + 1})"
        raise TraceUnreadableError(path=source, line=0, reason=reason)
    columns = _Columns(table, channels, channel, action, parameters)
    for name, marks in zip(_ENDS, (~is_receiver, is_receiver), strict=True):
        if (places := np.flatnonzero(marks)).size:
            yield columns.chosen(places, name)


class _Columns:
    """The numbers of a table."""

    def __init__(
        self,
        table: pa.Table,
        channels: Sequence[str],
        channel: npt.NDArray[np.int32],
        action: npt.NDArray[np.int8],
        parameters: Mapping[str, ChannelParameters],
    ) -> None:
        self._channels, self._channel, self._action = channels, channel, action
        self._parameters = parameters
        self._sequence, self._rows = _numbers(table, "sequence"), _numbers(table, "rows")
        self._permits = [_numbers(table, name) for name in PERMITS]
        self._counters = {end: _counted(table, names) for end, names in COUNTERS.items()}

    def chosen(self, places: Codes, end: End) -> Events:
        """The events at these places, which are all of one end."""
        places, names, starts = self._by_channel(places)
        counters, known = self._counters[end]
        rows, barriers, watermarks = (column.take(places) for column in self._permits)
        first, second, third = (column.take(places) for column in counters)
        return Events(
            end=end,
            channels=names,
            starts=starts,
            limits=limits_of([self._parameters[name] for name in names], np.diff(starts, append=len(places))),
            sequence=self._sequence.take(places),
            action=self._action.take(places).astype(np.intp),
            rows=self._rows.take(places),
            permits=(rows, barriers, watermarks),
            counters=(first, second, third),
            has_counters=known.take(places),
        )

    def _by_channel(self, places: Codes) -> tuple[Codes, list[str], Codes]:
        """The places channel by channel, the channels, and where each begins."""
        if len(self._channels) == 1:
            return places, list(self._channels), np.zeros(1, dtype=np.intp)
        keys = self._channel.take(places)
        # Short numbers are sorted without comparing them.
        order = np.argsort(keys.astype(np.uint16) if len(self._channels) < 2**16 else keys, kind="stable")
        in_order = keys.take(order)
        starts = np.flatnonzero(np.diff(in_order, prepend=-1))
        return places.take(order), [self._channels[code] for code in in_order[starts]], starts


def _coded(table: pa.Table, name: str) -> tuple[list[str], npt.NDArray[np.int32]]:
    """The names in a column, and for each place which of them."""
    coded = _one_piece(table, name)
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)


def _one_piece(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    # Putting together what is in one piece would copy it.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _translated(table: pa.Table, column: str, known: Sequence[str], source: str) -> npt.NDArray[np.int8]:
    """For each place in a column, which of the known names it is."""
    names, codes = _coded(table, column)
    if unknown := [name for name in names if name not in known]:
        raise TraceUnreadableError(path=source, line=0, reason=f"{column} must be one of {', '.join(known)}: {unknown}")
    return np.array([known.index(name) for name in names], dtype=np.int8).take(codes)


def _numbers(table: pa.Table, name: str) -> Integers:
    column: Integers = table.column(name).to_numpy().astype(np.int64, copy=False)
    return column


def _counted(table: pa.Table, names: Sequence[str]) -> tuple[list[Integers], Marks]:
    """The numbers of columns, and where all of them are known; elsewhere there may be any number."""
    columns = [_one_piece(table, name) for name in names]
    numbers = [np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8) for column in columns]
    return numbers, _are_known(columns)


def _are_known(columns: Sequence[pa.Array]) -> Marks:
    """Where none of the columns is null."""
    count, bits = len(columns[0]), [_valid_bits(column) for column in columns if column.null_count]
    if not bits:
        return np.ones(count, dtype=np.bool_)
    return np.unpackbits(np.bitwise_and.reduce(bits), count=count, bitorder="little").view(np.bool_)


def _valid_bits(column: pa.Array) -> npt.NDArray[np.uint8]:
    """A bit for each place."""
    if column.offset:
        column = pa.concat_arrays([column])
    bits = np.frombuffer(column.buffers()[0], np.uint8)
    return bits[: (len(column) + 7) // 8]
