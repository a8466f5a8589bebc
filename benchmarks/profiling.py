"""Where the time goes: both processes of a way under py-spy, and the functions in which most samples were taken.

What C code does counts for the Python function that called it.
"""

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.field import Field
from benchmarks.jobs import Job
from benchmarks.pairs import Pair
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.registry import find_ways
from benchmarks.peers.way import Group, Way
from benchmarks.records import Record

__all__ = ["Cost", "measure_profile"]

SIZES = ("64", "1,024", "65,536")
SECONDS = 2.0
SAMPLES_PER_SECOND = 500
COSTLIEST = 6
BEFORE = ("<frozen importlib", "payloads.py", "jobs (")
ROLES = ("producer", "consumer")


@dataclass(frozen=True)
class Cost(Record):
    """What one function takes of a process's time."""

    way: str
    payload: str
    role: str
    function: str
    share: float


async def measure_profile(field: Field) -> list[Cost]:
    """Ways of ours that targets are about, at several sizes."""
    profiler = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")
    if profiler is None:
        field.console.print("skipped profile: needs py-spy: pip install 'permitflow[bench]'", markup=False)
        return []
    found: list[Cost] = []
    for module, way in find_ways()[0].values():
        if way not in field.ways or way.group is not Group.OURS or not way.target:
            continue
        for name in (name for name in SIZES if name in field.settings.payloads):
            job = await field.calibrated(way, PAYLOADS[name])
            if job is not None:
                longer = replace(job, chunks=int(job.chunks * SECONDS / field.settings.job_seconds))
                found += await _profiled(field, profiler, module, way, job if field.settings.is_smoke else longer)
        if field.settings.is_smoke:
            break
    return found


async def _profiled(field: Field, profiler: str, module: str, way: Way, job: Job) -> list[Cost]:
    with tempfile.TemporaryDirectory() as folder:
        reports = {role: Path(folder) / role for role in ROLES}

        def under(role: str) -> Sequence[str]:
            options = ("--format", "raw", "--function", "--rate", str(SAMPLES_PER_SECOND), "--nonblocking")
            return (profiler, "record", *options, "--output", str(reports[role]), "--")

        async with Pair(module, way, under=under) as pair:
            if await field.run_pair(pair, job) is None:
                return []
        return [cost for role, report in reports.items() for cost in _costliest(way, job, role, report.read_text())]


def _costliest(way: Way, job: Job, role: str, report: str) -> Iterator[Cost]:
    samples: Counter[str] = Counter()
    for line in report.splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        # Loading modules and making chunks are over before anything is measured; words of the profiler are no stack.
        if not frames[-1] or any(before in frame for frame in frames for before in BEFORE):
            continue
        samples[_short(frames[-1])] += int(count)
    for function, found in samples.most_common(COSTLIEST):
        yield Cost(way.name, job.payload, role, function, found / samples.total())


def _short(frame: str) -> str:
    """``send (/long/way/to/permitflow/channels/local.py:12)`` without the long way."""
    function, _, path = frame.partition(" (")
    parts = Path(path.partition(":")[0].rstrip(")")).parts
    return f"{function} ({'/'.join(parts[-2:])})"
