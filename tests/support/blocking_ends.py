"""Ends of streams for callers without an event loop, for tests: how they are dialled, filled, read and starved."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import NoReturn

import pyarrow as pa

from permitflow.errors import PeerTimeoutError
from permitflow.transports.grpc_blocking import BlockingSink, BlockingSource, open_sink, open_source
from tests.support.served_exchange import ServedExchange

__all__ = [
    "CLOSED_SECONDS",
    "HANGING_SECONDS",
    "INTERRUPTED_SECONDS",
    "KILLED_SECONDS",
    "NOBODY_SECONDS",
    "PATIENCE_SECONDS",
    "SCHEMA",
    "SHORT_SECONDS",
    "STARVED_SECONDS",
    "in_a_hurry",
    "numbers",
    "read_all",
    "send_all",
    "send_for_ever",
    "sink_of",
    "source_of",
    "source_of_first",
    "starve",
    "values",
]

PATIENCE_SECONDS = 20.0
"""Nothing here takes so long; a wait that does is a defect, and ends as a failure."""

SHORT_SECONDS = 0.3
"""For waits that must be in vain."""

# How soon who waits must know what has happened.  These decide, and are far below what guards against hangs.
NOBODY_SECONDS = 10.0
"""That nobody listens at an address."""
STARVED_SECONDS = 10 * SHORT_SECONDS
"""That permits have not come within ``SHORT_SECONDS``, and why not."""
KILLED_SECONDS = 5.0
"""That the exchange was killed; of both ends together."""
HANGING_SECONDS = 10.0
"""That the exchange gives no sign of life any more: for 8 s it is waited for."""
INTERRUPTED_SECONDS = 5.0
"""That somebody has pressed Ctrl-C, from before it was pressed."""
CLOSED_SECONDS = 5.0
"""Until the connections of an end that is over are closed."""


def numbers(start: int, stop: int) -> pa.RecordBatch:
    """A chunk of these numbers."""
    return pa.record_batch({"n": pa.array(range(start, stop), pa.int64())})


SCHEMA = numbers(0, 0).schema


def values(batches: Sequence[pa.RecordBatch]) -> list[int]:
    """The numbers in chunks."""
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def sink_of(exchange: ServedExchange, channel: str, timeout_seconds: float = PATIENCE_SECONDS) -> BlockingSink:
    """A sink for numbers."""
    return open_sink(exchange.address, channel, SCHEMA, timeout_seconds=timeout_seconds)


def source_of(exchange: ServedExchange, channel: str, timeout_seconds: float = PATIENCE_SECONDS) -> BlockingSource:
    """A source of whatever is in the channel."""
    return open_source(exchange.address, channel, timeout_seconds=timeout_seconds)


@contextmanager
def source_of_first(exchange: ServedExchange, channel: str, sink: BlockingSink) -> Iterator[BlockingSource]:
    """A source, and a chunk of 64 rows on its way to it."""
    sink.send(numbers(0, 64))
    with source_of(exchange, channel) as source:
        yield source


def send_for_ever(sink: BlockingSink) -> NoReturn:
    """Until it fails."""
    while True:
        sink.send(numbers(0, 64))


def send_all(exchange: ServedExchange, channel: str, batches: Sequence[pa.RecordBatch], *, closes: bool = True) -> int:
    """Send these to the end; how many rows."""
    with sink_of(exchange, channel) as sink:
        for batch in batches:
            sink.send(batch)
        sink.end(closes_channel=closes)
        return sink.statistics().sent_rows


def read_all(exchange: ServedExchange, channel: str) -> list[int]:
    """All numbers up to the end."""
    with source_of(exchange, channel) as source:
        return values(list(source))


@contextmanager
def in_a_hurry(end: BlockingSink | BlockingSource) -> Iterator[None]:
    """Let an end, which has been dialled in peace, wait for a short time only."""
    end._timeout_seconds = SHORT_SECONDS
    try:
        yield
    finally:
        end._timeout_seconds = PATIENCE_SECONDS


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
