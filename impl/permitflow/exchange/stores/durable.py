"""A store in a database: its data survive a crash of the process, and of the machine.

Each write is flushed to the disk before the call returns; reads come from memory.  The database is SQLite's, or
PostgreSQL's, with the same tables and the same statements.

Rows are record batches in bytes, small ones together.  The bytes of a chunk are written once: what is published moves
from ``staged`` to ``kept`` by its number.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Self, TypeAlias
from zlib import crc32

import pyarrow as pa

from permitflow.chunks import DEFAULT_CHUNK_ROWS
from permitflow.errors import LocalProtocolError, StoreLeftoverError, StoreMismatchError, UndecodableDataError
from permitflow.exchange.stores.database import Check, Database, DatabaseConnection, Load, Rows
from permitflow.exchange.stores.store import ChannelStore, KeptBatch, KeptChannel, PublishedPart, Store
from permitflow.flows.seam import Parameters
from permitflow.stream.control import ChannelState, KeptBarrier
from permitflow.stream.frames import Staging
from permitflow.wire.arrow import BatchCodec, joined, runs
from permitflow.wire.buffers import Buffer
from permitflow.wire.schemas import OF_STORE, extends, read_schema, require_equal_schemas

# A row of a table costs tens of microseconds however small it is; above that, joining costs more than it saves.
_JOINED_BYTES = 256 << 10

_ADD_CHANNEL = """
INSERT INTO channels (name, log_id, flow, parameters, next_row, expired_row, state, reason)
VALUES (?, ?, ?, ?, 0, 0, 'open', '')
RETURNING id
"""
_ADD_CONSUMER = "INSERT INTO consumers (channel, name, acknowledged_row) VALUES (?, ?, 0)"
_KEEP_PRODUCER = """
INSERT INTO producers (channel, name, rows) VALUES (?, ?, ?)
ON CONFLICT (channel, name) DO UPDATE SET rows = excluded.rows
"""
_FIND_CHANNEL = "SELECT id FROM channels WHERE id = ?"
_PARTS = "SELECT id FROM parts WHERE channel = ?"
_REMOVE = (
    "DELETE FROM batches WHERE id IN (SELECT batch FROM kept WHERE channel = ?)",
    f"DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part IN ({_PARTS}))",
    f"DELETE FROM staged WHERE part IN ({_PARTS})",
    *(
        f"DELETE FROM {table} WHERE channel = ?"
        for table in ("parts", "barriers", "kept", "producers", "consumers", "schemas")
    ),
    "DELETE FROM channels WHERE id = ?",
)
# The first condition on rows lets the index stop the search.
_UNNEEDED = "FROM kept WHERE channel = ? AND first_row < ? AND first_row + rows <= ?"
_FORGET = (f"DELETE FROM batches WHERE id IN (SELECT batch {_UNNEEDED})", f"DELETE {_UNNEEDED}")
_FIND_PART = f"{_PARTS} AND query = ? AND batch = ? AND partition = ? AND attempt = ?"
_ADD_PART = (
    "INSERT INTO parts (channel, query, batch, partition, attempt, is_prepared) VALUES (?, ?, ?, ?, ?, 0) RETURNING id"
)
_PREPARE_PART = "UPDATE parts SET is_prepared = 1 WHERE id = ?"
_NEXT_POSITION = "SELECT coalesce(max(position) + 1, 0) FROM staged WHERE part = ?"
_FORGET_PARTS = (
    "DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part = ?)",
    "DELETE FROM staged WHERE part = ?",
    "DELETE FROM parts WHERE id = ?",
)
_KEEP = "INSERT INTO kept (channel, first_row, rows, batch, taken_at) VALUES (?, ?, ?, ?, ?)"
_BECOME_ROWS = """
INSERT INTO kept (channel, first_row, rows, batch, taken_at)
SELECT ?, ? + sum(rows) OVER (ORDER BY position) - rows, rows, batch, ? FROM staged WHERE part = ?
"""

_NOTE_PUBLISHED = """
INSERT INTO published (query, batch) VALUES (?, ?) ON CONFLICT (query) DO UPDATE SET batch = excluded.batch
"""

_LOAD_CHANNELS = """
SELECT id, name, flow, parameters, log_id, next_row, expired_row, state, reason FROM channels ORDER BY id
"""
# This many at a time: all bytes of a channel may be too many at once.
_LOAD_BATCHES = """
SELECT first_row, taken_at, rows, schema, arrow, checksum FROM kept LEFT JOIN batches ON batch = id
WHERE channel = ? AND first_row >= ? ORDER BY first_row LIMIT 64
"""
_LOAD_PARTS = "SELECT id, is_prepared, query, batch, partition, attempt FROM parts WHERE channel = ? ORDER BY id"
_LOAD_STAGED = """
SELECT position, rows, schema, arrow, checksum FROM staged LEFT JOIN batches ON batch = id
WHERE part = ? AND position >= ? ORDER BY position LIMIT 64
"""
_LOAD_SCHEMAS = "SELECT arrow FROM schemas WHERE channel = ? ORDER BY number"
_COUNT_NAMED = "SELECT count(*) FROM (SELECT batch FROM kept UNION SELECT batch FROM staged) AS named"
_LOAD_PUBLISHED = "SELECT query, batch FROM published JOIN publishing USING (query) ORDER BY turn"


def _encoded(codec: BatchCodec, batch: pa.RecordBatch) -> tuple[Buffer, int]:
    """A batch in bytes, and their checksum."""
    pieces = codec.encode([batch])
    arrow: Buffer = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    return arrow, crc32(arrow)


def _number_of(inserted: Rows) -> int:
    ((number,),) = inserted.fetchall()
    return int(number)


def _count_rows(connection: DatabaseConnection, channel: int, first_row: int, next_row: int) -> Check:
    """Add rows to the channel's count; a gap would make all later numbers wrong."""
    moved = connection.execute(
        "UPDATE channels SET next_row = ? WHERE id = ? AND next_row = ?", (next_row, channel, first_row)
    )

    def check() -> None:
        if moved.rowcount != 1:
            raise LocalProtocolError(f"row {first_row} does not follow the rows that are stored")

    return check


def _part_of(connection: DatabaseConnection, channel: int, staging: Staging) -> int | None:
    found = connection.execute(_FIND_PART, (channel, *staging)).fetchone()
    return None if found is None else int(found[0])


def _forget_parts(connection: DatabaseConnection, parts: Iterable[int]) -> None:
    numbers = [(part,) for part in parts]
    for statement in _FORGET_PARTS:
        connection.executemany(statement, numbers)


def _publish(
    connection: DatabaseConnection,
    query: str,
    batch: int,
    parts: Iterable[tuple[int, Staging, int]],
    forgotten: Collection[str],
    taken_at: int,
) -> Check:
    """Move attempts to their channels, and delete all other attempts at this batch and at older ones.

    ``parts``: for each, the channel, the attempt, and the number of its first row.
    """
    checks = []
    for channel, staging, first_row in parts:
        part = _part_of(connection, channel, staging)
        if part is not None:  # the bytes of its chunks stay in place
            ((rows,),) = connection.execute("SELECT coalesce(sum(rows), 0) FROM staged WHERE part = ?", (part,))
            connection.execute(_BECOME_ROWS, (channel, first_row, taken_at, part))
            checks.append(_count_rows(connection, channel, first_row, first_row + int(rows)))
            for statement in _FORGET_PARTS[1:]:
                connection.execute(statement, (part,))
    late = connection.execute("SELECT id FROM parts WHERE query = ? AND batch <= ?", (query, batch)).fetchall()
    _forget_parts(connection, (part for (part,) in late))
    connection.executemany("DELETE FROM published WHERE query = ?", [(old,) for old in forgotten])
    connection.executemany("DELETE FROM publishing WHERE query = ?", [(old,) for old in (query, *forgotten)])
    connection.execute(_NOTE_PUBLISHED, (query, batch))
    connection.execute("INSERT INTO publishing (query) VALUES (?)", (query,))

    def check() -> None:
        for each in checks:
            each()

    return check


class _Found:
    """The rows of a channel in the database, each batch compared with its checksum."""

    def __init__(self, connection: DatabaseConnection, channel: int) -> None:
        """Read them all.

        Raises:
            UndecodableDataError: a batch is damaged.
            ValueError: data are missing or damaged.
        """
        self.codecs = [BatchCodec(read_schema(arrow)) for (arrow,) in connection.execute(_LOAD_SCHEMAS, (channel,))]
        self.batches: list[KeptBatch] = []
        self.parts: dict[Staging, list[pa.RecordBatch]] = {}
        self.prepared: list[Staging] = []
        next_row: int | None = None
        for first_row, taken_at, rows, *stored in _each(connection, _LOAD_BATCHES, channel):
            if next_row not in (None, first_row):
                raise ValueError(f"rows before row {first_row} are missing")
            next_row = first_row + rows
            what = f"the run of rows {first_row} to {next_row - 1}"
            self.batches.append(KeptBatch(first_row, _read(self.codecs, what, rows, *stored), taken_at))
        for part, is_prepared, *key in connection.execute(_LOAD_PARTS, (channel,)).fetchall():
            staging = Staging(*key)
            what = f"a run of staged rows ({staging})"
            chunks = [_read(self.codecs, what, *chunk) for _, *chunk in _each(connection, _LOAD_STAGED, part)]
            if chunks:
                self.parts[staging] = chunks
                self.prepared += [staging] if is_prepared else []


def _each(connection: DatabaseConnection, statement: str, number: int) -> Iterator[tuple[Any, ...]]:
    """All rows of a statement that returns some of them, from a place on; the first column is the place of a row."""
    place = 0
    while rows := connection.execute(statement, (number, place)).fetchall():
        yield from rows
        place = rows[-1][0] + 1


def _read(
    codecs: Sequence[BatchCodec], what: str, rows: int, schema: int, arrow: bytes | None, checksum: int
) -> pa.RecordBatch:
    """Decode a batch; ``what`` names its rows for an error."""
    if arrow is None:
        raise ValueError(f"{what} is missing")
    if (computed := crc32(arrow)) != checksum:
        raise ValueError(f"{what} was altered: its checksum is {checksum:08x}, that of its bytes {computed:08x}")
    if not 0 <= schema < len(codecs):
        raise ValueError(f"{what} has schema {schema} of {len(codecs)}")
    return codecs[schema].decode(arrow, [rows])


class DurableChannelStore(ChannelStore):
    """Keeps one channel on disk as well.

    The channel's limit bounds its rows, so they fit into memory as without a disk.  The database is read once, when the
    exchange starts, and only written after that.
    """

    def __init__(
        self,
        store: "DurableStore",
        number: int,
        parameters: tuple[str, Mapping[str, object]],
        kept: KeptChannel,
        batches: Iterable[KeptBatch] = (),
        parts: Mapping[Staging, Sequence[pa.RecordBatch]] = MappingProxyType({}),
    ) -> None:
        """Continue with a stored channel.

        Args:
            store: of the channel.
            number: by which the tables know it.
            parameters: its flow's name, and what ``Flow.stated`` gives.
            kept, batches, parts: as for ``ChannelStore``.
        """
        super().__init__(kept, batches, parts, lambda: store.clock())
        self._store = store
        self.number = number
        self.parameters = parameters
        self.most_rows = DEFAULT_CHUNK_ROWS
        """The most rows of each batch to write."""
        self._first_kept_row = max(kept.expired_row, min((kept.acknowledged or {}).values(), default=kept.next_row))
        self._schemas = kept.schemas
        """How many schemas the channel has had; a batch in the database has the number of its own."""

    @classmethod
    def loaded(cls, store: "DurableStore", connection: DatabaseConnection, row: tuple[Any, ...]) -> Self:
        """A channel as the database has it.

        Raises:
            ValueError: data are missing or damaged; the message names the channel.
        """
        number, name, flow, parameters, log_id, next_row, expired_row, state, reason = row

        def by_name(column: str, table: str) -> dict[str, int]:
            return dict(connection.execute(f"SELECT name, {column} FROM {table} WHERE channel = ?", (number,)))

        barriers = connection.execute("SELECT number, row FROM barriers WHERE channel = ? ORDER BY number", (number,))
        try:
            found = _Found(connection, number)
        except (ValueError, UndecodableDataError) as error:
            raise ValueError(f"channel {name!r}: {error}") from error
        kept = KeptChannel(
            log_id=log_id,
            next_row=next_row,
            acknowledged=by_name("acknowledged_row", "consumers"),
            expired_row=expired_row,
            producers=by_name("rows", "producers"),
            schema=found.codecs[-1].schema if found.codecs else None,
            schemas=len(found.codecs),
            state=ChannelState(state),
            reason=reason,
            staged={staging: [chunk.num_rows for chunk in chunks] for staging, chunks in found.parts.items()},
            prepared=found.prepared,
            barriers=[KeptBarrier(*place) for place in barriers],
        )
        self = cls(store, number, (flow, json.loads(parameters)), kept, found.batches, found.parts)
        missing_rows = next_row - self._first_kept_row - sum(batch.rows.num_rows for batch in found.batches)
        if not 0 <= expired_row <= next_row:
            raise ValueError(f"channel {name!r}: its rows before row {expired_row} have expired, and it has {next_row}")
        if missing_rows > 0:
            raise ValueError(f"channel {name!r}: {missing_rows} rows are missing")
        if found.batches and self._end_of(-1) != next_row:
            raise ValueError(f"channel {name!r}: its rows do not end at row {next_row - 1}")
        return self

    @property
    def is_writable(self) -> bool:
        """Can it be written?"""
        return not self._store.database.is_closed

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema."""
        encoded = BatchCodec(schema).schema_bytes
        await self._execute("INSERT INTO schemas (number, arrow, channel) VALUES (?, ?, ?)", self._schemas, encoded)
        self._schemas += 1
        await super().declare(schema)

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows and their producer's row count, in one transaction."""
        codec, number, schema, taken_at = self._known_codec(), self.number, self._schemas - 1, self.now()
        next_row = first_row + sum(batch.num_rows for batch in batches)

        def write(connection: DatabaseConnection) -> Check:
            check = _count_rows(connection, number, first_row, next_row)
            row, places = first_row, []
            written = [*self._joined_for_disk(codec, batches)]
            for batch, batch_number in zip(written, self._insert(connection, codec, schema, written), strict=True):
                places.append((number, row, batch.num_rows, batch_number, taken_at))
                row += batch.num_rows
            connection.executemany(_KEEP, places)
            if producer:
                connection.execute(_KEEP_PRODUCER, (number, producer, producer_rows))
            return check

        await self._write(write)
        self._append(first_row, self._joined(batches), taken_at)

    def _insert(
        self, connection: DatabaseConnection, codec: BatchCodec, schema: int, batches: Sequence[pa.RecordBatch]
    ) -> list[int]:
        """Write batches; return their numbers, by which other tables refer to them."""
        facts = [(self._store.new_batch_number(), schema, *_encoded(codec, batch)) for batch in batches]
        connection.executemany("INSERT INTO batches (id, schema, arrow, checksum) VALUES (?, ?, ?, ?)", facts)
        return [number for number, *_ in facts]

    def _joined_for_disk(self, codec: BatchCodec, batches: Sequence[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        if not codec.can_join:
            return batches
        found = runs(batches, codec.size_of, most_bytes=_JOINED_BYTES, most_rows=self.most_rows)
        return (batch for run in found for batch in joined(run))

    async def keep_barrier(self, barrier: KeptBarrier) -> None:
        """Keep a barrier."""
        await self._execute("INSERT INTO barriers (number, row, channel) VALUES (?, ?, ?)", *barrier)

    async def acknowledge(self, consumer: str, row: int, first_kept_row: int, next_barrier: int = 0) -> None:
        """Note a consumer's acknowledged row, and delete unneeded batches and barriers, in one transaction."""
        note = "UPDATE consumers SET acknowledged_row = ? WHERE channel = ? AND name = ?"
        await self._make_room(note, (row, self.number, consumer), first_kept_row, next_barrier)
        await super().acknowledge(consumer, row, first_kept_row, next_barrier)

    async def expire(self, row: int, next_barrier: int = 0) -> None:
        """Note that rows have expired, and delete unneeded batches and barriers, in one transaction."""
        await self._make_room("UPDATE channels SET expired_row = ? WHERE id = ?", (row, self.number), row, next_barrier)
        await super().expire(row, next_barrier)

    async def _make_room(self, note: str, values: Sequence[object], first_kept_row: int, next_barrier: int) -> None:
        number, forgets = self.number, first_kept_row > self._first_kept_row

        def write(connection: DatabaseConnection) -> None:
            connection.execute(note, values)
            if next_barrier:
                connection.execute("DELETE FROM barriers WHERE channel = ? AND number < ?", (number, next_barrier))
            if forgets:
                for statement in _FORGET:
                    connection.execute(statement, (number, first_kept_row, first_kept_row))

        await self._write(write, makes_room=True)
        self._first_kept_row = first_kept_row

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        """Append chunks to an attempt."""
        codec, number, schema = self._known_codec(), self.number, self._schemas - 1

        def write(connection: DatabaseConnection) -> None:
            part = _part_of(connection, number, staging)
            if part is None:
                if connection.execute(_FIND_CHANNEL, (number,)).fetchone() is None:
                    return  # it was removed meanwhile
                part = _number_of(connection.execute(_ADD_PART, (number, *staging)))
            ((first,),) = connection.execute(_NEXT_POSITION, (part,))
            numbered = enumerate(zip(batches, self._insert(connection, codec, schema, batches), strict=True), first)
            connection.executemany(
                "INSERT INTO staged (part, position, rows, batch) VALUES (?, ?, ?, ?)",
                [(part, position, batch.num_rows, batch_number) for position, (batch, batch_number) in numbered],
            )

        await self._write(write)
        await super().stage(staging, batches)

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Delete attempts."""
        number = self.number

        def delete(connection: DatabaseConnection) -> None:
            found = [_part_of(connection, number, staging) for staging in stagings]
            _forget_parts(connection, (part for part in found if part is not None))

        await self._write(delete, makes_room=True)
        await super().forget(stagings)

    async def finish(self, state: ChannelState, reason: str) -> None:
        """Note that the channel has ended, or is broken."""
        # Readers of a channel that has ended acknowledge its remaining rows.
        change = "UPDATE channels SET state = ?, reason = ? WHERE id = ?"
        await self._execute(change, state.value, reason.replace("\0", "�"), makes_room=True)

    async def _execute(self, statement: str, *values: object, makes_room: bool = False) -> None:
        """Execute it with these values, and behind them the channel's number."""
        values = (*values, self.number)
        await self._write(lambda connection: connection.execute(statement, values) and None, makes_room=makes_room)

    async def _write(self, do: Callable[[DatabaseConnection], object], *, makes_room: bool = False) -> None:
        await self._store.database.submit(do, makes_room=makes_room)

    def _known_codec(self) -> BatchCodec:
        if self._codec is None:
            raise LocalProtocolError("rows can be kept once their schema is declared")
        return self._codec


Loaded: TypeAlias = tuple[dict[str, DurableChannelStore], dict[str, int]]
"""All channels by name, and the last published batch of each query."""


class DurableStore(Store):
    """Keeps channels in a database as well.  For one exchange at a time; also a context manager that closes it."""

    is_durable = True

    def __init__(self, path: str, open_: Callable[[Load[Loaded]], tuple[Database, Loaded]]) -> None:
        """Open a database, or make one; reads all kept rows, so it may take seconds.

        Args:
            path: of the store, for messages.
            open_: opens the database; gets what reads it.

        Raises:
            StoreInUseError: another exchange has it open.
            StoreUnusableError: there is something else, a newer store or a damaged one, or one that cannot be written.
        """
        self._path = path
        self.database, (self._stored, published) = open_(self._loaded)
        super().__init__(published)

    def _loaded(self, connection: DatabaseConnection) -> Loaded:
        """All channels by name, and the last published batch of each query."""
        rows = connection.execute(_LOAD_CHANNELS).fetchall()
        channels = {row[1]: DurableChannelStore.loaded(self, connection, row) for row in rows}
        ((batches, newest),) = connection.execute("SELECT count(*), coalesce(max(id), 0) FROM batches").fetchall()
        ((named,),) = connection.execute(_COUNT_NAMED).fetchall()
        if batches != named:
            raise ValueError(f"{batches} batches are there, and {named} are named")
        self._batch_numbers: Iterator[int] = count(newest + 1)
        return channels, dict(connection.execute(_LOAD_PUBLISHED).fetchall())

    def new_batch_number(self) -> int:
        """A number for a batch that no other one has.  For the database's thread."""
        return next(self._batch_numbers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def commits(self) -> int:
        """The number of transactions so far; concurrent writes share one."""
        return self.database.commits

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
            raise StoreLeftoverError(path=self._path, channels=others)
        for name, stored in self._stored.items():
            self._require_same(name, stored, parameters, consumers)

    def open_channels(
        self, names: Sequence[str], *, parameters: Parameters, consumers: Sequence[str], schema: pa.Schema | None = None
    ) -> list[DurableChannelStore]:
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
                known = stored.load().schema
                if schema is not None and known is not None and not extends(known, schema):
                    require_equal_schemas(ours=known, theirs=schema, owners=OF_STORE)
        self._stored |= self._added([name for name in names if name not in self._stored], parameters, consumers)
        places = {name: self._stored.pop(name) for name in names}
        for place in places.values():
            place.most_rows = parameters.most_rows or DEFAULT_CHUNK_ROWS
        self._channels |= places
        return list(places.values())

    async def prepare(self, parts: Sequence[tuple[str, Staging]]) -> None:
        """Note that attempts do not expire, in one transaction for all channels."""
        numbers = [
            (place.number, staging)
            for channel, staging in parts
            if isinstance(place := self._channels.get(channel), DurableChannelStore)
        ]

        def write(connection: DatabaseConnection) -> None:
            found = (_part_of(connection, channel, staging) for channel, staging in numbers)
            connection.executemany(_PREPARE_PART, [(part,) for part in found if part is not None])

        if numbers:
            await self.database.submit(write, makes_room=True)

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch, in one transaction for all channels."""
        # A channel removed meanwhile gets nothing; its deleted rows are not looked for.
        numbers = [
            (place.number, staging, first_row)
            for channel, staging, first_row in parts
            if isinstance(place := self._channels.get(channel), DurableChannelStore)
        ]
        taken_at = int(self.clock() * 1e6)
        # Published rows can be read and acknowledged.
        await self.database.submit(
            lambda connection: _publish(connection, query, batch, numbers, forgotten, taken_at), makes_room=True
        )
        self._publish(query, batch, parts, forgotten, taken_at)

    async def remove(self, names: Collection[str]) -> None:
        """Delete channels, in one transaction."""
        numbers = [
            (place.number,) for name in names if isinstance(place := self._channels.get(name), DurableChannelStore)
        ]

        def delete(connection: DatabaseConnection) -> None:
            for statement in _REMOVE:
                connection.executemany(statement, numbers)

        if numbers:
            await self.database.submit(delete, makes_room=True)
        await super().remove(names)

    def close(self) -> None:
        """Finish the running writes: another exchange may open the store.  Closing twice is harmless."""
        self.database.close()

    def _require_same(
        self, channel: str, stored: DurableChannelStore, parameters: Parameters, consumers: Sequence[str]
    ) -> None:
        """Refuse other settings than those with which the channel was stored."""
        flow, numbers = stored.parameters
        theirs = {"consumers": sorted(stored.load().acknowledged or ()), "flow": flow, **numbers}
        ours = {"consumers": sorted(consumers), "flow": parameters.flow.name}
        for what, given in {**dict.fromkeys(theirs), **ours, **parameters.flow.stated(parameters)}.items():
            if (found := theirs.get(what)) != given:
                raise StoreMismatchError(
                    path=self._path,
                    channel=channel,
                    what=what.replace("_", " "),
                    stored=_words(found),
                    given=_words(given),
                )

    def _added(
        self, names: Sequence[str], parameters: Parameters, consumers: Sequence[str]
    ) -> dict[str, DurableChannelStore]:
        """Write new channels, all or none, with one flush, which may take milliseconds."""
        if not names:
            return {}
        new = {name: KeptChannel() for name in names}
        flow, stated = parameters.flow.name, parameters.flow.stated(parameters)

        def add(connection: DatabaseConnection) -> list[int]:
            numbers = []
            for name in names:
                facts = (name, new[name].log_id, flow, json.dumps(stated))
                numbers.append(_number_of(connection.execute(_ADD_CHANNEL, facts)))
                connection.executemany(_ADD_CONSUMER, [(numbers[-1], consumer) for consumer in consumers])
            return numbers

        numbers = self.database.done(add)
        return {
            name: DurableChannelStore(self, number, (flow, stated), new[name])
            for name, number in zip(names, numbers, strict=True)
        }


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
