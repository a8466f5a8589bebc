"""One of the two processes of a way.

    python -m benchmarks.worker producer MODULE NAME
    python -m benchmarks.worker consumer MODULE NAME ADDRESS

It reads jobs from standard input, one JSON object a line, and answers on standard output in the same form: first that
it is ready, and after the order to begin the result.  The process ends when its input ends.
"""

import gc
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Way, load_ways

__all__ = ["cpu_seconds", "forget_peak_memory", "main", "peak_memory_bytes"]

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
# See proc(5): 5 resets the peak of resident memory to its present size.
_RESET_PEAK = "5"


def cpu_seconds() -> float:
    """All threads, user and system."""
    return time.process_time()


def forget_peak_memory() -> None:
    """Begin a new measurement; without effect where the kernel cannot."""
    if _RESET.exists():
        _RESET.write_text(_RESET_PEAK)


def peak_memory_bytes() -> int:
    """The most resident memory since ``forget_peak_memory``, or since the start of the process."""
    if _STATUS.exists():
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


Say = Callable[..., None]


def main(role: str, module: str, name: str, address: str = "") -> None:
    """Play a role until there are no more jobs."""
    say = speaker()
    (way,) = (way for way in load_ways(module) if way.name == name)
    if role == "producer":
        produce(way, say)
    else:
        consume(way, address, say)


def speaker() -> Say:
    """A function that answers; whatever else is printed goes to standard error."""
    answers: TextIO = sys.stdout
    sys.stdout = sys.stderr

    def say(**facts: Any) -> None:
        print(json.dumps(facts), file=answers, flush=True)

    return say


def jobs() -> Iterator[Job]:
    """As they are told."""
    # Else each collection would look at all that was loaded: 50,000 objects, and longer than many a job.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        job = Job(**json.loads(line))
        # Collect the garbage of earlier jobs outside this job's time.
        gc.collect()
        forget_peak_memory()
        yield job


def produce(way: Way, say: Say) -> None:
    """Serve jobs."""
    producer = way.producer()
    try:
        say(address=producer.address)
        for job in jobs():
            job.shape.distinct()
            began = cpu_seconds()
            producer.prepare(job)
            say(ready=True)
            sys.stdin.readline()
            producer.produce(job)
            producer.linger(sys.stdin.readline)
            say(cpu_seconds=cpu_seconds() - began, peak_memory_bytes=peak_memory_bytes())
    finally:
        producer.close()


def consume(way: Way, address: str, say: Say) -> None:
    """Read jobs."""
    consumer = way.consumer(address)
    say(ready=True)
    for job in jobs():
        tally = Tally(job)
        say(ready=True)
        sys.stdin.readline()
        began = cpu_seconds()
        consumer.consume(job, tally)
        spent = cpu_seconds() - began
        say(**asdict(tally.outcome()), cpu_seconds=spent, peak_memory_bytes=peak_memory_bytes())


if __name__ == "__main__":
    main(*sys.argv[1:])
