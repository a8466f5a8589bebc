"""A part of a trace as arrays: for each end its events, channel by channel, in the order of the recording.

Beside them are the limits that follow from their channels' parameters.  The protocol's ``ActionTable`` names the
arguments and counters of an event.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.errors import TraceUnreadableError
from permitflow.protocol.recording import ENDS, ActionTable, End, column_of
from permitflow.tracing.parquet import coded, in_one_piece

Integers: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.intp]
Actions: TypeAlias = npt.NDArray[np.int8]

PerEvent: TypeAlias = npt.NDArray[np.int64]
"""A number for each event, or one number without dimension for all events."""

_Codes = npt.NDArray[np.int32]
_Places = npt.NDArray[np.intp]

_EventPlaces: TypeAlias = slice | _Places
"""Places in a table; a slice if they are adjacent."""

_Of = TypeVar("_Of", bound=np.generic)


def actions_of(table: ActionTable) -> tuple[str, ...]:
    """All actions; an action is its index here."""
    return tuple(dict.fromkeys(action for end in ENDS for action in table.actions[end]))


def argument_names(table: ActionTable) -> tuple[str, ...]:
    """The names of all arguments that any action has, each once."""
    return tuple(dict.fromkeys(name for end in ENDS for names in table.actions[end].values() for name in names))


Limits: TypeAlias = Mapping[str, int]
"""The limits of a channel by name, computed from its parameters."""


def limits_of(limits: Sequence[Limits], sizes: npt.NDArray[np.intp] | int = 1) -> dict[str, PerEvent]:
    """The channels' limits, repeated for each of their events."""
    kinds = {tuple(of.items()): number for number, of in reversed([*enumerate(limits)])}
    if len(kinds) == 1:
        return {name: np.array(number, dtype=np.int64) for name, number in limits[0].items()}
    which = np.repeat([kinds[tuple(of.items())] for of in limits], sizes)
    return {name: np.array([of[name] for of in limits], dtype=np.int64)[which] for name in limits[0]}


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one end of any number of channels, at least one each; arrays have a place for each event."""

    table: ActionTable
    end: End
    channels: list[str]
    borders: Codes
    """The place of each channel's first event, and at last the place behind all events."""
    limits: Sequence[Limits]
    """One for each channel, not for each event."""
    sequence: Integers
    action: Actions
    arguments: Mapping[str, Integers]
    """By name; 0 where an action has no such argument."""
    counters: Integers
    """A row for each counter of the end, with the values after each event."""
    has_counters: Marks
    _marks: dict[tuple[str, ...], Marks] = field(default_factory=dict)
    _limits: dict[str, PerEvent] = field(default_factory=dict)

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

    def limit(self, name: str) -> PerEvent:
        """A number of the channel of each event."""
        if not self._limits:
            self._limits.update(limits_of(self.limits, np.diff(self.borders)))
        return self._limits[name]

    def is_any(self, actions: Iterable[str]) -> Marks:
        """The events that are one of these actions."""
        names = tuple(actions)
        marks = self._marks.get(names)
        if marks is None:
            codes = actions_of(self.table)
            # Short numbers are compared many at once.
            marks = self.action == codes.index(names[0]) if names else np.zeros(len(self), dtype=np.bool_)
            for name in names[1:]:
                marks |= self.action == codes.index(name)
            self._marks[names] = marks
        return marks

    def channel_of(self, index: int) -> str:
        """The channel of one event."""
        return self.channels[int(np.searchsorted(self.starts, index, side="right")) - 1]

    def of(self, channel: str) -> "Events":
        """The events of one channel."""
        number = self.channels.index(channel)
        places = slice(*self.borders[number : number + 2])
        return Events(
            table=self.table,
            end=self.end,
            channels=[channel],
            borders=self.borders[number : number + 2] - self.borders[number],
            limits=self.limits[number : number + 1],
            sequence=self.sequence[places],
            action=self.action[places],
            arguments={name: column[places] for name, column in self.arguments.items()},
            counters=self.counters[:, places],
            has_counters=self.has_counters[places],
        )

    def action_of(self, index: int) -> str:
        """The action of one event."""
        return actions_of(self.table)[int(self.action[index])]

    def arguments_of(self, index: int) -> tuple[int, ...]:
        """The arguments of one event."""
        return tuple(int(self.arguments[name][index]) for name in self.table.actions[self.end][self.action_of(index)])

    def counters_of(self, index: int) -> tuple[int, ...] | None:
        """The end's counters after one event."""
        return numbers_at(self.counters, index) if self.has_counters[index] else None


def numbers_at(rows: Integers, index: int) -> tuple[int, ...]:
    """The numbers at one place of each row."""
    return tuple(rows[:, index].tolist())


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The events of a table end by end, of each end channel by channel, each in the order of the table."""

    borders: _Places
    """Where each block begins; the last one is the end."""
    order: _Places | None
    """The places of the events in the table; None: they are in order already, as in this package's files."""

    def places(self, borders: _Places) -> _EventPlaces:
        """The places in the table of the events from the first to the last of these borders."""
        places = slice(int(borders[0]), int(borders[-1]))
        return places if self.order is None else self.order[places]

    def firsts(self) -> _Places:
        """The place in the table of the first event of each block."""
        starts = self.borders[:-1]
        return starts if self.order is None else self.order.take(starts)


def _blocks_of(end: _Codes, channel: _Codes) -> _Blocks:
    """The blocks of a table with these ends and channels, which are numbered from 0."""
    starts = _starts(end, channel)
    if not _come_back(end.take(starts), channel.take(starts)):
        return _Blocks(np.append(starts, len(end)), None)
    keys = end * (channel.max() + 1) + channel
    # Short numbers are sorted without comparing them.
    order = np.argsort(keys.astype(np.min_scalar_type(keys.max())), kind="stable")
    return _Blocks(np.append(_starts(keys.take(order)), len(end)), order)


def _chosen(column: npt.NDArray[_Of], places: _EventPlaces) -> npt.NDArray[_Of]:
    """The values of a column at these places; adjacent values are not copied."""
    # Indexing with brackets takes three times as long.
    return column[places] if isinstance(places, slice) else column.take(places)


def _starts(*columns: _Codes) -> _Places:
    """The places whose value differs from the one before."""
    changes = np.zeros(len(columns[0]), dtype=np.bool_)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _come_back(ends: _Codes, channels: _Codes) -> bool:
    """Is there more than one block of a channel's end, or are the blocks of one end not adjacent?"""
    most = (int(ends.max()) + 1) * (int(channels.max()) + 1)
    if len(ends) > most or len(set(zip(ends.tolist(), channels.tolist(), strict=True))) < len(ends):
        return True
    return len(_starts(ends)) > len(set(ends.tolist()))


def events_of(table: pa.Table, of: ActionTable, limits: Mapping[str, Limits], *, source: str) -> Iterator[Events]:
    """The events of each end in a table with the columns of a trace.

    Raises:
        TraceUnreadableError: a channel without parameters, or an action that does not happen at its end.
    """
    if not len(table):
        return
    columns = _Columns(table, of, limits, source)
    for number, end in enumerate(ENDS):
        blocks = np.flatnonzero(columns.ends == number)
        if blocks.size:
            yield columns.of(end, slice(int(blocks[0]), int(blocks[-1]) + 1))


class _Columns:
    """The numbers of a table."""

    def __init__(self, table: pa.Table, of: ActionTable, limits: Mapping[str, Limits], source: str) -> None:
        self._table, self._of, self._limits, self._source = table, of, limits, source
        channels, channel = self._coded("channel")
        if unknown := [name for name in channels if name not in limits]:
            raise TraceUnreadableError(path=source, line=0, reason=f"no header opened channel {unknown[0]!r}")
        names, end = self._coded("end")
        number_of = self._known("end", names, ENDS)
        self._blocks = _blocks_of(end, channel)
        firsts = self._blocks.firsts()
        self._channels = [channels[code] for code in channel.take(firsts).tolist()]
        self.ends = number_of.take(end.take(firsts))
        """The end of each block."""
        names, action = self._coded("action")
        self._action = self._known("action", names, actions_of(of)).take(action)
        self._sequence: Integers = in_one_piece(table, "sequence").to_numpy()
        self._arguments = {name: in_one_piece(table, column_of(name)) for name in argument_names(of)}

    def of(self, end: End, blocks: slice) -> Events:
        """The events of these blocks, which all belong to one end."""
        channels, borders = self._channels[blocks], self._blocks.borders[blocks.start : blocks.stop + 1]
        places = self._blocks.places(borders)
        counters, has_counters = self._counted(end, places, int(borders[-1] - borders[0]))
        events = Events(
            table=self._of,
            end=end,
            channels=channels,
            borders=borders - borders[0],
            limits=[self._limits[name] for name in channels],
            sequence=_chosen(self._sequence, places),
            action=_chosen(self._action, places),
            arguments={name: _chosen(_filled(column), places) for name, column in self._arguments.items()},
            counters=counters,
            has_counters=has_counters,
        )
        self._check_actions(events)
        self._check_arguments(events, places)
        return events

    def _check_actions(self, events: Events) -> None:
        misplaced = ~events.is_any(self._of.actions[events.end])
        if misplaced.any():
            index = int(np.argmax(misplaced))
            self._refuse(events, index, f"the {events.end} has no action {events.action_of(index)!r}")

    def _check_arguments(self, events: Events, places: _EventPlaces) -> None:
        actions = self._of.actions[events.end]
        for name, column in self._arguments.items():
            if column.null_count:
                having = events.is_any(action for action, arguments in actions.items() if name in arguments)
                if (missing := having & ~_chosen(_are_known([column]), places)).any():
                    self._refuse(events, int(np.argmax(missing)), f"it lacks {name!r}")

    def _refuse(self, events: Events, index: int, reason: str) -> None:
        which = f"event {events.sequence[index]} of {events.channel_of(index)}"
        raise TraceUnreadableError(path=self._source, line=0, reason=f"{reason} ({which})")

    def _counted(self, end: End, places: _EventPlaces, count: int) -> tuple[Integers, Marks]:
        """An end's counters, and marks where all of them are known; elsewhere the numbers are arbitrary."""
        columns = [in_one_piece(self._table, name) for name in self._of.counters[end]]
        if not columns:
            return np.zeros((0, count), dtype=np.int64), np.ones(count, dtype=np.bool_)
        return np.stack([_chosen(_numbers(each), places) for each in columns]), _chosen(_are_known(columns), places)

    def _coded(self, name: str) -> tuple[list[str], npt.NDArray[np.int32]]:
        """The distinct names in a column, and the index of the name at each place."""
        column = coded(self._table, name)
        try:
            names = column.dictionary.to_pylist()
        except UnicodeDecodeError as error:
            reason = f"{name} must be text; it is damaged: {error}"
            raise TraceUnreadableError(path=self._source, line=0, reason=reason) from error
        return names, column.indices.to_numpy(zero_copy_only=False)

    def _known(self, column: str, names: Sequence[str], known: Sequence[str]) -> Actions:
        """The index of each of a column's names among the known names."""
        if unknown := [name for name in names if name not in known]:
            reason = f"{column} must be one of {', '.join(known)}: {unknown}"
            raise TraceUnreadableError(path=self._source, line=0, reason=reason)
        return np.array([known.index(name) for name in names], dtype=np.int8)


def _numbers(column: pa.Array) -> Integers:
    """The numbers of a column; arbitrary where they are null."""
    return np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8)


def _filled(column: pa.Array) -> Integers:
    """The numbers of a column; 0 where they are null."""
    return _numbers(column.fill_null(0) if column.null_count else column)


def _are_known(columns: Sequence[pa.Array]) -> Marks:
    """Marks the places where no column is null."""
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
