"""A reader of a word count stands still: does the outside sender stop, within the bound, and does memory stay flat?

A sender writes words into a worker process, which counts them itself or sends them to a second one.  The reader reads
for a while, then nothing for ``--seconds``, then everything; the counts must be exact.  Exit code 1 if a promise was
broken.

    python -m benchmarks.stalled_wordcount --seconds 600
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.standstill import Report, main, watch
from examples.child_process import address_of, text_of
from examples.wordcount.outside import CountReader, WordSender
from examples.wordcount.worker import WorkerSettings
from examples.wordcount.workers import WorkerProcess
from permitflow.mute import Buffers, pipeline_bound
from permitflow.mute.pipeline import Event

BUFFERS = Buffers()
MARKS = {"read_bytes": 16_384, "line_bytes": 64, "high_mark": 32, "low_mark": 16}
WORDS = [b"%062d" % number for number in range(1_000)]
FLOW_SECONDS = 2.0
DRAIN_SECONDS = 60.0
MOST_GROWTH_BYTES = 1 << 20


async def stalled(shape: str, boundaries: int, seconds: float) -> Report:
    """Let words flow, stand still and watch, and let them flow again."""
    reader = CountReader(BUFFERS)
    sent: Counter[bytes] = Counter()
    is_over = False
    peak_held = 0

    def words() -> Iterator[bytes]:
        for word in cycle(WORDS):
            if is_over:
                return
            sent[word] += 1
            yield word

    def look() -> None:
        nonlocal peak_held
        peak_held = max(peak_held, sender.sent_bytes - reader.counted_bytes)

    sender = WordSender(words(), BUFFERS, look)
    workers: list[WorkerProcess] = []
    with TemporaryDirectory() as folder:
        async with asyncio.TaskGroup() as group:

            async def start(name: str, **settings: object) -> WorkerProcess:
                ready = asyncio.Event()

                def hear(event: Event) -> None:
                    if event["event"] == "ready":
                        ready.set()

                facts = asdict(BUFFERS) | MARKS | settings
                worker = WorkerProcess(WorkerSettings(name=name, **facts), Path(folder), hear)
                workers.append(worker)
                group.create_task(worker.run())
                await ready.wait()
                return worker

            sinks = [text_of(reader.address)]
            if boundaries:
                back = await start("back", inlet="127.0.0.1:0", sinks=sinks)
                front = await start("front", listen="127.0.0.1:0", next_worker=back.addresses["inlet"])
            else:
                front = await start("front", listen="127.0.0.1:0", sinks=sinks)
            await sender.connect(address_of(front.addresses["listen"]))
            await asyncio.sleep(FLOW_SECONDS)
            reader.stand_still()
            processes = [psutil.Process(worker.pid) for worker in workers]
            watched = await watch(processes, lambda: sender.sent_bytes, seconds)
            reader.go_on()
            await asyncio.sleep(FLOW_SECONDS)
            is_over = True
            await sender.ended.wait()
            async with asyncio.timeout(DRAIN_SECONDS):  # TimeoutError: the counts are not exact
                while reader.counts != sent:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.01)
            for worker in workers:
                await worker.stop()
    reader.close()
    bound = pipeline_bound(
        sources=[(sender.sizes, reader.sizes)],
        sinks=[(sender.sizes, reader.sizes)],
        read_bytes=MARKS["read_bytes"],
        line_bytes=MARKS["line_bytes"],
        unacknowledged=MARKS["high_mark"],
        boundaries=boundaries,
    )
    return Report(
        shape=shape,
        unit="bytes",
        most_ahead=bound.total,
        ahead=peak_held,
        watched=watched,
        most_growth_bytes=MOST_GROWTH_BYTES,
    )


async def run(seconds: float) -> list[Report]:
    """Both shapes at once."""
    return [*await asyncio.gather(stalled("one process", 0, seconds), stalled("two workers", 1, seconds))]


if __name__ == "__main__":
    sys.exit(main(__doc__, run))
