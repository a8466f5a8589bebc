"""Rows as the tables hold them: record batches in bytes, small ones together."""

import sqlite3
from collections.abc import Iterator, Sequence
from zlib import crc32

import pyarrow as pa

from permitflow.errors import LocalProtocolError
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.arrow_joining import joined, runs
from permitflow.transports.carrier import Buffer

__all__ = ["append_batches", "count_rows", "forget_batches", "insert_batch", "load_batches", "read_batch"]

# A row of a table costs tens of microseconds however small it is; above that, joining costs more than it saves.
_JOINED_BYTES = 256 << 10

_LOAD = """
SELECT first_row, rows, arrow, checksum FROM kept LEFT JOIN batches ON batch = id WHERE channel = ? ORDER BY first_row
"""


def append_batches(
    connection: sqlite3.Connection,
    codec: BatchCodec,
    channel: int,
    first_row: int,
    batches: Sequence[pa.RecordBatch],
    most_rows: int,
) -> None:
    """Write rows of a channel, from ``first_row`` on; none of its batches will have more than ``most_rows``."""
    for batch in _joined(codec, batches, most_rows) if codec.can_join else batches:
        place = (channel, first_row, batch.num_rows, insert_batch(connection, codec, batch))
        connection.execute("INSERT INTO kept (channel, first_row, rows, batch) VALUES (?, ?, ?, ?)", place)
        first_row += batch.num_rows


def _joined(codec: BatchCodec, batches: Sequence[pa.RecordBatch], most_rows: int) -> Iterator[pa.RecordBatch]:
    for run in runs(batches, codec.size_of, most_bytes=_JOINED_BYTES, most_rows=most_rows):
        yield from joined(run)


def count_rows(connection: sqlite3.Connection, channel: int, first_row: int, next_row: int) -> None:
    """Count rows as the channel's; a gap would make all later numbers wrong."""
    moved = connection.execute(
        "UPDATE channels SET next_row = ? WHERE id = ? AND next_row = ?", (next_row, channel, first_row)
    )
    if moved.rowcount != 1:
        raise LocalProtocolError(f"row {first_row} does not follow the rows that are stored")


def insert_batch(connection: sqlite3.Connection, codec: BatchCodec, batch: pa.RecordBatch) -> int:
    """Write a batch; the number by which other tables know it."""
    pieces = codec.encode([batch])
    arrow: Buffer = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    facts = (arrow, crc32(arrow))
    number = connection.execute("INSERT INTO batches (arrow, checksum) VALUES (?, ?)", facts).lastrowid
    assert number is not None, "each row of a table has a number"
    return number


def forget_batches(connection: sqlite3.Connection, channel: int, first_kept_row: int) -> None:
    """Delete the batches of a channel of which no row is needed any more."""
    # The first condition lets the index stop the search.
    gone = connection.execute(
        "DELETE FROM kept WHERE channel = ? AND first_row < ? AND first_row + rows <= ? RETURNING batch",
        (channel, first_kept_row, first_kept_row),
    ).fetchall()
    connection.executemany("DELETE FROM batches WHERE id = ?", gone)


def load_batches(
    connection: sqlite3.Connection, codec: BatchCodec, channel: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a channel that are there: each batch with the number of its first row, in order.

    Raises:
        UndecodableDataError: a batch is not what it was.
        ValueError: one is missing.
    """
    next_row: int | None = None
    for first_row, rows, arrow, checksum in connection.execute(_LOAD, (channel,)):
        if next_row not in (None, first_row):
            raise ValueError(f"rows before row {first_row} are missing")
        yield first_row, read_batch(codec, rows, arrow, checksum)
        next_row = first_row + rows


def read_batch(codec: BatchCodec, rows: int, arrow: bytes | None, checksum: int) -> pa.RecordBatch:
    """What ``insert_batch`` has written.

    Raises:
        UndecodableDataError: it is no batch of this schema.
        ValueError: it is missing, or not what it was.
    """
    if arrow is None:
        raise ValueError(f"a batch of {rows} rows is missing")
    if crc32(arrow) != checksum:
        raise ValueError(f"a batch of {rows} rows is not what it was")
    return codec.decode(arrow, [rows])
