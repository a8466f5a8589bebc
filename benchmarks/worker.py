"""The two processes of a way.  Each gets jobs, answers that it is ready, and once it may begin tells its figures.

Nothing else is loaded here: what a process has in memory is measured.
"""

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Doing, Way, load_ways

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
# See proc(5): 5 resets the peak of resident memory to its present size.
_RESET_PEAK = "5"


class Effort(NamedTuple):
    """The resources that a job took of one process."""

    cpu_seconds: float
    """Processor time of all threads, user and system."""
    peak_memory_bytes: int


def peak_memory_bytes() -> int:
    """The most resident memory since the job was told; since the start of the process, where the kernel cannot say."""
    if _STATUS.exists():
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _jobs(pipe: Connection) -> Iterator[Job]:
    # Otherwise each collection would visit 50,000 loaded objects, and take longer than some jobs.
    gc.collect()
    gc.freeze()
    while True:
        job = pipe.recv()
        # Collect the garbage of earlier jobs outside this job's time.
        gc.collect()
        if _RESET.exists():
            _RESET.write_text(_RESET_PEAK)
        yield job


def _way(module: str, name: str) -> Way:
    (way,) = (way for way in load_ways(module) if way.name == name)
    return way


def produce(pipe: Connection, module: str, name: str) -> None:
    """Serve jobs until there are no more; the first message is the address."""
    producer = _way(module, name).producer()
    try:
        with asyncio.Runner() as runner:
            _finish(runner, producer.start())
            pipe.send(producer.address)
            for job in _jobs(pipe):
                job.shape.distinct()
                began = time.process_time()
                _finish(runner, producer.prepare(job))
                pipe.send("ready")
                pipe.recv()
                _finish(runner, producer.produce(job))
                # Until the consumer has everything.
                runner.run(asyncio.to_thread(pipe.recv))
                pipe.send(Effort(time.process_time() - began, peak_memory_bytes()))
    finally:
        producer.close()


def consume(pipe: Connection, module: str, name: str, address: str) -> None:
    """Read jobs until there are no more."""
    consumer = _way(module, name).consumer(address)
    with asyncio.Runner() as runner:
        for job in _jobs(pipe):
            tally = Tally(job)
            pipe.send("ready")
            pipe.recv()
            began = time.process_time()
            _finish(runner, consumer.consume(job, tally))
            effort = Effort(time.process_time() - began, peak_memory_bytes())
            pipe.send((tally.outcome(), effort))


def _finish(runner: asyncio.Runner, doing: Doing) -> None:
    if doing is not None:
        runner.run(doing)
