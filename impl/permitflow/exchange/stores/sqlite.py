"""A store on disk: its data survive a crash of the process, and of the machine.

It is one SQLite file in a folder.  Each write is flushed to the disk before the call returns; reads come from memory.

Rows are record batches in bytes, small ones together.  The bytes of a chunk are written once: what is published moves
from ``staged`` to ``kept`` by its number.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self
from zlib import crc32

import pyarrow as pa

from permitflow.errors import (
    LocalProtocolError,
    StoreLeftoverError,
    StoreMismatchError,
    StoreUnusableError,
    UndecodableDataError,
)
from permitflow.exchange.stores.sqlite_database import (
    ADVICE,
    FILE_NAME,
    Database,
    become_rows,
    count_rows,
    leave_file,
    open_file,
)
from permitflow.exchange.stores.store import ChannelStore, KeptChannel, PublishedPart, Store
from permitflow.protocol.control import ChannelState, KeptBarrier
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import Staging
from permitflow.protocol.replay import KEPT_CHUNK_ROWS
from permitflow.transports.arrow import BatchCodec, joined, read_schema, require_equal_schemas, runs
from permitflow.transports.carrier import Buffer

__all__ = ["SqliteStore"]

_ADD_CHANNEL = """
INSERT INTO channels (name, log_id, flow, parameters, next_row, state, reason) VALUES (?, ?, ?, ?, 0, 'open', '')
"""

_KEEP_PRODUCER = """
INSERT INTO producers (channel, name, rows) VALUES (?, ?, ?)
ON CONFLICT (channel, name) DO UPDATE SET rows = excluded.rows
"""

_FORGET = "DELETE FROM kept WHERE channel = ? AND first_row < ? AND first_row + rows <= ? RETURNING batch"

_KEEP_BARRIER = "INSERT INTO barriers (channel, number, row) VALUES (?, ?, ?)"
_FORGET_BARRIERS = "DELETE FROM barriers WHERE channel = ? AND number < ?"
_LOAD_BARRIERS = "SELECT number, row FROM barriers WHERE channel = ? ORDER BY number"

_PARTS = "SELECT id FROM parts WHERE channel = ?"
_REMOVE = (
    "DELETE FROM batches WHERE id IN (SELECT batch FROM kept WHERE channel = ?)",
    f"DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part IN ({_PARTS}))",
    f"DELETE FROM staged WHERE part IN ({_PARTS})",
    "DELETE FROM parts WHERE channel = ?",
    "DELETE FROM barriers WHERE channel = ?",
    "DELETE FROM kept WHERE channel = ?",
    "DELETE FROM producers WHERE channel = ?",
    "DELETE FROM consumers WHERE channel = ?",
    "DELETE FROM channels WHERE id = ?",
)


# A row of a table costs tens of microseconds however small it is; above that, joining costs more than it saves.
_JOINED_BYTES = 256 << 10
_LOAD_BATCHES = """
SELECT first_row, rows, arrow, checksum FROM kept LEFT JOIN batches ON batch = id WHERE channel = ? ORDER BY first_row
"""


def insert_batch(connection: sqlite3.Connection, codec: BatchCodec, batch: pa.RecordBatch) -> int:
    """Write a batch; return its number, which other tables refer to."""
    pieces = codec.encode([batch])
    arrow: Buffer = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    facts = (arrow, crc32(arrow))
    number = connection.execute("INSERT INTO batches (arrow, checksum) VALUES (?, ?)", facts).lastrowid
    assert number is not None, "each row of a table has a number"
    return number


def load_batches(
    connection: sqlite3.Connection, codec: BatchCodec, channel: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The kept rows of a channel: each batch with the number of its first row, in order.

    Raises:
        UndecodableDataError: a batch is damaged.
        ValueError: a batch is missing.
    """
    next_row: int | None = None
    for first_row, rows, arrow, checksum in connection.execute(_LOAD_BATCHES, (channel,)):
        if next_row not in (None, first_row):
            raise ValueError(f"rows before row {first_row} are missing")
        what = f"the run of rows {first_row} to {first_row + rows - 1}"
        yield first_row, read_batch(codec, what, rows, arrow, checksum)
        next_row = first_row + rows


def read_batch(codec: BatchCodec, what: str, rows: int, arrow: bytes | None, checksum: int) -> pa.RecordBatch:
    """Decode a batch that ``insert_batch`` has written; ``what`` names its rows for an error.

    Raises:
        UndecodableDataError: the bytes are no batch of this schema.
        ValueError: the batch is missing or damaged.
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


def stage_batches(
    connection: sqlite3.Connection, codec: BatchCodec, channel: int, staging: Staging, batches: Sequence[pa.RecordBatch]
) -> None:
    """Append chunks to an attempt."""
    part = _found(connection, channel, staging)
    if part is None:
        part = connection.execute(_BEGIN, (channel, *staging)).lastrowid
    ((first,),) = connection.execute("SELECT coalesce(max(position) + 1, 0) FROM staged WHERE part = ?", (part,))
    places = [
        (part, position, batch.num_rows, insert_batch(connection, codec, batch))
        for position, batch in enumerate(batches, first)
    ]
    connection.executemany("INSERT INTO staged (part, position, rows, batch) VALUES (?, ?, ?, ?)", places)


def publish_parts(
    connection: sqlite3.Connection,
    query: str,
    batch: int,
    parts: Sequence[tuple[int, Staging, int]],
    forgotten: Collection[str],
) -> None:
    """Move attempts to their channels, and delete all other attempts at this batch and at older ones.

    Args:
        connection: within a transaction.
        query: the query of the batch.
        batch: from now on the last published batch of the query.
        parts: for each, the channel, the attempt, and the number of its first row.
        forgotten: queries whose last published batch is remembered no longer.
    """
    for channel, staging, first_row in parts:
        part = _found(connection, channel, staging)
        if part is not None:
            become_rows(connection, channel, part, first_row)
    late = "SELECT id FROM parts WHERE query = ? AND batch <= ?"
    _delete(connection, [part for (part,) in connection.execute(late, (query, batch)).fetchall()])
    connection.executemany("DELETE FROM published WHERE query = ?", [(old,) for old in forgotten])
    connection.executemany("DELETE FROM publishing WHERE query = ?", [(old,) for old in (query, *forgotten)])
    connection.execute("INSERT OR REPLACE INTO published (query, batch) VALUES (?, ?)", (query, batch))
    connection.execute("INSERT INTO publishing (query) VALUES (?)", (query,))


def load_published(connection: sqlite3.Connection) -> dict[str, int]:
    """The last published batch of each query, in the order of publishing."""
    return dict(connection.execute("SELECT query, batch FROM published JOIN publishing USING (query) ORDER BY turn"))


def load_parts(
    connection: sqlite3.Connection, codec: BatchCodec, channel: int
) -> Iterator[tuple[Staging, list[pa.RecordBatch]]]:
    """The attempts of a channel and their chunks, in the order of their beginnings.

    Raises:
        UndecodableDataError: a batch is damaged.
        ValueError: a batch is missing.
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


class StoredChannel(NamedTuple):
    """A stored channel."""

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
        """The first row that a consumer has not acknowledged."""
        return min((self.kept.acknowledged or {}).values(), default=self.kept.next_row)


def load_channels(connection: sqlite3.Connection) -> dict[str, StoredChannel]:
    """All channels by name.

    Raises:
        ValueError: data are missing or damaged; the message names the channel.
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
        staged={staging: [chunk.num_rows for chunk in chunks] for staging, chunks in parts.items()},
        barriers=[KeptBarrier(*place) for place in connection.execute(_LOAD_BARRIERS, (number,))],
    )
    channel = StoredChannel(number, flow, json.loads(parameters), kept, batches, parts)
    missing_rows = next_row - channel.first_kept_row - sum(batch.num_rows for _, batch in batches)
    if missing_rows > 0:
        raise ValueError(f"channel {name!r}: {missing_rows} rows are missing")
    if batches and batches[-1][0] + batches[-1][1].num_rows != next_row:
        raise ValueError(f"channel {name!r}: its rows do not end at row {next_row - 1}")
    return channel


class SqliteChannelStore(ChannelStore):
    """Keeps one channel on disk as well.

    The channel's limit bounds its rows, so they fit into memory as without a disk.  The disk is read once, when the
    exchange starts, and only written after that.
    """

    def __init__(
        self, database: Database, stored: StoredChannel, most_rows: int, on_removal: Callable[[], object]
    ) -> None:
        """Continue with a stored channel.

        Args:
            database: the database of the channel.
            stored: the stored channel.
            most_rows: of each batch to write.
            on_removal: called when the place is removed.
        """
        super().__init__(stored.kept, stored.batches, stored.parts, on_removal)
        self._database = database
        self.number = stored.number
        """By which the tables know it."""
        self._most_rows = most_rows
        self._first_kept_row = stored.first_kept_row

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema."""
        await self._update("schema = ?", BatchCodec(schema).schema_bytes)
        await super().declare(schema)

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows and their producer's row count, in one transaction."""
        codec, number = self._known_codec(), self.number
        next_row = first_row + sum(batch.num_rows for batch in batches)

        def write(connection: sqlite3.Connection) -> None:
            count_rows(connection, number, first_row, next_row)
            row = first_row
            for batch in self._joined_for_disk(codec, batches):
                place = (number, row, batch.num_rows, insert_batch(connection, codec, batch))
                connection.execute("INSERT INTO kept (channel, first_row, rows, batch) VALUES (?, ?, ?, ?)", place)
                row += batch.num_rows
            if producer:
                connection.execute(_KEEP_PRODUCER, (number, producer, producer_rows))

        await self._database.submit(write)
        await super().append(first_row, batches, producer, producer_rows)

    def _joined_for_disk(self, codec: BatchCodec, batches: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        if not codec.can_join:
            return batches
        found = runs(batches, codec.size_of, most_bytes=_JOINED_BYTES, most_rows=self._most_rows)
        return (batch for run in found for batch in joined(run))

    async def keep_barrier(self, barrier: KeptBarrier) -> None:
        """Keep a barrier."""
        place = (self.number, *barrier)
        await self._database.submit(lambda connection: connection.execute(_KEEP_BARRIER, place).rowcount)

    async def acknowledge(self, consumer: str, row: int, first_kept_row: int, next_barrier: int = 0) -> None:
        """Note a consumer's acknowledged row, and delete unneeded batches and barriers, in one transaction."""
        number, forgets = self.number, first_kept_row > self._first_kept_row

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE consumers SET acknowledged_row = ? WHERE channel = ? AND name = ?", (row, number, consumer)
            )
            if next_barrier:
                connection.execute(_FORGET_BARRIERS, (number, next_barrier))
            if forgets:
                # The first condition lets the index stop the search.
                gone = connection.execute(_FORGET, (number, first_kept_row, first_kept_row)).fetchall()
                connection.executemany("DELETE FROM batches WHERE id = ?", gone)

        await self._database.submit(write, makes_room=True)
        self._first_kept_row = first_kept_row
        await super().acknowledge(consumer, row, first_kept_row, next_barrier)

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        """Append chunks to an attempt."""
        codec, number = self._known_codec(), self.number
        await self._database.submit(lambda connection: stage_batches(connection, codec, number, staging, batches))
        await super().stage(staging, batches)

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Delete attempts."""
        number = self.number

        def delete(connection: sqlite3.Connection) -> None:
            found = (_found(connection, number, staging) for staging in stagings)
            _delete(connection, [part for part in found if part is not None])

        await self._database.submit(delete, makes_room=True)
        await super().forget(stagings)

    async def finish(self, state: ChannelState, reason: str) -> None:
        """Note that the channel has ended, or is broken."""
        # Readers of a channel that has ended acknowledge its remaining rows.
        await self._update("state = ?, reason = ?", state.value, reason, makes_room=True)

    def remove(self) -> None:
        """Delete the channel, without waiting for it."""
        number = self.number

        def delete(connection: sqlite3.Connection) -> None:
            for statement in _REMOVE:
                connection.execute(statement, (number,))

        self._database.post(delete)
        super().remove()

    async def _update(self, changes: str, *values: object, makes_room: bool = False) -> None:
        statement, values = f"UPDATE channels SET {changes} WHERE id = ?", (*values, self.number)
        await self._database.submit(
            lambda connection: connection.execute(statement, values).rowcount, makes_room=makes_room
        )

    def _known_codec(self) -> BatchCodec:
        if self._codec is None:
            raise LocalProtocolError("rows can be kept once their schema is declared")
        return self._codec


class SqliteStore(Store):
    """Keeps channels on disk as well.  For one exchange at a time; also a context manager that closes it."""

    is_durable = True

    def __init__(self, folder: Path) -> None:
        """Open the store in this folder, or make one; reads all kept rows, so it may take seconds.

        Raises:
            StoreInUseError: another exchange has it open.
            StoreUnusableError: the folder has other contents, a newer store or a damaged one, or is not writable.
        """
        self._folder = folder
        connection, journal = open_file(folder)
        try:
            self._stored = load_channels(connection)
            super().__init__(load_published(connection))
            journal.start(connection)
            self._database = Database(connection, folder, journal)
        except BaseException as error:
            journal.close()
            leave_file(connection, folder / FILE_NAME, error)
            if isinstance(error, ValueError | sqlite3.Error):
                reason = f"it is damaged ({error}); {ADVICE}"
                raise StoreUnusableError(path=str(folder / FILE_NAME), reason=reason) from error
            if isinstance(error, OSError):
                raise StoreUnusableError(path=str(folder), reason=error.strerror or str(error)) from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def commits(self) -> int:
        """The number of transactions so far; concurrent writes share one."""
        return self._database.commits

    def require_fitting(self, channels: Collection[str], *, parameters: Parameters, consumers: Sequence[str]) -> None:
        """Refuse channels that do not fit the store, before any of them is opened.

        Args:
            channels: the names of all channels to open.
            parameters: of all channels.
            consumers: of all channels.

        Raises:
            StoreLeftoverError: the store has other channels, whose rows would be unreadable.
            StoreMismatchError: a channel was stored with other parameters, or for other consumers.
        """
        if others := tuple(name for name in self._stored if name not in channels):
            raise StoreLeftoverError(path=str(self._folder), channels=others)
        for name, stored in self._stored.items():
            self._require_same(name, stored, parameters, consumers)

    def open_channels(
        self, names: Sequence[str], *, parameters: Parameters, consumers: Sequence[str], schema: pa.Schema | None = None
    ) -> list[SqliteChannelStore]:
        """Open several channels, in this order; write all new ones in one transaction.

        After an error, no channel was opened.

        Raises:
            SchemaMismatchError: a channel was stored with another schema.
            StoreMismatchError: a channel was stored with other parameters, or for other consumers.
            StoreWriteError: the write of the new channels failed.
        """
        for name in names:
            if (stored := self._stored.get(name)) is not None:
                self._require_same(name, stored, parameters, consumers)
                if schema is not None and stored.kept.schema is not None:
                    require_equal_schemas(ours=stored.kept.schema, theirs=schema)
        self._stored |= self._added([name for name in names if name not in self._stored], parameters, consumers)
        most_rows = parameters.most_rows or KEPT_CHUNK_ROWS
        places = {
            name: SqliteChannelStore(
                self._database, self._stored.pop(name), most_rows, partial(self._channels.pop, name, None)
            )
            for name in names
        }
        self._channels |= places
        return list(places.values())

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch, in one transaction for all channels."""
        # A channel removed meanwhile gets nothing; its deleted rows are not looked for.
        places = ((self._channels.get(channel), staging, first_row) for channel, staging, first_row in parts)
        numbers = [
            (place.number, staging, first_row)
            for place, staging, first_row in places
            if isinstance(place, SqliteChannelStore)
        ]
        # Published rows can be read and acknowledged.
        await self._database.submit(
            lambda connection: publish_parts(connection, query, batch, numbers, forgotten), makes_room=True
        )
        await super().publish(query, batch, parts, forgotten)

    def close(self) -> None:
        """Finish the running writes and close the file: another exchange may open it.  Closing twice is harmless."""
        self._database.close()

    def _require_same(
        self, channel: str, stored: StoredChannel, parameters: Parameters, consumers: Sequence[str]
    ) -> None:
        self._require_equal(channel, "consumers", sorted(stored.kept.acknowledged or ()), sorted(consumers))
        self._require_equal(channel, "flow", stored.flow, parameters.flow.name)
        given = parameters.flow.stated(parameters)
        for what in {**given, **stored.parameters}:
            self._require_equal(channel, what, stored.parameters.get(what), given.get(what))

    def _require_equal(self, channel: str, what: str, stored: object, given: object) -> None:
        if stored != given:
            raise StoreMismatchError(
                path=str(self._folder),
                channel=channel,
                what=what.replace("_", " "),
                stored=_words(stored),
                given=_words(given),
            )

    def _added(
        self, names: Sequence[str], parameters: Parameters, consumers: Sequence[str]
    ) -> dict[str, StoredChannel]:
        """Write new channels, all or none, with one flush, which may take milliseconds."""
        if not names:
            return {}
        kept = [KeptChannel() for _ in names]
        flow, by_name = parameters.flow.name, parameters.flow.stated(parameters)
        facts = [(name, channel.log_id, flow, json.dumps(by_name)) for name, channel in zip(names, kept, strict=True)]
        ids = self._database.done(lambda connection: [_add(connection, each, consumers) for each in facts])
        added = zip(names, ids, kept, strict=True)
        return {name: StoredChannel(number, flow, by_name, channel) for name, number, channel in added}


def _add(connection: sqlite3.Connection, facts: tuple[str | int, ...], consumers: Sequence[str]) -> int:
    number = connection.execute(_ADD_CHANNEL, facts).lastrowid
    assert number is not None, "a table has row ids"
    rows = [(number, consumer) for consumer in consumers]
    connection.executemany("INSERT INTO consumers (channel, name, acknowledged_row) VALUES (?, ?, 0)", rows)
    return number


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
