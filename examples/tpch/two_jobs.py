"""The main demo: two Spark jobs with an exchange between them, each in a process of its own, and all that is checked.

The models and the proofs are checked as a user would do it, with ``permitflow check`` and ``permitflow prove``.  Then
the jobs run; what they recorded tells the rows moved, the peak in flight and who waited, and the model judges it.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic

from permitflow.errors import DemoError
from permitflow.tracing import Trace, read_trace
from permitflow_model.manifest import read_manifest
from permitflow_model.registry import recorded_as, system_of
from permitflow_testing.traces import ChannelVerdict, judge_all

from ..processes import Event, Note, Part, child_output, run_beside, work_folder
from .report import Check, Progress, Report, StreamNumbers
from .settings import STREAM, DemoSettings, PartSettings
from .tables import ShippingMode, cached_tables

# TLC starts a JVM for each model: it gets those that tell the story.
STORY = ("published", "one-above-stuck", "mismatch-stuck", "live")
HOPS = ("Spark job 1 to the exchange", "inside the exchange", "the exchange to Spark job 2")
LISTS_OF_VERDICTS = {"check": "models", "prove": "theorems"}


async def run_two_jobs(settings: DemoSettings, progress: Progress) -> Report:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or a process failed.
    """
    began = monotonic()
    with work_folder(settings.keep) as work_dir:
        with progress.part("model checks and proofs"):
            evidence = await gather_evidence(work_dir, progress.note)
        with progress.part("TPC-H tables"):
            tables = await cached_tables(settings.scale, settings.cache_dir, progress.note)
        part = settings.part(tables=tables, work_dir=work_dir)
        with progress.part("an exchange and two Spark jobs, with their start"):
            events, traffic = await run_jobs(settings, part, progress.note)
        through, direct = (events[name] for name in ("query_through_exchange", "query_directly"))
        progress.seconds["  of these, query 12 through the exchange"] = float(str(through["seconds"]))
        progress.seconds["  of these, query 12 directly"] = float(str(direct["seconds"]))
        with progress.part("replay of the recorded run"):
            trace = await asyncio.to_thread(read_trace, part.traces)
            verdicts = await asyncio.to_thread(judge_all, trace)
            streams = numbers_of(part.traces, verdicts, traffic)
    answer = answer_of(through)
    return Report(
        scale=settings.scale,
        answer=answer,
        direct_answer=answer_of(direct),
        streams=streams,
        checks=[*evidence, *checks_of_hops(streams, answer), check_of_replay(trace, verdicts)],
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


async def gather_evidence(work_dir: Path, note: Note) -> list[Check]:
    """Run the commands, one after the other: each uses all cores.

    Raises:
        DemoError: a command could not do its work; that it found a failure is no error, but a finding.
    """
    found = []
    for title, arguments in judges().items():
        name = f"permitflow {' '.join(arguments[:3])}"
        log = work_dir / "evidence.log"
        command = [sys.executable, "-m", "permitflow_tools.cli", *arguments, "--json"]
        code, output = await child_output(command, name=name, log=log)
        if code not in (0, 1):
            raise DemoError(f"{name} ended with exit code {code}: {log.read_text(errors='replace')[-2000:]}")
        try:
            document = json.loads(output)
            verdicts = [item for item in document[LISTS_OF_VERDICTS[arguments[0]]] if item.get("findings", True)]
            holds = code == 0 and document["holds"] is True
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DemoError(f"{name} --json printed no report: {output[:500]!r}") from error
        found.append(Check(holds, f"{len(verdicts)} {title}: {'all passed' if holds else 'NOT all passed'}"))
        note(found[-1].text)
    return found


async def run_jobs(
    settings: DemoSettings, part: PartSettings, note: Note
) -> tuple[Mapping[str, Event], Sequence[Event]]:
    """Run both jobs to their ends; what job 2 reported, by name, and what the exchange says about its channels.

    Cancellation ends all three processes.

    Raises:
        DemoError: one of the processes failed; the message ends with its log.
    """
    window = ("--row-permits", str(settings.row_permits), "--permit-batch", str(settings.permit_batch))
    await asyncio.to_thread(part.traces.mkdir)
    command = part.exchange_command([STREAM], part.traces / "exchange.jsonl", *window)
    traffic: list[Event] = []
    received: dict[str, Event] = {}

    def hear_exchange(event: Event) -> None:
        if event["event"] not in ("traffic", "stopped"):
            return
        channels = event["channels"]
        assert isinstance(channels, list)  # so serve reports them
        before = _flow(traffic)
        traffic[:] = channels
        if _flow(traffic) not in ("", before):
            note(f"permitflow serve: {_flow(traffic)}")

    def spark_job(number: int, job: str) -> Part:
        def hear(event: Event) -> None:
            received[str(event["event"])] = event
            note(f"Spark job {number}: {event['text']}")

        program = part.command("-m", f"{__package__}.spark_jobs", job)
        return Part(f"Spark job {number}", lambda _life: program, part.file(f"{job}_job.log"), hear=hear)

    exchange = Part("permitflow serve", lambda _life: command, part.file("exchange.log"), hear=hear_exchange)
    await run_beside(exchange, spark_job(1, "send").run, spark_job(2, "receive").run)
    return received, traffic


def _flow(traffic: Sequence[Event]) -> str:
    came, went = (sum(int(str(channel[name])) for channel in traffic) for name in ("rows_in", "rows_out"))
    return f"{came:,} rows have come, {went:,} have gone" if came else ""


def answer_of(event: Event) -> tuple[ShippingMode, ...]:
    """The rows of query 12 that a Spark job has reported."""
    rows = event["rows"]
    assert isinstance(rows, list)  # so the job reports them
    return tuple(ShippingMode(*row) for row in rows)


def checks_of_hops(streams: Sequence[StreamNumbers], answer: Sequence[ShippingMode]) -> Iterator[Check]:
    """Each hop must have carried the line items that are in the answer."""
    late = sum(mode.high_line_count + mode.low_line_count for mode in answer)
    for hop in HOPS:
        rows = sum(stream.rows for stream in streams if stream.hop == hop)
        yield Check(rows == late, f"{hop}: {rows:,} rows moved, {late:,} are in the answer")


def check_of_replay(trace: Trace, verdicts: Sequence[ChannelVerdict]) -> Check:
    """Each recorded step must be one of the model, which checks that permits are conserved after each, to the end."""
    events = sum(verdict.replay.performed for verdict in verdicts)
    wrong = [verdict.describe() for verdict in verdicts if not (verdict.is_valid and verdict.is_at_rest)]
    wrong += [] if trace.is_complete else ["the recording is not complete"]
    is_right = not wrong and events > 0
    kept = "permits were conserved after every one" if is_right else "NOT as the specification says"
    found = f"{events:,} steps on {len(verdicts)} streams, recorded and replayed by the model: {kept}"
    return Check(is_right, "\n".join([found, *wrong]))


def numbers_of(folder: Path, verdicts: Sequence[ChannelVerdict], traffic: Sequence[Event]) -> list[StreamNumbers]:
    """The numbers of each hop, over all streams that carried rows.

    Args:
        folder: with the statistics of the senders in Spark's tasks.
        verdicts: what the model says about each recording.
        traffic: what ``permitflow serve`` says about its channels.

    Raises:
        DemoError: a sender was not recorded.
    """
    streams = {verdict.channel: verdict for verdict in verdicts}
    tasks = [json.loads(path.read_text()) for path in sorted(folder.glob("write-*.statistics.json"))]
    inside, outside = (
        {str(channel["channel"]): float(str(channel[name])) for channel in traffic}
        for name in ("blocked_share", "consumer_blocked_share")
    )
    sent = {each["name"]: each["blocked_share"] for of_task in tasks for each in of_task}
    received = {stream: outside[stream.partition("#get")[0]] for stream in streams if "#get" in stream}
    shares = zip(HOPS, (sent, inside, received), strict=True)
    numbers = [_numbers(streams, hop, *item) for hop, of_hop in shares for item in of_hop.items()]
    return [each for each in numbers if each.rows]  # a probe opens a stream too, and leaves it empty


def _numbers(streams: Mapping[str, ChannelVerdict], hop: str, stream: str, blocked_share: float) -> StreamNumbers:
    # The model counted the peaks from the recorded events; the program's own counters are what it checks.
    if stream not in streams or (peaks := streams[stream].peaks) is None:
        raise DemoError(f"the run of {stream!r} was not recorded")
    return StreamNumbers(
        hop=hop,
        stream=stream,
        rows=streams[stream].rows,
        chunks=streams[stream].actions["SendChunk"],
        peak_rows_held=peaks.row_permits_in_use,
        window_rows=peaks.row_permits,
        blocked_share=blocked_share,
    )
