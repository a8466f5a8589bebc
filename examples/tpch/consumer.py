"""The consumer: counts late items in a database of its own, and acknowledges what it has committed.

A transaction takes rows and moves the place in their channel.  A consumer that is killed before it has committed goes
on as if the rows had never come, and reads them again.

Run as ``python -m examples.tpch.consumer '<JSON of PartSettings>'``.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Self

import pyarrow as pa

from permitflow.client.blocking import control, open_source
from permitflow.errors import DemoError

from ..child_process import report
from .settings import PartSettings
from .tables import ShippingMode

# Another thread of the consumer, or one that was killed a moment ago, may hold the lock for the time of a commit.
LONGEST_WAIT_FOR_LOCK_SECONDS = 60.0

LEDGER_TABLES = """
    CREATE TABLE IF NOT EXISTS place (channel TEXT PRIMARY KEY, next_row INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS seen (
        order_key INTEGER, line_number INTEGER, times INTEGER NOT NULL, PRIMARY KEY (order_key, line_number)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS late_items (
        mode TEXT, year INTEGER, high INTEGER NOT NULL, low INTEGER NOT NULL, PRIMARY KEY (mode, year)
    ) WITHOUT ROWID;
"""
MOVE = "INSERT INTO place VALUES (?, ?) ON CONFLICT DO UPDATE SET next_row = excluded.next_row"
SEE = "INSERT INTO seen VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET times = times + 1"
COUNT = """
    INSERT INTO late_items VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET high = high + excluded.high, low = low + excluded.low
"""


class LateItem(NamedTuple):
    """A line item that came late, as Spark has joined it."""

    order_key: int
    line_number: int
    mode: str
    year: int
    """In which it was received."""
    is_high: bool
    """Is its order urgent or of high priority?"""


class Ledger:
    """One connection to the database; one thread may use it."""

    def __init__(self, path: Path) -> None:
        """Open the database, and create it if it is not there."""
        self._database = sqlite3.connect(path, timeout=LONGEST_WAIT_FOR_LOCK_SECONDS, isolation_level=None)
        # A commit must survive a kill of this process, not of the machine.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.executescript(LEDGER_TABLES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def next_row(self, channel: str) -> int:
        """The first row of a channel that was not taken."""
        found = self._database.execute("SELECT next_row FROM place WHERE channel = ?", (channel,)).fetchone()
        return int(found[0]) if found else 0

    def take(self, channel: str, first_row: int, items: Iterable[LateItem]) -> int:
        """Take rows and move the place behind them, all or nothing; returns the new place.

        Raises:
            DemoError: they are not the rows that come next.
        """
        items = list(items)
        self._database.execute("BEGIN IMMEDIATE")
        # Commits at the end of the block, or rolls back.
        with self._database:
            if first_row != (expected := self.next_row(channel)):
                raise DemoError(f"row {first_row} of {channel} came where row {expected} comes next")
            self._database.executemany(SEE, [item[:2] for item in items])
            self._database.executemany(COUNT, [(*item[2:4], item.is_high, not item.is_high) for item in items])
            self._database.execute(MOVE, (channel, first_row + len(items)))
        return first_row + len(items)

    def seen(self) -> Mapping[tuple[int, int], int]:
        """How many times each line item has come, by order key and line number."""
        with closing(self._database.execute("SELECT order_key, line_number, times FROM seen")) as rows:
            return {(order_key, line_number): times for order_key, line_number, times in rows}

    def answer(self, modes: Iterable[str], year: int) -> tuple[ShippingMode, ...]:
        """The aggregate of these shipping modes in one year, by mode."""
        wanted = sorted(modes)
        marks = ", ".join("?" * len(wanted))
        query = f"SELECT mode, high, low FROM late_items WHERE year = ? AND mode IN ({marks}) ORDER BY mode"
        return tuple(ShippingMode(*row) for row in self._database.execute(query, (year, *wanted)))


def main(settings: PartSettings) -> None:
    """Consume all channels at once, to their ends."""
    # Before several threads open it: SQLite does not wait for the lock where the kind of journal is changed.
    with Ledger(settings.ledger), ThreadPoolExecutor(settings.channels) as threads:
        rows = sum(threads.map(lambda channel: consume(settings, channel), settings.late_items))
    report("finished", text=f"{rows:,} rows were counted", rows=rows)


def consume(settings: PartSettings, channel: str) -> int:
    """Consume one channel from the first row that is missing in the database; returns the number of rows."""
    address, timeout_seconds = settings.address, settings.timeout_seconds
    with Ledger(settings.ledger) as ledger:
        row = ledger.next_row(channel)
        report("resumed", text=f"{channel}: {row:,} rows were counted already", channel=channel, row=row)
        with (
            control(address, timeout_seconds=timeout_seconds) as orders,
            open_source(address, channel, from_row=row, timeout_seconds=timeout_seconds) as source,
        ):
            # A commit before this one may not have been acknowledged.
            orders.acknowledge({channel: row})
            for batch in source:
                row = ledger.take(channel, row, late_items(batch))
                orders.acknowledge({channel: row})
        return row


def late_items(batch: pa.RecordBatch) -> Iterator[LateItem]:
    """The rows of a batch."""
    return map(LateItem._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


if __name__ == "__main__":
    main(PartSettings.from_command_line())
