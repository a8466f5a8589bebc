"""What the runs whose consumer stands still share: what is watched meanwhile, what is promised, and how it is told."""

import argparse
import asyncio
import itertools
import statistics
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import psutil

# The first part of a run fills caches and pools; it is judged afterwards.
WARM_UP_SHARE = 0.3
SAMPLE_SECONDS = 0.1
# This many show a slope as well as more do.
MOST_SAMPLES = 400


class Watched(NamedTuple):
    late: int
    """Given out after the first third of the time."""
    growth_bytes: float
    """The growth of the processes' resident memory, over the whole time at the pace of the rest."""
    peak_mebibytes: float


async def watch(
    processes: Sequence[psutil.Process], given: Callable[[], int], seconds: float, until: Callable[[], bool] = bool
) -> Watched:
    """Look at memory, and at what was ``given`` out, for so many seconds, or ``until`` something."""
    clock, samples = asyncio.get_running_loop().time, list[tuple[float, int, int]]()
    began = clock()
    while not samples or (clock() < began + seconds and not until()):
        size_bytes = sum(process.memory_info().rss for process in processes)
        samples.append((clock() - began, size_bytes, given()))
        await asyncio.sleep(SAMPLE_SECONDS)
    warm = samples[int(len(samples) * WARM_UP_SHARE) :]
    growth = growth_per_second([(at, size_bytes) for at, size_bytes, _ in warm]) * samples[-1][0]
    return Watched(given() - warm[0][2], growth, max(size_bytes for _, size_bytes, _ in samples) / 2**20)


def growth_per_second(samples: Sequence[tuple[float, float]], share: float = 0.5) -> float:
    """The slope of memory or the like over time: the median of the slopes between any two samples.

    A pool that is filled late is a single step, which is between fewer than half of them; whatever grows all the time
    does so between nearly all.  With a smaller ``share`` than half, so many of the slopes lie below what is returned:
    that is less of what goes up and down by chance.
    Source: P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, 1968.
    """
    pairs = itertools.combinations(samples[:: len(samples) // MOST_SAMPLES + 1], 2)
    slopes = sorted((later - earlier) / (end - begin) for (begin, earlier), (end, later) in pairs)
    return statistics.median(slopes or [0.0]) if share == 0.5 else (slopes or [0.0])[int(len(slopes) * share)]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The report on one shape of stream."""

    shape: str
    unit: str
    most_ahead: int
    """What its parts may hold together."""
    ahead: int
    """Given out and not consumed, at most."""
    watched: Watched
    most_growth_bytes: float

    def broken(self) -> Iterator[str]:
        if self.ahead > self.most_ahead:
            yield f"{self.shape}: {self.ahead:,} {self.unit} were given out ahead, more than {self.most_ahead:,}"
        if self.watched.late:
            yield f"{self.shape}: {self.watched.late:,} {self.unit} were given out to a consumer that stood still"
        if self.watched.growth_bytes > self.most_growth_bytes:
            yield f"{self.shape}: memory has grown by {self.watched.growth_bytes / 2**20:.1f} MiB"

    def __str__(self) -> str:
        late, growth_bytes, peak = self.watched
        return (
            f"  {self.shape:32}{self.ahead:>10,} of at most {self.most_ahead:,} {self.unit} ahead, {late:,} late, "
            f"memory {growth_bytes / 1024:+.0f} KiB, peak {peak:.0f} MiB"
        )


def told(reports: Sequence[Report]) -> int:
    """Print them; 1 if a promise was broken."""
    broken = [promise for report in reports for promise in report.broken()]
    print(*reports, *(broken or ["every promise held"]), sep="\n")
    return 1 if broken else 0


def main(description: str | None, run: Callable[[float], Coroutine[Any, Any, Sequence[Report]]]) -> int:
    """The command of a run whose consumer stands still for ``--seconds``."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long consumers stand still")
    return told(asyncio.run(run(parser.parse_args().seconds)))
