"""What a durable store writes down, as tables, and how channels, rows and staged rows get there and back.

Rows are record batches in bytes, small ones together.  The bytes of a chunk are written once: what is published moves
from ``staged`` to ``kept`` by its number.
"""

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

import pyarrow as pa

from permitflow.errors import LocalProtocolError, UndecodableDataError
from permitflow.exchange.stores.store import KeptChannel, KeptPart
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Staging
from permitflow.protocol.permits import PERMITS
from permitflow.transports.arrow import BatchCodec, joined, read_schema, runs
from permitflow.transports.carrier import Buffer

__all__ = [
    "TABLES",
    "TABLES_VERSION",
    "StoredChannel",
    "append_batches",
    "count_rows",
    "forget_batches",
    "forget_parts",
    "insert_batch",
    "load_batches",
    "load_channels",
    "load_parts",
    "load_published",
    "name_flows",
    "publish_parts",
    "read_batch",
    "stage_batches",
    "take_over_published",
]

TABLES_VERSION = 3
"""Another number for tables that an older release would not understand.

Version 1 has no count of commits; versions 1 and 2 know permits only, and have a column for each of their parameters.
"""

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS channels (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        log_id TEXT NOT NULL,              -- the log in which its rows are counted
        flow TEXT NOT NULL,                -- its name
        parameters TEXT NOT NULL,          -- of the flow, as JSON
        schema BLOB,                       -- Arrow IPC; NULL until a producer has stated it
        next_row INTEGER NOT NULL,
        state TEXT NOT NULL,               -- open, ended, broken
        reason TEXT NOT NULL               -- why it is broken
    ) STRICT
    """,
    """
    CREATE TABLE IF NOT EXISTS consumers (
        channel INTEGER NOT NULL REFERENCES channels,
        name TEXT NOT NULL,
        acknowledged_row INTEGER NOT NULL, -- it needs none before this one
        PRIMARY KEY (channel, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS producers (
        channel INTEGER NOT NULL REFERENCES channels,
        name TEXT NOT NULL,
        rows INTEGER NOT NULL,             -- of it that were ever taken over
        PRIMARY KEY (channel, name)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS batches (
        id INTEGER PRIMARY KEY,
        arrow BLOB NOT NULL,               -- Arrow IPC, without the schema
        checksum INTEGER NOT NULL          -- CRC-32 of it: SQLite has none of its own
    ) STRICT
    """,
    """
    CREATE TABLE IF NOT EXISTS kept (
        channel INTEGER NOT NULL REFERENCES channels,
        first_row INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        batch INTEGER NOT NULL REFERENCES batches,
        PRIMARY KEY (channel, first_row)
    ) STRICT, WITHOUT ROWID
    """,
    # In the order in which they began.
    """
    CREATE TABLE IF NOT EXISTS parts (
        id INTEGER PRIMARY KEY,
        channel INTEGER NOT NULL REFERENCES channels,
        query TEXT NOT NULL,
        batch INTEGER NOT NULL,
        partition INTEGER NOT NULL,
        attempt TEXT NOT NULL,
        turn INTEGER                       -- NULL; older releases: in the line of published parts
    ) STRICT
    """,
    "CREATE INDEX IF NOT EXISTS parts_by_key ON parts (channel, query, batch, partition, attempt)",
    """
    CREATE TABLE IF NOT EXISTS staged (
        part INTEGER NOT NULL REFERENCES parts,
        position INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        batch INTEGER NOT NULL REFERENCES batches,
        PRIMARY KEY (part, position)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS published (
        query TEXT PRIMARY KEY,
        batch INTEGER NOT NULL             -- the last one
    ) STRICT, WITHOUT ROWID
    """,
    # A table of its own, as the first releases had none.
    """
    CREATE TABLE IF NOT EXISTS publishing (
        turn INTEGER PRIMARY KEY,          -- who has published last has the largest
        query TEXT NOT NULL UNIQUE
    ) STRICT
    """,
    # One row: see ``sqlite_journal``.
    """
    CREATE TABLE IF NOT EXISTS commits (
        store TEXT NOT NULL,               -- made with the tables; its journal has the same
        number INTEGER NOT NULL,           -- of the last commit
        digest INTEGER NOT NULL,           -- of the other tables but ``batches`` and ``kept``
        previous_digest INTEGER NOT NULL   -- as the commit before has left it
    ) STRICT
    """,
)

# A row of a table costs tens of microseconds however small it is; above that, joining costs more than it saves.
_JOINED_BYTES = 256 << 10
_LOAD_BATCHES = """
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
    for first_row, rows, arrow, checksum in connection.execute(_LOAD_BATCHES, (channel,)):
        if next_row not in (None, first_row):
            raise ValueError(f"rows before row {first_row} are missing")
        what = f"the run of rows {first_row} to {first_row + rows - 1}"
        yield first_row, read_batch(codec, what, rows, arrow, checksum)
        next_row = first_row + rows


def read_batch(codec: BatchCodec, what: str, rows: int, arrow: bytes | None, checksum: int) -> pa.RecordBatch:
    """What ``insert_batch`` has written; ``what`` names its rows for an error.

    Raises:
        UndecodableDataError: it is no batch of this schema.
        ValueError: it is missing, or not what it was.
    """
    if arrow is None:
        raise ValueError(f"{what} is missing")
    if (computed := crc32(arrow)) != checksum:
        raise ValueError(f"{what} was altered: its checksum is {checksum:08x}, that of its bytes {computed:08x}")
    return codec.decode(arrow, [rows])


_FIND = """
SELECT id FROM parts
WHERE channel = ? AND query = ? AND batch = ? AND partition = ? AND attempt = ?
"""
_BEGIN = "INSERT INTO parts (channel, query, batch, partition, attempt) VALUES (?, ?, ?, ?, ?)"

_LOAD_PARTS = """
SELECT parts.id, query, parts.batch, partition, attempt, staged.rows, arrow, checksum
FROM parts JOIN staged ON part = parts.id LEFT JOIN batches ON staged.batch = batches.id
WHERE channel = ? ORDER BY parts.id, position
"""

_BECOME_ROWS = """
INSERT INTO kept (channel, first_row, rows, batch)
SELECT ?, ? + sum(rows) OVER (ORDER BY position) - rows, rows, batch FROM staged WHERE part = ?
"""


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
    """The last published batch of each query, in the order in which they were published."""
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


def load_parts(
    connection: sqlite3.Connection, codec: BatchCodec, channel: int
) -> Iterator[tuple[Staging, list[pa.RecordBatch]]]:
    """The attempts of a channel and their chunks, in the order in which they began.

    Raises:
        UndecodableDataError: a batch is not what it was.
        ValueError: one is missing.
    """
    for (_, *key), chunks in groupby(connection.execute(_LOAD_PARTS, (channel,)), lambda row: row[:5]):
        staging = Staging(*key)
        what = f"a run of staged rows ({staging})"
        yield staging, [read_batch(codec, what, *chunk[5:]) for chunk in chunks]


def _found(connection: sqlite3.Connection, channel: int, staging: Staging) -> int | None:
    found = connection.execute(_FIND, (channel, *staging)).fetchone()
    return None if found is None else int(found[0])


def _delete(connection: sqlite3.Connection, parts: Sequence[int]) -> None:
    numbers = [(part,) for part in parts]
    connection.executemany("DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part = ?)", numbers)
    connection.executemany("DELETE FROM staged WHERE part = ?", numbers)
    connection.executemany("DELETE FROM parts WHERE id = ?", numbers)


_LOAD_CHANNELS = """
SELECT id, name, flow, parameters, log_id, next_row, schema, state, reason FROM channels ORDER BY id
"""


def name_flows(connection: sqlite3.Connection) -> None:
    """Let each channel name its flow, which an older release has not done.  Within a transaction of the caller."""
    names = PERMITS.wishes._fields  # type: ignore[attr-defined]  # a named tuple
    if not {column for _, column, *_ in connection.execute("PRAGMA table_info(channels)")}.issuperset(names):
        return
    connection.execute(f"ALTER TABLE channels ADD COLUMN flow TEXT NOT NULL DEFAULT '{PERMITS.name}'")
    connection.execute("ALTER TABLE channels ADD COLUMN parameters TEXT NOT NULL DEFAULT '{}'")
    for number, *values in connection.execute(f"SELECT id, {', '.join(names)} FROM channels").fetchall():
        text = json.dumps(dict(zip(names, values, strict=True)))
        connection.execute("UPDATE channels SET parameters = ? WHERE id = ?", (text, number))
    for name in names:
        connection.execute(f"ALTER TABLE channels DROP COLUMN {name}")


class StoredChannel(NamedTuple):
    """A channel as it was left."""

    number: int
    """By which the tables know it."""
    flow: str
    """Its name."""
    parameters: Mapping[str, object]
    """As ``Flow.stated`` gives them."""
    kept: KeptChannel
    batches: Sequence[tuple[int, pa.RecordBatch]] = ()
    """Each with the number of its first row, in order."""
    parts: Mapping[Staging, Sequence[pa.RecordBatch]] = MappingProxyType({})
    """The chunks of each attempt, in the order of ``load_parts``."""

    @property
    def first_kept_row(self) -> int:
        """The first row that some consumer has not acknowledged."""
        return min((self.kept.acknowledged or {}).values(), default=self.kept.next_row)


def load_channels(connection: sqlite3.Connection) -> dict[str, StoredChannel]:
    """All channels by their names.

    Raises:
        ValueError: something is missing, or is not what it was; the message says of which channel.
    """
    channels = {row[1]: _loaded(connection, row) for row in connection.execute(_LOAD_CHANNELS)}
    ((batches,),) = connection.execute("SELECT count(*) FROM batches")
    ((named,),) = connection.execute("SELECT count(*) FROM (SELECT batch FROM kept UNION SELECT batch FROM staged)")
    if batches != named:
        raise ValueError(f"{batches} batches are there, and {named} are named")
    return channels


def _loaded(connection: sqlite3.Connection, row: tuple[Any, ...]) -> StoredChannel:
    number, name, flow, parameters, log_id, next_row, schema, state, reason = row

    def by_name(question: str) -> dict[str, int]:
        return dict(connection.execute(question, (number,)).fetchall())

    try:
        codec = None if schema is None else BatchCodec(read_schema(schema))
        batches = [] if codec is None else list(load_batches(connection, codec, number))
        parts = {} if codec is None else dict(load_parts(connection, codec, number))
    except (ValueError, UndecodableDataError) as error:
        raise ValueError(f"channel {name!r}: {error}") from error
    kept = KeptChannel(
        log_id=log_id,
        next_row=next_row,
        acknowledged=by_name("SELECT name, acknowledged_row FROM consumers WHERE channel = ?"),
        producers=by_name("SELECT name, rows FROM producers WHERE channel = ?"),
        schema=None if codec is None else codec.schema,
        state=ChannelState(state),
        reason=reason,
        staged=tuple(
            KeptPart(staging=staging, chunk_rows=tuple(chunk.num_rows for chunk in chunks))
            for staging, chunks in parts.items()
        ),
    )
    channel = StoredChannel(number, flow, json.loads(parameters), kept, batches, parts)
    missing_rows = next_row - channel.first_kept_row - sum(batch.num_rows for _, batch in batches)
    if missing_rows > 0:
        raise ValueError(f"channel {name!r}: {missing_rows} rows are missing")
    if batches and batches[-1][0] + batches[-1][1].num_rows != next_row:
        raise ValueError(f"channel {name!r}: its rows do not end at row {next_row - 1}")
    return channel
