"""An exchange in a process of its own, and ends for callers without an event loop.

For tests whose clients block, or fork, or want to see the exchange killed.
"""

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import NoReturn

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.client import SameHost
from permitflow.client.background import background
from permitflow.client.blocking import BlockingSink, BlockingSource, open_sink, open_source
from permitflow.errors import PeerTimeoutError, PermitflowError
from permitflow.exchange import stream_channels
from tests.support.serving import address_of, serving

SMALL_WINDOW = ChannelParameters(row_permits=256, permit_batch=64)

STREAMS = tuple(f"s{number}" for number in range(100))
CHANNELS = 2
# It drains for three; the rest is for a busy machine.
SECONDS_TO_END = 60


class ServedExchange:
    """A running exchange, and streams that are not used yet: a channel is used once."""

    def __init__(self, process: "subprocess.Popen[str]", address: str, parameters: ChannelParameters) -> None:
        self.address = address
        self.parameters = parameters
        """Of all channels."""
        self._process = process
        self._streams = iter(STREAMS)

    def stream(self) -> str:
        return next(self._streams)

    def channel(self) -> str:
        return stream_channels(self.stream(), 1)[0]

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def limit_descriptors(self, more: int) -> int:
        """Let the process have about so many more than it has now; the number at which no more can be opened."""
        used = {int(name) for name in os.listdir(f"/proc/{self.pid}/fd")}
        most = max(used) + more
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(self.pid, resource.RLIMIT_NOFILE, (most, hard))
        return most

    def signal(self, number: signal.Signals) -> None:
        """Kill, stop or continue the process."""
        self._process.send_signal(number)


@contextmanager
def served_exchange(
    parameters: ChannelParameters = SMALL_WINDOW,
    same_host: SameHost = SameHost.AUTO,
    address: str = "127.0.0.1:0",
    more: Sequence[str] = (),
) -> Iterator[ServedExchange]:
    """Start ``permitflow serve``; at the end of the block it is asked to end, and killed if it does not.

    ``more`` are further options of the command.
    """
    streams = [argument for stream in STREAMS for argument in ("--stream", f"{stream}:{CHANNELS}")]
    window = ["--row-permits", str(parameters.row_permits), "--permit-batch", str(parameters.permit_batch)]
    where = ["--address", address, "--same-host", same_host.value]
    with serving(*streams, *window, *where, *more, "--quiet") as process:
        yield ServedExchange(process, address_of(process), parameters)
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS_TO_END)


PATIENCE_SECONDS = 20.0
"""Nothing here takes so long; a wait that does is a defect, and ends as a failure."""

SHORT_SECONDS = 0.3
"""For waits that must be in vain."""


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


SCHEMA = numbers(0, 0).schema


def values(batches: Sequence[pa.RecordBatch]) -> list[int]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def sink_of(exchange: ServedExchange, channel: str, timeout_seconds: float = PATIENCE_SECONDS) -> BlockingSink:
    return open_sink(exchange.address, channel, SCHEMA, timeout_seconds=timeout_seconds)


def source_of(exchange: ServedExchange, channel: str, timeout_seconds: float = PATIENCE_SECONDS) -> BlockingSource:
    return open_source(exchange.address, channel, timeout_seconds=timeout_seconds)


@contextmanager
def source_of_first(exchange: ServedExchange, channel: str, sink: BlockingSink) -> Iterator[BlockingSource]:
    """A source, and a chunk of 64 rows on its way to it."""
    sink.send(numbers(0, 64))
    with source_of(exchange, channel) as source:
        yield source


def send_for_ever(sink: BlockingSink) -> NoReturn:
    while True:
        sink.send(numbers(0, 64))


def send_all(exchange: ServedExchange, channel: str, batches: Sequence[pa.RecordBatch]) -> int:
    """Send these to the end; how many rows."""
    with sink_of(exchange, channel) as sink:
        for batch in batches:
            sink.send(batch)
        sink.end(closes_channel=True)
        return sink.statistics().sent_rows


def read_all(exchange: ServedExchange, channel: str) -> list[int]:
    with source_of(exchange, channel) as source:
        return values(list(source))


@contextmanager
def in_a_hurry(end: BlockingSink | BlockingSource) -> Iterator[None]:
    """Let an end, which has been dialled in peace, wait for a short time only."""
    end.timeout_seconds = SHORT_SECONDS
    try:
        yield
    finally:
        end.timeout_seconds = PATIENCE_SECONDS


def starve(sink: BlockingSink, at_least_rows: int) -> None:
    """Send until so many rows have left and a wait for permits was in vain.

    Raises:
        PeerTimeoutError: fewer rows have left, however often it was tried.
    """
    deadline = monotonic() + PATIENCE_SECONDS
    with in_a_hurry(sink):
        while True:
            try:
                send_for_ever(sink)
            except PeerTimeoutError:
                if sink.statistics().sent_rows >= at_least_rows:
                    return
                if monotonic() > deadline:
                    raise


Options = Mapping[str, str]
"""Options of ``format("permitflow")``."""

BESIDE_A_JOB_SECONDS = 60.0


def produce(options: Options, channel: str, batches: Sequence[pa.RecordBatch]) -> None:
    with open_sink(options["address"], channel, batches[0].schema, timeout_seconds=BESIDE_A_JOB_SECONDS) as sink:
        for batch in batches:
            sink.send(batch)
        sink.end(closes_channel=True)


def consume(options: Options, channel: str) -> list[pa.RecordBatch] | str:
    """The batches of a channel, or the error in words."""
    try:
        with open_source(options["address"], channel, timeout_seconds=BESIDE_A_JOB_SECONDS) as source:
            return list(source)
    except PermitflowError as error:
        return f"{type(error).__name__}: {error}"


def channels_of(options: Options) -> tuple[str, ...]:
    return stream_channels(options["stream"], int(options["channels"]))


@contextmanager
def producers(options: Options, *batches: Sequence[pa.RecordBatch]) -> Iterator[None]:
    """One producer for each channel; at the end of the block all have ended well."""
    with ThreadPoolExecutor(8) as pool:
        sending = [
            pool.submit(produce, options, channel, own)
            for channel, own in zip(channels_of(options), batches, strict=True)
        ]
        yield
        for future in sending:
            future.result()


@contextmanager
def consumers(options: Options) -> Iterator[list["Future[list[pa.RecordBatch] | str]"]]:
    """One consumer for each channel."""
    with ThreadPoolExecutor(8) as pool:
        yield [pool.submit(consume, options, channel) for channel in channels_of(options)]


def held_ends() -> set[asyncio.Task[object]]:
    """What the background loop of this process holds open."""

    async def held() -> set[asyncio.Task[object]]:
        return {task for task in asyncio.all_tasks() if task.get_name().startswith("holds ")}

    return background().run(held)


def wait_for_ends_but(others: set[asyncio.Task[object]]) -> None:
    """Wait until the background loop holds nothing open but these."""

    async def until_over() -> None:
        if new := {task for task in asyncio.all_tasks() if task.get_name().startswith("holds ")} - others:
            await asyncio.wait(new)

    background().run(until_over, PATIENCE_SECONDS)
