"""This project's own channels, and its core as a pair of ends that is moved step by step."""

import asyncio

import pyarrow as pa

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.channels.local import open_channel
from permitflow.client.aio import get, put
from permitflow.errors import ChannelAbortedError, EndOfStream, WouldBlock
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.flows.messages import Kind
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Parameters
from permitflow_testing.adapter import Aborted, ChannelAdapter, Ended, ReceivedMessage, Refused
from permitflow_testing.core_pair import FlowPair
from permitflow_testing.rulebooks.table import rulebook_of

SCHEMA = pa.schema([("serial", pa.int64())])


class OurChannel(ChannelAdapter):
    """The common part: all of our channels have the same two ends."""

    sender: SendEnd[object]
    receiver: ReceiveEnd[object]

    def chunk(self, serial: int, rows: int) -> object:
        """A chunk that carries its serial number."""
        return serial

    def serial(self, payload: object) -> int | None:
        """The number of a chunk that was received."""
        assert isinstance(payload, int)
        return payload

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        await self.sender.send(self.chunk(serial, rows), rows)

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk."""
        try:
            self.sender.send_nowait(self.chunk(serial, rows), rows)
        except WouldBlock as reason:
            raise Refused(str(reason)) from reason

    async def offer_barrier(self) -> None:
        """Spec: OfferBarrier, SendBarrier; cancelled, WithdrawBarrier."""
        await self.sender.send_barrier()

    def offer_watermark(self, value: int) -> None:
        """Spec: OfferWatermark."""
        self.sender.send_watermark(value)

    async def end(self) -> None:
        """End the stream."""
        await self.sender.end()

    def abort(self) -> None:
        """Abort the stream."""
        self.sender.abort("the test says so")

    async def take(self) -> ReceivedMessage:
        """Take the oldest message."""
        try:
            message = await self.receiver.take()
        except EndOfStream as end:
            raise Ended from end
        except ChannelAbortedError as abort:
            raise Aborted from abort
        if message.kind is Kind.CHUNK:
            return ReceivedMessage(message.kind, self.serial(message.payload), message.rows)
        return ReceivedMessage(message.kind, message.payload if isinstance(message.payload, int) else 0)

    def consume(self) -> None:
        """Spec: Consume."""
        self.receiver.consume()

    async def stop(self) -> None:
        """End the stream from the receiver."""
        await self.receiver.cancel()


class LocalChannel(OurChannel):
    """The asyncio channel inside a process."""

    async def open(self, parameters: Parameters, record: RecorderFactory) -> None:
        """Open a channel."""
        self.sender, self.receiver = open_channel(parameters, name="local", record=record)


class ExchangeChannel(OurChannel):
    """From a producer through an exchange to a consumer, over gRPC: three control loops in a chain."""

    hops = 3
    timeout_seconds = 10.0
    quiet_seconds = 0.002

    async def open(self, parameters: Parameters, record: RecorderFactory) -> None:
        """Start an exchange with one channel, and dial it from both sides."""
        is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()

        # One task enters and leaves the context manager, as its cancel scope demands.
        async def hold_open() -> None:
            exchange = Exchange(record=record)
            exchange.add_channel("channel", parameters, SCHEMA)
            async with (
                ExchangeServer(exchange) as server,
                put(server.address, "channel", SCHEMA, record=record) as self.sender,
            ):
                async with get(server.address, "channel", record=record) as self.receiver:
                    is_open.set_result(None)
                    await self._stop.wait()
                self.sender.abort("the run is over")  # harmless after an end

        self._stage = asyncio.create_task(hold_open())
        await asyncio.wait({self._stage, is_open}, return_when=asyncio.FIRST_COMPLETED)
        if self._stage.done():
            self._stage.result()

    async def close(self) -> None:
        """Disconnect, and stop the exchange."""
        self._stop.set()
        await self._stage

    def chunk(self, serial: int, rows: int) -> object:
        """A batch with the number in every row."""
        return pa.record_batch({"serial": [serial] * rows}, schema=SCHEMA)

    def serial(self, payload: object) -> int | None:
        """The number in the rows, if there are any."""
        assert isinstance(payload, pa.RecordBatch)
        return payload.column("serial")[0].as_py() if payload.num_rows else None


def make_core_pair(parameters: Parameters, tags: int, record: RecorderFactory | None) -> FlowPair:
    """A sender and a receiver at rest, of the flow whose parameters these are."""
    pair: FlowPair = rulebook_of(parameters.flow.name).pair(parameters, tags=tags, record=record)
    return pair
