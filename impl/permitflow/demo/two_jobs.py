"""The main demo: two Spark jobs with an exchange between them, each in a process of its own, and all that is checked.

The models and the proofs are checked as a user would do it, with ``permitflow check`` and ``permitflow prove``.  Then
the jobs run; what they recorded tells the rows moved, the peak in flight and who waited, and the model judges it.
"""

import asyncio
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

from rich.console import Group, RenderableType
from rich.text import Text

from permitflow.child_processes import Child, Event, child_output, child_process, first_failure, work_folder
from permitflow.demo.console import Progress, answer_section, conclusion, number_table, section, times_section
from permitflow.demo.settings import DemoSettings, PartSettings
from permitflow.demo.tpch import ShippingMode, cached_tables
from permitflow.errors import DemoError
from permitflow.testing.traces import Verdict, judge_all
from permitflow.tracing import read_trace
from permitflow_model.manifest import read_manifest
from permitflow_model.registry import recorded_as, system_of

Note = Callable[[str], None]

# TLC starts a JVM for each model: it gets those that tell the story.
STORY = ("published", "one-above-stuck", "mismatch-stuck", "live")
LISTS_OF_VERDICTS = {"check": "models", "prove": "theorems"}


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What ``permitflow check`` or ``permitflow prove`` said."""

    name: str
    """The judged object, and the judge."""
    holds: bool
    count: int
    """How many were judged."""


@dataclass(frozen=True, kw_only=True)
class StreamNumbers:
    """One stream over one hop, as its sender saw it."""

    stream: str
    rows: int
    chunks: int
    peak_rows_held: int
    """The most rows that were ever in flight: sent, and not yet consumed and returned."""
    window_rows: int
    """``row_permits`` of the agreement: ``peak_rows_held`` may never be above it."""
    blocked_share: float
    """The share of the time in which the sender waited for permits: of a sender in Spark, of its stream's time."""


@dataclass(frozen=True, kw_only=True)
class Hop:
    """One control loop on the path of the rows: Spark to the exchange, or the exchange to Spark."""

    name: str
    streams: tuple[StreamNumbers, ...]

    @property
    def rows(self) -> int:
        """Rows of all streams."""
        return sum(stream.rows for stream in self.streams)

    @property
    def chunks(self) -> int:
        """Chunks of all streams."""
        return sum(stream.chunks for stream in self.streams)

    @property
    def is_within_bounds(self) -> bool:
        """Did no stream ever hold more rows than it may?"""
        return all(stream.peak_rows_held <= stream.window_rows for stream in self.streams)


@dataclass(frozen=True, kw_only=True)
class TraceVerdict:
    """The model's verdict about the recorded run."""

    streams: int
    events: int
    is_complete: bool
    """Was everything recorded until the end?"""
    is_at_rest: bool
    """Were all permits back at their senders at the end?"""
    refused: tuple[str, ...]
    """Descriptions of runs that are no behaviours of the specification, or break its invariants."""

    @property
    def is_valid(self) -> bool:
        """Is every step a step of the model, with conservation of permits after each?"""
        return self.is_complete and self.is_at_rest and not self.refused and self.events > 0


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """The common part of both demos' reports."""

    scale: float
    answer: tuple[ShippingMode, ...]
    """Of query 12, through the exchange."""
    direct_answer: tuple[ShippingMode, ...]
    """The same query by Spark alone."""
    seconds: Mapping[str, float]
    """How long each part took, in the order in which they began."""
    total_seconds: float

    @abstractmethod
    def problems(self) -> Sequence[str]:
        """The failed checks."""

    @property
    def holds(self) -> bool:
        """Did all checks pass?"""
        return not self.problems()

    def as_json(self) -> dict[str, object]:
        """All of it, ready for JSON."""
        return {
            "holds": self.holds,
            "problems": list(self.problems()),
            **asdict(self),
            "answer": [mode._asdict() for mode in self.answer],
            "direct_answer": [mode._asdict() for mode in self.direct_answer],
        }


@dataclass(frozen=True, kw_only=True)
class DemoReport(Report):
    """Everything."""

    row_permits: int
    """The window of every stream, in rows."""
    evidence: tuple[Evidence, ...]
    hops: tuple[Hop, ...]
    trace: TraceVerdict

    def problems(self) -> Sequence[str]:
        """The failed checks."""
        found = [f"not all {evidence.name}, passed" for evidence in self.evidence if not evidence.holds]
        if self.answer != self.direct_answer:
            found.append(f"the answer through the exchange is {self.answer}, the direct one {self.direct_answer}")
        if not self.answer:
            found.append("the query found nothing")
        late = sum(mode.high_line_count + mode.low_line_count for mode in self.answer)
        for hop in self.hops:
            if hop.rows != late:
                found.append(f"{hop.name}: {hop.rows} rows moved, {late} are in the answer")
            if not hop.is_within_bounds:
                found.append(f"{hop.name}: more rows in flight than permits")
        if not self.trace.is_valid:
            found.append("the recorded run is not one that the specification allows")
        return found

    def as_json(self) -> dict[str, object]:
        """All of it, ready for JSON."""
        return {
            **super().as_json(),
            "hops": [
                {**asdict(hop), "rows": hop.rows, "chunks": hop.chunks, "within_bounds": hop.is_within_bounds}
                for hop in self.hops
            ],
            "trace": {**asdict(self.trace), "valid": self.trace.is_valid},
        }


async def run_demo(settings: DemoSettings, progress: Progress) -> DemoReport:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or a process failed.
    """
    began = monotonic()
    with work_folder(settings.keep) as work_dir:
        with progress.part("checks"):
            evidence = await gather_evidence(work_dir, progress.note)
        with progress.part("tables"):
            tables, is_new = await cached_tables(settings.scale, settings.cache_dir)
            progress.note(f"{'generated in' if is_new else 'found in'} {tables}")
        with progress.part("jobs"):
            events, traffic = await run_jobs(settings, tables, work_dir, progress.note)
        for query in ("query_through_exchange", "query_directly"):
            progress.seconds[query] = float(str(events[query]["seconds"]))
        with progress.part("replay"):
            trace, streams = await asyncio.to_thread(judged, work_dir / "traces")
            hops = hops_of(work_dir / "traces", streams, traffic)
    return DemoReport(
        scale=settings.scale,
        row_permits=settings.row_permits,
        evidence=evidence,
        answer=answer_of(events["query_through_exchange"]),
        direct_answer=answer_of(events["query_directly"]),
        hops=hops,
        trace=trace,
        seconds=progress.seconds,
        total_seconds=monotonic() - began,
    )


def judges() -> dict[str, tuple[str, ...]]:
    """Commands of ``permitflow`` that judge what the demo uses: permits, and a streaming query that reads a channel."""
    used = [found for found in (recorded_as("permits"), system_of("SparkMicroBatch")) if found is not None]
    models = [model.name for model in read_manifest().values() if system_of(model.module) in used]
    theorems = [theorem.id for found in used for theorem in found.load_theorems()]
    return {
        "models, by the explorer": ("check", "--engine", "explorer", *(f"--model={name}" for name in models)),
        "models, by TLC": ("check", "--engine", "tlc", *(f"--model={name}" for name in STORY)),
        "theorems, by Z3": ("prove", "--solver", "z3", *(f"--theorem={name}" for name in theorems)),
    }


async def gather_evidence(work_dir: Path, note: Note) -> tuple[Evidence, ...]:
    """Run the commands, one after the other: each uses all cores.

    Raises:
        DemoError: a command could not do its work; that it found a failure is no error, but a finding.
    """
    found: list[Evidence] = []
    for title, arguments in judges().items():
        name = f"permitflow {' '.join(arguments[:3])}"
        log = work_dir / "evidence.log"
        command = [sys.executable, "-m", "permitflow.cli", *arguments, "--json"]
        code, output = await child_output(command, name=name, log=log)
        if code not in (0, 1):
            raise DemoError(f"{name} ended with exit code {code}: {log.read_text(errors='replace')[-2000:]}")
        try:
            document = json.loads(output)
            verdicts = [item for item in document[LISTS_OF_VERDICTS[arguments[0]]] if item.get("findings", True)]
            holds = code == 0 and document["holds"] is True
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DemoError(f"{name} --json printed no report: {output[:500]!r}") from error
        found.append(Evidence(name=title, holds=holds, count=len(verdicts)))
        note(f"{len(verdicts)} {title}: {'all passed' if holds else 'NOT all passed'}")
    return tuple(found)


async def run_jobs(
    settings: DemoSettings, tables: Path, work_dir: Path, note: Note
) -> tuple[dict[str, Event], list[Event]]:
    """Run both jobs to their ends; what job 2 reported, by name, and what the exchange says about its channels.

    Cancellation ends all three processes.

    Raises:
        DemoError: one of the processes failed; the message ends with its log.
    """
    traces = work_dir / "traces"
    await asyncio.to_thread(traces.mkdir)
    command = [sys.executable, "-m", "permitflow.cli", *settings.exchange_arguments(traces)]
    async with child_process("permitflow serve", command, log=work_dir / "exchange.log") as exchange:
        address = str((await exchange.event("listening"))["address"])
        note(f"permitflow serve listens at {address}")
        part = settings.part(address=address, tables=tables, work_dir=work_dir)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_watch(exchange, note))
                async with asyncio.TaskGroup() as jobs:
                    jobs.create_task(_run_spark("send", "Spark job 1", part, note))
                    receiving = jobs.create_task(_run_spark("receive", "Spark job 2", part, note))
                # It writes its recording when it is asked to end.
                await exchange.stop()
        except* DemoError as failures:
            raise first_failure(failures) from None
    return receiving.result(), watching.result()


async def _watch(exchange: Child, note: Note) -> list[Event]:
    """Say what flows, until the exchange has stopped; its last numbers."""
    said = ""
    async for event in exchange.events():
        channels = event.get("channels", [])
        assert isinstance(channels, list)  # so serve reports them
        if event["event"] == "stopped":
            await exchange.succeed()
            return channels
        came, went = (sum(channel[name] for channel in channels) for name in ("rows_in", "rows_out"))
        if came and (text := f"{came:,} rows have come, {went:,} have gone") != said:
            said = text
            note(f"permitflow serve: {said}")
    raise DemoError("permitflow serve ended before it was asked to")


async def _run_spark(job: str, name: str, part: PartSettings, note: Note) -> dict[str, Event]:
    """Run a job to its end, and pass on what it reports; the last event of each name."""
    command = [sys.executable, "-m", "permitflow.demo.spark_jobs", job, part.to_json()]
    events: dict[str, Event] = {}
    async with child_process(name, command, log=Path(part.work_dir) / f"{job}_job.log") as child:
        async for event in child.events():
            events[str(event["event"])] = event
            note(f"{name}: {event['text']}")
        await child.succeed()
    return events


def answer_of(event: Event) -> tuple[ShippingMode, ...]:
    """The rows of query 12 that a Spark job has reported."""
    rows = event["rows"]
    assert isinstance(rows, list)  # so the job reports them
    return tuple(ShippingMode(*row) for row in rows)


def judged(folder: Path) -> tuple[TraceVerdict, dict[str, Verdict]]:
    """Replay every stream step by step; the model checks its invariants, conservation among them, after each."""
    trace = read_trace(folder)
    verdicts = judge_all(trace)
    verdict = TraceVerdict(
        streams=len(verdicts),
        events=sum(verdict.replay.performed for verdict in verdicts),
        is_complete=trace.is_complete,
        is_at_rest=all(verdict.is_at_rest for verdict in verdicts),
        refused=tuple(verdict.describe() for verdict in verdicts if not verdict.is_valid),
    )
    return verdict, {each.channel: each for each in verdicts}


def hops_of(folder: Path, streams: Mapping[str, Verdict], traffic: list[Event]) -> tuple[Hop, ...]:
    """The numbers of each hop, over all streams that carried rows.

    Args:
        folder: with the statistics of the senders in Spark's tasks.
        streams: what the model says about each recording.
        traffic: what ``permitflow serve`` says about its channels.

    Raises:
        DemoError: a sender was not recorded.
    """
    tasks = [json.loads(path.read_text()) for path in sorted(folder.glob("write-*.statistics.json"))]
    inside = {str(channel["channel"]): float(str(channel["blocked_share"])) for channel in traffic}
    outside = {str(channel["channel"]): float(str(channel["consumer_blocked_share"])) for channel in traffic}
    shares = {
        "Spark job 1 to the exchange": {each["name"]: each["blocked_share"] for of_task in tasks for each in of_task},
        "inside the exchange": inside,
        "the exchange to Spark job 2": {
            stream: outside[stream.partition("#get")[0]] for stream in streams if "#get" in stream
        },
    }
    hops = [(name, [_numbers(streams, *item) for item in of_hop.items()]) for name, of_hop in shares.items()]
    # A probe opens a stream too, and leaves it empty.
    return tuple(Hop(name=name, streams=tuple(each for each in numbers if each.rows)) for name, numbers in hops)


def _numbers(streams: Mapping[str, Verdict], stream: str, blocked_share: float) -> StreamNumbers:
    # The model counted the peaks from the recorded events; the program's own counters are what it checks.
    if stream not in streams or (peaks := streams[stream].peaks) is None:
        raise DemoError(f"the run of {stream!r} was not recorded")
    return StreamNumbers(
        stream=stream,
        rows=streams[stream].rows,
        chunks=streams[stream].actions["SendChunk"],
        peak_rows_held=peaks.row_permits_in_use,
        window_rows=peaks.row_permits,
        blocked_share=blocked_share,
    )


def render(report: DemoReport) -> Group:
    """The report for a console."""
    return Group(
        *answer_section(report.scale, report.answer, report.direct_answer),
        Text(),
        Text(f"The windows of {report.row_permits} rows are too small for speed: the senders are meant to wait."),
        *(part for hop in report.hops for part in _hop(hop)),
        *section("Checked", *map(Text, _verdicts(report))),
        *times_section(report.seconds),
        *conclusion(report.problems(), report.total_seconds),
    )


def _hop(hop: Hop) -> tuple[RenderableType, ...]:
    table = number_table("stream", "rows", "chunks", "peak rows in flight", "permits (bound)", "sender waited")
    for stream in sorted(hop.streams, key=lambda stream: stream.stream):
        numbers = (stream.rows, stream.chunks, stream.peak_rows_held, stream.window_rows)
        table.add_row(stream.stream, *(f"{number:,}" for number in numbers), f"{stream.blocked_share:.1%}")
    return section(f"{hop.name}: {hop.rows:,} rows in {hop.chunks:,} chunks", table)


def _verdicts(report: DemoReport) -> Iterator[str]:
    for item in report.evidence:
        yield f"{item.count} {item.name}: {'all passed' if item.holds else 'NOT all passed'}"
    trace = report.trace
    kept = "permits were conserved after every one" if trace.is_valid else "NOT as the specification says"
    yield f"{trace.events:,} steps on {trace.streams} streams, recorded and replayed by the model: {kept}"
    yield from trace.refused
