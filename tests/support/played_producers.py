"""A producer that a test plays, and the receiving end that it feeds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pyarrow as pa

from permitflow.protocol.frames import AddPermits, Address, End, Put
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.carrier import Buffer
from permitflow.transports.codec import decode_downstream, encode_upstream
from permitflow.transports.frame_codec import EncodedChunks
from permitflow.transports.remote_receiver import RemoteReceiver
from tests.support.number_streams import SCHEMA, turns
from tests.support.played_carriers import PlayedCarrier

__all__ = ["PlayedProducer", "played_stream"]


class PlayedProducer(PlayedCarrier):
    """Sends whenever the test says so, and notes what returns."""

    def __init__(self) -> None:
        """It has dialled."""
        super().__init__(encode_upstream([Put(PROTOCOL_VERSION, Address("numbers"))]))
        self._codec = BatchCodec(SCHEMA)
        self._sent_chunks = self._sent_rows = 0
        self.returned_rows: list[int] = []
        """Row permits, a number for each message that returns some."""

    def send(self, *rows: int) -> None:
        """Chunks in one batch, numbered on from what was sent before."""
        first, self._sent_rows = self._sent_rows, self._sent_rows + sum(rows)
        self._sent_chunks += len(rows)
        batch = pa.record_batch([pa.array(range(first, self._sent_rows), pa.int64())], schema=SCHEMA)
        self.bring(*encode_upstream([EncodedChunks(rows, sum(rows), [b"".join(self._codec.encode([batch]))])]))

    def end(self) -> None:
        """Nothing more will be sent."""
        self.bring(*encode_upstream([End(self._sent_chunks, self._sent_rows, 0)]))

    def write_now(self, message: Sequence[Buffer]) -> None:
        """The receiving end says something."""
        frames = decode_downstream(b"".join(message))
        self.returned_rows += [frame.permits.rows for frame in frames if isinstance(frame, AddPermits)]


@asynccontextmanager
async def played_stream(parameters: ChannelParameters) -> AsyncIterator[tuple[PlayedProducer, RemoteReceiver]]:
    """Both ends of a stream that has been agreed on."""
    producer = PlayedProducer()
    receiver = RemoteReceiver(DownstreamSession(), producer)
    running = asyncio.create_task(receiver.run())
    await receiver.dialled()
    receiver.accept(parameters, schema=SCHEMA, stream="s")
    await turns()
    try:
        yield producer, receiver
    finally:
        running.cancel()
        await asyncio.wait({running})
