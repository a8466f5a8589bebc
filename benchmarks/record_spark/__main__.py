"""Two real Spark jobs, recorded at all ends and judged by ``permitflow trace validate``; then sabotaged readers.

    python -m benchmarks.record_spark --chunks 20000 --keep DIRECTORY
    python -m benchmarks.record_spark --sabotage lost

One Spark application writes a DataFrame into an exchange, another one reads it: three processes and the Python workers
of Spark's tasks.  The exchange and every task write recordings of their own, with no clock in common.  In a sabotaged
run the worker that reads the last channel returns permits wrongly: its stream must be refused, at the step at which it
went wrong, and every other one must be valid.
Exit code 1: the real run is not a behaviour of the specification, or sabotage was not found where it is.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

from rich.table import Table

from benchmarks.record_spark.job import PERMIT_BATCH, STREAM, Run, real_run, sabotaged_run, to_json
from permitflow.cli.console import open_console, open_table
from permitflow.demo.children import Child, child_output, child_process
from permitflow.errors import DemoError
from permitflow.testing.sabotage import SABOTAGES, first_wrong_event
from permitflow.tracing import read_trace

__all__ = ["Judged", "judge"]


class Objection(TypedDict):
    """An event that the command calls impossible."""

    end: str
    sequence: int
    action: str


class Problem(TypedDict):
    """Why a stream is refused."""

    events: list[Objection]


class Stream(TypedDict):
    """One stream in the command's report, as far as it is needed here."""

    channel: str
    valid: bool
    ends: list[str]
    events: int
    at_rest: bool
    actions: dict[str, int]
    problem: Problem | None


@dataclass(frozen=True)
class Judged:
    """The verdict on a run."""

    streams: int
    """That carried rows."""

    chunks: int
    """Sent in all streams together."""

    events: int
    verdict: str
    problems: tuple[str, ...]
    """What is not as it should be."""

    seconds: float


async def judge(run: Run, work_dir: Path, *, with_tlc: bool) -> Judged:
    """Ask the command, as a user would.  A worker that Spark has killed may leave half a line: that is allowed."""
    started = time.monotonic()
    command = [sys.executable, "-m", "permitflow.cli", "trace", "validate", run.folder, "--allow-truncated", "--json"]
    command += ["--with-tlc"] if with_tlc else []
    _, output = await child_output(command, name="permitflow trace validate", log=work_dir / "validate.log")
    seconds = time.monotonic() - started
    report = json.loads(output)
    streams: list[Stream] = [stream for stream in report["channels"] if stream["events"]]
    refused = [stream for stream in streams if not stream["valid"]]
    problems = [*_one_sided(streams), *(_wrongly_judged(run, refused) if run.sabotage else _unfinished(streams))]
    problems += [f"{channel}: TLC disagrees" for channel, says in report["tlc"].items() if not says["agrees"]]
    return Judged(
        streams=len(streams),
        chunks=sum(stream["actions"].get("SendChunk", 0) for stream in streams),
        events=sum(stream["events"] for stream in streams),
        verdict="; ".join(map(_objection, refused)) or "all valid",
        problems=tuple(problems),
        seconds=seconds,
    )


def _one_sided(streams: list[Stream]) -> Iterator[str]:
    for stream in streams:
        if len(stream["ends"]) < 2:
            yield f"{stream['channel']}: only the {stream['ends'][0]} was recorded"


def _unfinished(streams: list[Stream]) -> Iterator[str]:
    for stream in streams:
        if not stream["valid"]:
            yield f"{stream['channel']}: not a behaviour of the specification"
        elif not stream["at_rest"]:
            yield f"{stream['channel']}: valid, but not at rest at the end"


def _wrongly_judged(run: Run, refused: list[Stream]) -> Iterator[str]:
    names = [stream["channel"] for stream in refused]
    if len(names) != 1 or not names[0].startswith(f"{run.sabotaged_channel}#get"):
        yield f"refused is {', '.join(names) or 'nothing'}, not the stream from {run.sabotaged_channel}"
        return
    (event,) = _problem(refused[0])["events"][:1]
    recorded = read_trace(run.folder, allow_truncated=True).channels[names[0]]
    end, sequence = first_wrong_event(recorded, run.sabotage)
    if (event["end"], event["sequence"]) != (end, sequence):
        yield f"refused at {_objection(refused[0])}, not at event {sequence} of the {end}"


def _objection(stream: Stream) -> str:
    event = _problem(stream)["events"][0]
    return f"{stream['channel']} refused at {event['action']}, event {event['sequence']:,} of the {event['end']}"


def _problem(stream: Stream) -> Problem:
    problem = stream["problem"]
    assert problem is not None  # asked of refused streams only
    return problem


COUNTS, TIMES = ("streams", "chunks", "events"), ("recorded", "judged")


@dataclass(frozen=True)
class Ended:
    """How an application ended a run."""

    failure: str
    """Empty if it went well."""

    seconds: float


Endings = dict[str, list[Ended]]
"""By the name of the run; the application that writes comes first."""


async def record(runs: Sequence[Run], work_dir: Path) -> Endings:
    """Let both jobs go through all runs."""
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(exchange_for(run, work_dir)) for run in runs]
        addresses = [str((await child.event("listening"))["address"]) for child in children]
        async with asyncio.TaskGroup() as group:
            for child in children:
                group.create_task(read_all(child))
            addressed = [replace(run, address=address) for run, address in zip(runs, addresses, strict=True)]
            endings = await run_jobs(addressed, work_dir)
            for child in children:
                # It closes its recording when it is asked to end.
                await child.stop()
    return endings


@asynccontextmanager
async def exchange_for(run: Run, work_dir: Path) -> AsyncIterator[Child]:
    """``permitflow serve`` for one run."""
    command = [sys.executable, "-m", "permitflow.cli", "serve", "--stream", f"{STREAM}:{run.channels}", "--json"]
    command += ["--row-permits", str(run.row_permits), "--permit-batch", str(PERMIT_BATCH), "--address", "127.0.0.1:0"]
    command += ["--trace", f"{run.folder}/exchange.jsonl"]
    async with child_process("permitflow serve", command, log=work_dir / "exchange.log") as child:
        yield child


async def read_all(child: Child) -> None:
    """Take what it says about its traffic, or its pipe would fill up."""
    async for _ in child.events():
        pass


async def run_jobs(runs: Sequence[Run], work_dir: Path) -> Endings:
    """Two Spark applications at the same time; the one that writes does sabotaged runs alone."""
    jobs = {"send": runs, "receive": [run for run in runs if not run.sabotage]}
    endings: Endings = {run.name: [] for run in runs}
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        for job, of_job in jobs.items():
            if of_job:
                command = [sys.executable, "-m", "benchmarks.record_spark.job", job, to_json(of_job), str(work_dir)]
                spark = child_process(f"Spark ({job})", command, log=work_dir / f"{job}.log")
                group.create_task(follow(await stack.enter_async_context(spark), endings))
    return endings


async def follow(child: Child, endings: Endings) -> None:
    """Note how each run of an application ended."""
    async for event in child.events():
        if event["event"] == "done":
            endings[str(event["text"])].append(Ended(str(event["failure"]), float(str(event["seconds"]))))
    await child.succeed()


async def record_and_judge(runs: Sequence[Run], work_dir: Path, *, with_tlc: bool) -> bool:
    """Do everything and print the table; is all as it should be?"""
    endings = await record(runs, work_dir)
    table = open_table("run", *COUNTS, *TIMES, "verdict", right=(*COUNTS, *TIMES), wrap=("verdict",))
    problems, remarks = [], []
    for run in runs:
        judged = await judge(run, work_dir, with_tlc=with_tlc and not run.sabotage)
        ended = endings[run.name]
        add_row(table, run, judged, max(end.seconds for end in ended))
        failures = [end.failure for end in ended if end.failure]
        problems += [f"{run.name}: {problem}" for problem in (*judged.problems, *(() if run.sabotage else failures))]
        if run.sabotage:
            remarks.append(f"{run.name}: {failures[0] if failures else 'Spark itself noticed nothing'}")
    console = open_console()
    console.print(table)
    for remark in (*remarks, *(f"NOT AS IT SHOULD BE: {problem}" for problem in problems)):
        console.print(remark, soft_wrap=True)
    if not problems:
        console.print("Everything is as it should be: real runs are valid, sabotage is refused where it is.")
    return not problems


def add_row(table: Table, run: Run, judged: Judged, recorded_seconds: float) -> None:
    """One line for a run."""
    numbers = (f"{count:,}" for count in (judged.streams, judged.chunks, judged.events))
    seconds = (f"{seconds:.1f} s" for seconds in (recorded_seconds, judged.seconds))
    table.add_row(run.name, *numbers, *seconds, judged.verdict)


def runs_of(options: argparse.Namespace, base: Path) -> list[Run]:
    """The runs that were asked for."""
    if options.sabotage is not None:
        return [sabotaged_run(base / name, name) for name in options.sabotage]
    return [real_run(base / "real", options.chunks), *(sabotaged_run(base / name, name) for name in SABOTAGES)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    command_line = parser()
    options = command_line.parse_args(arguments)
    if options.chunks < 1:
        command_line.error(f"argument --chunks: must be at least 1, not {options.chunks}")
    with tempfile.TemporaryDirectory(prefix="permitflow-") as name:
        runs = runs_of(options, Path(name) if options.keep is None else options.keep)
        try:
            for run in runs:
                Path(run.folder).mkdir(parents=True)
        except OSError as error:
            command_line.error(f"argument --keep: {error.strerror}: {error.filename}")
        code = 1
        try:
            code = 0 if asyncio.run(record_and_judge(runs, Path(name), with_tlc=options.with_tlc)) else 1
        except* DemoError as failures:
            print(first_of(failures), file=sys.stderr)
        except* KeyboardInterrupt:
            code = 130
    return code


def first_of(failures: BaseExceptionGroup[DemoError]) -> DemoError:
    """What went wrong first."""
    found = failures.exceptions[0]
    return first_of(found) if isinstance(found, BaseExceptionGroup) else found


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.record_spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--chunks", type=int, default=20_000, help="of the real run, about; default 20000")
    options.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the recordings in this new folder")
    options.add_argument("--with-tlc", action="store_true", help="TLC judges the real run as well")
    options.add_argument("--sabotage", action="append", choices=SABOTAGES, help="only such runs; may be repeated")
    return options


if __name__ == "__main__":
    sys.exit(main())
