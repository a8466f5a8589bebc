"""anyio's memory object stream as a channel."""

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from permitflow import ChannelParameters, Kind, RecorderFactory
from permitflow_testing import ChannelAdapter, Ended, Feature, ReceivedMessage, Refused


class StreamChannel(ChannelAdapter):
    """A stream whose buffer has one place per row permit.  A received message counts as consumed."""

    sender: MemoryObjectSendStream[tuple[int, int]]
    receiver: MemoryObjectReceiveStream[tuple[int, int]]

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        self.sender, self.receiver = anyio.create_memory_object_stream(parameters.row_permits)

    async def close(self) -> None:
        self.sender.close()
        self.receiver.close()

    async def offer_chunk(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk; cancelled, WithdrawChunk."""
        await self.sender.send((serial, rows))

    def send_chunk_now(self, serial: int, rows: int) -> None:
        """Spec: OfferChunk, SendChunk."""
        try:
            self.sender.send_nowait((serial, rows))
        except anyio.WouldBlock as full:
            raise Refused from full

    async def take(self) -> ReceivedMessage:
        """Spec: Consume."""
        try:
            return ReceivedMessage(Kind.CHUNK, *await self.receiver.receive())
        except anyio.EndOfStream as end:
            raise Ended from end

    async def end(self) -> None:
        """Close the sending end: the receiver gets all messages sent, then the end."""
        self.sender.close()

    async def stop(self) -> None:
        """Close the receiving end: sends fail."""
        self.receiver.close()


class CountedStream(StreamChannel):
    """The same stream, with its missing features declared."""

    lacks = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.OVERSIZE})
