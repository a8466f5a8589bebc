"""One channel of a durable store: on disk before anybody is told, in memory for those who read."""

import sqlite3
from collections.abc import Callable, Sequence

import pyarrow as pa

from permitflow.errors import LocalProtocolError
from permitflow.exchange.stores.memory import MemoryChannelStore
from permitflow.exchange.stores.sqlite_batches import append_batches, count_rows, forget_batches
from permitflow.exchange.stores.sqlite_database import Database
from permitflow.exchange.stores.sqlite_load import StoredChannel
from permitflow.exchange.stores.sqlite_staging import forget_parts, stage_batches
from permitflow.exchange.stores.store import KeptChannel
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Staging
from permitflow.transports.arrow import BatchCodec

__all__ = ["SqliteChannelStore"]

_KEEP_PRODUCER = """
INSERT INTO producers (channel, name, rows) VALUES (?, ?, ?)
ON CONFLICT (channel, name) DO UPDATE SET rows = excluded.rows
"""

_PARTS = "SELECT id FROM parts WHERE channel = ?"
_REMOVE = (
    "DELETE FROM batches WHERE id IN (SELECT batch FROM kept WHERE channel = ?)",
    f"DELETE FROM batches WHERE id IN (SELECT batch FROM staged WHERE part IN ({_PARTS}))",
    f"DELETE FROM staged WHERE part IN ({_PARTS})",
    "DELETE FROM parts WHERE channel = ?",
    "DELETE FROM kept WHERE channel = ?",
    "DELETE FROM producers WHERE channel = ?",
    "DELETE FROM consumers WHERE channel = ?",
    "DELETE FROM channels WHERE id = ?",
)


class SqliteChannelStore:
    """See ``ChannelStore``.

    Permits bound what a channel keeps, so that its rows fit into memory as they would without a disk; the disk is
    written only, and read once, when the exchange starts.
    """

    def __init__(self, database: Database, stored: StoredChannel, on_removal: Callable[[], object]) -> None:
        """Go on with what is there; whoever else knows the place is told when it is removed."""
        self._database = database
        self.number = stored.number
        """By which the tables know it."""
        self._parameters = stored.parameters
        self._kept = stored.kept
        self._first_kept_row = stored.first_kept_row
        self._codec = None if stored.kept.schema is None else BatchCodec(stored.kept.schema)
        self.memory = MemoryChannelStore(on_removal)
        """The same, for those who read."""
        self._restore(stored)

    def _restore(self, stored: StoredChannel) -> None:
        self.memory.restore(stored.batches, {part.staging: part.chunks for part in stored.parts})

    def load(self) -> KeptChannel:
        """What was there."""
        return self._kept

    async def declare(self, schema: pa.Schema) -> None:
        """Note the schema."""
        codec = BatchCodec(schema)
        await self._update("schema = ?", codec.schema_bytes)
        self._codec = codec

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        """Keep rows, and how far their producer has come, in one transaction."""
        codec, number = self._known_codec(), self.number
        next_row = first_row + sum(batch.num_rows for batch in batches)

        def write(connection: sqlite3.Connection) -> None:
            count_rows(connection, number, first_row, next_row)
            append_batches(connection, codec, number, first_row, batches, self._parameters.max_chunk_cost)
            if producer:
                connection.execute(_KEEP_PRODUCER, (number, producer, producer_rows))

        await self._database.submit(write)
        await self.memory.append(first_row, batches, producer, producer_rows)

    async def read(self, from_row: int, to_row: int) -> list[pa.RecordBatch]:
        """The rows ``[from_row, to_row)``, from memory."""
        return await self.memory.read(from_row, to_row)

    async def acknowledge(self, consumer: str, row: int, first_kept_row: int) -> None:
        """Note how far a consumer has come, and delete the batches of which no row is needed, in one transaction."""
        number, forgets = self.number, first_kept_row > self._first_kept_row

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE consumers SET acknowledged_row = ? WHERE channel = ? AND name = ?", (row, number, consumer)
            )
            if forgets:
                forget_batches(connection, number, first_kept_row)

        await self._database.submit(write, makes_room=True)
        self._first_kept_row = first_kept_row
        await self.memory.acknowledge(consumer, row, first_kept_row)

    async def stage(self, staging: Staging, batches: Sequence[pa.RecordBatch]) -> None:
        """Keep chunks of an attempt."""
        codec, number = self._known_codec(), self.number
        await self._database.submit(lambda connection: stage_batches(connection, codec, number, staging, batches))
        await self.memory.stage(staging, batches)

    async def forget(self, stagings: Sequence[Staging]) -> None:
        """Delete attempts."""
        number = self.number
        await self._database.submit(lambda connection: forget_parts(connection, number, stagings), makes_room=True)
        await self.memory.forget(stagings)

    async def finish(self, state: ChannelState, reason: str) -> None:
        """Note that no row will come any more."""
        # Readers of a channel that has ended acknowledge what is left.
        await self._update("state = ?, reason = ?", state.value, reason, makes_room=True)

    def remove(self) -> None:
        """Have the channel deleted; nobody waits for it."""
        number = self.number

        def delete(connection: sqlite3.Connection) -> None:
            for statement in _REMOVE:
                connection.execute(statement, (number,))

        self._database.post(delete)
        self.memory.remove()

    async def _update(self, changes: str, *values: object, makes_room: bool = False) -> None:
        statement, values = f"UPDATE channels SET {changes} WHERE id = ?", (*values, self.number)
        await self._database.submit(
            lambda connection: connection.execute(statement, values).rowcount, makes_room=makes_room
        )

    def _known_codec(self) -> BatchCodec:
        if self._codec is None:
            raise LocalProtocolError("rows can be kept once their schema is declared")
        return self._codec
