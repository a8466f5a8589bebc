"""All setups, each in a process of its own, in shuffled rounds."""

import json
import random
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

from benchmarks.harness import CHECKOUT, in_turns
from benchmarks.imbalance.setups import SETUPS
from benchmarks.results import Record, Series

__all__ = ["Imbalance", "measure_imbalance"]

SECONDS = 0.8
SMOKE_SECONDS = 0.1
# Deadlines make rounds nearly equal; more of them would tell nothing new.
MOST_ROUNDS = 3
LONGEST_SECONDS = 60.0


@dataclass(frozen=True)
class Imbalance(Record):
    """What came from both upstreams in one setup."""

    setup: str
    local_rows_per_second: Series
    remote_rows_per_second: Series
    local_back_pressure_rate: Series
    remote_back_pressure_rate: Series

    @property
    def ratio(self) -> Series:
        """The faster upstream's rows per second as a multiple of the slower one's."""
        ratios = self.local_rows_per_second.ratio_to(self.remote_rows_per_second)
        return Series.of(max(ratio, 1 / ratio) for ratio in ratios.values)


def measure_imbalance(rounds: int, seed: int, *, is_smoke: bool) -> list[Imbalance]:
    """Of all setups."""
    seconds = SMOKE_SECONDS if is_smoke else SECONDS
    runs = {setup.name: partial(_run, setup.name, seconds) for setup in SETUPS}
    found = in_turns(runs, min(rounds, MOST_ROUNDS), random.Random(seed))
    return [_joined(name, runs) for name, runs in found.items()]


def _run(name: str, seconds: float) -> dict[str, list[float]]:
    command = [sys.executable, "-m", "benchmarks.imbalance.join", name, str(seconds)]
    done = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, timeout=LONGEST_SECONDS, check=True)
    told: dict[str, list[float]] = json.loads(done.stdout)
    return told


def _joined(name: str, runs: list[dict[str, list[float]]]) -> Imbalance:
    def series(what: str, upstream: int) -> Series:
        return Series.of(run[what][upstream] for run in runs)

    return Imbalance(
        setup=name,
        local_rows_per_second=series("rows_per_second", 0),
        remote_rows_per_second=series("rows_per_second", 1),
        local_back_pressure_rate=series("back_pressure_rates", 0),
        remote_back_pressure_rate=series("back_pressure_rates", 1),
    )
