"""The cost of streams that can be resumed after a lost connection, beside streams that cannot.

Three processes: a producer, ``permitflow serve``, and a consumer that joins chunks.  Both ways take turns, and a ratio
is one of neighbours, so that a busy machine disturbs both.  The processor time is that of all three.
"""

import asyncio
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from multiprocessing.connection import Connection

import psutil

from benchmarks.field import Settings
from benchmarks.harness import Partner, in_turns, serving
from benchmarks.jobs import PAYLOADS, Payload, drain, feed
from benchmarks.results import COMPACT, Row, Series
from permitflow.client import SameHost, get, put

CARRIERS = {"gRPC": "127.0.0.1:0", "TCP": "tcp://127.0.0.1:0"}
SIZES = ("64", "1,024", "4,096", "65,536", "wide")
SECONDS = 1.0
OFF, ON = "not resumed", "resumed"
RESUME_SECONDS = {OFF: 0.0, ON: 30.0}
_CHANNELS = 1_000


async def consume(pipe: Connection) -> None:
    """Read the channels that are named, each to its end."""
    while True:
        address, channel, resume_seconds = await asyncio.to_thread(pipe.recv)
        async with get(address, channel, same_host=SameHost.NEVER, resume_seconds=resume_seconds) as receiver:
            await drain(receiver)
        pipe.send(channel)


def measure_resuming(settings: Settings) -> list[Row]:
    sizes, seconds = (SIZES[:1], 0.05) if settings.is_smoke else (SIZES, SECONDS)
    rows: list[Row] = []
    for carrier, listen in CARRIERS.items():
        for payload in (PAYLOADS[size] for size in sizes):
            options = ("--address", listen, "--stream", f"chunks:{_CHANNELS}", "--drain-seconds", "0")
            window = ("--row-permits", str(payload.row_permits))
            with serving(*options, *window) as (address, pid), Partner(consume) as consumer:
                run = _Run(address, payload, seconds, (pid, consumer.pid), consumer)
                found = in_turns({way: partial(run.sample, way) for way in RESUME_SECONDS}, settings.rounds)
            rates = {way: Series.of(rate for rate, _ in found[way]) for way in found}
            costs = {way: Series.of((cost for _, cost in found[way]), COMPACT) for way in found}
            ratio, cost_ratio = rates[ON].ratio_to(rates[OFF]), costs[ON].ratio_to(costs[OFF])
            where = f"{carrier}, {payload.name} rows"
            rows.append({"chunks per second": where, **rates, "ratio": ratio, "processor time, ratio": cost_ratio})
    return rows


class _Run:
    """Jobs one after the other, each over a channel of its own."""

    def __init__(
        self, address: str, payload: Payload, seconds: float, pids: tuple[int, ...], consumer: Partner
    ) -> None:
        self._address, self._payload, self._seconds, self._consumer = address, payload, seconds, consumer
        self._processes = [psutil.Process(), *map(psutil.Process, pids)]
        self._channels: Iterator[str] = (f"chunks/{number}" for number in count())

    def sample(self, way: str) -> tuple[float, float]:
        """Chunks a second, and processor seconds for each chunk."""
        channel, resume_seconds = next(self._channels), RESUME_SECONDS[way]
        self._consumer.tell((self._address, channel, resume_seconds))
        before, began = self._processor_seconds(), time.perf_counter()
        chunks = asyncio.run(self._produce(channel, resume_seconds))
        elapsed, used = time.perf_counter() - began, self._processor_seconds() - before
        assert self._consumer.hears() == channel
        return chunks / elapsed, used / chunks

    async def _produce(self, channel: str, resume_seconds: float) -> int:
        """Send for a while; the end waits until the consumer has consumed everything."""
        schema = self._payload.schema
        sending = put(self._address, channel, schema, same_host=SameHost.NEVER, resume_seconds=resume_seconds)
        async with sending as sender:
            sent = await feed(sender, self._payload, self._seconds)
            await sender.end()
            return sent

    def _processor_seconds(self) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in self._processes)
