"""Trace files in Parquet: a third of the size, and readable by Spark, DuckDB or pandas as they are.

One row for each event.  What the headers say stands in the file's metadata, in the footer: a file whose writer was
killed has none and cannot be read at all.  Where that may happen, record JSON lines.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from permitflow.protocol.messages import Permits
from permitflow.protocol.recording import COUNTERS, Counters, End
from permitflow.tracing.content import check_action, end_of, header_of
from permitflow.tracing.events import FORMAT_VERSION, Event, Header

__all__ = ["PERMITS", "SCHEMA", "ParquetWriter", "read_headers", "read_parquet", "table_of"]

# A million events are 16 row groups of about 1 MB; the writer keeps one of them in memory.
ROW_GROUP_EVENTS = 65_536

_NAME = pa.dictionary(pa.int32(), pa.string())
PERMITS = tuple(f"permits_{name}" for name in Permits._fields)
"""The columns that hold an event's permits, class by class."""

_COUNTERS = (*COUNTERS["sender"], *COUNTERS["receiver"])

SCHEMA = pa.schema(
    [
        pa.field("channel", _NAME, nullable=False),
        pa.field("end", _NAME, nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("time_seconds", pa.float64()),
        pa.field("action", _NAME, nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in PERMITS),
        *(pa.field(name, pa.int64()) for name in _COUNTERS),
    ]
)
"""The columns: those of ``Event``, permits by class, and the counters of the end that the event happened at."""

_METADATA = b"permitflow_trace"
_NONE = (None, None, None)


class ParquetWriter:
    """Writes row groups of bounded size, and the headers into the footer."""

    def __init__(self, path: Path, *, row_group_events: int = ROW_GROUP_EVENTS) -> None:
        """Create the file, or empty it.

        Raises:
            OSError: it cannot be created.
        """
        self._file = pa.OSFile(str(path), mode="wb")
        try:
            self._parquet = pq.ParquetWriter(self._file, SCHEMA, compression="zstd")
        except BaseException:
            self._file.close()
            raise
        self._row_group_events = row_group_events
        self._headers: list[Header] = []
        self._events: list[Event] = []

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
            content = {"version": FORMAT_VERSION, "headers": [_header_as_json(header) for header in self._headers]}
            self._parquet.add_key_value_metadata({_METADATA: json.dumps(content).encode()})
            self._parquet.close()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the file as it is.  Without a footer nobody can read it."""
        # First the file: whatever Parquet's writer wants to write later must not reach it.
        self._file.close()
        with suppress(OSError, ValueError):
            self._parquet.close()

    def _write_row_group(self, count: int) -> None:
        self._parquet.write_table(table_of(self._events[:count]), row_group_size=count)
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
            events = [event for group in file.iter_batches(columns=SCHEMA.names) for event in _events(group)]
    except pa.ArrowInvalid as error:
        reason = str(error).partition(". Either")[0]
        raise ValueError(f"is no whole Parquet file (was its writer killed before it closed it?): {reason}") from error
    return headers, events


def read_headers(file: pq.ParquetFile) -> list[Header]:
    """The headers of a trace, from its footer; all columns are there.

    Raises:
        ValueError: it is no trace; the message says what is wrong.
        KeyError, TypeError: a header is not what it should be.
    """
    headers = list(_headers(file.schema_arrow.metadata or file.metadata.metadata or {}))
    names = set(file.schema_arrow.names)
    if missing := [name for name in SCHEMA.names if name not in names]:
        raise ValueError(f"the column {missing[0]!r} is missing")
    return headers


def _header_as_json(header: Header) -> dict[str, object]:
    return {"channel": header.channel, "end": header.end, "parameters": asdict(header.parameters)}


def _headers(metadata: dict[bytes, bytes]) -> Iterator[Header]:
    if _METADATA not in metadata:
        raise ValueError(f"its metadata has no {_METADATA.decode()!r}: it is not a permitflow trace")
    content = json.loads(metadata[_METADATA])
    if content["version"] != FORMAT_VERSION:
        raise ValueError(f"format version {content['version']!r}, known is {FORMAT_VERSION}")
    for header in content["headers"]:
        yield header_of(header)


def table_of(events: Sequence[Event]) -> pa.Table:
    """Events as a table with the columns of ``SCHEMA``."""
    if not events:
        return SCHEMA.empty_table()
    channels, ends, sequences, actions, rows, permits, seconds, counters = zip(*events, strict=True)
    of_sender = [counted if end == "sender" and counted else _NONE for end, counted in zip(ends, counters, strict=True)]
    of_receiver = [
        counted if end == "receiver" and counted else _NONE for end, counted in zip(ends, counters, strict=True)
    ]
    columns = [channels, ends, sequences, seconds, actions, rows]
    for triples in (permits, of_sender, of_receiver):
        columns += zip(*triples, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _events(batch: pa.RecordBatch) -> Iterator[Event]:
    columns = [batch.column(name).to_pylist() for name in SCHEMA.names]
    for channel, name, sequence, seconds, action, rows, r, b, w, *counted in zip(*columns, strict=True):
        end = end_of(name)
        check_action(end, action)
        counters = _counters_of(end, counted)
        yield Event(channel, end, sequence, action, rows, Permits(r, b, w), seconds, counters)


def _counters_of(end: End, counted: list[int | None]) -> Counters | None:
    first, second, third = counted[:3] if end == "sender" else counted[3:]
    return None if first is None or second is None or third is None else (first, second, third)
