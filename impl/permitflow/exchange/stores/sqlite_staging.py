"""Staged rows as the tables hold them, and publishing as a transaction."""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from permitflow.exchange.stores.sqlite_batches import count_rows, insert_batch, read_batch
from permitflow.protocol.frames import Staging
from permitflow.transports.arrow import BatchCodec

__all__ = [
    "StoredPart",
    "forget_parts",
    "load_parts",
    "load_published",
    "publish_parts",
    "stage_batches",
    "take_over_published",
]

_FIND = """
SELECT id FROM parts
WHERE channel = ? AND query = ? AND batch = ? AND partition = ? AND attempt = ?
"""
_BEGIN = "INSERT INTO parts (channel, query, batch, partition, attempt) VALUES (?, ?, ?, ?, ?)"

_LOAD = """
SELECT parts.id, query, parts.batch, partition, attempt, staged.rows, arrow, checksum
FROM parts JOIN staged ON part = parts.id LEFT JOIN batches ON staged.batch = batches.id
WHERE channel = ? ORDER BY parts.id, position
"""

_BECOME_ROWS = """
INSERT INTO kept (channel, first_row, rows, batch)
SELECT ?, ? + sum(rows) OVER (ORDER BY position) - rows, rows, batch FROM staged WHERE part = ?
"""


class StoredPart(NamedTuple):
    """An attempt as it was left."""

    staging: Staging
    chunks: Sequence[pa.RecordBatch]


def stage_batches(
    connection: sqlite3.Connection,
    codec: BatchCodec,
    channel: int,
    staging: Staging,
    batches: Sequence[pa.RecordBatch],
) -> None:
    """Write chunks of an attempt, after those that it has."""
    part = _found(connection, channel, staging)
    if part is None:
        part = connection.execute(_BEGIN, (channel, *staging)).lastrowid
    ((first,),) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM staged WHERE part = ?", (part,))
    places = [
        (part, position, batch.num_rows, insert_batch(connection, codec, batch))
        for position, batch in enumerate(batches, first)
    ]
    connection.executemany("INSERT INTO staged (part, position, rows, batch) VALUES (?, ?, ?, ?)", places)


def forget_parts(connection: sqlite3.Connection, channel: int, stagings: Sequence[Staging]) -> None:
    """Delete attempts that are not published; some may not be here."""
    found = (_found(connection, channel, staging) for staging in stagings)
    _delete(connection, [part for part in found if part is not None])


def publish_parts(
    connection: sqlite3.Connection,
    query: str,
    batch: int,
    parts: Sequence[tuple[int, Staging, int]],
    forgotten: Collection[str],
) -> None:
    """Let attempts be rows of their channels, and delete all others of this batch and of older ones.

    Args:
        connection: within a transaction.
        query: whose batch it is.
        batch: from now on the last one of this query that was published.
        parts: the channel, the attempt, and the number of its first row, each.
        forgotten: queries whose last published batch is remembered no longer.
    """
    for channel, staging, first_row in parts:
        part = _found(connection, channel, staging)
        if part is not None:
            _become_rows(connection, channel, part, first_row)
    late = "SELECT id FROM parts WHERE query = ? AND batch <= ?"
    _delete(connection, [part for (part,) in connection.execute(late, (query, batch)).fetchall()])
    connection.executemany("DELETE FROM published WHERE query = ?", [(old,) for old in forgotten])
    connection.executemany("DELETE FROM publishing WHERE query = ?", [(old,) for old in (query, *forgotten)])
    connection.execute("INSERT OR REPLACE INTO published (query, batch) VALUES (?, ?)", (query, batch))
    connection.execute("INSERT INTO publishing (query) VALUES (?)", (query,))


def load_published(connection: sqlite3.Connection) -> dict[str, int]:
    """The last published batch of each query; who has published last comes last."""
    # Those of an older release, which did not note the order, come first.
    return dict(
        connection.execute("SELECT query, batch FROM published LEFT JOIN publishing USING (query) ORDER BY turn")
    )


def take_over_published(connection: sqlite3.Connection) -> None:
    """Let attempts be rows of their channels that an older release has published, and had no room for yet.

    It has noted their order as turns.  Within a transaction of the caller.
    """
    published = "SELECT id, channel FROM parts WHERE turn IS NOT NULL ORDER BY channel, turn"
    for part, channel in connection.execute(published).fetchall():
        ((first_row,),) = connection.execute("SELECT next_row FROM channels WHERE id = ?", (channel,))
        _become_rows(connection, channel, part, first_row)


def _become_rows(connection: sqlite3.Connection, channel: int, part: int, first_row: int) -> None:
    """The bytes of the chunks stay where they are."""
    ((rows,),) = connection.execute("SELECT coalesce(sum(rows), 0) FROM staged WHERE part = ?", (part,))
    connection.execute(_BECOME_ROWS, (channel, first_row, part))
    count_rows(connection, channel, first_row, first_row + rows)
    connection.execute("DELETE FROM staged WHERE part = ?", (part,))
    connection.execute("DELETE FROM parts WHERE id = ?", (part,))


def load_parts(connection: sqlite3.Connection, codec: BatchCodec, channel: int) -> Iterator[StoredPart]:
    """The attempts of a channel, in the order in which they began.

    Raises:
        UndecodableDataError: a batch is not what it was.
        ValueError: one is missing.
    """
    for (_, *key), chunks in groupby(connection.execute(_LOAD, (channel,)), lambda row: row[:5]):
        yield StoredPart(Staging(*key), [read_batch(codec, *chunk[5:]) for chunk in chunks])


def _found(connection: sqlite3.Connection, channel: int, staging: Staging) -> int | None:
    found = connection.execute(_FIND, (channel, *staging)).fetchone()
    return None if found is None else int(found[0])


def _delete(connection: sqlite3.Connection, parts: Sequence[int]) -> None:
    numbers = [(part,) for part in parts]
    connection.executemany("DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part = ?)", numbers)
    connection.executemany("DELETE FROM staged WHERE part = ?", numbers)
    connection.executemany("DELETE FROM parts WHERE id = ?", numbers)
