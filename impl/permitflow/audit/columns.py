"""A part of a trace as arrays: for each end its events, channel by channel, in the order of the recording.

Beside them stands what the parameters of their channels allow.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import PERMIT_ACTIONS, End
from permitflow.tracing.parquet import coded, in_one_piece

__all__ = [
    "ACTIONS",
    "CODE",
    "Codes",
    "Events",
    "Integers",
    "Marks",
    "PerEvent",
    "events_of",
    "limits_of",
    "triple",
]

Integers: TypeAlias = npt.NDArray[np.int64]
Marks: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.intp]
Actions: TypeAlias = npt.NDArray[np.int8]

PerEvent: TypeAlias = npt.NDArray[np.int64]
"""A number for each event, or the same one for all: then it has no dimension."""

_Codes = npt.NDArray[np.int32]
_Places = npt.NDArray[np.intp]

_EventPlaces: TypeAlias = slice | _Places
"""In a table; where they are neighbours, a slice."""

_Of = TypeVar("_Of", bound=np.generic)


ACTIONS = tuple(action for end in ("sender", "receiver") for action in sorted(PERMIT_ACTIONS.actions[end]))
"""An action is its index here; those of the receiver come last."""

CODE = {name: code for code, name in enumerate(ACTIONS)}
"""The other way round."""

_PERMITS = ("permits_rows", "permits_barriers", "permits_watermarks")
_ENDS: tuple[End, End] = ("sender", "receiver")
_NO_BOUND = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Limits:
    """Those of the channel of each event."""

    parameters: list[ChannelParameters]
    """Of each channel, not of each event."""

    row_permits: PerEvent
    barrier_permits: PerEvent
    permit_batch: PerEvent
    max_chunk_cost: PerEvent
    most_inbox_rows: PerEvent
    """No bound where chunks above the clamp are admitted whole."""

    @property
    def total(self) -> tuple[PerEvent, PerEvent, PerEvent]:
        """All permits: rows, barriers, watermarks."""
        return self.row_permits, self.barrier_permits, np.array(1, dtype=np.int64)

    def initial_counters(self, end: End) -> Integers:
        """What an end counts before its first event, by channel: the sender all permits, the receiver nothing.

        Spec: Init.
        """
        counts = np.zeros((3, len(self.parameters)), dtype=np.int64)
        if end == "sender":
            counts[:] = np.array([(of.row_permits, of.barrier_permits, 1) for of in self.parameters]).T
        return counts


def limits_of(parameters: Sequence[ChannelParameters], sizes: npt.NDArray[np.intp] | int = 1) -> Limits:
    """Of channels that have so many events each."""
    kinds = {of: number for number, of in enumerate(dict.fromkeys(parameters))}
    which = None if len(kinds) == 1 else np.repeat([kinds[of] for of in parameters], sizes)

    def beside_events(numbers: Sequence[int]) -> PerEvent:
        each = np.array(numbers, dtype=np.int64)
        return each.reshape(()) if which is None else each[which]

    return Limits(
        parameters=list(parameters),
        row_permits=beside_events([of.row_permits for of in kinds]),
        barrier_permits=beside_events([of.barrier_permits for of in kinds]),
        permit_batch=beside_events([of.permit_batch for of in kinds]),
        max_chunk_cost=beside_events([of.max_chunk_cost for of in kinds]),
        most_inbox_rows=beside_events([of.row_permits if of.oversize == "split" else _NO_BOUND for of in kinds]),
    )


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
    permits: Integers
    """Three rows: of rows, barriers, watermarks."""

    counters: Integers
    """Three rows: the end's own, after the event; its ``ActionTable`` says of what."""

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
        return Events(
            end=self.end,
            channels=[channel],
            borders=self.borders[number : number + 2] - self.borders[number],
            limits=limits_of(self.limits.parameters[number : number + 1]),
            sequence=self.sequence[places],
            action=self.action[places],
            rows=self.rows[places],
            permits=self.permits[:, places],
            counters=self.counters[:, places],
            has_counters=self.has_counters[places],
        )

    def permits_of(self, index: int) -> tuple[int, int, int]:
        """Those of one event."""
        return triple(self.permits, index)

    def counters_of(self, index: int) -> tuple[int, int, int] | None:
        """What the end counted after an event."""
        return triple(self.counters, index) if self.has_counters[index] else None


def triple(books: Integers, index: int) -> tuple[int, int, int]:
    """The three numbers of one event."""
    first, second, third = books[:, index].tolist()
    return first, second, third


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The events of a table end by end, of each end channel by channel, each in the order of the table."""

    borders: _Places
    """Where each block begins; the last one is the end."""

    order: _Places | None
    """The places of the events in the table; None: they lie there as they should, as in files of our own."""

    def places(self, borders: _Places) -> _EventPlaces:
        """Where in the table the events from the first to the last of these borders lie."""
        places = slice(int(borders[0]), int(borders[-1]))
        return places if self.order is None else self.order[places]

    def firsts(self) -> _Places:
        """Where in the table the first event of each block lies."""
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
    """What stands in a column at these places; neighbours are not copied."""
    # The same in brackets takes three times as long.
    return column[places] if isinstance(places, slice) else column.take(places)


def _starts(*columns: _Codes) -> _Places:
    """The places at which there is something else than at the place before."""
    changes = np.zeros(len(columns[0]), dtype=np.bool_)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _come_back(ends: _Codes, channels: _Codes) -> bool:
    """Is there more than one block of a channel's end, or are blocks of one end not side by side?"""
    most = (int(ends.max()) + 1) * (int(channels.max()) + 1)
    if len(ends) > most or len(set(zip(ends.tolist(), channels.tolist(), strict=True))) < len(ends):
        return True
    return len(_starts(ends)) > len(set(ends.tolist()))


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
        self._blocks = _blocks_of(end, channel)
        firsts = self._blocks.firsts()
        self._channels = [channels[code] for code in channel.take(firsts).tolist()]
        self.ends = number_of.take(end.take(firsts))
        """For each block, which end it is of."""
        names, action = self._coded("action")
        self._action = self._known("action", names, ACTIONS).take(action)
        self._numbers: dict[str, Integers] = {
            name: in_one_piece(table, name).to_numpy() for name in ("sequence", "rows", *_PERMITS)
        }

    def of(self, end: End, blocks: slice) -> Events:
        """The events of these blocks, which are all of one end."""
        channels, borders = self._channels[blocks], self._blocks.borders[blocks.start : blocks.stop + 1]
        places = self._blocks.places(borders)
        counters, has_counters = self._counted(end, places)
        events = Events(
            end=end,
            channels=channels,
            borders=borders - borders[0],
            limits=limits_of([self._parameters[name] for name in channels], np.diff(borders)),
            sequence=_chosen(self._numbers["sequence"], places),
            action=_chosen(self._action, places),
            rows=_chosen(self._numbers["rows"], places),
            permits=np.stack([_chosen(self._numbers[name], places) for name in _PERMITS]),
            counters=counters,
            has_counters=has_counters,
        )
        self._check_actions(events)
        return events

    def _check_actions(self, events: Events) -> None:
        of_sender = events.action < len(PERMIT_ACTIONS.actions["sender"])
        misplaced = ~of_sender if events.end == "sender" else of_sender
        if misplaced.any():
            index = int(np.argmax(misplaced))
            which = f"event {events.sequence[index]} of {events.channel_of(index)}"
            reason = f"the {events.end} has no action {ACTIONS[events.action[index]]!r} ({which})"
            raise TraceUnreadableError(path=self._source, line=0, reason=reason)

    def _counted(self, end: End, places: _EventPlaces) -> tuple[Integers, Marks]:
        """What an end counted, and where all of it is known; elsewhere there may be any number."""
        columns = [in_one_piece(self._table, name) for name in PERMIT_ACTIONS.counters[end]]
        numbers = (np.frombuffer(column.buffers()[1], np.int64, len(column), column.offset * 8) for column in columns)
        return np.stack([_chosen(column, places) for column in numbers]), _chosen(_are_known(columns), places)

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
