"""A producer whose rows are kept: what it sends is consumed once it is kept, wherever that is."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from permitflow.chunks import slices
from permitflow.errors import ChannelError, EndOfStream, RetentionError, StagingError
from permitflow.exchange.bridge import AT_ONCE
from permitflow.exchange.statistics import Direction
from permitflow.exchange.streams import Stream
from permitflow.protocol.frames import Abort, End, EndOutcome, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.replay import Retention
from permitflow.transports.arrow_joining import owned
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.replay_channel import ReplayChannel

__all__ = ["KeepingProducer"]


class KeepingProducer(ABC):
    """See ``ProducerStream``."""

    def __init__(self, channel: "ReplayChannel", end: RemoteReceiver, peer: str, same_host: SameHost) -> None:
        """``peer`` is the producer's address."""
        self.peer = peer
        self._channel = channel
        self._end = end
        self._same_host = same_host
        self._stream: Stream | None = None

    def _needs_channel(self, put: Put) -> bool:
        """Must the channel be one that still takes rows of this schema?"""
        return True

    @abstractmethod
    def _judge(self, put: Put) -> None:
        """Refuse what cannot be, before the channel takes its schema over."""

    @abstractmethod
    async def _begin(self, put: Put) -> int | None:
        """The producer may begin; how many of its rows are kept already, if it has a name."""

    @abstractmethod
    async def _append(self, pieces: Sequence[pa.RecordBatch]) -> int:
        """Wait until there is room for the first piece; keep as many as there is room for, and say how many."""

    @abstractmethod
    async def _finish(self, end: End) -> None:
        """All that it has sent is kept."""

    @abstractmethod
    async def give_up(self, abort: Abort) -> None:
        """The producer has given up; called as soon as it has, also while a message of it waits."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """The stream has failed; called before ``leave``."""

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and keep what comes."""
        await self._accept(put, schema)
        try:
            await self._keep_all()
        except (ChannelError, StagingError):
            if not isinstance(self._end.ended_with, Abort):
                raise
        match self._end.ended_with:
            case Abort() as abort:
                await self.give_up(abort)
            case End() as end:
                await self._finish(end)
                self._end.answer_end(EndOutcome.ACCEPTED)

    async def _accept(self, put: Put, schema: pa.Schema) -> None:
        self._judge(put)
        channel = self._channel
        if self._needs_channel(put):
            await channel.log.declare(schema)
        await self._end.meet(self._same_host)
        first_row = await self._begin(put)
        if self._needs_channel(put):
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
                kept += await self._append(pieces[kept:])

    def leave(self) -> None:
        """The stream is over."""
        if self._stream is not None:
            self._channel.streams.close(self._stream)


def _cut(chunks: Sequence[pa.RecordBatch], most_rows: int) -> tuple[list[pa.RecordBatch], list[int]]:
    """The pieces in which chunks are kept, and of each chunk how many pieces there are up to its end."""
    pieces = [[piece for piece in slices(chunk, most_rows) if piece.num_rows] for chunk in chunks]
    return [piece for own in pieces for piece in own], list(accumulate(map(len, pieces)))
