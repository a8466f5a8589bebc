"""A consumer stands still at the end of a chain, or of a fan-out: does the producer stop, does memory stay flat?

Each element is a chunk of Arrow of its own, made when it is asked for.  The consumer takes a few, then none for
``--seconds``; then it goes on, and everything must arrive once and in order.  Exit code 1 if a promise was broken.

    python -m benchmarks.stalled_stages --seconds 600
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict, dataclass

import psutil
import pyarrow as pa

from benchmarks.soak_grpc import WARM_UP_SHARE, growth_bytes_per_second
from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.stages import Elements, Source, open_run

CHUNK_ROWS = 131_072
CHUNK_BYTES = CHUNK_ROWS * 8
TAKEN_BEFORE = 3
TAKEN_AFTER = 50
SAMPLES = 300
BUFFER, PREFETCH, WINDOW = 8, 16, 4


@dataclass
class Producer:
    """Makes chunks when it is asked, and counts them."""

    given: int = 0

    async def chunks(self) -> AsyncIterator[pa.RecordBatch]:
        while True:
            self.given += 1
            # The loop has a turn, as with a source that reads from elsewhere.
            await asyncio.sleep(0)
            yield pa.record_batch({"n": pa.repeat(pa.scalar(self.given, pa.int64()), CHUNK_ROWS)})


def number_of(chunk: pa.RecordBatch) -> int:
    number: int = chunk.column(0)[0].as_py()
    return number


@dataclass(frozen=True)
class Report:
    """Of one shape of stream."""

    shape: str
    most_ahead: int
    """Chunks that the stages and channels may hold."""
    ahead: int
    """Chunks that were given out, and not consumed, when the consumer stood still."""
    given_while_stalled: int
    """Chunks given out after the first third of that time."""
    growth_bytes: float
    """Of this process's memory while the consumer stood still; the process runs all shapes."""
    peak_mebibytes: float

    def broken_promises(self) -> list[str]:
        broken = []
        if self.ahead > self.most_ahead:
            broken.append(f"{self.shape}: {self.ahead} chunks were given out ahead, more than {self.most_ahead}")
        if self.given_while_stalled:
            broken.append(
                f"{self.shape}: {self.given_while_stalled} chunks were given out to a consumer that stood still"
            )
        if self.growth_bytes > CHUNK_BYTES:
            broken.append(f"{self.shape}: memory has grown by {self.growth_bytes / 2**20:.1f} MiB, more than a chunk")
        return broken


async def stalled(
    shape: str, most_ahead: int, producer: Producer, take: Callable[[], Awaitable[int]], seconds: float
) -> Report:
    """Take a few, stand still and watch; ``take`` gives the number of the next chunk."""
    expected = 0

    async def take_some(count: int) -> None:
        nonlocal expected
        for _ in range(count):
            expected += 1
            found = await take()
            assert found == expected, f"{shape}: chunk {found} came in place of {expected}"

    await take_some(TAKEN_BEFORE)
    process, times, sizes = psutil.Process(), list[float](), list[int]()
    loop, settled = asyncio.get_running_loop(), None
    began = loop.time()
    while (now := loop.time()) - began < seconds:
        times.append(now)
        sizes.append(process.memory_info().rss)
        if settled is None and now - began > WARM_UP_SHARE * seconds:
            settled = producer.given
        await asyncio.sleep(seconds / SAMPLES)
    at_end = producer.given
    await take_some(TAKEN_AFTER)
    return Report(
        shape,
        most_ahead,
        at_end - TAKEN_BEFORE,
        at_end - (at_end if settled is None else settled),
        growth_bytes_per_second(times, sizes) * seconds,
        max(sizes) / 2**20,
    )


def chain(producer: Producer) -> Source[pa.RecordBatch]:
    """Of stages that hold elements."""
    return Source(producer.chunks()).map(lambda chunk: chunk).buffer(BUFFER).async_boundary(PREFETCH)


async def at_the_end_of_a_chain(seconds: float) -> Report:
    producer = Producer()
    async with chain(producer).open() as elements:

        async def take() -> int:
            return number_of(await anext(elements))

        return await stalled("chain", BUFFER + PREFETCH + 1, producer, take, seconds)


async def at_the_end_of_channels(seconds: float) -> Report:
    """A stream into a permit channel, and out of it."""
    producer = Producer()
    ends: tuple[LocalSender[pa.RecordBatch], LocalReceiver[pa.RecordBatch]] = open_channel(
        ChannelParameters(row_permits=WINDOW * CHUNK_ROWS, max_chunk_cost=CHUNK_ROWS)
    )
    sending = asyncio.create_task(chain(producer).run_to(ends[0]))
    async with Source.receive(ends[1]).buffer(BUFFER).open() as elements:

        async def take() -> int:
            return number_of((await anext(elements)).payload)

        most = BUFFER + PREFETCH + 1 + WINDOW + 1 + BUFFER
        report = await stalled("chain through a permit channel", most, producer, take, seconds)
    sending.cancel()
    await asyncio.wait([sending])
    ends[1].close()
    return report


async def at_one_end_of_a_fan_out(seconds: float) -> Report:
    """The other branch takes all that it is given."""
    producer = Producer()
    fast, slow = chain(producer).broadcast(2)
    async with open_run(fast, slow.buffer(BUFFER)) as (fasts, slows):

        async def drain(elements: Elements[pa.RecordBatch]) -> None:
            async for _ in elements:
                pass

        async def take() -> int:
            return number_of(await anext(slows))

        draining = asyncio.create_task(drain(fasts))
        report = await stalled("fan-out", BUFFER + PREFETCH + BUFFER + 1, producer, take, seconds)
        draining.cancel()
        await asyncio.wait([draining])
        return report


SHAPES = (at_the_end_of_a_chain, at_the_end_of_channels, at_one_end_of_a_fan_out)


async def watch(seconds: float) -> list[Report]:
    """All shapes at once, each for so many seconds."""
    return [*await asyncio.gather(*(shape(seconds) for shape in SHAPES))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the consumers stand still")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    reports = asyncio.run(watch(options.seconds))
    broken = [promise for report in reports for promise in report.broken_promises()]
    if options.json:
        print(json.dumps({"runs": [asdict(report) for report in reports], "broken": broken}))
    else:
        print(f"chunks of {CHUNK_BYTES / 2**20:.0f} MiB, consumers that stand still for {options.seconds:g} s")
        for report in reports:
            print(
                f"  {report.shape:32}{report.ahead:>4} of at most {report.most_ahead} chunks ahead, "
                f"{report.given_while_stalled} more while it stood still, memory "
                f"{report.growth_bytes / 1024:+.0f} KiB, peak {report.peak_mebibytes:.0f} MiB"
            )
        print(*(broken or ["every promise held"]), sep="\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
