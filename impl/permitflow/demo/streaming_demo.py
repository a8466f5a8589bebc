"""The streaming demo: runs a pipeline, kills parts of it meanwhile, and checks the result.

It compares the consumer's counts with the files, and the recordings with the models.
"""

import asyncio
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import pyarrow.parquet as pq
from rich.console import Group, RenderableType
from rich.text import Text

from permitflow.child_processes import child_process, work_folder
from permitflow.demo.console import Progress, answer_section, conclusion, number_table, section, times_section
from permitflow.demo.consumer import Ledger
from permitflow.demo.pipeline import Pipeline, plan_kills
from permitflow.demo.settings import PartSettings, PipelineSettings
from permitflow.demo.tpch import ANSWER_MODES, ANSWER_YEAR, cached_tables
from permitflow.demo.two_jobs import Report, answer_of
from permitflow.testing.query_runs import judge_query
from permitflow.testing.traces import Verdict, judge_all
from permitflow.tracing import read_trace


@dataclass(frozen=True, kw_only=True)
class ChannelNumbers:
    """One channel of the exchange, over all its lives."""

    channel: str
    rows: int
    peak_rows_held: int
    """The most rows that were kept at once: handed over by a producer, and not acknowledged by the consumer."""
    window_rows: int
    """``row_permits``: ``peak_rows_held`` may never be above it."""


@dataclass(frozen=True, kw_only=True)
class RecordedRun:
    """The models' verdicts about the recordings: of each life of the exchange, and of the query."""

    lives: int
    silent_lives: int
    """Besides these: lives that were killed before they had recorded anything."""
    streams: int
    events: int
    cut_streams: int
    """Streams of killed lives: their recordings are valid so far, but the last steps may be missing."""
    query_events: int
    """Steps of the streaming query, over all its lives and channels: of its source, its tasks and its checkpoint."""
    refused: Sequence[str]
    """Descriptions of runs that are no behaviours of the specification, or break its invariants."""


@dataclass(frozen=True, kw_only=True)
class Counted:
    """The consumer's rows, compared with those of the batch query."""

    expected: int
    """Late line items in the files."""
    lost: int
    """The expected rows that never came."""
    duplicated: int
    """Times that a line item came after the first time."""
    foreign: int
    """Line items that came and are not late."""


@dataclass(frozen=True, kw_only=True)
class PipelineReport(Report):
    """Everything."""

    seed: int
    kills: Mapping[str, int]
    """How often each part was killed."""
    missed_kills: int
    """Kills whose victim had done its work already."""
    starts: Mapping[str, int]
    """How often each part was started."""
    failures: Mapping[str, int]
    """How often each part ended by itself before its work was done, because a neighbour was gone."""
    line_items: int
    """Rows that the producer has."""
    counted: Counted
    channels: Sequence[ChannelNumbers]
    looks: int
    """How often all channels were looked at."""
    seen_problems: Sequence[str]
    """Observations that break a rule."""
    recorded: RecordedRun

    def problems(self) -> Sequence[str]:
        """The failed checks."""
        counted = self.counted
        found = [*self.seen_problems]
        if counted.lost or counted.duplicated or counted.foreign:
            found.append(
                f"{counted.lost} rows were lost, {counted.duplicated} duplicated, {counted.foreign} are from elsewhere"
            )
        if self.answer != self.direct_answer:
            found.append(f"the answer of the pipeline is {self.answer}, the direct one {self.direct_answer}")
        if not self.answer or not counted.expected:
            found.append("the query found nothing")
        for channel in self.channels:
            if channel.peak_rows_held > channel.window_rows:
                found.append(f"{channel.channel}: {channel.peak_rows_held} rows kept, {channel.window_rows} may be")
        if self.recorded.refused or not self.recorded.events or not self.recorded.query_events:
            found.append("the recorded run is not one that the specification allows")
        if self.missed_kills:
            found.append(f"{self.missed_kills} kills came too late: take a larger scale or fewer kills")
        return found


async def run_pipeline(settings: PipelineSettings, progress: Progress) -> PipelineReport:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or fails whatever is done.
    """
    began = monotonic()
    with work_folder(settings.keep) as work_dir:
        with progress.part("tables"):
            tables, is_new = await cached_tables(settings.scale, settings.cache_dir)
            progress.note(f"{'generated in' if is_new else 'found in'} {tables}")
        # An exchange that is started again must be found where it was, so it needs a port that is free now.
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
        part = settings.part(address=address, tables=tables, work_dir=work_dir)
        rows = (await asyncio.to_thread(pq.read_metadata, part.table("lineitem"))).num_rows
        with progress.part("direct"):
            command = [sys.executable, "-m", "permitflow.demo.spark_jobs", "directly", part.to_json()]
            async with child_process("batch job", command, log=work_dir / "batch_job.log") as child:
                event = await child.event("answer")
                await child.succeed()
            progress.note(str(event["text"]))
        with progress.part("pipeline"):
            kills = plan_kills(settings.kills, settings.seed)
            pipeline = Pipeline(settings, part, rows=rows, note=progress.note, kills=kills)
            killed, missed_kills = await pipeline.run()
        with progress.part("replay"):
            recorded = await asyncio.to_thread(judged, pipeline.recordings, part)
            counted = await asyncio.to_thread(compared, part)
        with Ledger(part.ledger) as ledger:
            answer = ledger.answer(ANSWER_MODES, ANSWER_YEAR)
    parts = [pipeline.exchange, *pipeline.parts.values()]
    return PipelineReport(
        scale=settings.scale,
        seed=settings.seed,
        kills={str(victim): count for victim, count in sorted(killed.items())},
        missed_kills=missed_kills,
        starts={part.name: part.starts for part in parts},
        failures={part.name: part.failures for part in parts},
        line_items=rows,
        counted=counted,
        answer=answer,
        direct_answer=answer_of(event),
        channels=[
            ChannelNumbers(
                channel=channel.channel,
                rows=channel.next_row,
                peak_rows_held=channel.peak_kept_rows,
                window_rows=channel.row_permits,
            )
            for channel in pipeline.watch.channels
        ],
        looks=pipeline.watch.looks,
        seen_problems=[problem for channel in pipeline.watch.channels for problem in channel.problems],
        recorded=recorded,
        seconds=progress.seconds,
        total_seconds=monotonic() - began,
    )


def compared(settings: PartSettings) -> Counted:
    """Each late line item of the files must have been counted once."""
    columns = pq.read_table(settings.direct_answer).to_pydict()
    expected = set(zip(columns["l_orderkey"], columns["l_linenumber"], strict=True))
    with Ledger(settings.ledger) as ledger:
        seen = ledger.seen()
    return Counted(
        expected=len(expected),
        lost=len(expected - seen.keys()),
        duplicated=sum(seen.values()) - len(seen),
        foreign=len(seen.keys() - expected),
    )


def judged(recordings: Sequence[Path], settings: PartSettings) -> RecordedRun:
    """Replay every stream of every life of the exchange, of which some end in the middle; and the streaming query."""
    lives = lives_of(recordings)
    streams = [verdict for life in lives for verdict in life]
    query = judge_query(settings.query_trace, settings.checkpoint)
    return RecordedRun(
        lives=len(lives),
        silent_lives=len(recordings) - len(lives),
        streams=len(streams),
        events=sum(verdict.replay.performed for verdict in streams),
        cut_streams=sum(bool(verdict.cut_ends) for verdict in streams),
        query_events=sum(verdict.replay.performed for verdict in query),
        refused=(
            *(verdict.describe() for verdict in streams if not verdict.is_valid),
            *(verdict.describe() for verdict in query if not verdict.is_valid),
        ),
    )


def lives_of(recordings: Iterable[Path]) -> list[list[Verdict]]:
    """The model's verdicts about the streams of each life; a life that was killed at once has no recording."""
    begun = [recording for recording in recordings if recording.is_file() and recording.stat().st_size]
    # Streams of two lives may have the same name.
    return [judge_all(read_trace(recording, allow_truncated=True)) for recording in begun]


def render_pipeline(report: PipelineReport) -> Group:
    """The report for a console."""
    return Group(
        *answer_section(report.scale, report.answer, report.direct_answer),
        *section("Kept by the exchange", _channels(report)),
        *section(f"Killed (seed {report.seed})", _lives(report)),
        *section("Checked", *map(Text, _findings(report))),
        *times_section(report.seconds),
        *conclusion(report.problems(), report.total_seconds),
    )


def _channels(report: PipelineReport) -> RenderableType:
    table = number_table("channel", "rows", "peak rows kept", "permits (bound)")
    for channel in report.channels:
        table.add_row(channel.channel, *(f"{n:,}" for n in (channel.rows, channel.peak_rows_held, channel.window_rows)))
    return table


def _lives(report: PipelineReport) -> RenderableType:
    table = number_table("part", "killed", "started", "failed without its neighbour")
    for name in sorted({*report.starts, *report.kills}):
        table.add_row(name, *(str(of.get(name, "")) for of in (report.kills, report.starts, report.failures)))
    return table


def _findings(report: PipelineReport) -> Iterator[str]:
    counted, recorded = report.counted, report.recorded
    yield (
        f"{report.line_items:,} line items, of which {counted.expected:,} were late: "
        f"{counted.lost} lost, {counted.duplicated} duplicated"
    )
    yield f"{report.looks:,} times all channels were looked at: {len(report.seen_problems)} times something was wrong"
    yield (
        f"{recorded.events:,} steps on {recorded.streams:,} streams of {recorded.lives} lives of the exchange, "
        f"replayed by the model; {recorded.cut_streams} of the streams are of lives that were killed"
    )
    if recorded.silent_lives:
        yield f"{recorded.silent_lives} more lives of the exchange were killed before they had recorded anything"
    refused = f"{len(recorded.refused)} runs refused"
    yield f"{recorded.query_events:,} steps of the streaming query, replayed by its model; {refused}"
    yield from recorded.refused
