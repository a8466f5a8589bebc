"""An exchange as its page shows it: channels in every state, some of which producers fill."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import pyarrow as pa
from anyio.from_thread import start_blocking_portal

from permitflow.client import EndOutcome, get, put
from permitflow.errors import PermitflowError
from tests.support.serving import address_of, line_of, serving

NARROW = pa.record_batch({"n": pa.array(range(1_000), pa.int64())})
WIDE = pa.record_batch({"text": pa.array(["x" * 20_000] * 50)})
BUSY: Sequence[str] = (*("--stream", "orders:3", "--stream", "pictures", "--stream", "returns", "--stream", "refunds"),)


@contextmanager
def serving_page(*options: str) -> Iterator[tuple[str, str]]:
    """``permitflow serve --ui``: its address, and that of its page."""
    with serving("--quiet", "--ui", "127.0.0.1:0", *options) as process:
        yield address_of(process), line_of(process).split()[-1]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@contextmanager
def busy(address: str) -> Iterator[None]:
    """Rows for the channels of ``BUSY``, from another thread, until the block ends."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_busy(address)):
        yield


@asynccontextmanager
async def _busy(address: str) -> AsyncIterator[None]:
    with suppress(InterruptedError):  # broken: its producer leaves before the end
        async with put(address, "returns/0", NARROW.schema) as sender:
            await sender.send(NARROW)
            raise InterruptedError
    await spend(address, "orders/2")
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(work)
            for work in (
                _fill(address, "orders/0", NARROW, 0.02),  # nobody waits
                _drain(address, "orders/0", 0.0),
                _fill(address, "orders/1", NARROW, 0.0),  # nobody reads
                _fill(address, "pictures/0", WIDE, 0.0),  # its consumer is slow
                _drain(address, "pictures/0", 0.1),
            )
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def spend(address: str, channel: str) -> None:
    """Put rows into a channel, and read it to its end."""
    async with put(address, channel, NARROW.schema) as sender:
        await sender.send(NARROW)
        await sender.end(closes_channel=True, until=EndOutcome.ACCEPTED)
    await _drain(address, channel, 0.0)


async def _fill(address: str, channel: str, chunk: pa.RecordBatch, pause_seconds: float) -> None:
    with suppress(PermitflowError):  # it was reset
        async with put(address, channel, chunk.schema) as sender:
            while True:
                await sender.send(chunk)
                await asyncio.sleep(pause_seconds)


async def _drain(address: str, channel: str, pause_seconds: float) -> None:
    with suppress(PermitflowError):  # likewise
        async with get(address, channel) as receiver:
            async for _ in receiver:
                await asyncio.sleep(pause_seconds)
