"""What ``permitflow trace validate`` says about a recorded run, and whether that is as it should be."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from benchmarks.record_spark.runs import Run
from permitflow.demo.children import child_output
from permitflow.testing.sabotage import first_wrong_event
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
