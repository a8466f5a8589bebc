"""A cluster that is killed piece by piece: two workers of Spark, four executors, three exchanges on PostgreSQL.

    python -m tests.cluster                                    five million rows, fifty kills
    python -m tests.cluster --rows 200000 --kills 5            sooner
    python -m tests.cluster --seed 3 --folder FOLDER           other kills; logs stay there

Producers fill one stream, a streaming query copies it into another one by a key, and consumers write down what comes.
Each of the three exchanges has a store in PostgreSQL, an owner, and a standby that takes over.  Whenever some more rows
have come, something gets SIGKILL, drawn by a seed; what nobody else replaces is started again.  In the end each row
must have come once.

Exit code 0: it has.  1: it has not.  2: it could not be found out.  130: stopped by Ctrl-C.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import psutil

from tests.cluster.running import Child, System, load, lost_or_doubled
from tests.support.spark_cluster import HOSTS
from tools.reliability import Trial

STANDSTILL_SECONDS = 400.0
LOOK_SECONDS = 0.2
STAYS_SECONDS = 5.0
# Rows come in batches: otherwise all that is killed between two of them would be killed at the same moment.
MOST_PAUSE_SECONDS = 5.0
T = TypeVar("T")


def one_of(found: Callable[[], Sequence[T]], number: int) -> T:
    """One of these, once there are some."""
    until = monotonic() + STANDSTILL_SECONDS
    while not (some := found()):
        if monotonic() > until:
            raise RuntimeError("there is nothing to kill")
        sleep(LOOK_SECONDS)
    return some[number % len(some)]


def start_again(child: Child) -> None:
    child.kill()
    child.start()


def kill_owner(system: System, number: int) -> None:
    start_again(one_of(lambda: [each for each in system.exchanges if each.is_owner], number))


def kill_standby(system: System, number: int) -> None:
    start_again(one_of(lambda: [each for each in system.exchanges if not each.is_owner], number))


def kill_executor(system: System, number: int) -> None:
    victim: psutil.Process = one_of(lambda: system.executors, number)
    victim.kill()  # Spark starts another one


def kill_worker(system: System, number: int) -> None:
    system.cluster.kill_worker(HOSTS[number % len(HOSTS)])


def kill_producer(system: System, number: int) -> None:
    running = [each for each in system.producers if each.code is None]
    start_again((running or system.producers)[number % len(running or system.producers)])


def kill_consumer(system: System, number: int) -> None:
    start_again(system.consumers[number % len(system.consumers)])


def kill_driver(system: System, _: int) -> None:
    start_again(system.driver)


def kill_database(system: System, _: int) -> None:
    system.database.restart()


KINDS: dict[str, tuple[int, Callable[[System, int], None]]] = {
    "the owner of an exchange's store": (14, kill_owner),
    "an executor": (12, kill_executor),
    "a worker of Spark": (6, kill_worker),
    "a producer": (5, kill_producer),
    "a consumer": (5, kill_consumer),
    "a standby": (3, kill_standby),
    "the query's driver": (3, kill_driver),
    "PostgreSQL, as by a crash": (2, kill_database),
}
"""With how many there are of fifty."""


def drawn(kills: int, rng: random.Random) -> list[str]:
    """What is killed, one after the other: as often as stated, and of fewer the first ones of their order."""
    whole = [kind for kind, (often, _) in KINDS.items() for _ in range(often)]
    few = [
        kind for round_ in range(max(often for often, _ in KINDS.values())) for kind in KINDS if KINDS[kind][0] > round_
    ]
    chosen = (few * (kills // len(whole) + 1))[:kills]
    rng.shuffle(chosen)
    return chosen


def run(folder: Path, rows: int, kills: Sequence[str], rng: random.Random) -> tuple[str, int]:
    """Run the trial; what is wrong with the rows, and how often the query has failed."""
    began = monotonic()
    with ExitStack() as stack:
        system = System(folder, rows, stack)
        for number, kind in enumerate(kills, 1):
            wait_for(system, rows * number // (len(kills) + 1))
            if system.consumed == rows:
                raise RuntimeError(f"all rows had come before kill {number}: use more rows")
            sleep(rng.uniform(0, MOST_PAUSE_SECONDS))
            KINDS[kind][1](system, rng.randrange(1_000))
            seconds, came = monotonic() - began, system.consumed
            print(f"{seconds:5.0f} s, {came:>9,} rows, load {load():4.1f}: killed {kind}", flush=True)
        wait_for(system, rows)
        sleep(STAYS_SECONDS)  # rows that come twice may come late
        failures = system.driver.log.read_text(errors="replace").count("failed: ")
        return lost_or_doubled(system.results, rows), failures


def wait_for(system: System, rows: int) -> None:
    """Wait until so many rows have come.

    Raises:
        RuntimeError: they do not come, or a process has ended by itself.
    """
    since, before = monotonic(), system.consumed
    system.require_alive()
    while (now := system.consumed) < rows:
        system.require_alive()
        if now != before:
            since, before = monotonic(), now
        elif monotonic() > since + STANDSTILL_SECONDS:
            raise RuntimeError(f"no row has come for {STANDSTILL_SECONDS:g} s, behind {now:,}")
        sleep(LOOK_SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trial, and say what it has found."""
    options = _parser().parse_args(arguments)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="permitflow-cluster-"))
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)
    kills = drawn(options.kills, rng)
    began = monotonic()
    try:
        wrong, failures = run(folder, options.rows, kills, rng)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"it could not be found out: {error}; logs: {folder}", file=sys.stderr)
        return 2
    seconds = monotonic() - began
    verdict = wrong or f"each of {options.rows:,} rows came once"
    print(f"{len(kills)} kills in {seconds:.0f} s, and the query failed {failures} times: {verdict}")
    if options.keep:
        kept(options.rows, kills, seconds, failures, bool(wrong)).keep()
    if wrong:
        print(f"logs: {folder}")
    elif options.folder is None:
        shutil.rmtree(folder)
    return int(bool(wrong))


def kept(rows: int, kills: Sequence[str], seconds: float, failures: int, is_wrong: bool) -> Trial:
    """The result, for docs/reliability.md."""
    return Trial(
        name="cluster",
        title="A cluster, killed piece by piece",
        told=(
            "Producers fill a stream of three exchanges, a streaming query on two workers of Spark with four executors "
            f"copies {rows:,} rows into another one by a key, and consumers write down what comes. Each exchange has "
            "a store in PostgreSQL, an owner, and a standby that takes over. Whenever some more rows have come, "
            f"something gets `kill -9`; PostgreSQL stops as by a crash. The query itself has failed {failures} times."
        ),
        command=".venv/bin/nox -s cluster -- --keep",
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(seconds),
        tried=len(kills),
        broken=int(is_wrong),
        columns=("killed", "times"),
        rows=[(kind, kills.count(kind)) for kind in KINDS if kind in kills],
        promises=("each row comes once to the end of a pipeline over several exchanges, whatever is killed",),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000, help="in all (default: 5,000,000)")
    parser.add_argument("--kills", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=1, help="of what is killed, and when (default: 1)")
    parser.add_argument("--folder", type=Path, help="for logs and results, which stay there; it is new, or empty")
    parser.add_argument("--keep", action="store_true", help="the result, for docs/reliability.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
