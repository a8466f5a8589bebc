"""A process of its own that feeds a channel and records its end: ``producer.py aio|blocking ADDRESS CHANNEL TRACE``."""

import asyncio
import sys
from collections.abc import Iterator

import pyarrow as pa

from permitflow.protocol.recording import RecorderFactory
from permitflow.tracing import FileTrace
from permitflow.transports.grpc_aio import put
from permitflow.transports.grpc_blocking import open_sink

SCHEMA = pa.schema([("serial", pa.int64())])
CHUNKS = 600


def batches() -> Iterator[pa.RecordBatch]:
    """Sizes from nothing to more than max_chunk_cost, so that some are split."""
    for number in range(CHUNKS):
        yield pa.record_batch({"serial": [number] * (number * 7 % 40)}, schema=SCHEMA)


async def produce(address: str, channel: str, record: RecorderFactory) -> None:
    async with put(address, channel, SCHEMA, record=record) as sender:
        for number, batch in enumerate(batches()):
            await sender.send(batch)
            if number % 50 == 0:
                await sender.send_barrier(number)
                sender.send_watermark(number)
        await sender.end()


def produce_blocking(address: str, channel: str, record: RecorderFactory) -> None:
    with open_sink(address, channel, SCHEMA, record=record) as sink:
        for batch in batches():
            sink.send(batch)
        sink.end(closes_channel=True)


def main(kind: str, address: str, channel: str, path: str) -> None:
    """Send everything and write the trace."""
    with FileTrace(path) as trace:
        if kind == "aio":
            asyncio.run(produce(address, channel, trace.recorder))
        else:
            produce_blocking(address, channel, trace.recorder)


if __name__ == "__main__":
    main(*sys.argv[1:])
