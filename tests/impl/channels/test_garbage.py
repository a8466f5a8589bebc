"""Nothing outlives its use: chunks are freed when they are consumed, and channels without the garbage collector."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from permitflow import ChannelClosedError, ChannelParameters, EndOfStream, LocalReceiver, LocalSender, open_channel
from tests.support.turns import turns


class Chunk:
    def __init__(self, rows: int) -> None:
        self.num_rows = rows


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """No help from the garbage collector: what is not freed by itself stays."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def channel() -> tuple[LocalSender[Chunk], LocalReceiver[Chunk]]:
    return open_channel(ChannelParameters(row_permits=8, permit_batch=2))


def watched(rows: int) -> tuple[Chunk, weakref.ref[Chunk]]:
    chunk = Chunk(rows)
    return chunk, weakref.ref(chunk)


async def test_a_chunk_is_freed_when_it_was_consumed() -> None:
    sender, receiver = channel()
    chunk, alive = watched(3)
    await sender.send(chunk)
    del chunk
    assert alive() is not None
    await receiver.receive()
    assert alive() is None

    chunk, alive = watched(3)
    sender.send_nowait(chunk)
    del chunk
    receiver.take_nowait()
    assert alive() is not None, "it is not consumed yet"
    receiver.consume()
    assert alive() is None


async def test_a_chunk_is_freed_when_its_send_was_cancelled() -> None:
    sender, _ = channel()
    sender.send_nowait(Chunk(6))
    chunk, alive = watched(6)
    waiting = asyncio.ensure_future(sender.send(chunk))
    del chunk
    await turns()
    assert alive() is not None
    waiting.cancel()
    await turns()
    del waiting
    assert alive() is None


@pytest.mark.parametrize("way", ["abort", "close"])
def test_chunks_are_freed_when_the_stream_is_given_up(way: str) -> None:
    sender, receiver = channel()
    chunk, alive = watched(6)
    sender.send_nowait(chunk)
    del chunk
    sender.abort("no") if way == "abort" else receiver.close()
    assert alive() is None


async def test_a_channel_is_freed_after_waits_cancellations_and_ends() -> None:
    sender, receiver = channel()
    chunk, alive = watched(6)
    waiting = [asyncio.ensure_future(receiver.receive()) for _ in range(2)]
    await turns()
    waiting[0].cancel()
    sender.send_nowait(chunk)
    await waiting[1]
    sender.send_nowait(chunk)
    late = asyncio.ensure_future(sender.send(chunk))
    await turns()
    late.cancel()
    await turns()
    await sender.end()
    receiver.take_nowait()
    with pytest.raises(EndOfStream):
        await receiver.take()
    with pytest.raises(ChannelClosedError):
        await sender.send(chunk)
    del chunk, waiting, late
    assert alive() is not None, "it is held by the receiver"
    del sender, receiver
    assert alive() is None
