"""The demo's parts, one after the other, and what comes of them."""

import asyncio
from time import monotonic

from permitflow.demo.evidence import gather_evidence
from permitflow.demo.jobs import run_jobs
from permitflow.demo.measurements import hops_of, judged
from permitflow.demo.progress import PartClock, Progress, require_packages, work_folder
from permitflow.demo.report import DemoReport
from permitflow.demo.settings import DemoSettings
from permitflow.demo.tpch import cached_tables

__all__ = ["run_demo"]


async def run_demo(settings: DemoSettings, progress: Progress) -> DemoReport:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or a process failed.
    """
    require_packages("grpc", "pyarrow", "pyspark", "z3")
    began = monotonic()
    clock = PartClock(progress)
    async with work_folder(settings.keep) as work_dir:
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
