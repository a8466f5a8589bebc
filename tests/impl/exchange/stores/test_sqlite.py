"""The store on disk: what it has after it was closed and opened again, for whom it is, and how it uses its disk.

Channels are added all or none.  What is flushed, what waits, and how much is used; on a full disk acknowledgements go
through, since they make room, and producers get nothing of what is set apart.
"""

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, Parameters
from permitflow.client import ChannelState, Staging
from permitflow.errors import (
    InvalidParametersError,
    PermitflowError,
    StoreError,
    StoreInUseError,
    StoreLeftoverError,
    StoreMismatchError,
    StoreWriteError,
)
from permitflow.exchange import ChannelStore, Exchange, ReplayChannel, Retention, SqliteStore, Store
from permitflow.exchange.stores import sqlite_database
from permitflow.exchange.stores.sqlite_database import FILE_NAME, RESERVE_BYTES, RESERVE_NAME
from permitflow.exchange.stores.sqlite_journal import JOURNAL_NAME
from permitflow.exchange.stores.store import PublishedPart
from tests.support.process import files_of_at_most, nothing_stays_open
from tests.support.stored_rows import CONSUMERS, PARAMETERS, OpenStore, channel, filled, numbers, rows


async def test_all_that_was_written_is_there_again(open_store: OpenStore) -> None:
    parts = [Staging("q", batch, 0, "a") for batch in (1, 2, 3)]

    store = open_store()
    place = await filled(store)
    await place.acknowledge("default", 30, 0)
    await place.acknowledge("audit", 12, 12)
    for part in parts:
        await place.stage(part, [rows(30, 2), rows(32, 3)])
    await store.publish("q", 1, [PublishedPart("orders/0", parts[0], 30)])
    await store.publish("q", 2, [PublishedPart("orders/0", parts[1], 35)])
    await place.finish(ChannelState.BROKEN, "the producer gave up")
    log_id = place.load().log_id
    store = open_store()
    place = channel(store)
    kept = place.load()
    assert (kept.log_id, kept.next_row, kept.schema) == (log_id, 40, rows(0, 0).schema)
    assert (kept.acknowledged, kept.producers) == ({"default": 30, "audit": 12}, {"p": 30})
    assert (kept.state, kept.reason) == (ChannelState.BROKEN, "the producer gave up")
    assert kept.staged == {parts[2]: [2, 3]}
    assert store.published_batches() == {"q": 2}
    assert numbers(await place.read(12, 40)) == [*range(12, 30), 30, 31, 32, 33, 34, 30, 31, 32, 33, 34]


def test_a_store_that_is_open_cannot_be_opened_again(open_store: OpenStore, tmp_path: Path) -> None:
    open_store()
    with pytest.raises(StoreInUseError, match="in use by another exchange"):
        SqliteStore(tmp_path / "store")
    open_in_child = "import sys; from permitflow.exchange.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    script = open_in_child.replace("sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])")
    child = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert "StoreInUseError" in child.stderr


def test_a_store_that_was_closed_can_be_opened_and_leaves_no_log(open_store: OpenStore, tmp_path: Path) -> None:
    open_store().close()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {FILE_NAME, JOURNAL_NAME, RESERVE_NAME}
    open_store()


@pytest.mark.parametrize(
    ("parameters", "consumers", "message"),
    [
        (ChannelParameters(row_permits=50), CONSUMERS, "row permits 100000, and 50 was given now"),
        (ChannelParameters(row_permits=100_000, permit_batch=1), CONSUMERS, "permit batch 12500, and 1 was given now"),
        (ChannelParameters(row_permits=100_000, oversize="whole"), CONSUMERS, "oversize split"),  # type: ignore[arg-type]
        (Demand(size=1, batch=1), CONSUMERS, "flow permits, and demand was given now"),
        (PARAMETERS, ("default", "audit", "etl"), "consumers audit, default, and audit, default, etl was given now"),
    ],
)
def test_a_channel_that_was_stored_otherwise_is_refused(
    open_store: OpenStore, parameters: Parameters, consumers: tuple[str, ...], message: str
) -> None:
    channel(open_store())
    store = open_store()
    with pytest.raises(StoreMismatchError, match=message):
        store.open_channels(["orders/0"], parameters=parameters, consumers=consumers)[0]
    # It was not touched, and the right numbers still open it.
    channel(store)


@pytest.mark.parametrize(
    ("channels", "parameters", "error"),
    [
        (["orders/1", "new/0"], PARAMETERS, StoreLeftoverError),
        (["new/0", "orders/0", "orders/1"], ChannelParameters(row_permits=50), StoreMismatchError),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_as_a_whole(
    open_store: OpenStore, channels: list[str], parameters: ChannelParameters, error: type[StoreError]
) -> None:
    store = open_store()
    names = ["orders/0", "orders/1"]
    for name in names:
        channel(store, name)
    with pytest.raises(error, match="orders/0"):
        open_store().require_fitting(channels, parameters=parameters, consumers=CONSUMERS)
    open_store().require_fitting(names, parameters=PARAMETERS, consumers=CONSUMERS)
    open_store().require_fitting([*names, "new/0"], parameters=PARAMETERS, consumers=CONSUMERS)


NAMES = [f"orders/{number}" for number in range(500)]


def added(store: Store) -> list[str]:
    return [place.load().log_id for place in store.open_channels(NAMES, parameters=PARAMETERS, consumers=CONSUMERS)]


def test_channels_that_are_added_together_are_one_transaction(open_store: OpenStore) -> None:
    store = open_store()
    logs = added(store)
    assert store.commits == 1
    assert len(set(logs)) == len(NAMES)
    store = open_store()
    assert added(store) == logs
    assert store.commits == 0


def test_of_channels_that_cannot_be_added_together_none_is(open_store: OpenStore) -> None:
    store = open_store()
    with pytest.raises(StoreWriteError):
        store.open_channels(["a", "b", "a"], parameters=PARAMETERS, consumers=CONSUMERS)
    store = open_store()
    store.open_channels(["b"], parameters=ChannelParameters(row_permits=50), consumers=CONSUMERS)
    store = open_store()
    with pytest.raises(StoreMismatchError):
        store.open_channels(["a", "b"], parameters=PARAMETERS, consumers=CONSUMERS)
    store = open_store()
    store.require_fitting(["b"], parameters=ChannelParameters(row_permits=50), consumers=CONSUMERS)


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "taken"]])
def test_an_exchange_adds_all_channels_or_none(store: Store, names: list[str]) -> None:
    exchange = Exchange(store=store)
    exchange.add_channel("taken")
    with pytest.raises(InvalidParametersError):
        exchange.add_channels(names, retention=Retention.REPLAY)
    exchange.add_channels(["a", "b"], retention=Retention.REPLAY)
    assert [each.name for each in exchange.statistics()] == ["taken", "a", "b"]


REFUSED: dict[str, dict[str, Any]] = {
    "no consumer": {"consumers": ()},
    "a consumer twice": {"consumers": ("a", "a")},
    "no room for staged rows": {"staging_rows": 0},
    "another schema than one of them has": {"schema": pa.schema([("other", pa.int32())])},
}


@pytest.mark.parametrize("wrong", list(REFUSED))
async def test_who_was_refused_can_try_again(open_store: OpenStore, wrong: str) -> None:
    await Exchange(store=open_store()).add_channel("old", retention=Retention.REPLAY).append(rows(0, 3))
    exchange = Exchange(store=open_store())
    with pytest.raises(PermitflowError):
        exchange.add_channels(["new", "old"], retention=Retention.REPLAY, **REFUSED[wrong])
    new, old = exchange.add_channels(["new", "old"], retention=Retention.REPLAY)
    assert isinstance(new, ReplayChannel)
    assert isinstance(old, ReplayChannel)
    assert (new.books.next_row, old.books.next_row) == (0, 3)


async def test_a_full_disk_leaves_nothing_half_written_and_recovers(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    place = await filled(open_store())
    next_row = 30
    with files_of_at_most(4 << 20), suppress(StoreWriteError):
        while next_row < 10_000_000:
            await place.append(next_row, [rows(next_row, 2000)], "p", next_row + 2000)
            next_row += 2000
    assert 2030 <= next_row < 10_000_000
    # The channel stands where it stood: what failed can be sent again.
    await place.append(next_row, [rows(next_row, 5)], "p", next_row + 5)
    next_row += 5
    place = channel(open_store())
    assert (place.load().next_row, place.load().producers) == (next_row, {"p": next_row})
    assert numbers(await place.read(0, next_row)) == list(range(next_row))
    # The operator of the exchange is told as well.
    told = [record.getMessage() for record in caplog.records if record.name.startswith("permitflow.")]
    assert [message.partition("store ")[2].split()[1:4] for message in told] == [
        ["cannot", "be", "written:"],
        ["can", "be", "written"],
    ]


async def test_forgotten_rows_make_room(open_store: OpenStore, tmp_path: Path) -> None:
    async def flow(place: ChannelStore, first_row: int, end: int, kept_rows: int) -> None:
        for row in range(first_row, end, 5000):
            await place.append(row, [rows(row, 5000)])
            first_kept_row = max(0, row + 5000 - kept_rows)
            for consumer in CONSUMERS:
                await place.acknowledge(consumer, first_kept_row, first_kept_row)

    place = channel(open_store())
    await place.declare(rows(0, 0).schema)
    await flow(place, 0, 200_000, 50_000)
    open_store().close()
    early = (tmp_path / "store" / FILE_NAME).stat().st_size
    await flow(channel(open_store()), 200_000, 1_000_000, 50_000)
    # The log beside the file is cut off at 32 MiB; what it may hold beyond that is one transaction.
    assert (tmp_path / "store" / f"{FILE_NAME}-wal").stat().st_size < 34 << 20
    open_store().close()
    late = (tmp_path / "store" / FILE_NAME).stat().st_size
    assert late < early + (1 << 20) < 8 << 20


async def test_who_waits_for_the_disk_does_not_keep_others_from_running(open_store: OpenStore) -> None:
    may_go_on = threading.Event()
    store = open_store()
    place = await filled(store)
    store.database.post(lambda _: may_go_on.wait(60))  # as a disk that takes its time
    async with asyncio.TaskGroup() as group:
        appended = group.create_task(place.append(30, [rows(30, 1)]))
        for _ in range(100):
            await asyncio.sleep(0)
        is_early = appended.done()
        may_go_on.set()
    assert not is_early


async def test_orders_that_come_together_share_a_flush(open_store: OpenStore) -> None:
    # That for which the disk was busy, and one for all that has come meanwhile.
    store = open_store()
    places = [channel(store, f"orders/{number}") for number in range(20)]
    await asyncio.gather(*(place.declare(rows(0, 0).schema) for place in places))
    before, may_go_on = store.commits, threading.Event()
    store.database.post(lambda _: may_go_on.wait(60))  # as a disk that is busy
    async with asyncio.TaskGroup() as group:
        for place in places:
            group.create_task(place.append(0, [rows(0, 10)]))
        await asyncio.sleep(0)
        may_go_on.set()
    assert store.commits - before <= 2


def on_a_small_disk(disk: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a world of its own where this folder is a disk of 32 MiB."""
    disk.mkdir(exist_ok=True)
    script = f'mount -t tmpfs -o size=32m tmpfs {disk} && exec "$@"'
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]
    return subprocess.run(unshare, capture_output=True, text=True, check=False, timeout=100)


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Where a disk can be."""
    if shutil.which("unshare") is None or on_a_small_disk(tmp_path / "disk", "true").returncode:
        pytest.skip("a disk of a few MiB needs a user namespace")
    return tmp_path / "disk"


@pytest.mark.parametrize("batches", [0, 20], ids=["filled by rows", "filled by another program"])
@pytest.mark.parametrize("rows", [100, 2000])
def test_on_a_full_disk_all_is_acknowledged_and_then_there_is_room(small_disk: Path, rows: int, batches: int) -> None:
    child = [
        sys.executable,
        str(Path(__file__).with_name("filling_child.py")),
        str(small_disk),
        str(rows),
        str(batches),
    ]
    done = on_a_small_disk(small_disk, *child)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["left to producers"] == 0
    assert facts["reserve before"]
    assert facts["acknowledged"] == facts["batches"] >= 20
    assert facts["appended afterwards"] == 10
    assert facts["reserve afterwards"]
    assert facts["is as it was"]


async def test_only_what_makes_room_gets_the_reserve_and_it_is_made_again(
    open_store: OpenStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reserve = tmp_path / "store" / RESERVE_NAME

    def needs_the_reserve(connection: sqlite3.Connection) -> None:
        """SQLite has no more room as long as the reserve takes it."""
        connection.execute(f"PRAGMA max_page_count={1 if reserve.exists() else 1 << 30}")
        connection.execute("CREATE TABLE more (a)")
        connection.execute("DROP TABLE more")

    store = open_store()
    place = await filled(store)
    with pytest.raises(StoreWriteError, match="full"):
        await store.database.submit(needs_the_reserve)
    assert reserve.stat().st_size == RESERVE_BYTES
    with files_of_at_most(RESERVE_BYTES // 2):  # it cannot be made again
        await store.database.submit(needs_the_reserve, makes_room=True)
        with pytest.raises(StoreWriteError, match="the disk is full, but for what makes room"):
            await place.append(30, [rows(30, 1)])
        await place.acknowledge("audit", 30, 0)
        assert not reserve.exists()
    await place.append(30, [rows(30, 1)])
    assert reserve.stat().st_size == RESERVE_BYTES
    # Not with each acknowledgement: "again" means rows as well.
    told = [re.sub("the store [^ ]+ |: .*", "", record.getMessage()) for record in caplog.records]
    assert told == ["cannot be written", "has a full disk", "can be written again"]


async def test_dictionary_columns_are_kept_and_come_back_by_chunk(open_store: OpenStore) -> None:
    batch = pa.record_batch({"word": pa.array(["a", "b", None, "a"]).dictionary_encode(), "list": [[1], [], None, [2]]})
    place = channel(open_store())
    await place.declare(batch.schema)
    await place.append(0, [batch.slice(1, 2), batch])
    read = await channel(open_store()).read(0, 6)
    assert pa.Table.from_batches(read).to_pylist() == [*batch.slice(1, 2).to_pylist(), *batch.to_pylist()]


def test_a_store_that_cannot_be_opened_to_the_end_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sqlite_database, "Database", failing)
    with nothing_stays_open():
        for _ in range(2):
            with pytest.raises(RuntimeError, match="can't start new thread"):
                SqliteStore(tmp_path)


async def test_one_that_cannot_be_written_does_not_keep_others_from_being(open_store: OpenStore) -> None:
    store = open_store()
    places = [channel(store, f"orders/{number}") for number in range(3)]
    await asyncio.gather(*(place.declare(rows(0, 0).schema) for place in places))
    gap = 7
    outcomes = await asyncio.gather(
        *(place.append(first_row, [rows(0, 1)]) for place, first_row in zip(places, (0, gap, 0), strict=True)),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "LocalProtocolError", "NoneType"]
    assert "row 7 does not follow" in str(outcomes[1])
