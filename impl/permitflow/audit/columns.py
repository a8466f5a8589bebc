"""A part of a trace as arrays: for each end its events, channel by channel, in the order of the recording."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.audit.blocks import Places, blocks_of, chosen
from permitflow.audit.limits import Limits, limits_of
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import COUNTERS, RECEIVER_ACTIONS, SENDER_ACTIONS, Counters, End
from permitflow.tracing.tables import PERMITS, coded, in_one_piece

__all__ = ["ACTIONS", "CODE", "Actions", "Codes", "Events", "Integers", "Marks", "events_of"]

Integers: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.intp]
Actions: TypeAlias = npt.NDArray[np.int8]

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
    borders: Codes
    """For each channel: the place of its first event, its others follow; and at last the place behind all."""

    limits: Limits
    """What the parameters of the channels allow."""

    sequence: Integers
    action: Actions
    rows: Integers
    permits: tuple[Integers, Integers, Integers]
    """Rows, barriers, watermarks."""

    counters: tuple[Integers, Integers, Integers]
    """The end's own, after the event; ``protocol.recording.COUNTERS`` says of what."""

    has_counters: Marks

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def starts(self) -> Codes:
        """For each channel: the place of its first event."""
        return self.borders[:-1]

    @property
    def lasts(self) -> Codes:
        """For each channel: the place of its last event."""
        return self.borders[1:] - 1

    def channel_of(self, index: int) -> str:
        """The channel of one event."""
        return self.channels[int(np.searchsorted(self.starts, index, side="right")) - 1]

    def of(self, channel: str) -> "Events":
        """Those of one of the channels."""
        number = self.channels.index(channel)
        places = slice(*self.borders[number : number + 2])
        rows, barriers, watermarks = self.permits
        first, second, third = self.counters
        return Events(
            end=self.end,
            channels=[channel],
            borders=self.borders[number : number + 2] - self.borders[number],
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
    columns = _Columns(table, parameters, source)
    for number, end in enumerate(_ENDS):
        blocks = np.flatnonzero(columns.ends == number)
        if blocks.size:
            yield columns.of(end, slice(int(blocks[0]), int(blocks[-1]) + 1))


class _Columns:
    """The numbers of a table."""

    def __init__(self, table: pa.Table, parameters: Mapping[str, ChannelParameters], source: str) -> None:
        self._table, self._parameters, self._source = table, parameters, source
        channels, channel = self._coded("channel")
        if unknown := [name for name in channels if name not in parameters]:
            raise TraceUnreadableError(path=source, line=0, reason=f"no header opened channel {unknown[0]!r}")
        names, end = self._coded("end")
        number_of = self._known("end", names, _ENDS)
        self._blocks = blocks_of(end, channel)
        firsts = self._blocks.firsts()
        self._channels = [channels[code] for code in channel.take(firsts).tolist()]
        self.ends = number_of.take(end.take(firsts))
        """For each block, which end it is of."""
        names, action = self._coded("action")
        self._action = self._known("action", names, ACTIONS).take(action)
        self._numbers: dict[str, Integers] = {
            name: in_one_piece(table, name).to_numpy() for name in ("sequence", "rows", *PERMITS)
        }

    def of(self, end: End, blocks: slice) -> Events:
        """The events of these blocks, which are all of one end."""
        channels, borders = self._channels[blocks], self._blocks.borders[blocks.start : blocks.stop + 1]
        places = self._blocks.places(borders)
        row, barrier, watermark = (chosen(self._numbers[name], places) for name in PERMITS)
        counters, has_counters = self._counted(end, places)
        events = Events(
            end=end,
            channels=channels,
            borders=borders - borders[0],
            limits=limits_of([self._parameters[name] for name in channels], np.diff(borders)),
            sequence=chosen(self._numbers["sequence"], places),
            action=chosen(self._action, places),
            rows=chosen(self._numbers["rows"], places),
            permits=(row, barrier, watermark),
            counters=counters,
            has_counters=has_counters,
        )
        self._check_actions(events)
        return events

    def _check_actions(self, events: Events) -> None:
        of_sender = events.action < len(SENDER_ACTIONS)
        misplaced = ~of_sender if events.end == "sender" else of_sender
        if misplaced.any():
            index = int(np.argmax(misplaced))
            which = f"event {events.sequence[index]} of {events.channel_of(index)}"
            reason = f"the {events.end} has no action {ACTIONS[events.action[index]]!r} ({which})"
            raise TraceUnreadableError(path=self._source, line=0, reason=reason)

    def _counted(self, end: End, places: Places) -> tuple[tuple[Integers, Integers, Integers], Marks]:
        """What an end counted, and where all of it is known; elsewhere there may be any number."""
        columns = [in_one_piece(self._table, name) for name in COUNTERS[end]]
        numbers = (np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8) for column in columns)
        one, two, three = (chosen(column, places) for column in numbers)
        return (one, two, three), chosen(_are_known(columns), places)

    def _coded(self, name: str) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The names in a column, and for each place which of them."""
        column = coded(self._table, name)
        try:
            names = column.dictionary.to_pylist()
        except UnicodeDecodeError as error:
            reason = f"{name} must be text; it is damaged: {error}"
            raise TraceUnreadableError(path=self._source, line=0, reason=reason) from error
        return names, column.indices.to_numpy(zero_copy_only=False)

    def _known(self, column: str, names: Sequence[str], known: Sequence[str]) -> Actions:
        """For each of the names in a column, which of the known ones it is."""
        if unknown := [name for name in names if name not in known]:
            reason = f"{column} must be one of {', '.join(known)}: {unknown}"
            raise TraceUnreadableError(path=self._source, line=0, reason=reason)
        return np.array([known.index(name) for name in names], dtype=np.int8)


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
