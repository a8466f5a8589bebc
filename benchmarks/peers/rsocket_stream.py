"""rsocket-py: ``request_stream`` with ``request(n)``, which counts messages rather than rows."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator

import pyarrow as pa
from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import DefaultSubscriber
from reactivestreams.subscription import Subscription
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_client import RSocketClient
from rsocket.rsocket_server import RSocketServer
from rsocket.streams.stream_from_async_generator import StreamFromAsyncGenerator
from rsocket.streams.stream_from_generator import StreamFromGenerator
from rsocket.transports.tcp import TransportTCP

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way

# The library's 1 KiB would be a weak peer.
READ_BYTES = 1 << 20


class RSocketProducer(Producer):
    """A server for one client at a time."""

    async def start(self) -> None:
        logging.getLogger("pyrsocket").setLevel(logging.ERROR)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        RSocketServer(TransportTCP(reader, writer, READ_BYTES), handler_factory=lambda: _Handler(self))

    async def prepare(self, job: Job) -> None:
        self.job = job

    def payloads(self) -> Iterator[tuple[Payload, bool]]:
        """Each with whether it is the last one."""
        for number, chunk in enumerate(self.job.feed(), start=1):
            yield Payload(chunk.serialize().to_pybytes()), number == self.job.chunks

    async def paced_payloads(self) -> AsyncIterator[tuple[Payload, bool]]:
        """The same with pauses, which must not stop the loop."""
        number = 0
        async for burst in self.job.bursts_async():
            for chunk in burst:
                number += 1
                yield Payload(chunk.serialize().to_pybytes()), number == self.job.chunks


class _Handler(BaseRequestHandler):  # type: ignore[misc]  # rsocket has no annotations
    def __init__(self, producer: RSocketProducer) -> None:
        self._producer = producer

    async def request_stream(self, payload: Payload) -> Publisher:
        if self._producer.job.is_paced:
            return StreamFromAsyncGenerator(self._producer.paced_payloads)
        return StreamFromGenerator(self._producer.payloads)


class _Subscriber(DefaultSubscriber):  # type: ignore[misc]  # rsocket has no annotations
    """Requests the next half of a window when a half has been consumed."""

    def __init__(self, job: Job, tally: Tally) -> None:
        super().__init__()
        self.window = max(1, job.row_permits // job.shape.rows)
        self._batch = max(1, job.permit_batch // job.shape.rows)
        self._schema = job.shape.schema
        self._tally = tally
        self._unrequested = 0
        self.is_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def on_next(self, value: Payload, is_complete: bool = False) -> None:
        self._tally.take(pa.ipc.read_record_batch(pa.py_buffer(value.data), self._schema))
        self._unrequested += 1
        if is_complete:
            self.on_complete()
        elif self._unrequested >= self._batch:
            self._subscription.request(self._unrequested)
            self._unrequested = 0

    def on_complete(self) -> None:
        if not self.is_done.done():
            self.is_done.set_result(None)

    def on_error(self, exception: Exception) -> None:
        self.is_done.set_exception(exception)


class RSocketConsumer(Consumer):
    async def consume(self, job: Job, tally: Tally) -> None:
        logging.getLogger("pyrsocket").setLevel(logging.ERROR)
        host, port = self.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))

        async def transports() -> AsyncIterator[TransportTCP]:
            yield TransportTCP(reader, writer, READ_BYTES)

        subscriber = _Subscriber(job, tally)
        async with RSocketClient(transports()) as client:
            client.request_stream(Payload(b"")).initial_request_n(subscriber.window).subscribe(subscriber)
            await subscriber.is_done


ABOUT = "`request_stream` over TCP; `request(n)` counts messages, so that chunks of one size get the same window"
WAYS = (Way("rsocket-py, request(n)", Group.PEER, ABOUT, RSocketProducer, RSocketConsumer),)
