"""The store on disk: what it has after it was closed and opened again, and what it refuses."""

import asyncio
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import (
    StoreError,
    StoreInUseError,
    StoreLeftoverError,
    StoreMismatchError,
    StoreUnusableError,
    StoreWriteError,
)
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_file import FILE_NAME
from permitflow.exchange.stores.store import ChannelStore, KeptPart
from permitflow.protocol.control import ChannelState
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]
Numbers = Callable[[Sequence[pa.RecordBatch]], list[int]]

PARAMETERS = ChannelParameters(row_permits=100_000)
CONSUMERS = ("default", "audit")


def channel(store: SqliteStore, name: str = "orders/0") -> ChannelStore:
    return store.open_channel(name, parameters=PARAMETERS, consumers=CONSUMERS)


async def filled(store: SqliteStore, rows: Rows) -> ChannelStore:
    """A channel with 30 rows."""
    place = channel(store)
    await place.declare(rows(0, 0).schema)
    for first_row in (0, 10, 20):
        await place.append(first_row, [rows(first_row, 10)], "p", first_row + 10)
    return place


def test_all_that_was_written_is_there_again(
    run: asyncio.Runner, open_store: Open, rows: Rows, numbers: Numbers
) -> None:
    parts = [Staging("q", batch, 0, "a") for batch in (1, 2, 3)]

    async def write() -> str:
        store = open_store()
        place = await filled(store, rows)
        await place.acknowledge("default", 30, 0)
        await place.acknowledge("audit", 12, 12)
        for part in parts:
            await place.stage(part, [rows(30, 2), rows(32, 3)])
        await store.publish("q", 1, [("orders/0", parts[0])])
        await store.publish("q", 2, [("orders/0", parts[1])])
        await place.take_over(30, 1)
        await place.finish(ChannelState.BROKEN, "the producer gave up")
        return place.load().log_id

    async def read() -> list[pa.RecordBatch]:
        await place.take_over(32, 3)
        return await place.read(12, 40)

    log_id = run.run(write())
    store = open_store()
    place = channel(store)
    kept = place.load()
    assert (kept.log_id, kept.next_row, kept.schema) == (log_id, 32, rows(0, 0).schema)
    assert (kept.acknowledged, kept.producers) == ({"default": 30, "audit": 12}, {"p": 30})
    assert (kept.state, kept.reason) == (ChannelState.BROKEN, "the producer gave up")
    assert kept.staged == (KeptPart(staging=parts[2], chunk_rows=(2, 3)),)
    assert kept.published == (
        KeptPart(staging=parts[0], chunk_rows=(3,)),
        KeptPart(staging=parts[1], chunk_rows=(2, 3)),
    )
    assert store.published_batches() == {"q": 2}
    assert numbers(run.run(read())) == [*range(12, 30), 30, 31, 32, 33, 34, 30, 31, 32, 33, 34]


def test_dictionaries_and_nested_columns_come_back(run: asyncio.Runner, open_store: Open) -> None:
    table = {
        "word": pa.array(["a", "b", None, "a"]).dictionary_encode(),
        "list": pa.array([[1], [], None, [2, 3]]),
        "struct": pa.array([{"x": 1.5}, None, {"x": None}, {"x": -0.0}]),
    }
    batch = pa.record_batch(table)

    async def write() -> None:
        place = channel(open_store())
        await place.declare(batch.schema)
        await place.append(0, [batch.slice(1, 2), batch])

    run.run(write())
    read = run.run(channel(open_store()).read(0, 6))
    assert pa.Table.from_batches(read).to_pylist() == [*batch.slice(1, 2).to_pylist(), *batch.to_pylist()]


def test_small_batches_are_stored_together_and_none_is_longer_than_a_chunk_may_be(
    run: asyncio.Runner, open_store: Open, rows: Rows
) -> None:
    parameters = ChannelParameters(row_permits=1000, max_chunk_cost=64)

    async def write() -> None:
        place = open_store().open_channel("orders/0", parameters=parameters, consumers=CONSUMERS)
        await place.declare(rows(0, 0).schema)
        await place.append(0, [rows(number, 1) for number in range(300)])

    run.run(write())
    place = open_store().open_channel("orders/0", parameters=parameters, consumers=CONSUMERS)
    assert [batch.num_rows for batch in run.run(place.read(0, 300))] == [64, 64, 64, 64, 44]


# Who else is there.


def test_a_store_that_is_open_cannot_be_opened_again(open_store: Open, tmp_path: Path) -> None:
    open_store()
    with pytest.raises(StoreInUseError, match="in use by another exchange"):
        SqliteStore(tmp_path / "store")
    open_in_child = "import sys; from permitflow.exchange.stores.sqlite import SqliteStore; SqliteStore(sys.argv[1])"
    script = open_in_child.replace("sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])")
    child = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "store")], capture_output=True, text=True, check=False
    )
    assert "StoreInUseError" in child.stderr


def test_a_store_that_was_closed_can_be_opened_and_leaves_one_file(open_store: Open, tmp_path: Path) -> None:
    open_store().close()
    assert [path.name for path in (tmp_path / "store").iterdir()] == [FILE_NAME]
    open_store()


# What is no store.


def damage_header(path: Path) -> None:
    path.write_bytes(b"this is no database" + path.read_bytes()[19:])


def damage_tables(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(3 * (16 << 10))
        file.write(b"\xff" * (64 << 10))


def cut_off(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def lose_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM kept WHERE first_row = 10")
    connection.close()


def lose_a_batch(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM batches WHERE id = 3")
    connection.close()


def change_a_batch(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE batches SET arrow = substr(arrow, 1, 200) WHERE id = 2")
    connection.close()


def flip_a_bit(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        ((arrow,),) = connection.execute("SELECT arrow FROM batches WHERE id = 2")
        content = arrow.replace(b"row 12", b"row 13")
        assert content != arrow
        connection.execute("UPDATE batches SET arrow = ? WHERE id = 2", (content,))
    connection.close()


@pytest.mark.parametrize(
    "damage", [damage_header, damage_tables, cut_off, lose_rows, lose_a_batch, change_a_batch, flip_a_bit]
)
def test_a_damaged_store_is_refused_and_left_as_it_is(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    run.run(filled(open_store(), rows))
    open_store().close()
    path = tmp_path / "store" / FILE_NAME
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StoreUnusableError, match=r"damaged.*take another folder"):
        open_store()
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    with pytest.raises(StoreUnusableError, match="another program"):
        SqliteStore(tmp_path)


def test_a_store_of_a_newer_release_is_refused(open_store: Open, tmp_path: Path) -> None:
    open_store().close()
    with sqlite3.connect(tmp_path / "store" / FILE_NAME) as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(StoreUnusableError, match="newer release wrote it"):
        open_store()


def test_a_store_of_a_release_that_noted_no_order_of_queries_is_gone_on_with(
    run: asyncio.Runner, tmp_path: Path
) -> None:
    with SqliteStore(tmp_path) as store:
        for query in "ab":
            run.run(store.publish(query, 0, []))
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as older:
        older.execute("DROP TABLE publishing")
    with SqliteStore(tmp_path) as store:
        run.run(store.publish("a", 1, []))
    with SqliteStore(tmp_path) as store:
        assert [*store.published_batches().items()] == [("b", 0), ("a", 1)]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("notes")
    with pytest.raises(StoreUnusableError, match="store cannot be used"):
        SqliteStore(tmp_path / "store")


# What does not fit.


@pytest.mark.parametrize(
    ("parameters", "consumers", "message"),
    [
        (ChannelParameters(row_permits=50), CONSUMERS, "row permits 100000, and is now to have 50"),
        (ChannelParameters(row_permits=100_000, permit_batch=1), CONSUMERS, "permit batch 12500.*1:"),
        (ChannelParameters(row_permits=100_000, oversize="whole"), CONSUMERS, "oversize split"),  # type: ignore[arg-type]
        (PARAMETERS, ("default",), "consumers audit, default, and is now to have default:"),
        (PARAMETERS, ("default", "audit", "etl"), "consumers audit, default, and is now to have audit, default, etl"),
    ],
)
def test_a_channel_that_was_stored_otherwise_is_refused(
    open_store: Open, parameters: ChannelParameters, consumers: tuple[str, ...], message: str
) -> None:
    channel(open_store())
    store = open_store()
    with pytest.raises(StoreMismatchError, match=message):
        store.open_channel("orders/0", parameters=parameters, consumers=consumers)
    # It was not touched, and the right numbers still open it.
    channel(store)


@pytest.mark.parametrize(
    ("channels", "parameters", "error"),
    [
        (["orders/1", "new/0"], PARAMETERS, StoreLeftoverError),
        (["new/0", "orders/0", "orders/1"], ChannelParameters(row_permits=50), StoreMismatchError),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_before_anything_of_it_is_done(
    open_store: Open, channels: list[str], parameters: ChannelParameters, error: type[StoreError]
) -> None:
    store = open_store()
    names = ["orders/0", "orders/1"]
    for name in names:
        channel(store, name)
    with pytest.raises(error, match="orders/0"):
        open_store().require_fitting(channels, parameters=parameters, consumers=CONSUMERS)
    open_store().require_fitting(names, parameters=PARAMETERS, consumers=CONSUMERS)
    open_store().require_fitting([*names, "new/0"], parameters=PARAMETERS, consumers=CONSUMERS)


# The disk.


def test_every_commit_is_flushed(open_store: Open) -> None:
    def asked_of(connection: sqlite3.Connection) -> list[object]:
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]

    full = 2
    assert open_store()._database.done(asked_of) == ["wal", full]


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """No file of this process can grow beyond that, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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


def test_every_error_is_a_store_error() -> None:
    for kind in (StoreInUseError, StoreLeftoverError, StoreMismatchError, StoreUnusableError, StoreWriteError):
        assert issubclass(kind, StoreError)
