"""The pipeline and everything about it, one after the other."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pyarrow.parquet as pq

from permitflow.demo.children import child_process
from permitflow.demo.progress import PartClock, Progress, require_packages, work_folder
from permitflow.demo.query12 import ShippingMode
from permitflow.demo.streaming.judging import compared, judged
from permitflow.demo.streaming.kills import plan_kills
from permitflow.demo.streaming.late_items import ANSWER_MODES, ANSWER_YEAR
from permitflow.demo.streaming.ledger import Ledger
from permitflow.demo.streaming.pipeline import Pipeline, free_address
from permitflow.demo.streaming.report import ChannelNumbers, PipelineReport
from permitflow.demo.streaming.settings import PartSettings, PipelineSettings
from permitflow.demo.streaming.supervising import Part
from permitflow.demo.tpch import cached_tables

__all__ = ["run_pipeline"]

Note = Callable[[str], None]


async def run_pipeline(settings: PipelineSettings, progress: Progress) -> PipelineReport:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or fails whatever is done.
    """
    require_packages("grpc", "psutil", "pyarrow", "pyspark")
    began = monotonic()
    clock = PartClock(progress)
    async with work_folder(settings.keep) as work_dir:
        with clock.part("tables"):
            tables, is_new = await cached_tables(settings.scale, settings.cache_dir)
            progress.note(f"{'generated in' if is_new else 'found in'} {tables}")
        part = settings.part(address=free_address(), tables=tables, work_dir=work_dir)
        rows = await asyncio.to_thread(_rows_of, part.table("lineitem"))
        with clock.part("direct"):
            direct_answer = await _direct_answer(part, progress.note)
        with clock.part("pipeline"):
            kills = plan_kills(settings.kills, settings.seed)
            pipeline = Pipeline(settings, part, rows=rows, note=progress.note, kills=kills)
            ended = await pipeline.run()
        with clock.part("replay"):
            recorded = await asyncio.to_thread(judged, pipeline.recordings, part)
            counted = await asyncio.to_thread(compared, part)
        answer = await asyncio.to_thread(_answer, part)
    return PipelineReport(
        scale=settings.scale,
        seed=settings.seed,
        kills={str(victim): count for victim, count in sorted(ended.kills.items())},
        missed_kills=ended.missed_kills,
        starts={part.name: part.starts for part in _parts(pipeline)},
        failures={part.name: part.failures for part in _parts(pipeline)},
        line_items=rows,
        counted=counted,
        answer=answer,
        direct_answer=direct_answer,
        channels=_channels(pipeline),
        looks=pipeline.watch.looks,
        seen_problems=tuple(problem for channel in pipeline.watch.channels for problem in channel.problems),
        recorded=recorded,
        seconds=clock.seconds,
        total_seconds=monotonic() - began,
    )


def _parts(pipeline: Pipeline) -> list[Part]:
    return [pipeline.exchange, *pipeline.parts.values()]


def _rows_of(table: str) -> int:
    return int(pq.read_metadata(table).num_rows)


async def _direct_answer(part: PartSettings, note: Note) -> tuple[ShippingMode, ...]:
    command = [sys.executable, "-m", "permitflow.demo.streaming.batch_job", part.to_json()]
    async with child_process("batch job", command, log=Path(part.work_dir) / "batch_job.log") as child:
        event = await child.event("answer")
        await child.succeed()
    note(str(event["text"]))
    rows = event["rows"]
    assert isinstance(rows, list)  # so batch_job reports them
    return tuple(ShippingMode(*row) for row in rows)


def _answer(part: PartSettings) -> tuple[ShippingMode, ...]:
    with Ledger(part.ledger) as ledger:
        return ledger.answer(ANSWER_MODES, ANSWER_YEAR)


def _channels(pipeline: Pipeline) -> tuple[ChannelNumbers, ...]:
    return tuple(
        ChannelNumbers(
            channel=channel.channel,
            rows=channel.next_row,
            peak_kept_rows=channel.peak_kept_rows,
            bound=channel.row_permits,
        )
        for channel in pipeline.watch.channels
    )
