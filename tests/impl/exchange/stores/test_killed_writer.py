"""What was confirmed is there, as a whole and once, after the process that wrote it was killed at any moment."""

import json
import random
import signal
import subprocess
import sys
from pathlib import Path

from permitflow import ChannelParameters
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores.store import KeptChannel

KILLS_BETWEEN = 5
LEAST_ROWS = 500_000
PARAMETERS = ChannelParameters(row_permits=1_000_000)
DIRECT = ("direct/0", "direct/1")
STAGED = "staged/0"
BATCH_ROWS = 5_000


def confirmed_by(folder: Path, seed: int, rows: int) -> dict[str, int]:
    """Let a process write until it is killed after so many rows; what it was told before."""
    child = [sys.executable, str(Path(__file__).with_name("writing_child.py")), str(folder), str(seed)]
    facts: dict[str, int] = {}
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while rows_of(facts) < rows:
            line = process.stdout.readline()
            assert line, "it has ended by itself"
            facts.update(json.loads(line))
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


async def check_direct(store: SqliteStore, name: str, confirmed: dict[str, int]) -> None:
    place = opened(store, name)
    kept = place.load()
    acknowledged_row = (kept.acknowledged or {})["default"]
    assert kept.next_row >= confirmed.get(name, 0)
    assert acknowledged_row >= confirmed.get(f"acknowledged {name}", 0)
    # A producer's position and its rows are one transaction.
    assert kept.producers == ({"p": kept.next_row} if kept.next_row else {})
    assert await numbers_in(place, kept) == list(range(acknowledged_row, kept.next_row))


async def check_staged(store: SqliteStore, confirmed: dict[str, int]) -> None:
    place = opened(store, STAGED)
    kept = place.load()
    published = store.published_batches().get("q", -1)
    assert published >= confirmed.get("published", -1)
    assert kept.next_row >= confirmed.get(STAGED, 0)
    assert kept.next_row == BATCH_ROWS * (published + 1)
    assert all(staging.batch == published + 1 for staging in kept.staged)
    assert await numbers_in(place, kept) == list(range(kept.next_row))


async def check(folder: Path, confirmed: dict[str, int]) -> None:
    with SqliteStore(folder) as store:
        for name in DIRECT:
            await check_direct(store, name, confirmed)
        await check_staged(store, confirmed)


async def test_confirmed_rows_are_there_whenever_the_process_is_killed(tmp_path: Path) -> None:
    confirmed: dict[str, int] = {}
    for seed in range(KILLS_BETWEEN):
        # In the middle of whatever it does then: sometimes soon, and the last one not before it was really tried.
        rows = rows_of(confirmed) + random.Random(seed).randrange(1, 2 * LEAST_ROWS // KILLS_BETWEEN)
        confirmed = confirmed_by(tmp_path, seed, max(rows, LEAST_ROWS + 1) if seed == KILLS_BETWEEN - 1 else rows)
        await check(tmp_path, confirmed)
    assert rows_of(confirmed) > LEAST_ROWS
