"""On a full disk acknowledgements go through, since they make room; producers get nothing of what is set apart."""

import asyncio
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.errors import StoreWriteError
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_database import RESERVE_BYTES, RESERVE_NAME
from tests.support.kept_rows import filled
from tests.support.process import files_of_at_most

Open = Callable[[], SqliteStore]
Rows = Callable[[int, int], pa.RecordBatch]


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


def test_only_what_makes_room_gets_the_reserve_and_it_is_made_again(
    run: asyncio.Runner, open_store: Open, rows: Rows, tmp_path: Path
) -> None:
    reserve = tmp_path / "store" / RESERVE_NAME

    def needs_the_reserve(connection: sqlite3.Connection) -> None:
        """SQLite has no more room as long as the reserve takes it."""
        connection.execute(f"PRAGMA max_page_count={1 if reserve.exists() else 1 << 30}")
        connection.execute("CREATE TABLE more (a)")
        connection.execute("DROP TABLE more")

    async def write() -> None:
        store = open_store()
        place = await filled(store, rows)
        with pytest.raises(StoreWriteError, match="full"):
            await store._database.submit(needs_the_reserve)
        assert reserve.stat().st_size == RESERVE_BYTES
        with files_of_at_most(RESERVE_BYTES // 2):  # it cannot be made again
            await store._database.submit(needs_the_reserve, makes_room=True)
            with pytest.raises(StoreWriteError, match="the disk is full, but for what makes room"):
                await place.append(30, [rows(30, 1)])
            await place.acknowledge("audit", 30, 0)
            assert not reserve.exists()
        await place.append(30, [rows(30, 1)])
        assert reserve.stat().st_size == RESERVE_BYTES

    run.run(write())
