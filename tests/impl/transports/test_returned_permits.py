"""Permits that have come together are all taken in before any of them is used: messages that were short grow again."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pyarrow as pa

from permitflow.protocol.frames import Feedback, Get
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.permits import PERMITS, ChannelParameters, Permits
from permitflow.protocol.session import UpstreamSession
from permitflow.transports.carrier import Buffer
from permitflow.transports.codec import EncodedChunks, decode_upstream, encode_downstream
from permitflow.transports.remote_sender import RemoteSender
from tests.support.carriers import PlayedCarrier
from tests.support.number_streams import turns

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
CHUNK = pa.record_batch({"n": pa.array(range(100))})
WINDOW = ChannelParameters(row_permits=400, permit_batch=100)


class Consumer(PlayedCarrier):
    """Returns permits whenever the test says so."""

    def __init__(self) -> None:
        super().__init__(encode_downstream([Get(PROTOCOL_VERSION, "chunks")], PERMITS))
        self.messages: list[tuple[int, ...]] = []

    def write(self, message: Sequence[Buffer]) -> bool:
        frames = decode_upstream(b"".join(message))
        self.messages += [frame.rows for frame in frames if isinstance(frame, EncodedChunks)]
        return True

    def return_permits(self, *rows: int) -> None:
        """In a message for each of these, which have come together."""
        self.bring(*(encode_downstream([Feedback(Permits(count))], PERMITS)[0] for count in rows))


def test_permits_that_come_together_are_used_together(complete: Complete) -> None:
    async def test() -> None:
        consumer = Consumer()
        end = RemoteSender(UpstreamSession(), consumer)
        running = asyncio.create_task(end.run())
        await end.dialled()
        end.accept(WINDOW, schema=CHUNK.schema, stream="s")
        sending = asyncio.create_task(end.send_many(deque([CHUNK] * 20)))
        await turns()
        assert sum(map(sum, consumer.messages)) == WINDOW.row_permits
        consumer.messages.clear()
        consumer.return_permits(100, 100)
        await turns()
        assert consumer.messages == [(100, 100)]
        for task in (sending, running):
            task.cancel()
        await asyncio.wait({sending, running})

    complete(test())
