"""How a stream ends.  The specification is silent about it; the channels' interface is not."""

import asyncio
from contextlib import suppress

from permitflow.testing.kit.adapter import Aborted, ChannelAdapter, Ended, Feature, lacks_of
from permitflow.testing.kit.cancelling import PLAIN, capacity_of
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule
from permitflow.tracing.file import MemoryTrace

__all__ = ["abort_run", "end_run"]


async def end_run(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """End a stream while its window is full and a chunk waits."""
    adapter = make()
    await adapter.open(PLAIN, MemoryTrace().recorder)
    due = list(range(1, capacity_of(adapter) + 2))
    sends = [asyncio.create_task(adapter.offer_chunk(serial, 1)) for serial in due]
    try:
        await asyncio.wait(sends[:-1], timeout=adapter.timeout_seconds)
        ending = asyncio.create_task(adapter.end())
        sends.append(ending)
        received, error = await _receive_all(adapter)
    finally:
        await _close(adapter, sends)
    run = (f"chunks {due} are sent, the last one waits; the stream is ended", f"received {received}, then {error!r}")
    if not isinstance(error, Ended):
        return RuleVerdict(rule, Outcome.BREAKS, "does not tell the receiver that the stream has ended", run)
    if received != due:
        return RuleVerdict(rule, Outcome.BREAKS, "ends before everything was received", run)
    return RuleVerdict(rule, Outcome.HOLDS, f"{len(due)} chunks, one of them waiting, then the end")


async def abort_run(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Give a stream up that holds a chunk."""
    adapter = make()
    await adapter.open(PLAIN, MemoryTrace().recorder)
    try:
        await adapter.offer_chunk(1, 1)
        adapter.abort()
        received, error = await _receive_all(adapter)
    finally:
        await _close(adapter, [])
    if isinstance(error, Aborted):
        return RuleVerdict(rule, Outcome.HOLDS, "the receiver is told")
    run = ("chunk 1 is sent; the stream is given up", f"received {received}, then {error!r}")
    return RuleVerdict(rule, Outcome.BREAKS, "does not tell the receiver that the stream was given up", run)


async def _receive_all(adapter: ChannelAdapter) -> tuple[list[int | None], Exception | None]:
    received: list[int | None] = []
    try:
        while True:
            async with asyncio.timeout(adapter.timeout_seconds):
                received.append((await adapter.take()).value)
            if Feature.ACKNOWLEDGEMENT not in lacks_of(adapter):
                adapter.consume()
    except TimeoutError:
        return received, None
    except Exception as error:
        return received, error


async def _close(adapter: ChannelAdapter, tasks: list[asyncio.Task[None]]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(adapter.timeout_seconds):
            await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await adapter.close()
