"""Chunks are compressed on their way if that was agreed, over every path but shared memory; other streams are not."""

import asyncio
from contextlib import suppress

import pyarrow as pa
import pytest

from permitflow.client import Compression, control, get, put
from permitflow.errors import ChannelAbortedError
from permitflow.exchange import Retention
from tests.support.served import served

CHANNEL = "orders/0"
ROWS, CHUNKS = 2_000, 10
CHUNK = pa.record_batch({"n": pa.array(range(ROWS)), "t": pa.array([f"item {n % 100}" for n in range(ROWS)])})
AUTO, NONE, LZ4, ZSTD = Compression


async def produce(address: str, compression: Compression) -> str:
    """Send all chunks; what was agreed."""
    async with put(address, CHANNEL, CHUNK.schema, compression=compression) as sender:
        for _ in range(CHUNKS):
            await sender.send(CHUNK)
        await sender.end(closes_channel=True)
        return sender.statistics().compression


async def consume(address: str, compression: Compression) -> str:
    """Read and compare all of them; what was agreed."""
    async with get(address, CHANNEL, compression=compression) as receiver:
        arrived = [message.payload async for message in receiver]
        assert pa.Table.from_batches(arrived).equals(pa.Table.from_batches([CHUNK] * CHUNKS))
        return receiver.statistics().compression


async def both(address: str, producer: Compression, consumer: Compression) -> tuple[str, str]:
    async with asyncio.TaskGroup() as group:
        ends = group.create_task(produce(address, producer)), group.create_task(consume(address, consumer))
    return ends[0].result(), ends[1].result()


@pytest.mark.parametrize("retention", list(Retention))
@pytest.mark.parametrize(
    ("own", "producer", "consumer", "agreed"),
    [
        (AUTO, AUTO, AUTO, ("none", "none")),
        (AUTO, ZSTD, LZ4, ("zstd", "lz4")),
        (LZ4, AUTO, NONE, ("lz4", "none")),
        (NONE, ZSTD, AUTO, ("none: the server has switched it off", "none")),
    ],
)
async def test_each_stream_is_compressed_as_its_ends_agreed(
    path: str,
    retention: Retention,
    own: Compression,
    producer: Compression,
    consumer: Compression,
    agreed: tuple[str, str],
) -> None:
    async with served(CHANNEL, compression=own, retention=retention) as (exchange, address):
        told = await both(address, producer, consumer)
        if path == "shared memory":
            asked = [policy.codec or (own.codec and policy is not NONE) for policy in (producer, consumer)]
            assert [words == "none: both ends share memory" for words in told] == list(map(bool, asked))
        else:
            assert told == agreed
        here = [end.compression.partition(":")[0] for _, end in exchange.served(CHANNEL).streams.statistics()]
        assert sorted(here) == sorted(words.partition(":")[0] for words in told)


async def test_statistics_tell_which_streams_are_compressed(path: str) -> None:
    async with served(CHANNEL) as (_, address), control(address) as asking:
        with suppress(ChannelAbortedError):  # the others may hear of the abort before they have left
            async with (
                put(address, CHANNEL, CHUNK.schema, compression=ZSTD) as producer,
                put(address, CHANNEL, CHUNK.schema, compression=NONE),
                get(address, CHANNEL, compression=LZ4),
            ):
                (channel,) = (await asking.statistics()).channels
                producer.abort("it was only to look")
        assert channel.compressed_streams == ({} if path == "shared memory" else {"lz4": 1, "zstd": 1})
        assert channel.compression == ("" if path == "shared memory" else "lz4 1, zstd 1")
