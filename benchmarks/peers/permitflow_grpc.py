"""permitflow over gRPC: an exchange in the producer's process, fed from inside, read by a client."""

import asyncio
from collections import deque
from contextlib import closing

import pyarrow as pa

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import AsyncConsumer, AsyncProducer, Consumer, Group, Way
from permitflow.channels.interface import ReceiveEnd
from permitflow.channels.local import LocalSender
from permitflow.errors import EndOfStream
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.grpc_aio import SameHost, get
from permitflow.transports.grpc_blocking import open_source

__all__ = [
    "WAYS",
    "ExchangeProducer",
    "GrpcBlockingConsumer",
    "GrpcConsumer",
    "channel_of",
    "receive_many",
    "receive_one_by_one",
]


def channel_of(job: Job) -> str:
    """Each job has a channel of its own."""
    return f"chunks/{job.number}"


def parameters_of(job: Job) -> ChannelParameters:
    """As the job demands."""
    return ChannelParameters(row_permits=job.row_permits, permit_batch=job.permit_batch)


class ExchangeProducer(AsyncProducer):
    """Hosts the exchange and feeds the channel, by ``send_many``."""

    async def start(self) -> str:
        """Serve."""
        self.exchange = Exchange()
        self._server = ExchangeServer(self.exchange)
        await self._server.__aenter__()
        return self._server.address

    async def get_ready(self, job: Job) -> None:
        """Add the channel, in place of the one of the job before."""
        for past in self.exchange.statistics():
            self.exchange.remove_channel(past.name)
        self.exchange.add_channel(channel_of(job), parameters_of(job), job.shape.schema)

    async def send_all(self, job: Job) -> None:
        """Feed the channel, and end it."""
        sender = self.exchange.channel(channel_of(job)).sender
        async for burst in job.bursts_async():
            await self.send(sender, burst)
        await sender.end()

    async def send(self, sender: LocalSender[pa.RecordBatch], burst: list[pa.RecordBatch]) -> None:
        """One call for all."""
        await sender.send_many(deque(burst))


class OneByOneProducer(ExchangeProducer):
    """The same by ``send``."""

    async def send(self, sender: LocalSender[pa.RecordBatch], burst: list[pa.RecordBatch]) -> None:
        """One call for each chunk."""
        for chunk in burst:
            await sender.send(chunk)


async def receive_one_by_one(receiver: ReceiveEnd[pa.RecordBatch], tally: Tally) -> None:
    """``async for``."""
    async for message in receiver:
        tally.take(message.payload)


async def receive_many(receiver: ReceiveEnd[pa.RecordBatch], tally: Tally) -> None:
    """Whatever is here."""
    while True:
        try:
            messages = await receiver.receive_many()
        except EndOfStream:
            return
        for message in messages:
            tally.take(message.payload)


class GrpcConsumer(AsyncConsumer):
    """The client for asyncio, by ``receive_many``."""

    SAME_HOST = SameHost.NEVER

    async def receive_all(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        async with get(self.address, channel_of(job), same_host=self.SAME_HOST) as receiver:
            await asyncio.sleep(job.stall_seconds)
            await self.receive(receiver, tally)

    async def receive(self, receiver: ReceiveEnd[pa.RecordBatch], tally: Tally) -> None:
        """Read to the end."""
        await receive_many(receiver, tally)


class OneByOneConsumer(GrpcConsumer):
    """The same by ``receive``."""

    async def receive(self, receiver: ReceiveEnd[pa.RecordBatch], tally: Tally) -> None:
        """Read to the end."""
        await receive_one_by_one(receiver, tally)


class GrpcBlockingConsumer(Consumer):
    """The client for threads and scripts."""

    SAME_HOST = SameHost.NEVER

    def __init__(self, address: str) -> None:
        """The exchange's address."""
        self._address = address

    def consume(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        with closing(open_source(self._address, channel_of(job), same_host=self.SAME_HOST)) as source:
            for chunk in source:
                tally.take(chunk)


WAYS = (
    Way(
        "permitflow, gRPC",
        Group.OURS,
        "`send_many` and `receive_many`",
        ExchangeProducer,
        GrpcConsumer,
        target="remote",
        is_tuned=True,
    ),
    Way(
        "permitflow, gRPC, one by one",
        Group.OURS,
        "`send` and `receive`, a call for each chunk",
        OneByOneProducer,
        OneByOneConsumer,
    ),
    Way(
        "permitflow, gRPC, blocking client",
        Group.OURS,
        "`open_source`, as Spark's workers use it",
        ExchangeProducer,
        GrpcBlockingConsumer,
    ),
)
