"""A channel that keeps its rows until every consumer has acknowledged them, as the exchange serves it.

What a producer sends is consumed once it is kept.  A producer that vanishes leaves an open channel: it, or another
one, may come again.  A consumer reads a range, or follows the channel to its end.  Reading acknowledges nothing, so any
number of streams may read the same rows; one that leaves harms no other.
"""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Sequence
from itertools import accumulate, takewhile
from time import monotonic

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.chunks import slices
from permitflow.errors import (
    ChannelAbortedError,
    ChannelError,
    EndOfStream,
    ProducerReplacedError,
    RetentionError,
    StagingError,
)
from permitflow.exchange.replay_log import ReplayLog
from permitflow.exchange.statistics import BridgeState, BridgeStatistics, Direction, ReplayStatistics
from permitflow.exchange.stores.store import ChannelStore
from permitflow.exchange.streams import Stream, Streams
from permitflow.protocol.control import ChannelPosition, ChannelState
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import Abort, End, EndOutcome, Get, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.names import require_name
from permitflow.protocol.replay import DEFAULT_CONSUMER, KEPT_CHUNK_ROWS, Retention
from permitflow.transports.arrow import owned, read_schema, require_equal_schemas
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost

__all__ = ["KeepingProducer", "ReplayChannel", "ReplayConsumer", "ReplayProducer"]

# Messages: enough to make the way of each of them short, few enough for others to have their turn.
_AT_ONCE = 512


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
                messages = await self._end.take_many(_AT_ONCE)
                chunks = list(takewhile(lambda message: message.kind is Kind.CHUNK, messages))
                await self._keep(chunks)
                if len(chunks) < len(messages):
                    what = f"keeps rows only, and a {messages[len(chunks)].kind.value} is none"
                    rule = f"{what}: send it on a channel that is read once, or say it in a column"
                    raise RetentionError(channel=self._channel.name, retention=Retention.REPLAY.value, rule=rule)
        except EndOfStream:
            return

    async def _keep(self, messages: Sequence[Message[pa.RecordBatch]]) -> None:
        """Let each message count as consumed once all of its rows are kept."""
        chunks = [message.payload for message in messages]
        if self._end.shares_memory:
            # What the producer's process can still reach must not be kept for longer than it takes to look at it.
            chunks = owned(chunks)
        pieces, ends = _cut(chunks, self._channel.most_rows)
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


class ReplayProducer(KeepingProducer):
    """See ``ProducerStream``."""

    def __init__(self, channel: "ReplayChannel", end: RemoteReceiver, peer: str, same_host: SameHost) -> None:
        """``peer`` is the producer's address."""
        super().__init__(channel, end, peer, same_host)
        self._name = ""
        self._replacement: ProducerReplacedError | None = None
        self._left = asyncio.Event()

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and keep what comes; the next producer of this name goes on as soon as nothing more is kept."""
        try:
            await super().serve(put, schema)
        finally:
            self._disclaim()

    def _judge(self, put: Put) -> None:
        require_name("producer", put.producer)

    async def _begin(self, put: Put) -> int | None:
        if not put.producer:
            return None
        self._name = put.producer
        return await self._channel.claim(put.producer, self)

    async def _append(self, pieces: Sequence[pa.RecordBatch]) -> int:
        return await self._channel.log.append(pieces, self._name, self._require_here)

    def _require_here(self) -> None:
        if self._replacement is not None:
            raise self._replacement

    async def _finish(self, end: End) -> None:
        self._disclaim()
        if end.closes_channel:
            await self._channel.end()

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

    def _disclaim(self) -> None:
        if self._name:
            self._channel.disclaim(self._name, self)
        self._left.set()


class ReplayConsumer:
    """See ``ConsumerStream``."""

    def __init__(self, channel: "ReplayChannel", end: RemoteSender, peer: str, same_host: SameHost) -> None:
        """``peer`` is the consumer's address."""
        self._channel = channel
        self._end = end
        self._peer = peer
        self._same_host = same_host
        self._stream: Stream | None = None

    async def serve(self, get: Get) -> None:
        """Agree, and send what is wanted."""
        if get.probe:
            await self._meet(get)
            self._accept(None)
        else:
            self._start_of(get)
            await self._meet(get)
            # The rows may have been acknowledged meanwhile.
            start = self._start_of(get)
            self._accept(start)
            try:
                await self._send(get, start)
            except ChannelAbortedError as error:
                self._end.abort(error.reason)
                return
        await self._end.end(closes_channel=False)

    def _start_of(self, get: Get) -> int:
        log = self._channel.log
        log.require_log(get.log_id)
        return log.books.require_readable(get.consumer or DEFAULT_CONSUMER, get.from_row, get.to_row)

    async def _meet(self, get: Get) -> None:
        await self._end.meet(self._same_host)
        schema = await self._channel.log.known_schema()
        if get.schema is not None:
            require_equal_schemas(ours=schema, theirs=read_schema(get.schema))

    def _accept(self, first_row: int | None) -> None:
        channel = self._channel
        name = channel.streams.new_name(Direction.GET)
        schema = channel.log.schema
        assert schema is not None, "it was waited for"
        self._end.accept(channel.parameters, schema=schema, stream=name, first_row=first_row)
        if first_row is not None:
            self._stream = Stream(name, self._peer, Direction.GET, self._end)
            channel.streams.open(self._stream)

    async def _send(self, get: Get, start: int) -> None:
        consumer = get.consumer or DEFAULT_CONSUMER
        # No more than may be under way: what is read is held until it has left.
        most_rows = self._end.parameters.window_rows or self._channel.most_rows
        async for batches in self._channel.log.read(consumer, start, get.to_row, most_rows=most_rows):
            await self._end.send_many(deque(batches))

    def fail(self, reason: str) -> None:
        """Nothing is lost: what it has read can be read again."""

    def leave(self) -> None:
        """The stream is over."""
        if self._stream is not None:
            self._channel.streams.close(self._stream)


_STATES = {
    ChannelState.OPEN: BridgeState.OPEN,
    ChannelState.ENDED: BridgeState.ENDED,
    ChannelState.BROKEN: BridgeState.BROKEN,
}


class ReplayChannel:
    """A named channel between any number of producers and its consumers, each of which may read again."""

    def __init__(
        self,
        name: str,
        parameters: Parameters,
        schema: pa.Schema | None,
        store: ChannelStore,
        consumers: Sequence[str],
        limit_rows: int,
    ) -> None:
        """Use ``Exchange.add_channel``."""
        self.name = name
        self.parameters = parameters
        self.log = ReplayLog(name, limit_rows, schema, store, consumers)
        """The rows."""
        self.most_rows = min(limit_rows, parameters.most_rows or KEPT_CHUNK_ROWS)
        """Of a piece: larger chunks are cut."""
        self.streams = Streams(name)
        self._producers: dict[str, ReplayProducer] = {}
        self._opened_at = monotonic()
        self._opened_with = self.log.books.next_row, self.log.books.first_kept_row

    # Inside this process.

    async def append(self, chunk: pa.RecordBatch, producer: str = "") -> None:
        """Put a chunk in, as a producer that dials does; wait until there is room for it.

        A chunk above ``most_rows`` is put in by slices.  Cancelled, it may be in by part.

        Raises:
            ChannelError: the channel is over.
            SchemaMismatchError: it has another schema.
            StoreError: it could not be written.
        """
        await self.log.declare(chunk.schema)
        for piece in slices(chunk, self.most_rows):
            if piece.num_rows:
                await self.log.append((piece,), producer)

    async def read(
        self, consumer: str = DEFAULT_CONSUMER, from_row: int | None = None, to_row: int | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """The rows ``[from_row, to_row)``, as a consumer that dials gets them.

        Args:
            consumer: whose reading it is; nothing is acknowledged by it.
            from_row: the first row; None: the first that this consumer has not acknowledged.
            to_row: the first row that is not wanted any more; None: all that will ever come.

        Raises:
            ReplayError: this consumer cannot read these rows.
            ChannelAbortedError: the channel is broken, and all that it kept was read.
        """
        start = self.log.books.require_readable(consumer, from_row, to_row)
        async for batches in self.log.read(consumer, start, to_row, most_rows=self.log.books.limit_rows):
            for batch in batches:
                yield batch

    # Orders.

    def position(self, consumer: str = "") -> ChannelPosition[pa.Schema]:
        """Where the channel stands, for a consumer.

        Raises:
            UnknownConsumerError: rows are not kept for it.
        """
        log = self.log
        return ChannelPosition(
            channel=self.name,
            acknowledged_row=log.books.acknowledged_by(consumer or DEFAULT_CONSUMER),
            next_row=log.books.next_row,
            state=log.state,
            reason=log.reason,
            parameters=self.parameters,
            schema=log.schema,
            log_id=log.log_id,
            limit_rows=log.books.limit_rows,
        )

    async def acknowledge(self, row: int, consumer: str = "", log_id: str = "") -> None:
        """Note that a consumer needs no row before this one any more; see ``ReplayLog.acknowledge``."""
        await self.log.acknowledge(consumer or DEFAULT_CONSUMER, row, log_id)

    async def end(self) -> None:
        """No producer will put any more: consumers come to the end after what is here.

        Raises:
            StoreError: that could not be written.
        """
        await self.log.finish(ChannelState.ENDED)

    async def break_(self, reason: str) -> None:
        """What is here is not all: consumers must not take it for the whole.

        Raises:
            StoreError: that could not be written.
        """
        await self.log.finish(ChannelState.BROKEN, reason)

    def remove(self) -> None:
        """The exchange forgets the channel and its rows."""
        self.log.remove("it was removed from the exchange")

    # Streams.

    def producing(self, end: RemoteReceiver, peer: str, same_host: SameHost) -> ReplayProducer:
        """A producer at this address has dialled."""
        return ReplayProducer(self, end, peer, same_host)

    def consuming(self, end: RemoteSender, peer: str, same_host: SameHost) -> ReplayConsumer:
        """A consumer at this address has dialled."""
        return ReplayConsumer(self, end, peer, same_host)

    async def claim(self, name: str, producer: ReplayProducer) -> int:
        """Become the producer of this name, in place of one that may still be there; how many rows of it are kept.

        The older one may be a dead process whose connection has not timed out yet.

        Raises:
            TooManyProducersError: the name is new, and too many are remembered.
        """
        while (older := self._producers.get(name)) is not None:
            await older.replaced(ProducerReplacedError(channel=self.name, producer=name, by=producer.peer))
        self.log.require_nameable(name, self._producers)
        self._producers[name] = producer
        return self.log.rows_of(name)

    def disclaim(self, name: str, producer: ReplayProducer) -> None:
        """Let the next producer of this name go on."""
        if self._producers.get(name) is producer:
            del self._producers[name]

    def statistics(self) -> BridgeStatistics:
        """What has happened so far."""
        log, books = self.log, self.log.books
        return BridgeStatistics(
            name=self.name,
            state=self._bridge_state(),
            reason=log.reason,
            numbers=self._numbers(),
            producers=self.streams.count(Direction.PUT),
            streams=self.streams.statistics(),
            replay=ReplayStatistics(
                next_row=books.next_row,
                first_kept_row=books.first_kept_row,
                acknowledged=books.acknowledged,
                peak_kept_rows=books.peak_kept_rows,
            ),
        )

    def _bridge_state(self) -> BridgeState:
        log = self.log
        if log.state is ChannelState.OPEN and log.schema is None:
            return BridgeState.WAITING
        if log.state is ChannelState.ENDED and not log.books.kept_rows:
            return BridgeState.SPENT
        return _STATES[log.state]

    def _numbers(self) -> ChannelStatistics:
        log, books = self.log, self.log.books
        next_row, first_kept_row = self._opened_with
        return ChannelStatistics(
            name=self.name,
            sent_chunks=log.appended_chunks,
            sent_rows=books.next_row - next_row,
            consumed_rows=books.first_kept_row - first_kept_row,
            window_rows=books.limit_rows,
            rows_held=min(books.kept_rows, books.limit_rows),
            peak_rows_held=min(books.peak_kept_rows, books.limit_rows),
            inbox_rows=books.kept_rows,
            peak_inbox_rows=books.peak_kept_rows,
            waiting_sends=log.waiting.running,
            waiting_seconds=log.waiting.seconds,
            open_seconds=monotonic() - self._opened_at,
        )
