"""permitflow between two processes: an exchange in the producer's process, fed from inside, read by a client.

Over gRPC, over TCP, and through shared memory.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way
from permitflow import ChannelParameters
from permitflow.client import JoinedChunks, RemoteReceiver, SameHost, Security, get
from permitflow.client.blocking import open_source
from permitflow.errors import EndOfStream
from permitflow.exchange import Exchange, ExchangeServer


def channel_of(job: Job) -> str:
    return f"chunks/{job.number}"


class ExchangeProducer(Producer):
    """Hosts the exchange and feeds the channel."""

    def __init__(
        self, address: str = "127.0.0.1:0", *, one_by_one: bool = False, security: Security | None = None
    ) -> None:
        """By ``send_many``, or by ``send``; the exchange listens at this address."""
        self._exchange = Exchange()
        self._server = ExchangeServer(self._exchange, address, security=security or Security())
        self._one_by_one = one_by_one

    async def start(self) -> None:
        await self._server.__aenter__()
        self.address = self._server.address

    async def prepare(self, job: Job) -> None:
        """Add the channel, in place of the previous job's."""
        for past in self._exchange.statistics():
            await self._exchange.remove_channel(past.channel)
        parameters = ChannelParameters(row_permits=job.row_permits, permit_batch=job.permit_batch)
        self._exchange.add_channel(channel_of(job), parameters, job.shape.schema)

    async def produce(self, job: Job) -> None:
        sender = self._exchange.channel(channel_of(job)).sender
        async for burst in job.bursts_async():
            if self._one_by_one:
                for chunk in burst:
                    await sender.send(chunk)
            else:
                await sender.send_many(deque(burst))
        await sender.end()


async def read_joined(receiver: RemoteReceiver, tally: Tally) -> None:
    """Receive with ``receive_joined`` until the end of the stream; the others do likewise."""
    while True:
        received = await receiver.receive_joined()
        if isinstance(received, JoinedChunks):
            tally.take_joined(received.batch, received.rows)


async def read_many(receiver: RemoteReceiver, tally: Tally) -> None:
    """Receive with ``receive_many``: all chunks that are here, each as a batch of its own."""
    while True:
        for message in await receiver.receive_many():
            tally.take(message.payload)


async def read_one_by_one(receiver: RemoteReceiver, tally: Tally) -> None:
    async for message in receiver:
        tally.take(message.payload)


class ExchangeConsumer(Consumer):
    """The client for asyncio."""

    def __init__(
        self,
        address: str,
        *,
        same_host: SameHost = SameHost.NEVER,
        read: Callable[[RemoteReceiver, Tally], Awaitable[None]] = read_joined,
        security: Security | None = None,
    ) -> None:
        """With ``SameHost.REQUIRE`` the stream is refused if it cannot leave gRPC for shared memory."""
        super().__init__(address)
        self._same_host = same_host
        self._read, self._security = read, security

    async def consume(self, job: Job, tally: Tally) -> None:
        async with get(self.address, channel_of(job), same_host=self._same_host, security=self._security) as receiver:
            await asyncio.sleep(job.stall_seconds)
            with suppress(EndOfStream):
                await self._read(receiver, tally)


class BlockingConsumer(Consumer):
    def __init__(self, address: str, *, same_host: SameHost = SameHost.NEVER) -> None:
        super().__init__(address)
        self._same_host = same_host

    def consume(self, job: Job, tally: Tally) -> None:
        with closing(open_source(self.address, channel_of(job), same_host=self._same_host)) as source:
            for joined in source.joined():
                tally.take_joined(joined.batch, joined.rows)


OVER_TCP = partial(ExchangeProducer, "tcp://127.0.0.1:0")
ONE_BY_ONE = partial(ExchangeProducer, one_by_one=True)
READ_ONE_BY_ONE, READ_MANY = (partial(ExchangeConsumer, read=read) for read in (read_one_by_one, read_many))
SHARED, SHARED_BLOCKING = (partial(each, same_host=SameHost.REQUIRE) for each in (ExchangeConsumer, BlockingConsumer))
AS_GRPC, OPENED = "as `permitflow, gRPC`,", "`open_source` and `joined`"
BY_SPARK = "as Spark's workers use them"


Ends = tuple[Callable[[], Producer], Callable[[str], Consumer]]


def _ours(carrier: str, about: str, ends: Ends, role: str = "") -> Way:
    return Way(f"permitflow, {carrier}", Group.OURS, about, *ends, role)


WAYS = (
    _ours("gRPC", "`send_many` and `receive_joined`", (ExchangeProducer, ExchangeConsumer), "remote"),
    _ours("gRPC, one by one", "`send` and `receive`, a call for each chunk", (ONE_BY_ONE, READ_ONE_BY_ONE)),
    _ours("gRPC, blocking client", f"{OPENED}, {BY_SPARK}", (ExchangeProducer, BlockingConsumer)),
    _ours("same host", f"{AS_GRPC} through shared memory", (ExchangeProducer, SHARED), "same host"),
    _ours(
        "same host, blocking client",
        f"{OPENED} through shared memory, {BY_SPARK}",
        (ExchangeProducer, SHARED_BLOCKING),
    ),
    _ours("TCP", f"{AS_GRPC} an exchange at `tcp://`", (OVER_TCP, ExchangeConsumer), "remote"),
    _ours("TCP, receive_many", "the same, with each chunk as a batch of its own", (OVER_TCP, READ_MANY)),
)
