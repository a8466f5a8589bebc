"""A store on disk: what it was told survives a crash of the process, and of the machine.

One SQLite file in a folder.  Whatever a call of the exchange wrote is flushed to the disk before the call returns.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import pyarrow as pa

from permitflow.errors import StoreLeftoverError, StoreMismatchError, StoreUnusableError
from permitflow.exchange.stores.sqlite_channel import SqliteChannelStore
from permitflow.exchange.stores.sqlite_database import Database
from permitflow.exchange.stores.sqlite_file import ADVICE, FILE_NAME, leave_file, open_file
from permitflow.exchange.stores.sqlite_load import StoredChannel, load_channels
from permitflow.exchange.stores.sqlite_staging import load_published, publish_parts
from permitflow.exchange.stores.store import KeptChannel, PublishedPart
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.arrow import require_equal_schemas

__all__ = ["SqliteStore"]

_ADD_CHANNEL = """
INSERT INTO channels (name, log_id, row_permits, permit_batch, max_chunk_cost, barrier_permits, oversize,
                      next_row, state, reason)
VALUES (?, ?, ?, ?, ?, ?, ?, 0, 'open', '')
"""


class SqliteStore:
    """See ``Store``.  For one exchange at a time; also a context manager that closes it."""

    is_durable = True

    def __init__(self, folder: Path) -> None:
        """Open the store in this folder, or begin one there; reads all that is kept, so it may take seconds.

        Raises:
            StoreInUseError: another exchange has it open.
            StoreUnusableError: there is something else, or a newer store, or a damaged one, or it cannot be written.
        """
        self._folder = folder
        connection, journal = open_file(folder)
        try:
            self._stored = load_channels(connection)
            self._published = load_published(connection)
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
        self._channels: dict[str, SqliteChannelStore] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def commits(self) -> int:
        """Transactions so far: writes that come together share one."""
        return self._database.commits

    def require_fitting(
        self, channels: Collection[str], *, parameters: ChannelParameters, consumers: Sequence[str]
    ) -> None:
        """Refuse a plan that does not fit what is here, before any of it is done.

        Args:
            channels: all that are to be opened.
            parameters: of all of them.
            consumers: of all of them.

        Raises:
            StoreLeftoverError: there are others, whose rows nobody could read.
            StoreMismatchError: one was stored with other parameters, or for other consumers.
        """
        if others := tuple(name for name in self._stored if name not in channels):
            raise StoreLeftoverError(path=str(self._folder), channels=others)
        for name, stored in self._stored.items():
            self._require_same(name, stored, parameters, consumers)

    def open_channel(self, name: str, *, parameters: ChannelParameters, consumers: Sequence[str]) -> SqliteChannelStore:
        """The place of one channel; waits for the disk, so it is for the start of an exchange.

        Raises:
            StoreMismatchError: it was stored with other parameters, or for other consumers.
            StoreWriteError: it is new, and cannot be written down.
        """
        (place,) = self.open_channels([name], parameters=parameters, consumers=consumers)
        return place

    def open_channels(
        self,
        names: Sequence[str],
        *,
        parameters: ChannelParameters,
        consumers: Sequence[str],
        schema: pa.Schema | None = None,
    ) -> list[SqliteChannelStore]:
        """The places of several channels, in this order; all that are new are written down in one transaction.

        Raises:
            SchemaMismatchError: one was stored with another schema than this; nothing was opened.
            StoreMismatchError: one was stored with other parameters, or for other consumers; nothing was opened.
            StoreWriteError: one is new, and cannot be written down; nothing was opened.
        """
        for name in names:
            if (stored := self._stored.get(name)) is not None:
                self._require_same(name, stored, parameters, consumers)
                if schema is not None and stored.kept.schema is not None:
                    require_equal_schemas(ours=stored.kept.schema, theirs=schema)
        self._stored |= self._added([name for name in names if name not in self._stored], parameters, consumers)
        places = {name: self._place(name, self._stored.pop(name)) for name in names}
        self._channels |= places
        return list(places.values())

    def _place(self, name: str, stored: StoredChannel) -> SqliteChannelStore:
        return SqliteChannelStore(self._database, stored, lambda: self._channels.pop(name, None))

    def published_batches(self) -> Mapping[str, int]:
        """The last published batch of each query; who has published last comes last."""
        return dict(self._published)

    async def publish(
        self, query: str, batch: int, parts: Sequence[PublishedPart], forgotten: Collection[str] = ()
    ) -> None:
        """Publish a batch, in one transaction for all channels."""
        # Of a channel that is removed meanwhile, nothing is published; what is deleted with it is not looked for.
        places = [(self._channels[part.channel], part) for part in parts if part.channel in self._channels]
        numbers = [(place.number, part.staging, part.first_row) for place, part in places]
        # Rows that are published can be read and acknowledged.
        await self._database.submit(
            lambda connection: publish_parts(connection, query, batch, numbers, forgotten), makes_room=True
        )
        for place, part in places:
            place.memory.publish(part.staging, part.first_row)
        for place in self._channels.values():
            place.memory.forget_older(query, batch)
        for old in (query, *forgotten):
            self._published.pop(old, None)
        self._published[query] = batch

    def close(self) -> None:
        """Finish what is under way and close the file: another exchange may open it.  Closing twice is harmless."""
        self._database.close()

    def _require_same(
        self, channel: str, stored: StoredChannel, parameters: ChannelParameters, consumers: Sequence[str]
    ) -> None:
        self._require_equal(channel, "consumers", sorted(stored.kept.acknowledged or ()), sorted(consumers))
        for what in ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits", "oversize"):
            self._require_equal(channel, what, getattr(stored.parameters, what), getattr(parameters, what))

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
        self, names: Sequence[str], parameters: ChannelParameters, consumers: Sequence[str]
    ) -> dict[str, StoredChannel]:
        """Write new channels down: all or none, and one flush, which may take milliseconds, for all."""
        if not names:
            return {}
        kept = [KeptChannel(log_id=uuid4().hex) for _ in names]
        numbers = (parameters.row_permits, parameters.permit_batch, parameters.max_chunk_cost)
        rest = (*numbers, parameters.barrier_permits, parameters.oversize.value)
        facts = [(name, channel.log_id, *rest) for name, channel in zip(names, kept, strict=True)]
        ids = self._database.done(lambda connection: [_add(connection, each, consumers) for each in facts])
        added = zip(names, ids, kept, strict=True)
        return {name: StoredChannel(number, parameters, channel) for name, number, channel in added}


def _add(connection: sqlite3.Connection, facts: tuple[str | int, ...], consumers: Sequence[str]) -> int:
    number = connection.execute(_ADD_CHANNEL, facts).lastrowid
    assert number is not None, "a table has row ids"
    rows = [(number, consumer) for consumer in consumers]
    connection.executemany("INSERT INTO consumers (channel, name, acknowledged_row) VALUES (?, ?, 0)", rows)
    return number


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
