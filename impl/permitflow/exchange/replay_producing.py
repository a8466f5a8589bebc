"""A producer of a channel that keeps its rows: what it sends is consumed once it is kept.

A producer that vanishes leaves an open channel: it, or another one, may come again.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from permitflow.chunks import slices
from permitflow.errors import ChannelError, EndOfStream, ProducerReplacedError, RetentionError
from permitflow.exchange.bridge import AT_ONCE
from permitflow.exchange.statistics import Direction
from permitflow.exchange.streams import Stream
from permitflow.protocol.frames import Abort, End, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.replay import Retention
from permitflow.transports.arrow import owned
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.replay_channel import ReplayChannel

__all__ = ["ReplayProducer"]


class ReplayProducer:
    """See ``ProducerStream``."""

    def __init__(self, channel: "ReplayChannel", end: RemoteReceiver, peer: str, same_host: SameHost) -> None:
        """``peer`` is the producer's address."""
        self.peer = peer
        self._channel = channel
        self._end = end
        self._same_host = same_host
        self._name = ""
        self._stream: Stream | None = None
        self._replacement: ProducerReplacedError | None = None
        self._left = asyncio.Event()

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and keep what comes."""
        await self._accept(put, schema)
        try:
            await self._keep_all()
        except ChannelError:
            if not isinstance(self._end.ended_with, Abort):
                raise
        self._disclaim()
        match self._end.ended_with:
            case Abort() as abort:
                await self.give_up(abort)
            case End(closes_channel=True):
                await self._channel.end()

    async def _accept(self, put: Put, schema: pa.Schema) -> None:
        channel = self._channel
        await channel.log.declare(schema)
        await self._end.meet(self._same_host)
        first_row = None
        if put.producer:
            self._name = put.producer
            first_row = await channel.claim(put.producer, self)
        # Others may have ended the channel meanwhile.
        channel.log.require_appendable(schema)
        name = channel.streams.new_name(Direction.PUT)
        self._end.accept(channel.parameters, schema=schema, stream=name, first_row=first_row)
        self._stream = Stream(name, self.peer, Direction.PUT, self._end)
        channel.streams.open(self._stream)

    async def _keep_all(self) -> None:
        try:
            while True:
                messages = await self._end.take_many(AT_ONCE)
                chunks = list(takewhile(lambda message: message.kind is Kind.CHUNK, messages))
                await self._keep(chunks)
                if len(chunks) < len(messages):
                    rule = f"keeps chunks, and knows no {messages[len(chunks)].kind.value}"
                    raise RetentionError(channel=self._channel.name, retention=Retention.REPLAY.value, rule=rule)
        except EndOfStream:
            return

    async def _keep(self, messages: Sequence[Message[pa.RecordBatch]]) -> None:
        """Let each message count as consumed once all of its rows are kept."""
        chunks = [message.payload for message in messages]
        if self._end.shares_memory:
            # What the producer's process can still reach must not be kept for longer than it takes to look at it.
            chunks = owned(chunks)
        pieces, ends = _cut(chunks, self._channel.parameters.max_chunk_cost)
        kept = consumed = 0
        while consumed < len(messages):
            done = bisect_right(ends, kept)
            if done > consumed:
                self._end.consume(done - consumed)
                consumed = done
            if kept < len(pieces):
                kept += await self._channel.log.append(pieces[kept:], self._name, self._require_here)

    def _require_here(self) -> None:
        if self._replacement is not None:
            raise self._replacement

    async def replaced(self, error: ProducerReplacedError) -> None:
        """A newer producer of the same name has come: keep nothing any more, and let it go on."""
        self._replacement = error
        self._end.break_off(error)
        self._channel.log.note_change()
        await self._left.wait()

    async def give_up(self, abort: Abort) -> None:
        """Break the channel: what was sent is not all."""
        if self._stream is not None and self._replacement is None:
            await self._channel.break_(f"the producer at {self.peer} gave up: {abort.reason}")

    def fail(self, reason: str) -> None:
        """What it has sent and is kept counts; the rest may come again."""

    def leave(self) -> None:
        """The stream is over."""
        self._disclaim()
        if self._stream is not None:
            self._channel.streams.close(self._stream)

    def _disclaim(self) -> None:
        if self._name:
            self._channel.disclaim(self._name, self)
        self._left.set()


def _cut(chunks: Sequence[pa.RecordBatch], most_rows: int) -> tuple[list[pa.RecordBatch], list[int]]:
    """The pieces in which chunks are kept, and of each chunk how many pieces there are up to its end."""
    pieces = [[piece for piece in slices(chunk, most_rows) if piece.num_rows] for chunk in chunks]
    return [piece for own in pieces for piece in own], list(accumulate(map(len, pieces)))
