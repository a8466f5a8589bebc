"""The demo's parts, one after the other, and what comes of them."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Protocol

from permitflow.demo.evidence import gather_evidence
from permitflow.demo.jobs import run_jobs
from permitflow.demo.measurements import hops_of, judged
from permitflow.demo.report import DemoReport
from permitflow.demo.settings import DemoSettings
from permitflow.demo.tpch import cached_tables
from permitflow.errors import DemoError

__all__ = ["Progress", "run_demo"]


class Progress(Protocol):
    """Is told how far the demo is."""

    def begin(self, part: str) -> None:
        """A part has begun; see ``PARTS``."""
        ...

    def note(self, text: str) -> None:
        """Something happened in the current part."""
        ...

    def end(self, part: str, seconds: float) -> None:
        """A part is done."""
        ...


class _Clock:
    """Times the parts and tells the progress."""

    def __init__(self, progress: Progress) -> None:
        self.seconds: dict[str, float] = {}
        self.progress = progress

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = monotonic()
        self.progress.begin(name)
        yield
        self.seconds[name] = monotonic() - began
        self.progress.end(name, self.seconds[name])


async def run_demo(settings: DemoSettings, progress: Progress) -> DemoReport:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or a process failed.
    """
    _require_packages()
    began = monotonic()
    clock = _Clock(progress)
    async with _work_dir(settings) as work_dir:
        with clock.part("checks"):
            evidence = await gather_evidence(work_dir, progress.note)
        with clock.part("tables"):
            tables, is_new = await cached_tables(settings.scale, settings.cache_dir)
            progress.note(f"{'generated in' if is_new else 'found in'} {tables}")
        with clock.part("jobs"):
            answers = await run_jobs(settings, tables, work_dir, progress.note)
        clock.seconds.update(answers.seconds)
        with clock.part("replay"):
            traces = work_dir / "traces"
            trace = await asyncio.to_thread(judged, traces)
            hops = await asyncio.to_thread(hops_of, traces, answers.traffic)
    return DemoReport(
        scale=settings.scale,
        row_permits=settings.row_permits,
        evidence=evidence,
        answer=answers.through_exchange,
        direct_answer=answers.direct,
        hops=hops,
        trace=trace,
        seconds=clock.seconds,
        total_seconds=monotonic() - began,
    )


def _require_packages() -> None:
    # Its processes would find out one after the other.
    missing = [name for name in ("grpc", "pyarrow", "pyspark", "z3") if find_spec(name) is None]
    if missing:
        raise DemoError(f"{', '.join(missing)} cannot be imported: pip install 'permitflow[demo]'")


@asynccontextmanager
async def _work_dir(settings: DemoSettings) -> AsyncIterator[Path]:
    """A folder for logs and traces; it stays if the user wants to keep it, or if something failed."""
    if settings.keep is not None:
        settings.keep.mkdir(parents=True, exist_ok=True)
        yield settings.keep
        return
    folder = Path(tempfile.mkdtemp(prefix="permitflow-demo-"))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
