"""A reader of a word count stands still: does the outside sender stop, within the bound, and does memory stay flat?

A sender writes words into a worker process, which counts them itself or sends them to a second one.  The reader reads
for a while, then nothing for ``--seconds``, then everything; the counts must be exact.  Exit code 1 if a promise was
broken.

    python -m benchmarks.stalled_wordcount --seconds 600
"""

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.soak_grpc import WARM_UP_SHARE, growth_bytes_per_second
from permitflow.mute.outside import CountReader, WordSender
from permitflow.mute.pipeline import Event, pipeline_bound
from permitflow.mute.sockets import Buffers
from permitflow.mute.worker import WorkerSettings, address_of, text_of
from permitflow.mute.workers import WorkerProcess

BUFFERS = Buffers()
READ_BYTES, LINE_BYTES = 16_384, 64
HIGH_MARK, LOW_MARK = 32, 16
WORDS = [b"%062d" % number for number in range(1_000)]
FLOW_SECONDS = 2.0
SAMPLES = 300
MOST_GROWTH_BYTES = 1 << 20


@dataclass(frozen=True)
class Report:
    """Of one shape of pipeline."""

    shape: str
    bound_bytes: int
    peak_held_bytes: int
    """The most bytes that were sent, and not in the reader's counts."""
    stalled_bytes: int
    """That many when the reader went on."""
    sent_while_stalled: int
    """Bytes sent after the first third of that time."""
    growth_bytes: float
    """Of all workers' memory while the reader stood still."""
    peak_mebibytes: float
    bytes_per_second: tuple[float, float]
    """Counted before the stall and after it."""
    is_exact: bool

    def broken_promises(self) -> list[str]:
        broken = []
        if self.peak_held_bytes > self.bound_bytes:
            broken.append(f"{self.shape}: {self.peak_held_bytes:,} bytes were held, more than {self.bound_bytes:,}")
        if self.sent_while_stalled:
            broken.append(f"{self.shape}: the sender got rid of {self.sent_while_stalled:,} bytes during the stall")
        if self.growth_bytes > MOST_GROWTH_BYTES:
            broken.append(f"{self.shape}: memory has grown by {self.growth_bytes / 2**20:.1f} MiB")
        if not self.is_exact:
            broken.append(f"{self.shape}: the counts are not exact")
        return broken


async def stalled(shape: str, boundaries: int, seconds: float, folder: Path) -> Report:
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

    def held() -> int:
        return sender.sent_bytes - reader.counted_bytes

    def look() -> None:
        nonlocal peak_held
        peak_held = max(peak_held, held())

    sender = WordSender(words(), BUFFERS, look)
    async with asyncio.TaskGroup() as group:
        workers: list[WorkerProcess] = []

        async def start(name: str, **settings: object) -> WorkerProcess:
            ready = asyncio.Event()

            def hear(event: Event) -> None:
                if event["event"] == "ready":
                    ready.set()

            common = asdict(BUFFERS) | {
                "read_bytes": READ_BYTES,
                "line_bytes": LINE_BYTES,
                "high_mark": HIGH_MARK,
                "low_mark": LOW_MARK,
            }
            worker = WorkerProcess(WorkerSettings(name=name, **(common | settings)), folder, hear)
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
        loop = asyncio.get_running_loop()

        async def flow() -> float:
            before, began = reader.counted_bytes, loop.time()
            await asyncio.sleep(FLOW_SECONDS)
            return (reader.counted_bytes - before) / (loop.time() - began)

        rate = await flow()
        reader.stand_still()
        processes = [psutil.Process(worker.pid) for worker in workers]
        times, sizes = list[float](), list[int]()
        began, settled = loop.time(), None
        while (now := loop.time()) - began < seconds:
            times.append(now)
            sizes.append(sum(process.memory_info().rss for process in processes))
            if settled is None and now - began > WARM_UP_SHARE * seconds:
                settled = sender.sent_bytes
            await asyncio.sleep(seconds / SAMPLES)
        sent_while_stalled = sender.sent_bytes - (sender.sent_bytes if settled is None else settled)
        stalled_bytes = held()
        reader.go_on()
        rate_after = await flow()
        is_over = True
        await sender.ended.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                while True:
                    await asyncio.sleep(0.01)
                    if reader.counts == sent:
                        break
        for worker in workers:
            await worker.stop()
    reader.close()
    bound = pipeline_bound(
        sources=[(sender.sizes, reader.sizes)],
        sinks=[(sender.sizes, reader.sizes)],
        read_bytes=READ_BYTES,
        line_bytes=LINE_BYTES,
        unacknowledged=HIGH_MARK,
        boundaries=boundaries,
    )
    return Report(
        shape,
        bound.total,
        peak_held,
        stalled_bytes,
        sent_while_stalled,
        growth_bytes_per_second(times, sizes) * seconds,
        max(sizes) / 2**20,
        (rate, rate_after),
        reader.counts == sent,
    )


async def watch(seconds: float) -> list[Report]:
    """Both shapes at once, each for so many seconds."""
    with TemporaryDirectory() as folder:
        (one := Path(folder) / "one").mkdir()
        (two := Path(folder) / "two").mkdir()
        return [*await asyncio.gather(stalled("one process", 0, seconds, one), stalled("two workers", 1, seconds, two))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the readers stand still")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    reports = asyncio.run(watch(options.seconds))
    broken = [promise for report in reports for promise in report.broken_promises()]
    if options.json:
        print(json.dumps({"runs": [asdict(report) for report in reports], "broken": broken}))
    else:
        print(f"readers that stand still for {options.seconds:g} s")
        for report in reports:
            before, after = (rate / 2**20 for rate in report.bytes_per_second)
            print(
                f"  {report.shape:12} {report.stalled_bytes:,} bytes held, at most {report.peak_held_bytes:,} of "
                f"{report.bound_bytes:,}; {report.sent_while_stalled} more during the stall; memory "
                f"{report.growth_bytes / 1024:+.0f} KiB, peak {report.peak_mebibytes:.0f} MiB; "
                f"{before:.1f} MiB/s before, {after:.1f} after"
            )
        print(*(broken or ["every promise held"]), sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
