"""What a stage costs beside a plain asynchronous generator that does the same work, in one run.

A source of elements, one or four steps, and a consumer that counts.  In each round every variant runs once, in another
order; ratios are taken within a round.  Seconds are those of the processor: nothing here waits for anything but itself.
"""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.field import Settings
from benchmarks.harness import in_turns
from benchmarks.jobs import PAYLOADS
from benchmarks.results import Row, Series
from permitflow.stages import Source

Work = Callable[[Any], object]
Stream = AsyncIterator[Any]

CHUNK_ROWS = 1_024
STAGES = (1, 4)
ELEMENTS = 2_000
SMOKE_ELEMENTS = 50
BUFFERED = 16
# A round takes tens of milliseconds; more of them make up for that.
ROUNDS_IN_A_ROUND = 5


def filtered(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch without one row in sixteen; filtered again, it keeps its rows."""
    return batch.filter(pc.not_equal(pc.bit_wise_and(batch.column(0), 15), 0))


def with_column(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The sum of two columns in place of the first."""
    return batch.set_column(0, "serial", pc.add(batch.column(0), batch.column(1)))


def selected(batch: pa.RecordBatch) -> pa.RecordBatch:
    """All columns, named again: metadata only."""
    return batch.select([0, 1, 2])


def unchanged(element: Any) -> Any:
    return element


FILTER = "filter rows"
COLUMN = "compute a column"
ON_CHUNKS: dict[str, Work] = {FILTER: filtered, COLUMN: with_column, "select columns": selected, "identity": unchanged}
ON_SINGLE: dict[str, Work] = {"identity": unchanged}
CHUNK, SINGLE = f"chunk of {CHUNK_ROWS:,} rows", "single element"


async def generated(elements: list[Any]) -> Stream:
    for element in elements:
        yield element


async def step(stream: Stream, work: Work) -> Stream:
    async for element in stream:
        yield work(element)


def by_generators(elements: list[Any], work: Work, steps: int) -> Stream:
    stream = generated(elements)
    for _ in range(steps):
        stream = step(stream, work)
    return stream


def by_stages(elements: list[Any], work: Work, steps: int) -> Stream:
    stream: Source[Any] = Source(generated(elements))
    for _ in range(steps):
        stream = stream.map(work)
    return stream.open()


async def buffered_by_hand(stream: Stream, capacity: int) -> Stream:
    """A task and a queue, as one writes them without stages; what the task raises is not passed on."""
    queue: asyncio.Queue[Any] = asyncio.Queue(capacity)
    end = object()

    async def read() -> None:
        async for element in stream:
            await queue.put(element)
        await queue.put(end)

    task = asyncio.create_task(read())
    try:
        while (element := await queue.get()) is not end:
            yield element
    finally:
        task.cancel()


def queue_by_hand(elements: list[Any], work: Work, steps: int) -> Stream:
    return buffered_by_hand(by_generators(elements, work, steps), BUFFERED)


def buffer_stage(elements: list[Any], work: Work, steps: int) -> Stream:
    stream: Source[Any] = Source(by_generators(elements, work, steps))
    return stream.buffer(BUFFERED).open()


Variant = tuple[str, str, int, bool]
"""The element, the work, the number of steps, and whether stages do it."""
Opening = Callable[[list[Any], Work, int], Stream]


def measure_stages(settings: Settings) -> list[Row]:
    count = SMOKE_ELEMENTS if settings.is_smoke else ELEMENTS
    chunks = [*PAYLOADS[f"{CHUNK_ROWS:,}"].chunks(count)]
    singles = [*range(count)]
    variants: dict[Variant, Callable[[], float]] = {}

    def add(element: str, name: str, work: Work, steps: int, openings: tuple[Opening, Opening]) -> None:
        elements = chunks if element == CHUNK else singles
        for is_ours, opening in enumerate(openings):
            variants[element, name, steps, bool(is_ours)] = partial(_microseconds, opening, elements, work, steps)

    for element, works in ((CHUNK, ON_CHUNKS), (SINGLE, ON_SINGLE)):
        for name, work in works.items():
            for steps in STAGES:
                add(element, name, work, steps, (by_generators, by_stages))
        add(element, f"buffer of {BUFFERED}", unchanged, 0, (queue_by_hand, buffer_stage))
    gc.collect()
    gc.freeze()
    found = in_turns(variants, ROUNDS_IN_A_ROUND * settings.rounds)
    gc.unfreeze()
    return rows_of(found)


def rows_of(found: Mapping[Variant, list[float]]) -> list[Row]:
    rows: list[Row] = []
    first: dict[tuple[str, str], tuple[Series, Series]] = {}
    for (element, work, steps, is_ours), values in found.items():
        if is_ours:
            continue
        by_hand, ours = Series.of(values), Series.of(found[element, work, steps, True])
        once = first.setdefault((element, work), (by_hand, ours))
        # What each step beyond the first costs with stages, as a multiple of what it costs with generators.
        further = _difference(ours, once[1]).ratio_to(_difference(by_hand, once[0])) if steps > 1 else None
        is_promised = (element, work) == (CHUNK, FILTER)
        rows.append(
            {
                "": f"{element}, {work}" + (f", {steps} steps" if steps > 1 else ""),
                "µs by hand": by_hand,
                "µs by stages": ours,
                "ratio": ours.ratio_to(by_hand),
                "ratio of a further step": further,
                "_promised": f"{steps} stages that {work} of a {element}" if is_promised else "",
            }
        )
    return rows


def _difference(later: Series, earlier: Series) -> Series:
    return Series.of(a - b for a, b in zip(later.values, earlier.values, strict=True))


def _microseconds(opening: Opening, elements: list[Any], work: Work, steps: int) -> float:
    async def timed() -> float:
        start = time.process_time()
        seen = 0
        async for _ in opening(elements, work, steps):
            seen += 1
        seconds = time.process_time() - start
        assert seen == len(elements), "something was lost"
        return seconds / seen * 1e6

    return asyncio.run(timed())
