"""What was confirmed is there, as a whole and once, after the process that wrote it was killed at any moment."""

import asyncio
import json
import random
import signal
import subprocess
import sys
from pathlib import Path

from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import ChannelStore, KeptChannel
from permitflow.protocol.parameters import ChannelParameters

KILLS_BETWEEN = 5
KILLS_WITHIN = 6
PARAMETERS = ChannelParameters(row_permits=1_000_000)
STAGED = "staged/0"
BATCH_ROWS = 5_000


def confirmed_by(folder: Path, seed: int, lines: int, *statements: str) -> dict[str, int]:
    """Let a process write until it kills itself, or is killed after so many lines; what it was told before."""
    child = [sys.executable, str(Path(__file__).with_name("writing_child.py")), str(folder), str(seed), *statements]
    with subprocess.Popen(child, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        if not statements:
            process.kill()
        # What was confirmed while the signal was on its way counts as well; the last line may be cut off.
        said += process.stdout.read().splitlines(keepends=True)
        assert process.wait(60) == -signal.SIGKILL
    facts: dict[str, int] = {}
    for line in said:
        if line.endswith("\n"):
            facts.update(json.loads(line))
    return facts


async def numbers_in(place: ChannelStore, kept: KeptChannel) -> list[int]:
    first_row = min((kept.acknowledged or {}).values())
    return [number for batch in await place.read(first_row, kept.next_row) for number in batch["number"].to_pylist()]


def opened(store: SqliteStore, name: str) -> ChannelStore:
    return store.open_channel(name, parameters=PARAMETERS, consumers=("default",))


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
    waiting = sum(rows for part in kept.published for rows in part.chunk_rows)
    assert kept.next_row + waiting == BATCH_ROWS * (published + 1)
    assert all(part.staging.batch == published + 1 for part in kept.staged)
    assert run.run(numbers_in(place, kept)) == list(range(kept.next_row))


def check(run: asyncio.Runner, folder: Path, confirmed: dict[str, int]) -> None:
    with SqliteStore(folder) as store:
        for name in ("direct/0", "direct/1"):
            check_direct(run, store, name, confirmed)
        check_staged(run, store, confirmed)


def test_what_was_confirmed_is_there_whenever_the_process_is_killed(run: asyncio.Runner, tmp_path: Path) -> None:
    confirmed: dict[str, int] = {}
    for seed in range(KILLS_BETWEEN):
        confirmed = confirmed_by(tmp_path, seed, random.Random(seed).randrange(1, 60))
        check(run, tmp_path, confirmed)
    assert sum(confirmed.get(name, 0) for name in ("direct/0", "direct/1", STAGED)) > 100_000, "it was tried"


def test_nothing_is_half_written_though_it_is_killed_within_a_transaction(run: asyncio.Runner, tmp_path: Path) -> None:
    for seed in range(KILLS_WITHIN):
        statements = random.Random(seed).randrange(20, 400)
        confirmed = confirmed_by(tmp_path, seed, 0, str(statements))
        check(run, tmp_path, confirmed)
