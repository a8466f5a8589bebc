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
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.record_spark.job import PERMIT_BATCH, STREAM, Run, real_run, sabotaged_run, to_json
from permitflow.cli.console import open_console, open_table
from permitflow.demo.children import Child, child_output, child_process, first_failure
from permitflow.errors import DemoError
from permitflow.testing.sabotage import SABOTAGES, first_wrong_event
from permitflow.tracing import read_trace

NUMBERS = ("streams", "chunks", "events", "recorded", "judged")

Stream = dict[str, Any]
"""One stream in the report of ``permitflow trace validate --json``."""


@dataclass(frozen=True)
class Ended:
    """How an application ended a run."""

    failure: str
    """Empty if it went well."""

    seconds: float


Endings = dict[str, list[Ended]]
"""By the name of the run; the application that writes comes first."""


async def record(runs: Sequence[Run], work_dir: Path) -> Endings:
    """Let both jobs go through all runs, each with an exchange of its own."""
    async with AsyncExitStack() as stack:
        exchanges: list[Child] = []
        for run in runs:
            command = [sys.executable, "-m", "permitflow.cli", "serve", "--stream", f"{STREAM}:{run.channels}"]
            command += ["--row-permits", str(run.row_permits), "--permit-batch", str(PERMIT_BATCH), "--json"]
            command += ["--address", "127.0.0.1:0", "--trace", f"{run.folder}/exchange.jsonl"]
            served = child_process("permitflow serve", command, log=work_dir / "exchange.log")
            exchanges.append(await stack.enter_async_context(served))
        addresses = [str((await exchange.event("listening"))["address"]) for exchange in exchanges]
        async with asyncio.TaskGroup() as group:
            for exchange in exchanges:
                group.create_task(read_all(exchange))
            addressed = [replace(run, address=address) for run, address in zip(runs, addresses, strict=True)]
            endings = await run_jobs(addressed, work_dir)
            for exchange in exchanges:
                # It closes its recording when it is asked to end.
                await exchange.stop()
    return endings


async def read_all(child: Child) -> None:
    """Take what it says about its traffic, or its pipe would fill up."""
    async for _ in child.events():
        pass


async def run_jobs(runs: Sequence[Run], work_dir: Path) -> Endings:
    """Two Spark applications at the same time; the one that writes does sabotaged runs alone."""
    jobs = {"send": runs, "receive": [run for run in runs if not run.sabotage]}
    endings: Endings = {run.name: [] for run in runs}

    async def follow(job: str, of_job: Sequence[Run]) -> None:
        command = [sys.executable, "-m", "benchmarks.record_spark.job", job, to_json(of_job), str(work_dir)]
        async with child_process(f"Spark ({job})", command, log=work_dir / f"{job}.log") as child:
            async for event in child.events():
                if event["event"] == "done":
                    endings[str(event["text"])].append(Ended(str(event["failure"]), float(str(event["seconds"]))))
            await child.succeed()

    async with asyncio.TaskGroup() as group:
        for job, of_job in jobs.items():
            if of_job:
                group.create_task(follow(job, of_job))
    return endings


async def validate(run: Run, work_dir: Path, *, with_tlc: bool) -> tuple[list[Stream], list[str]]:
    """The streams that carried something, as the command judges them; and those about which TLC disagrees.

    A worker that Spark has killed may leave half a line: that is allowed.
    """
    command = [sys.executable, "-m", "permitflow.cli", "trace", "validate", run.folder, "--allow-truncated", "--json"]
    command += ["--with-tlc"] if with_tlc else []
    _, output = await child_output(command, name="permitflow trace validate", log=work_dir / "validate.log")
    report = json.loads(output)
    disagreeing = [channel for channel, says in report["tlc"].items() if not says["agrees"]]
    return [stream for stream in report["channels"] if stream["events"]], disagreeing


def problems_of(run: Run, streams: list[Stream]) -> Iterator[str]:
    """What is not as it should be."""
    for stream in streams:
        if len(stream["ends"]) < 2:
            yield f"{stream['channel']}: only the {stream['ends'][0]} was recorded"
        if run.sabotage:
            continue
        if not stream["valid"]:
            yield f"{stream['channel']}: not a behaviour of the specification"
        elif not stream["at_rest"]:
            yield f"{stream['channel']}: valid, but not at rest at the end"
    if run.sabotage:
        refused = [stream for stream in streams if not stream["valid"]]
        names = [stream["channel"] for stream in refused]
        if len(names) != 1 or not names[0].startswith(f"{run.sabotaged_channel}#get"):
            yield f"refused is {', '.join(names) or 'nothing'}, not the stream from {run.sabotaged_channel}"
            return
        event = refused[0]["problem"]["events"][0]
        recorded = read_trace(run.folder, allow_truncated=True).channels[names[0]]
        end, sequence = first_wrong_event(recorded, run.sabotage)
        if (event["end"], event["sequence"]) != (end, sequence):
            yield f"refused at {objection_to(refused[0])}, not at event {sequence} of the {end}"


def objection_to(stream: Stream) -> str:
    """Why a stream is refused."""
    event = stream["problem"]["events"][0]
    return f"{stream['channel']} refused at {event['action']}, event {event['sequence']:,} of the {event['end']}"


async def record_and_judge(runs: Sequence[Run], work_dir: Path, *, with_tlc: bool) -> bool:
    """Do everything and print the table; is all as it should be?"""
    endings = await record(runs, work_dir)
    table = open_table("run", *NUMBERS, "verdict", right=NUMBERS, wrap=("verdict",))
    problems, remarks = list[str](), list[str]()
    for run in runs:
        started = time.monotonic()
        streams, disagreeing = await validate(run, work_dir, with_tlc=with_tlc and not run.sabotage)
        judged_seconds = time.monotonic() - started
        table.add_row(
            run.name,
            f"{len(streams):,}",
            f"{sum(stream['actions'].get('SendChunk', 0) for stream in streams):,}",
            f"{sum(stream['events'] for stream in streams):,}",
            f"{max(end.seconds for end in endings[run.name]):.1f} s",
            f"{judged_seconds:.1f} s",
            "; ".join(objection_to(stream) for stream in streams if not stream["valid"]) or "all valid",
        )
        found = [*problems_of(run, streams), *(f"{channel}: TLC disagrees" for channel in disagreeing)]
        failures = [end.failure for end in endings[run.name] if end.failure]
        if run.sabotage:
            remarks.append(f"{run.name}: {failures[0] if failures else 'Spark itself noticed nothing'}")
        else:
            found += failures
        problems += [f"{run.name}: {problem}" for problem in found]
    console = open_console()
    console.print(table)
    for remark in (*remarks, *(f"NOT AS IT SHOULD BE: {problem}" for problem in problems)):
        console.print(remark, soft_wrap=True)
    if not problems:
        console.print("All checks passed: real runs are valid, sabotage is refused where it is.")
    return not problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    command_line = parser()
    options = command_line.parse_args(arguments)
    if options.chunks < 1:
        command_line.error(f"argument --chunks: must be at least 1, not {options.chunks}")
    with tempfile.TemporaryDirectory(prefix="permitflow-") as name:
        base = Path(name) if options.keep is None else options.keep
        runs = [] if options.sabotage else [real_run(base / "real", options.chunks)]
        runs += [sabotaged_run(base / sabotage, sabotage) for sabotage in options.sabotage or SABOTAGES]
        try:
            for run in runs:
                Path(run.folder).mkdir(parents=True)
        except OSError as error:
            command_line.error(f"argument --keep: {error.strerror}: {error.filename}")
        code = 1
        try:
            code = 0 if asyncio.run(record_and_judge(runs, Path(name), with_tlc=options.with_tlc)) else 1
        except* DemoError as failures:
            print(first_failure(failures), file=sys.stderr)
        except* KeyboardInterrupt:
            code = 130
    return code


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
