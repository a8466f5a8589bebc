"""A part of a trace as arrays: for each end its events, channel by channel, in the order of the recording.

Beside them are the parameters of their channels.  The protocol's ``ActionTable`` names the
arguments and counters of an event.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.errors import TraceUnreadableError
from permitflow.flows.recording import ENDS, ActionTable, End, column_of
from permitflow.tracing.events import end_of
from permitflow.tracing.parquet import coded, in_one_piece

Integers: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.intp]
Actions: TypeAlias = npt.NDArray[np.int8]

Limit: TypeAlias = int | str | Callable[[Any], int]
"""A number that may depend on a channel's parameters: the name of one of them, or computed from them."""


def number_of(limit: Limit, parameters: object) -> int:
    """A limit in numbers."""
    if isinstance(limit, int):
        return limit
    number: int = getattr(parameters, limit) if isinstance(limit, str) else limit(parameters)
    return number


def actions_of(table: ActionTable) -> tuple[str, ...]:
    """All actions; an action is its index here."""
    return tuple(dict.fromkeys(action for end in ENDS for action in table.actions[end]))


@dataclass(frozen=True, slots=True)
class Events:
    """Events of one end of any number of channels, at least one each; arrays have a place for each event."""

    table: ActionTable
    end: End
    channels: Sequence[str]
    borders: Places
    """The place of each channel's first event, and at last the place behind all events."""
    parameters: Sequence[object]
    """Of each channel, not of each event."""
    sequence: Integers
    action: Actions
    arguments: Mapping[str, Integers]
    """By name; 0 where an action has no such argument."""
    counters: Integers
    """A row for each counter of the end, with the values after each event."""
    has_counters: Marks
    _marks: dict[tuple[str, ...], Marks] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sequence)

    @property
    def starts(self) -> Places:
        """For each channel: the place of its first event."""
        return self.borders[:-1]

    @property
    def lasts(self) -> Places:
        """For each channel: the place of its last event."""
        return self.borders[1:] - 1

    @property
    def openings(self) -> Marks:
        """Marks the first two events of each channel: what was before them may decide whether they are right."""
        marks = np.zeros(len(self), dtype=np.bool_)
        marks[self.starts] = marks[np.minimum(self.starts + 1, self.lasts)] = True
        return marks

    def limits(self, limit: Limit) -> Integers:
        """A number of each channel."""
        return np.array([number_of(limit, each) for each in self.parameters], dtype=np.int64)

    def limit(self, limit: Limit) -> Integers:
        """A number of the channel of each event, or one number for all events."""
        numbers = self.limits(limit)
        return numbers[:1] if (numbers == numbers[0]).all() else np.repeat(numbers, np.diff(self.borders))

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
        borders = self.borders[number : number + 2]
        one = replace(self, channels=[channel], parameters=self.parameters[number : number + 1])
        return one._at(slice(*borders), borders - borders[0])

    def edges(self) -> "Events":
        """The first two and the last two events of each channel."""
        marks = self.openings
        marks[self.lasts] = marks[np.maximum(self.lasts - 1, self.starts)] = True
        places = np.flatnonzero(marks)
        return self._at(places, np.searchsorted(places, self.borders))

    def _at(self, places: Places | slice, borders: Places) -> "Events":
        return replace(
            self,
            borders=borders,
            sequence=self.sequence[places],
            action=self.action[places],
            arguments={name: column[places] for name, column in self.arguments.items()},
            counters=self.counters[:, places],
            has_counters=self.has_counters[places],
            _marks={},
        )

    def action_of(self, index: int) -> str:
        """The action of one event."""
        return actions_of(self.table)[int(self.action[index])]

    def arguments_of(self, index: int) -> tuple[int, ...]:
        """The arguments of one event."""
        return tuple(int(self.arguments[name][index]) for name in self.table.actions[self.end][self.action_of(index)])

    def counters_of(self, index: int) -> tuple[int, ...] | None:
        """The end's counters after one event."""
        return tuple(self.counters[:, index].tolist()) if self.has_counters[index] else None


def joined(parts: Sequence[Events]) -> tuple[Events, Marks]:
    """Events of the same end in several parts, channel by channel; and marks of the openings of each part."""
    parameters = {name: of for part in parts for name, of in zip(part.channels, part.parameters, strict=True)}
    numbers = {name: number for number, name in enumerate(parameters)}
    of_blocks = [numbers[name] for part in parts for name in part.channels]
    channel = np.repeat(of_blocks, np.concatenate([np.diff(part.borders) for part in parts]))
    order = np.argsort(channel, kind="stable")
    whole = replace(
        parts[0],
        channels=list(parameters),
        parameters=list(parameters.values()),
        sequence=np.concatenate([part.sequence for part in parts]),
        action=np.concatenate([part.action for part in parts]),
        arguments={name: np.concatenate([part.arguments[name] for part in parts]) for name in parts[0].arguments},
        counters=np.concatenate([part.counters for part in parts], axis=1),
        has_counters=np.concatenate([part.has_counters for part in parts]),
    )
    openings = np.concatenate([part.openings for part in parts])
    borders = np.append(0, np.cumsum(np.bincount(channel)))
    return whole._at(order, borders), openings[order]


def events_of(table: pa.Table, of: ActionTable, parameters: Mapping[str, object], *, source: str) -> Iterator[Events]:
    """The events of each end in a table with the columns of a trace.

    Raises:
        TraceUnreadableError: a channel without parameters, or an action that does not happen at its end.
    """
    if not len(table):
        return
    channels, channel = _coded(table, "channel", source)
    if unknown := [name for name in channels if name not in parameters]:
        raise TraceUnreadableError(path=source, line=0, reason=f"no header opened channel {unknown[0]!r}")
    ends, end = _coded(table, "end", source)
    _require_known("end", ends, ENDS, source)
    keys = end * np.int32(len(channels)) + channel
    if (keys[1:] < keys[:-1]).any():  # not in this package's Parquet files
        order = np.argsort(keys, kind="stable")
        table, keys = table.take(order), keys.take(order)
    borders = np.concatenate([[0], np.flatnonzero(keys[1:] != keys[:-1]) + 1, [len(keys)]])
    of_blocks = keys.take(borders[:-1])
    for code, name in enumerate(ends):
        start, stop = np.searchsorted(of_blocks, [code * len(channels), (code + 1) * len(channels)])
        if start < stop:
            first, last = int(borders[start]), int(borders[stop])
            names = [channels[number] for number in of_blocks[start:stop] % len(channels)]
            shape = names, [parameters[each] for each in names], borders[start : stop + 1] - first
            yield _events(table.slice(first, last - first), of, end_of(name), *shape, source)


def _events(
    table: pa.Table,
    of: ActionTable,
    end: End,
    channels: list[str],
    parameters: list[object],
    borders: Places,
    source: str,
) -> Events:
    names, action = _coded(table, "action", source)
    known = actions_of(of)
    _require_known("action", names, known, source)
    told = {name: in_one_piece(table, column_of(name)) for each in ENDS for name in _argument_names(of, each)}
    counted = [in_one_piece(table, name) for name in of.counters[end]]
    counters = [_filled(column) for column in counted]
    events = Events(
        table=of,
        end=end,
        channels=channels,
        borders=borders,
        parameters=parameters,
        sequence=in_one_piece(table, "sequence").to_numpy(),
        action=np.array([known.index(name) for name in names], dtype=np.int8).take(action),
        arguments={name: _filled(column) for name, column in told.items()},
        counters=np.stack(counters) if counters else np.zeros((0, len(table)), dtype=np.int64),
        has_counters=np.logical_and.reduce([_is_known(column) for column in counted], axis=0)
        if any(column.null_count for column in counted)
        else np.ones(len(table), dtype=np.bool_),
    )
    actions = of.actions[end]
    misplaced = ~events.is_any(actions)
    if misplaced.any():
        index = int(np.argmax(misplaced))
        raise _refusal(events, index, f"the {end} has no action {events.action_of(index)!r}", source)
    for name, column in told.items():
        if column.null_count:
            having = events.is_any(action for action, arguments in actions.items() if name in arguments)
            if (missing := having & ~_is_known(column)).any():
                raise _refusal(events, int(np.argmax(missing)), f"it lacks {name!r}", source)
    return events


def _argument_names(table: ActionTable, end: End) -> Iterator[str]:
    return (name for names in table.actions[end].values() for name in names)


def _refusal(events: Events, index: int, reason: str, source: str) -> TraceUnreadableError:
    which = f"event {events.sequence[index]} of {events.channel_of(index)}"
    return TraceUnreadableError(path=source, line=0, reason=f"{reason} ({which})")


def _coded(table: pa.Table, name: str, source: str) -> tuple[list[str], npt.NDArray[np.int32]]:
    """The distinct names in a column, and the index of the name at each place."""
    column = coded(table, name)
    try:
        names = column.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        reason = f"{name} must be text; it is damaged: {error}"
        raise TraceUnreadableError(path=source, line=0, reason=reason) from error
    return names, column.indices.to_numpy(zero_copy_only=False)


def _require_known(column: str, names: Sequence[str], known: Sequence[str], source: str) -> None:
    if unknown := [name for name in names if name not in known]:
        reason = f"{column} must be one of {', '.join(known)}: {unknown}"
        raise TraceUnreadableError(path=source, line=0, reason=reason)


def _filled(column: pa.Array) -> Integers:
    """The numbers of a column; 0 where they are null."""
    numbers: Integers = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers


def _is_known(column: pa.Array) -> Marks:
    marks: Marks = column.is_valid().to_numpy(zero_copy_only=False)
    return marks
