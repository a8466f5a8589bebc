"""What was confirmed is there, as a whole and once, after the process that wrote it was killed at any moment."""

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from permitflow.errors import StoreUnusableError
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.sqlite_database import FILE_NAME
from permitflow.exchange.stores.store import ChannelStore, KeptChannel
from permitflow.protocol.permits import ChannelParameters

KILLS_BETWEEN = 5
LEAST_ROWS = 500_000
KILLS_WITHIN = 6
PARAMETERS = ChannelParameters(row_permits=1_000_000)
DIRECT = ("direct/0", "direct/1")
STAGED = "staged/0"
BATCH_ROWS = 5_000


def confirmed_by(folder: Path, seed: int, rows: int, *statements: str) -> dict[str, int]:
    """Let a process write until it kills itself, or is killed after so many rows; what it was told before."""
    child = [sys.executable, str(Path(__file__).with_name("writing_child.py")), str(folder), str(seed), *statements]
    facts: dict[str, int] = {}
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while rows_of(facts) < rows:
            line = process.stdout.readline()
            assert line, "it has ended by itself"
            facts.update(json.loads(line))
        if not statements:
            process.kill()
        # What was confirmed while the signal was on its way counts as well; the last line may be cut off.
        for line in process.stdout.read().splitlines(keepends=True):
            facts.update(json.loads(line) if line.endswith("\n") else {})
        assert process.wait(60) == -signal.SIGKILL
    return facts


def rows_of(confirmed: dict[str, int]) -> int:
    return sum(confirmed.get(name, 0) for name in (*DIRECT, STAGED))


async def numbers_in(place: ChannelStore, kept: KeptChannel) -> list[int]:
    first_row = min((kept.acknowledged or {}).values())
    return [number for batch in await place.read(first_row, kept.next_row) for number in batch["number"].to_pylist()]


def opened(store: SqliteStore, name: str) -> ChannelStore:
    return store.open_channels([name], parameters=PARAMETERS, consumers=("default",))[0]


def check_direct(run: asyncio.Runner, store: SqliteStore, name: str, confirmed: dict[str, int]) -> None:
    place = opened(store, name)
    kept = place.load()
    acknowledged_row = (kept.acknowledged or {})["default"]
    assert kept.next_row >= confirmed.get(name, 0)
    assert acknowledged_row >= confirmed.get(f"acknowledged {name}", 0)
    # A producer's position and its rows are one transaction.
    assert kept.producers == ({"p": kept.next_row} if kept.next_row else {})
    assert run.run(numbers_in(place, kept)) == list(range(acknowledged_row, kept.next_row))


def check_staged(run: asyncio.Runner, store: SqliteStore, confirmed: dict[str, int]) -> None:
    place = opened(store, STAGED)
    kept = place.load()
    published = store.published_batches().get("q", -1)
    assert published >= confirmed.get("published", -1)
    assert kept.next_row >= confirmed.get(STAGED, 0)
    assert kept.next_row == BATCH_ROWS * (published + 1)
    assert all(staging.batch == published + 1 for staging in kept.staged)
    assert run.run(numbers_in(place, kept)) == list(range(kept.next_row))


def check(run: asyncio.Runner, folder: Path, confirmed: dict[str, int]) -> None:
    with SqliteStore(folder) as store:
        for name in DIRECT:
            check_direct(run, store, name, confirmed)
        check_staged(run, store, confirmed)


def check_without_log(run: asyncio.Runner, folder: Path, alone: Path, confirmed: dict[str, int]) -> None:
    """A copy without the log has what was confirmed, or is refused."""
    shutil.copytree(folder, alone)
    (alone / f"{FILE_NAME}-wal").unlink(missing_ok=True)
    try:
        check(run, alone, confirmed)
    except StoreUnusableError as error:
        if "commits that were confirmed" not in str(error):
            raise


def test_confirmed_rows_are_there_whenever_the_process_is_killed(run: asyncio.Runner, tmp_path: Path) -> None:
    confirmed: dict[str, int] = {}
    for seed in range(KILLS_BETWEEN):
        # In the middle of whatever it does then: sometimes soon, and the last one not before it was really tried.
        rows = rows_of(confirmed) + random.Random(seed).randrange(1, 2 * LEAST_ROWS // KILLS_BETWEEN)
        confirmed = confirmed_by(tmp_path, seed, max(rows, LEAST_ROWS + 1) if seed == KILLS_BETWEEN - 1 else rows)
        check(run, tmp_path, confirmed)
    assert rows_of(confirmed) > 500_000


def test_nothing_is_half_written_though_it_is_killed_within_a_transaction(run: asyncio.Runner, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    for seed in range(KILLS_WITHIN):
        statements = random.Random(seed).randrange(20, 400)
        confirmed = confirmed_by(folder, seed, 0, str(statements))
        check_without_log(run, folder, tmp_path / str(seed), confirmed)
        check(run, folder, confirmed)
