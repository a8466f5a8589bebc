"""Staged rows as the tables hold them, and publishing as a transaction."""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from itertools import count, groupby
from typing import NamedTuple

import pyarrow as pa

from permitflow.exchange.stores.sqlite_batches import insert_batch, read_batch
from permitflow.protocol.frames import Staging
from permitflow.transports.arrow import BatchCodec

__all__ = [
    "StoredPart",
    "forget_parts",
    "load_parts",
    "load_published",
    "publish_parts",
    "stage_batches",
    "take_over_chunks",
]

_FIND = """
SELECT id FROM parts
WHERE channel = ? AND query = ? AND batch = ? AND partition = ? AND attempt = ? AND turn IS NULL
"""
_BEGIN = "INSERT INTO parts (channel, query, batch, partition, attempt) VALUES (?, ?, ?, ?, ?)"

_LOAD = """
SELECT parts.id, query, parts.batch, partition, attempt, turn, staged.rows, arrow, checksum
FROM parts JOIN staged ON part = parts.id LEFT JOIN batches ON staged.batch = batches.id
WHERE channel = ? ORDER BY turn, parts.id, position
"""

_NEXT_CHUNKS = """
SELECT part, position, rows, staged.batch FROM parts JOIN staged ON part = id
WHERE channel = ? AND turn IS NOT NULL ORDER BY turn, position LIMIT ?
"""


class StoredPart(NamedTuple):
    """An attempt as it was left."""

    staging: Staging
    is_published: bool
    chunks: Sequence[pa.RecordBatch]


def stage_batches(
    connection: sqlite3.Connection,
    codec: BatchCodec,
    channel: int,
    staging: Staging,
    batches: Sequence[pa.RecordBatch],
) -> None:
    """Write chunks of an attempt, after those that it has.  Each stays by itself: they are taken over one by one."""
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
    parts: Sequence[tuple[int, Staging]],
    forgotten: Collection[str],
) -> None:
    """Put attempts into the lines of their channels, and delete all others of this batch and of older ones.

    Of the queries ``forgotten`` the last published batch is remembered no longer.
    """
    turns: dict[int, Iterator[int]] = {}
    for channel, staging in parts:
        part = _found(connection, channel, staging)
        if part is not None:
            # No index knows the last turn: looked up for each part anew, a batch would cost the square of its parts.
            if channel not in turns:
                turns[channel] = count(_next_turn(connection, channel))
            connection.execute("UPDATE parts SET turn = ? WHERE id = ?", (next(turns[channel]), part))
    late = "SELECT id FROM parts WHERE query = ? AND batch <= ? AND turn IS NULL"
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


def take_over_chunks(connection: sqlite3.Connection, channel: int, first_row: int, chunks: int) -> int:
    """Let the next published chunks be rows of the channel, from ``first_row`` on; how many rows.

    Raises:
        ValueError: there are not so many.
    """
    found = connection.execute(_NEXT_CHUNKS, (channel, chunks)).fetchall()
    if len(found) != chunks:
        raise ValueError(f"{chunks} chunks are to be taken over, but {len(found)} are published")
    next_row = first_row
    for part, position, rows, batch in found:
        kept = (channel, next_row, rows, batch)
        connection.execute("INSERT INTO kept (channel, first_row, rows, batch) VALUES (?, ?, ?, ?)", kept)
        connection.execute("DELETE FROM staged WHERE part = ? AND position = ?", (part, position))
        next_row += rows
    touched = sorted({part for part, *_ in found})
    empty = "DELETE FROM parts WHERE id = ? AND NOT EXISTS (SELECT * FROM staged WHERE part = id)"
    connection.executemany(empty, [(part,) for part in touched])
    return next_row - first_row


def load_parts(connection: sqlite3.Connection, codec: BatchCodec, channel: int) -> Iterator[StoredPart]:
    """The attempts of a channel: those that are not published as they began, then the others as it is their turn.

    Raises:
        UndecodableDataError: a batch is not what it was.
        ValueError: one is missing.
    """
    for (_, *key, turn), chunks in groupby(connection.execute(_LOAD, (channel,)), lambda row: row[:6]):
        batches = [read_batch(codec, *chunk[6:]) for chunk in chunks]
        yield StoredPart(Staging(*key), turn is not None, batches)


def _found(connection: sqlite3.Connection, channel: int, staging: Staging) -> int | None:
    found = connection.execute(_FIND, (channel, *staging)).fetchone()
    return None if found is None else int(found[0])


def _next_turn(connection: sqlite3.Connection, channel: int) -> int:
    ((turn,),) = connection.execute("SELECT max(turn) FROM parts WHERE channel = ?", (channel,))
    return 0 if turn is None else int(turn) + 1


def _delete(connection: sqlite3.Connection, parts: Sequence[int]) -> None:
    numbers = [(part,) for part in parts]
    connection.executemany("DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part = ?)", numbers)
    connection.executemany("DELETE FROM staged WHERE part = ?", numbers)
    connection.executemany("DELETE FROM parts WHERE id = ?", numbers)
