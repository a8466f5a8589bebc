"""permitflow between two processes: an exchange in the producer's process, fed from inside, read by a client.

Over gRPC, over TCP, and through shared memory.
"""

import asyncio
from collections import deque
from contextlib import closing, suppress

import pyarrow as pa

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import AsyncConsumer, AsyncProducer, Consumer, Group, Way
from permitflow.channels.local import LocalSender
from permitflow.errors import EndOfStream
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.grpc_aio import SameHost, get
from permitflow.transports.grpc_blocking import open_source
from permitflow.transports.joined import JoinedChunks
from permitflow.transports.remote_receiver import RemoteReceiver

__all__ = ["WAYS"]


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


class GrpcConsumer(AsyncConsumer):
    """The client for asyncio, by ``receive_joined``."""

    SAME_HOST = SameHost.NEVER

    async def receive_all(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        async with get(self.address, channel_of(job), same_host=self.SAME_HOST) as receiver:
            await asyncio.sleep(job.stall_seconds)
            with suppress(EndOfStream):
                await self.receive(receiver, tally)

    async def receive(self, receiver: RemoteReceiver, tally: Tally) -> None:
        """Read until the end of the stream is raised."""
        while True:
            received = await receiver.receive_joined()
            if isinstance(received, JoinedChunks):
                tally.take_joined(received.batch, received.rows)


class ManyConsumer(GrpcConsumer):
    """The same by ``receive_many``."""

    async def receive(self, receiver: RemoteReceiver, tally: Tally) -> None:
        """Whatever is here, each chunk as a batch of its own."""
        while True:
            for message in await receiver.receive_many():
                tally.take(message.payload)


class OneByOneConsumer(GrpcConsumer):
    """The same by ``receive``."""

    async def receive(self, receiver: RemoteReceiver, tally: Tally) -> None:
        """A call for each chunk."""
        async for message in receiver:
            tally.take(message.payload)


class GrpcBlockingConsumer(Consumer):
    """The client for threads and scripts."""

    SAME_HOST = SameHost.NEVER

    def __init__(self, address: str) -> None:
        """The exchange's address."""
        self._address = address

    def consume(self, job: Job, tally: Tally) -> None:
        """Dial and read."""
        with closing(open_source(self._address, channel_of(job), same_host=self.SAME_HOST)) as source:
            for joined in source.joined():
                tally.take_joined(joined.batch, joined.rows)


class SameHostConsumer(GrpcConsumer):
    """As over gRPC, but the stream is refused if it cannot leave gRPC for shared memory."""

    SAME_HOST = SameHost.REQUIRE


class SameHostBlockingConsumer(GrpcBlockingConsumer):
    """The same for threads and scripts."""

    SAME_HOST = SameHost.REQUIRE


class TcpProducer(ExchangeProducer):
    """Hosts the exchange at ``tcp://``."""

    async def start(self) -> str:
        """Serve."""
        self.exchange = Exchange()
        self._server = ExchangeServer(self.exchange, "tcp://127.0.0.1:0")
        await self._server.__aenter__()
        return self._server.address


WAYS = (
    Way(
        "permitflow, gRPC",
        Group.OURS,
        "`send_many` and `receive_joined`",
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
        "`open_source` and `joined`, as Spark's workers use them",
        ExchangeProducer,
        GrpcBlockingConsumer,
    ),
    Way(
        "permitflow, same host",
        Group.OURS,
        "as `permitflow, gRPC`, through shared memory",
        ExchangeProducer,
        SameHostConsumer,
        target="same host",
        is_tuned=True,
    ),
    Way(
        "permitflow, same host, blocking client",
        Group.OURS,
        "`open_source` and `joined` through shared memory, as Spark's workers use them",
        ExchangeProducer,
        SameHostBlockingConsumer,
    ),
    Way(
        "permitflow, TCP",
        Group.OURS,
        "as `permitflow, gRPC`, an exchange at `tcp://`",
        TcpProducer,
        GrpcConsumer,
        target="remote",
        is_tuned=True,
    ),
    Way(
        "permitflow, TCP, receive_many",
        Group.OURS,
        "the same, with each chunk as a batch of its own",
        TcpProducer,
        ManyConsumer,
    ),
)
