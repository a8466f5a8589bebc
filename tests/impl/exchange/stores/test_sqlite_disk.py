"""The store and its disk: what is flushed, what is full, what waits, and how much is used."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import (
    StoreWriteError,
)
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_database import FILE_NAME
from permitflow.exchange.stores.store import ChannelStore
from tests.support.kept_rows import CONSUMERS, channel, filled
from tests.support.process import files_of_at_most

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]


def test_every_commit_is_flushed(open_store: Open) -> None:
    def asked_of(connection: sqlite3.Connection) -> list[object]:
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    full = 2
    assert open_store()._database.done(asked_of) == ["wal", full]


def test_on_a_full_disk_nothing_is_half_written_and_it_goes_on_once_there_is_room(
    run: asyncio.Runner, open_store: Open, rows: Rows, numbers: Numbers, caplog: pytest.LogCaptureFixture
) -> None:
    async def write() -> int:
        place = await filled(open_store(), rows)
        next_row = 30
        with files_of_at_most(4 << 20), suppress(StoreWriteError):
            while next_row < 10_000_000:
                await place.append(next_row, [rows(next_row, 2000)], "p", next_row + 2000)
                next_row += 2000
        assert 2030 <= next_row < 10_000_000
        # The channel stands where it stood: what failed can be sent again.
        await place.append(next_row, [rows(next_row, 5)], "p", next_row + 5)
        return next_row + 5

    next_row = run.run(write())
    place = channel(open_store())
    assert (place.load().next_row, place.load().producers) == (next_row, {"p": next_row})
    assert numbers(run.run(place.read(0, next_row))) == list(range(next_row))
    # Whoever runs the exchange is told as well.
    told = [record.getMessage() for record in caplog.records if record.name.startswith("permitflow.")]
    assert [message.partition("store ")[2].split()[1:4] for message in told] == [
        ["cannot", "be", "written:"],
        ["can", "be", "written"],
    ]


def test_what_is_forgotten_makes_room(run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path) -> None:
    async def flow(place: ChannelStore, first_row: int, end: int, kept_rows: int) -> None:
        for row in range(first_row, end, 5000):
            await place.append(row, [rows(row, 5000)])
            first_kept_row = max(0, row + 5000 - kept_rows)
            for consumer in CONSUMERS:
                await place.acknowledge(consumer, first_kept_row, first_kept_row)

    async def begin() -> None:
        place = channel(open_store())
        await place.declare(rows(0, 0).schema)
        await flow(place, 0, 200_000, 50_000)

    run.run(begin())
    open_store().close()
    early = (tmp_path / "store" / FILE_NAME).stat().st_size
    run.run(flow(channel(open_store()), 200_000, 1_000_000, 50_000))
    # The log beside the file is cut off at 32 MiB; what it may hold beyond that is one transaction.
    assert (tmp_path / "store" / f"{FILE_NAME}-wal").stat().st_size < 34 << 20
    open_store().close()
    late = (tmp_path / "store" / FILE_NAME).stat().st_size
    assert late < early + (1 << 20) < 8 << 20


def test_a_file_that_is_mostly_free_becomes_small_again(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path
) -> None:
    async def fill() -> ChannelStore:
        place = channel(open_store())
        await place.declare(rows(0, 0).schema)
        await place.append(0, [rows(row, 50_000) for row in range(0, 1_000_000, 50_000)])
        return place

    async def forget(place: ChannelStore) -> None:
        for consumer in CONSUMERS * 60:  # now and then, one of them gives some of it back
            await place.acknowledge(consumer, 1_000_000, 1_000_000)

    def closed_size_bytes() -> int:
        open_store().close()
        return (tmp_path / "store" / FILE_NAME).stat().st_size

    run.run(fill())
    full = closed_size_bytes()
    run.run(forget(channel(open_store())))
    assert closed_size_bytes() < 12 << 20 < full


def test_who_waits_for_the_disk_does_not_keep_others_from_running(
    run: asyncio.Runner, open_store: Open, rows: Rows
) -> None:
    may_go_on = threading.Event()

    async def write() -> bool:
        store = open_store()
        place = await filled(store, rows)
        store._database.post(lambda _: may_go_on.wait(60))  # as a disk that takes its time
        async with asyncio.TaskGroup() as group:
            appended = group.create_task(place.append(30, [rows(30, 1)]))
            for _ in range(100):
                await asyncio.sleep(0)
            is_early = appended.done()
            may_go_on.set()
        return is_early

    assert not run.run(write())


def test_what_comes_together_shares_a_flush(run: asyncio.Runner, open_store: Open, rows: Rows) -> None:
    async def write() -> int:
        store = open_store()
        places = [channel(store, f"orders/{number}") for number in range(20)]
        await asyncio.gather(*(place.declare(rows(0, 0).schema) for place in places))
        before, may_go_on = store.commits, threading.Event()
        store._database.post(lambda _: may_go_on.wait(60))  # as a disk that is busy
        async with asyncio.TaskGroup() as group:
            for place in places:
                group.create_task(place.append(0, [rows(0, 10)]))
            await asyncio.sleep(0)
            may_go_on.set()
        return store.commits - before

    # That for which the disk was busy, and one for all that has come meanwhile.
    assert run.run(write()) <= 2


def test_one_that_cannot_be_written_does_not_keep_others_from_being(
    run: asyncio.Runner, open_store: Open, rows: Rows
) -> None:
    async def write() -> list[BaseException | None]:
        store = open_store()
        places = [channel(store, f"orders/{number}") for number in range(3)]
        await asyncio.gather(*(place.declare(rows(0, 0).schema) for place in places))
        gap = 7
        return await asyncio.gather(
            *(place.append(first_row, [rows(0, 1)]) for place, first_row in zip(places, (0, gap, 0), strict=True)),
            return_exceptions=True,
        )

    outcomes = run.run(write())
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "LocalProtocolError", "NoneType"]
    assert "row 7 does not follow" in str(outcomes[1])
