"""The events of a trace as tables, and how their rows lie in files.

In a row group the events of each end of each channel lie together, and ``position`` tells the order of all.  What one
end counts has no value where the other end acted: so values are there, or missing, in one run for each end, and not in
turns, which takes twice as long to read.  ``sequence`` counts up by one, and whoever looks at one end finds its events
side by side.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from permitflow.protocol.messages import Permits
from permitflow.protocol.recording import COUNTERS
from permitflow.tracing.events import Event

__all__ = [
    "COUNTING_UP",
    "PERMITS",
    "POSITION",
    "SCHEMA",
    "TIME",
    "by_end",
    "coded",
    "in_one_piece",
    "in_order",
    "table_of",
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
