"""Trace files in Parquet: a fraction of the size, and readable by Spark, DuckDB or pandas as they are.

One row for each event; the columns for arguments and counters are named by the protocol's ``ActionTable``, and a file
holds channels of one protocol.  The file's footer holds the headers as metadata: a file whose writer was killed has no
footer and is unreadable.  If that may happen, record JSON lines.

In a row group the events of each end of each channel are adjacent, and ``position`` gives the order of all events.  A
counter of one end is null in the other end's events: so nulls come in one run for each end, not in alternation, which
takes twice as long to read.  ``sequence`` counts up by one, and a reader of one end finds its events side by side.
"""

import json
from array import array
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from permitflow.errors import TraceUnreadableError
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS, ActionTable, End, column_of
from permitflow.tracing.events import Event, Header, Recording, arguments_of, content_of, end_of, header_of

_NAME = pa.dictionary(pa.int32(), pa.string())

POSITION = "position"
"""The column that counts the events of a file from 1, in the order in which they were recorded."""

TIME = "time_seconds"

_COUNTING_UP = ("sequence", POSITION)
"""Columns in which each number is slightly larger than the one before, within one end."""

# A million events are 16 row groups of less than 1 MB; the writer keeps one of them in memory.
ROW_GROUP_EVENTS = 65_536

_BLOCK_EVENTS = 8_192

_VERSION = 3
"""Version of the layout.  No release has written version 1."""

_METADATA = b"permitflow_trace"


def schema_of(table: ActionTable) -> pa.Schema:
    """The columns: the fields of ``Event``, the arguments, the counters of each end, and the position."""
    told = [set(_columns(names)) for end in ENDS for names in table.actions[end].values()]
    arguments = [
        pa.field(name, pa.int64(), nullable=any(name not in names for names in told)) for name in table.argument_columns
    ]
    return pa.schema(
        [
            pa.field("channel", _NAME, nullable=False),
            pa.field("end", _NAME, nullable=False),
            pa.field("sequence", pa.int64(), nullable=False),
            pa.field(TIME, pa.float64()),
            pa.field("action", _NAME, nullable=False),
            *arguments,
            *(pa.field(name, pa.int64()) for name in table.counter_columns),
            pa.field(POSITION, pa.int64(), nullable=False),
        ]
    )


def table_of(events: Sequence[Event], of: ActionTable, *, before: int = 0) -> pa.Table:
    """Events, in their order, as a table with the columns of ``schema_of``; ``before`` events precede them."""
    rows = [
        {
            "channel": channel,
            "end": end,
            "sequence": sequence,
            TIME: seconds,
            "action": action,
            **dict(zip(_columns(of.actions[end][action]), arguments, strict=True)),
            **dict(zip(of.counters[end], counters, strict=False)),
        }
        for channel, end, sequence, action, arguments, seconds, counters in events
    ]
    *columns, position = schema_of(of)
    table = pa.Table.from_pylist(rows, schema=pa.schema(columns))
    return table.append_column(position, pa.array(range(before + 1, before + 1 + len(events)), pa.int64()))


def by_end(table: pa.Table) -> pa.Table:
    """The events sorted by end and channel, otherwise in their former order."""
    keys = pa.table({name: coded(table, name).indices for name in ("end", "channel")})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def in_order(table: pa.Table) -> pa.Table:
    """The events in the order of the recording."""
    return table.unify_dictionaries().sort_by(POSITION)


def coded(table: pa.Table, name: str) -> pa.DictionaryArray:
    """A column of names in one piece, as a dictionary."""
    column = in_one_piece(table, name)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def in_one_piece(table: pa.Table, name: str) -> pa.Array:
    """A column."""
    column = table.column(name)
    # Combining the chunks of a column that has only one would copy it.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


class ParquetWriter:
    """Writes row groups of bounded size, and the headers into the footer."""

    def __init__(self, path: Path, *, row_group_events: int = ROW_GROUP_EVENTS) -> None:
        """Create the file, or empty it.

        Raises:
            OSError: it cannot be created.
        """
        self._file = pa.OSFile(str(path), mode="wb")
        self._parquet: pq.ParquetWriter | None = None  # set once a header gives the columns
        self._table = PERMIT_ACTIONS
        self._row_group_events = row_group_events
        self._headers: list[Header] = []
        self._events: list[Event] = []
        self._written = 0

    def write(self, records: Sequence[Header | Event]) -> None:
        """Append records, all of one protocol; events reach the file when a row group is full.

        Raises:
            OSError: they could not be written.
        """
        self._headers += (record for record in records if isinstance(record, Header))
        self._events += (record for record in records if isinstance(record, Event))
        while len(self._events) >= self._row_group_events:
            self._write_row_group(self._row_group_events)

    def close(self) -> None:
        """Write the rest and the footer, and close the file.

        Raises:
            OSError: not everything could be written.
        """
        try:
            if self._events:
                self._write_row_group(len(self._events))
            known: set[str] = set()
            content = {"version": _VERSION, "headers": [content_of(header, known) for header in self._headers]}
            parquet = self._opened()
            parquet.add_key_value_metadata({_METADATA: json.dumps(content).encode()})
            parquet.close()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is.  Without a footer it cannot be read."""
        # Close the file first: no later write of Parquet's writer must reach it.
        self._file.close()
        if self._parquet is not None:
            with suppress(OSError, ValueError):
                self._parquet.close()

    def _write_row_group(self, count: int) -> None:
        parquet = self._opened()
        table = table_of(self._events[:count], self._table, before=self._written)
        parquet.write_table(by_end(table), row_group_size=count)
        self._written += count
        del self._events[:count]

    def _opened(self) -> pq.ParquetWriter:
        if self._parquet is None:
            if self._headers:
                self._table = self._headers[0].table
            schema = schema_of(self._table)
            self._parquet = pq.ParquetWriter(
                self._file,
                schema,
                # The order of the rows already compresses the columns; so favour reading speed.
                compression={name: "zstd" if name in {TIME, POSITION} else "snappy" for name in schema.names},
                # A dictionary is useless for a column of distinct numbers.
                use_dictionary=[name for name in schema.names if name not in {*_COUNTING_UP, TIME}],
                column_encoding=dict.fromkeys(_COUNTING_UP, "DELTA_BINARY_PACKED"),
            )
        return self._parquet


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a trace file for the block.

    Raises:
        TraceUnreadableError: the file cannot be read, is not Parquet, or the block finds something else in it.
    """
    try:
        try:
            file = pq.ParquetFile(path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            reason = str(error).partition(". Either")[0]
            raise ValueError(
                f"is not a complete Parquet file (was its writer killed before it closed it?): {reason}"
            ) from error
        with file:
            yield file
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise TraceUnreadableError(path=str(path), line=0, reason=reason) from error


class ParquetPosition(NamedTuple):
    """A place between two events of a file."""

    row_group: int = 0
    row: int = 0
    """The number of the next event in its group, in the order of the recording."""


def read_parquet(path: Path) -> Recording:
    """All headers and events of a trace file.

    Raises:
        TraceUnreadableError: the file cannot be read, is not Parquet, or no trace.
    """
    scanned = scan_parquet(path)
    return scanned._replace(events=[event for _, block in read_blocks(scanned, None, None) for event in block])


def scan_parquet(path: Path) -> Recording:
    """The headers of a file, from its footer.

    Raises:
        TraceUnreadableError: the file cannot be read, is not Parquet, or no trace.
    """
    with open_parquet(path) as file:
        return Recording(str(path), read_headers(file), ())


def read_blocks(
    scanned: Recording, channels: Container[str] | None, start: ParquetPosition | None
) -> Iterator[tuple[ParquetPosition, list[Event]]]:
    """The events of some channels of a scanned file, or of all, block by block, each with the place behind it.

    It begins at ``start``, or at the beginning.  Memory holds a row group; or all of a file whose row groups are not in
    the order of the recording, since another program has sorted it.

    Raises:
        TraceUnreadableError: the file cannot be read, or an event of theirs is malformed.
    """
    start, headers = start or ParquetPosition(), scanned.headers
    of = headers[0].table if headers else PERMIT_ACTIONS
    opened = {header[:2] for header in headers}
    schema, known = schema_of(of), {key for key in opened if channels is None or key[0] in channels}
    with open_parquet(Path(scanned.source)) as file:
        is_in_order = _is_in_order(file)
        parts = range(file.num_row_groups) if is_in_order else range(1)
        for part in parts[start.row_group :]:
            try:
                table = file.read_row_group(part, schema.names) if is_in_order else file.read(schema.names)
                # Other programs write other types, and nulls; the numbers must be whole and not null.
                table = table if table.schema.equals(schema) else table.select(schema.names).cast(schema)
            except (OSError, ValueError) as error:
                raise ValueError(f"row group {part + 1} of {len(parts)} cannot be read: {error}") from error
            place = ParquetPosition(part, start.row if part == start.row_group else 0)
            table = in_order(table).slice(place.row)
            for batch in table.to_batches(_BLOCK_EVENTS):
                place = ParquetPosition(part, place.row + batch.num_rows)
                yield place, _events(batch, of, known, opened, place.row - batch.num_rows)


def _is_in_order(file: pq.ParquetFile) -> bool:
    """Does each row group end before the next one begins?  If the file does not say, it may not."""
    column, last = file.schema_arrow.names.index(POSITION), 0
    for number in range(file.num_row_groups):
        found = file.metadata.row_group(number).column(column).statistics
        if found is None or not found.has_min_max or found.min <= last:
            return bool(file.num_row_groups == 1)
        last = found.max
    return True


def read_headers(file: pq.ParquetFile) -> list[Header]:
    """The headers of a trace, all of one protocol, from its footer; all columns are there.

    Raises:
        ValueError: it is not a trace; the message says what is wrong.
        KeyError, TypeError: a header is malformed.
    """
    metadata = file.schema_arrow.metadata or file.metadata.metadata or {}
    if _METADATA not in metadata:
        raise ValueError(f"its metadata has no {_METADATA.decode()!r}: it is not a permitflow trace")
    content = json.loads(metadata[_METADATA])
    version = content["version"]
    if version != _VERSION:
        raise ValueError(f"format version {version!r}, known is {_VERSION}")
    tables: dict[str, ActionTable] = {}
    headers = [header_of(header, tables) for header in content["headers"]]
    of = headers[0].table if headers else PERMIT_ACTIONS
    if any(header.table != of for header in headers):
        raise ValueError("its headers are of several protocols")
    if missing := [name for name in schema_of(of).names if name not in file.schema_arrow.names]:
        raise ValueError(f"the column {missing[0]!r} is missing")
    return headers


Key: TypeAlias = tuple[str, str]
"""A channel and an end."""

_Pick: TypeAlias = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _events(
    batch: pa.RecordBatch, of: ActionTable, known: Container[Key], opened: Container[Key], before: int
) -> list[Event]:
    """The events of the known channels and ends; ``before`` rows precede them."""
    names = batch.schema.names
    columns = [_values(batch.column(name)) for name in names]
    channels, ends, sequences, seconds, actions = (
        columns[names.index(name)] for name in ("channel", "end", "sequence", TIME, "action")
    )
    shapes: dict[tuple[str, str], tuple[End, _Pick, _Pick]] = {}
    events = []
    told = zip(channels, ends, sequences, seconds, actions, zip(*columns, strict=True), strict=True)
    for row, (channel, name, sequence, second, action, numbers) in enumerate(told, start=before + 1):
        if (channel, name) not in known:
            if (channel, name) not in opened:
                raise ValueError(f"no header opened the {end_of(name)} of channel {channel!r} (row {row})")
            continue
        shape = shapes.get((name, action))
        if shape is None:
            end = end_of(name)
            told_of = arguments_of(of, end, action)
            shape = shapes[name, action] = (
                end,
                _pick([names.index(column) for column in _columns(told_of)]),
                _pick([names.index(column) for column in of.counters[end]]),
            )
        end, arguments_in, counters_in = shape
        arguments, counters = arguments_in(numbers), counters_in(numbers)
        if None in arguments:
            raise ValueError(f"an argument of {action} is missing")
        events.append(Event(channel, end, sequence, action, arguments, second, () if None in counters else counters))
    return events


def _pick(places: Sequence[int]) -> _Pick:
    """A function that takes these of some values."""
    if len(places) > 1:
        return itemgetter(*places)
    return (lambda values: (values[places[0]],)) if places else (lambda _: ())


def _values(column: pa.Array) -> list[Any]:
    """As ``to_pylist``, which makes an object of Arrow for each value, in a third of the time of reading a file."""
    if pa.types.is_dictionary(column.type):
        names = column.dictionary.to_pylist()
        return [None if index is None else names[index] for index in _values(column.indices)]
    code = _CODES.get(column.type)
    if code is None or column.null_count == len(column):
        return list(column.to_pylist())
    size = column.type.bit_width // 8
    here = memoryview(column.buffers()[1])[column.offset * size : (column.offset + len(column)) * size]
    numbers = array(code)
    numbers.frombytes(here)
    values: list[Any] = numbers.tolist()
    if column.null_count:
        for index in _values(pc.indices_nonzero(column.is_null())):
            values[index] = None
    return values


_CODES = {pa.int32(): "i", pa.int64(): "q", pa.uint64(): "Q", pa.float64(): "d"}


@cache
def _columns(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(column_of, names))
