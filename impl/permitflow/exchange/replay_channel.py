"""A channel that keeps its rows until every consumer has acknowledged them, as the exchange serves it."""

from collections.abc import AsyncIterator, Sequence
from time import monotonic

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.chunks import slices
from permitflow.errors import ProducerReplacedError
from permitflow.exchange.replay_consuming import ReplayConsumer
from permitflow.exchange.replay_log import ReplayLog
from permitflow.exchange.replay_producing import ReplayProducer
from permitflow.exchange.replay_reading import read_rows
from permitflow.exchange.statistics import BridgeState, BridgeStatistics, Direction, ReplayStatistics
from permitflow.exchange.stores.store import ChannelStore
from permitflow.exchange.streams import Streams
from permitflow.protocol.control import ChannelPosition, ChannelState
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import DEFAULT_CONSUMER
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost

__all__ = ["ReplayChannel"]

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
        parameters: ChannelParameters,
        schema: pa.Schema | None,
        store: ChannelStore,
        consumers: Sequence[str],
    ) -> None:
        """Use ``Exchange.add_channel``."""
        self.name = name
        self.parameters = parameters
        self.log = ReplayLog(name, parameters, schema, store, consumers)
        """The rows."""
        self.streams = Streams(name)
        self._producers: dict[str, ReplayProducer] = {}
        self._opened_at = monotonic()
        self._opened_with = self.log.books.next_row, self.log.books.first_kept_row

    # Inside this process.

    async def append(self, chunk: pa.RecordBatch, producer: str = "") -> None:
        """Put a chunk in, as a producer that dials does; wait until there is room for it.

        A chunk above ``max_chunk_cost`` is put in by slices.  Cancelled, it may be in by part.

        Raises:
            ChannelError: the channel is over.
            SchemaMismatchError: it has another schema.
            StoreError: it could not be written.
        """
        await self.log.declare(chunk.schema)
        for piece in slices(chunk, self.parameters.max_chunk_cost):
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
        async for batches in read_rows(self.log, consumer, start, to_row, most_rows=self.parameters.row_permits):
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
        )

    async def acknowledge(self, row: int, consumer: str = "", log_id: str = "") -> None:
        """Note that a consumer needs no row before this one any more; see ``ReplayLog.acknowledge``."""
        await self.log.acknowledge(consumer or DEFAULT_CONSUMER, row, log_id)

    async def end(self) -> None:
        """Nobody will put any more: consumers come to the end after what is here.

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

        The older one may be a process that is dead, whose connection nobody has missed yet.
        """
        while (older := self._producers.get(name)) is not None:
            await older.replaced(ProducerReplacedError(channel=self.name, producer=name, by=producer.peer))
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
            parameters=self.parameters,
            sent_chunks=log.appended_chunks,
            sent_rows=books.next_row - next_row,
            consumed_rows=books.first_kept_row - first_kept_row,
            peak_permits_outstanding=min(books.peak_kept_rows, books.row_permits),
            peak_inbox_rows=books.peak_kept_rows,
            row_permits_here=max(0, books.room_rows),
            inbox_rows=books.kept_rows,
            waiting_sends=log.waiting.running,
            waiting_seconds=log.waiting.seconds,
            open_seconds=monotonic() - self._opened_at,
        )
