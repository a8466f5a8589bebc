"""permitflow over gRPC: an exchange in the producer's process, fed from inside, read by a client."""

import asyncio
from contextlib import closing

import pyarrow as pa

from benchmarks.jobs import BURST_CHUNKS, Job, Tally
from benchmarks.peers.way import AsyncConsumer, AsyncProducer, Consumer, Group, Way
from permitflow.channels.interface import ReceiveEnd
from permitflow.channels.local import LocalSender
from permitflow.errors import EndOfStream
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import BridgeState
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.grpc_aio import SameHost, get
from permitflow.transports.grpc_blocking import open_source

__all__ = ["WAYS", "ExchangeProducer", "GrpcConsumer", "channel_of", "receive_many", "receive_one_by_one"]

# How often the producer looks whether its channel has been read to the end; nothing is measured any more then.
POLL_SECONDS = 0.002


def channel_of(job: Job) -> str:
    """Each job has a channel of its own."""
    return f"chunks/{job.number}"


def parameters_of(job: Job) -> ChannelParameters:
    """As the job demands."""
    return ChannelParameters(row_permits=job.row_permits, permit_batch=job.permit_batch)


class ExchangeProducer(AsyncProducer):
    """Hosts the exchange and feeds the channel, one ``send`` for each chunk."""

    async def start(self) -> str:
        """Serve."""
        self.exchange = Exchange()
        self._server = ExchangeServer(self.exchange)
        await self._server.__aenter__()
        return self._server.address

    async def get_ready(self, job: Job) -> None:
        """Add the channel."""
        self.exchange.add_channel(channel_of(job), parameters_of(job), job.shape.schema)

    async def send_all(self, job: Job) -> None:
        """Send, and wait until the consumer has read everything."""
        channel = self.exchange.channel(channel_of(job))
        async for burst in job.bursts_async():
            await self.send(channel.sender, burst)
        await channel.sender.end()
        while channel.state is not BridgeState.SPENT:  # noqa: ASYNC110 - it tells its state only to those who ask
            await asyncio.sleep(POLL_SECONDS)
        self.exchange.remove_channel(channel_of(job))

    async def send(self, sender: LocalSender[pa.RecordBatch], burst: list[pa.RecordBatch]) -> None:
        """One call for each chunk."""
        for chunk in burst:
            await sender.send(chunk)


async def receive_one_by_one(receiver: ReceiveEnd[pa.RecordBatch], tally: Tally) -> None:
    """``async for``."""
    async for message in receiver:
        tally.take(message.payload)


async def receive_many(receiver: ReceiveEnd[pa.RecordBatch], tally: Tally) -> None:
    """Whatever is here, up to a burst."""
    while True:
        try:
            messages = await receiver.receive_many(BURST_CHUNKS)
        except EndOfStream:
            return
        for message in messages:
            tally.take(message.payload)


class GrpcConsumer(AsyncConsumer):
    """The client for asyncio, one ``receive`` for each chunk."""

    SAME_HOST = SameHost.NEVER

    async def receive_all(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        async with get(self.address, channel_of(job), same_host=self.SAME_HOST) as receiver:
            await receive_one_by_one(receiver, tally)


class GrpcBlockingConsumer(Consumer):
    """The client for threads and scripts."""

    def __init__(self, address: str) -> None:
        """The exchange's address."""
        self._address = address

    def consume(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        with closing(open_source(self._address, channel_of(job))) as source:
            for chunk in source:
                tally.take(chunk)


WAYS = (
    Way(
        "permitflow, gRPC",
        Group.OURS,
        "`send` and `receive`, a call for each chunk",
        ExchangeProducer,
        GrpcConsumer,
        target="remote",
    ),
    Way(
        "permitflow, gRPC, blocking client",
        Group.OURS,
        "`open_source`, as Spark's workers use it",
        ExchangeProducer,
        GrpcBlockingConsumer,
    ),
)
