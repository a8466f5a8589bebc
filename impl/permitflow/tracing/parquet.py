"""Trace files in Parquet: a fraction of the size, and readable by Spark, DuckDB or pandas as they are.

One row for each event.  What the headers say stands in the file's metadata, in the footer: a file whose writer was
killed has none and cannot be read at all.  Where that may happen, record JSON lines.

In a row group the events of each end of each channel lie together, and ``position`` tells the order of all.  What one
end counts has no value where the other end acted: so values are there, or missing, in one run for each end, and not in
turns, which takes twice as long to read.  ``sequence`` counts up by one, and a reader of one end finds its events
side by side.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from permitflow.protocol.messages import Permits
from permitflow.protocol.recording import COUNTERS, Counters, End
from permitflow.tracing.events import Event, Header, check_action, end_of, header_of

__all__ = [
    "COUNTING_UP",
    "PERMITS",
    "POSITION",
    "ROW_GROUP_EVENTS",
    "SCHEMA",
    "TIME",
    "UNREADABLE",
    "ParquetTables",
    "ParquetWriter",
    "by_end",
    "coded",
    "in_one_piece",
    "in_order",
    "read_headers",
    "read_parquet",
    "table_of",
    "why_unreadable",
]

_NAME = pa.dictionary(pa.int32(), pa.string())

PERMITS = tuple(f"permits_{name}" for name in Permits._fields)
"""The columns that hold an event's permits, class by class."""

POSITION = "position"
"""The column that counts the events of a file from 1, in the order in which they were recorded."""

TIME = "time_seconds"

COUNTING_UP = ("sequence", POSITION)
"""Columns in which each number is a little more than the one before: those of one end."""

_COUNTERS = (*COUNTERS["sender"], *COUNTERS["receiver"])
_NONE = (None, None, None)

SCHEMA = pa.schema(
    [
        pa.field("channel", _NAME, nullable=False),
        pa.field("end", _NAME, nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field(TIME, pa.float64()),
        pa.field("action", _NAME, nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in PERMITS),
        *(pa.field(name, pa.int64()) for name in _COUNTERS),
        pa.field(POSITION, pa.int64(), nullable=False),
    ]
)
"""The columns: those of ``Event``, permits by class, the counters of the end that the event happened at, and where."""

UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError)

# A million events are 16 row groups of less than 1 MB; the writer keeps one of them in memory.
ROW_GROUP_EVENTS = 65_536

_VERSION = 2

# Nothing compresses what an audit reads as well as the order of the rows does: the rest shall be quick to read.
_COMPRESSION = {name: "zstd" if name in {TIME, POSITION} else "snappy" for name in SCHEMA.names}

_METADATA = b"permitflow_trace"


def table_of(events: Sequence[Event], *, before: int = 0) -> pa.Table:
    """Events, in their order, as a table with the columns of ``SCHEMA``; so many were before."""
    if not events:
        return SCHEMA.empty_table()
    channels, ends, sequences, actions, rows, permits, seconds, counters = zip(*events, strict=True)
    of_sender = [counted if end == "sender" and counted else _NONE for end, counted in zip(ends, counters, strict=True)]
    of_receiver = [
        counted if end == "receiver" and counted else _NONE for end, counted in zip(ends, counters, strict=True)
    ]
    columns: list[Sequence[object]] = [channels, ends, sequences, seconds, actions, rows]
    for triples in (permits, of_sender, of_receiver):
        columns += zip(*triples, strict=True)
    columns.append(range(before + 1, before + 1 + len(events)))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def by_end(table: pa.Table) -> pa.Table:
    """The events end by end, of each end channel by channel, each in the order in which they were."""
    keys = pa.table({name: coded(table, name).indices for name in ("end", "channel")})
    return table.take(pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names]))


def in_order(table: pa.Table) -> pa.Table:
    """The events in the order of the recording, wherever they lie; without positions they are there already."""
    if POSITION not in table.schema.names:
        return table
    return table.unify_dictionaries().sort_by(POSITION)


def coded(table: pa.Table, name: str) -> pa.DictionaryArray:
    """A column of names in one piece, as a dictionary."""
    column = in_one_piece(table, name)
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def in_one_piece(table: pa.Table, name: str) -> pa.Array:
    """A column."""
    column = table.column(name)
    # Putting together what is in one piece would copy it.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


"""What Arrow raises where a file is cut off or damaged."""


"""Of the layout.  In the first one, events lay in the order of the recording, and no column told their positions."""


class ParquetTables:
    """A trace file to which tables of events are written, each as a row group."""

    def __init__(self, path: Path) -> None:
        """Create the file, or empty it.

        Raises:
            OSError: it cannot be created.
        """
        self._file = pa.OSFile(str(path), mode="wb")
        try:
            self._parquet = pq.ParquetWriter(
                self._file,
                SCHEMA,
                compression=_COMPRESSION,
                # Where no number comes twice, a dictionary is only in the way.
                use_dictionary=[name for name in SCHEMA.names if name not in {*COUNTING_UP, TIME}],
                column_encoding=dict.fromkeys(COUNTING_UP, "DELTA_BINARY_PACKED"),
            )
        except BaseException:
            self._file.close()
            raise

    def write(self, table: pa.Table) -> None:
        """Write the events of a table with the columns of ``SCHEMA``.

        Raises:
            OSError: they could not be written.
        """
        self._parquet.write_table(by_end(table), row_group_size=len(table))

    def close(self, headers: Iterable[Header]) -> None:
        """Write the footer, and close the file.

        Raises:
            OSError: not everything could be written.
        """
        try:
            content = {"version": _VERSION, "headers": [_header_as_json(header) for header in headers]}
            self._parquet.add_key_value_metadata({_METADATA: json.dumps(content).encode()})
            self._parquet.close()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is.  Without a footer it cannot be read."""
        # First the file: whatever Parquet's writer wants to write later must not reach it.
        self._file.close()
        with suppress(OSError, ValueError):
            self._parquet.close()


class ParquetWriter:
    """Writes row groups of bounded size, and the headers into the footer."""

    def __init__(self, path: Path, *, row_group_events: int = ROW_GROUP_EVENTS) -> None:
        """Create the file, or empty it.

        Raises:
            OSError: it cannot be created.
        """
        self._tables = ParquetTables(path)
        self._row_group_events = row_group_events
        self._headers: list[Header] = []
        self._events: list[Event] = []
        self._written = 0

    def write(self, records: Sequence[Header | Event]) -> None:
        """Append records; events reach the file when a row group is full.

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
            self._tables.close(self._headers)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is.  Without a footer it cannot be read."""
        self._tables.abandon()

    def _write_row_group(self, count: int) -> None:
        self._tables.write(table_of(self._events[:count], before=self._written))
        self._written += count
        del self._events[:count]


def read_parquet(path: Path) -> tuple[list[Header], list[Event]]:
    """All headers and events of a trace file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not Parquet, or no trace; the message says what is wrong.
    """
    try:
        # Footer first: it says whether this is a trace.
        with pq.ParquetFile(path) as file:
            headers = read_headers(file)
            table = in_order(file.read(columns=SCHEMA.names))
    except UNREADABLE as error:
        raise ValueError(why_unreadable(error)) from error
    return headers, [event for batch in table.to_batches(ROW_GROUP_EVENTS) for event in _events(batch)]


def why_unreadable(error: Exception) -> str:
    """Words for what Arrow says of a file that is cut off or damaged: one of ``UNREADABLE``."""
    reason = str(error).partition(". Either")[0]
    return f"is no whole Parquet file (was its writer killed before it closed it?): {reason}"


def read_headers(file: pq.ParquetFile) -> list[Header]:
    """The headers of a trace, from its footer; all columns are there.

    Raises:
        ValueError: it is no trace; the message says what is wrong.
        KeyError, TypeError: a header is not what it should be.
    """
    metadata = file.schema_arrow.metadata or file.metadata.metadata or {}
    if _METADATA not in metadata:
        raise ValueError(f"its metadata has no {_METADATA.decode()!r}: it is not a permitflow trace")
    content = json.loads(metadata[_METADATA])
    version = content["version"]
    if version not in range(1, _VERSION + 1):
        raise ValueError(f"format version {version!r}, known are 1 to {_VERSION}")
    known = {*file.schema_arrow.names, *([POSITION] if version == 1 else [])}
    if missing := [name for name in SCHEMA.names if name not in known]:
        raise ValueError(f"the column {missing[0]!r} is missing")
    return [header_of(header) for header in content["headers"]]


def _header_as_json(header: Header) -> dict[str, object]:
    return {"channel": header.channel, "end": header.end, "parameters": asdict(header.parameters)}


def _events(batch: pa.RecordBatch) -> Iterator[Event]:
    columns = [batch.column(name).to_pylist() for name in SCHEMA.names if name != POSITION]
    for channel, name, sequence, seconds, action, rows, r, b, w, *counted in zip(*columns, strict=True):
        end = end_of(name)
        check_action(end, action)
        counters = _counters_of(end, counted)
        yield Event(channel, end, sequence, action, rows, Permits(r, b, w), seconds, counters)


def _counters_of(end: End, counted: list[int | None]) -> Counters | None:
    first, second, third = counted[:3] if end == "sender" else counted[3:]
    return None if first is None or second is None or third is None else (first, second, third)
