"""A channel of an exchange whose rows are read once: its producers, its consumer, and the effects of their leaving.

Inside is a local channel.  Each producer and each consumer has its own stream with its own permits; a bridge chains
them to the channel's permits.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import ge

import pyarrow as pa

from permitflow.cancelling import cancel_all
from permitflow.channels.local import LocalReceiver, LocalSender, Purged, open_channel
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import (
    ChannelAbortedError,
    ChannelCancelledError,
    ChannelClosedError,
    ChannelError,
    ChannelInUseError,
    LocalProtocolError,
    PeerGoneError,
    RetentionError,
)
from permitflow.exchange.books.attempts import AttemptBooks
from permitflow.exchange.books.bridge import BridgeBooks, BridgeState, Retired
from permitflow.exchange.books.replay import DEFAULT_CONSUMER
from permitflow.exchange.channels.bridge import Bridge
from permitflow.exchange.channels.streams import ConsumerStream, ProducerStream, Streams
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.messages import Kind, Message
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import ChunkRun, Parameters
from permitflow.patience import patience
from permitflow.stream.control import Retention
from permitflow.stream.frames import Abort, End, EndOutcome, Get, Put
from permitflow.stream.session import State
from permitflow.stream.traffic import ChannelTraffic
from permitflow.wire.arrow import MAX_CHUNK_BYTES
from permitflow.wire.schemas import OF_PRODUCER, facts_of, fitted, require_equal_schemas


class BridgeChannel:
    """A named channel between any number of producers and one consumer at a time."""

    log_id = ""
    """It counts its rows in no log."""

    def __init__(
        self,
        name: str,
        parameters: Parameters,
        schema: pa.Schema | None,
        record: RecorderFactory | None,
        attempts: AttemptBooks,
        told_name: str,
        window: ByteWindow,
        target_latency_seconds: float | None,
    ) -> None:
        """Use ``Exchange.add_channel``; ``told_name`` is used in recordings and in the names of streams.

        Raises:
            InvalidParametersError: the windows of this flow do not adapt, or the channel is recorded.
        """
        self.name = name
        self.declared_schema = schema
        """The one with which it was added; None: that of the first producer."""
        self.attempts = attempts
        self.parameters = parameters
        self.window = window
        """The byte window of the channel inside the exchange, and the largest of each of its streams."""
        self.sender: LocalSender[pa.RecordBatch]
        """The end for producers inside this process; it needs a declared schema."""
        self.receiver: LocalReceiver[pa.RecordBatch]
        """The end for a consumer inside this process, instead of a remote one."""
        self.sender, self.receiver = open_channel(
            parameters,
            name=name,
            record=None if record is None else lambda _, *end: record(told_name, *end),
            byte_window=window.window_bytes,
            row_bytes=None if schema is None else facts_of(schema).row_bytes,
        )
        self.target_latency_seconds = target_latency_seconds
        """How long rows may wait at the exchange: half in the stream of their producer, half in the channel."""
        if self.latency_share_seconds is not None:
            self.receiver.aim_at(self.latency_share_seconds)
        self.schema = schema
        """Of the chunks; None: no producer has stated it yet."""
        self._stated_by = ""
        """The job whose attempt has stated the schema."""
        self._schema_known = asyncio.Event()
        if schema is not None:
            self._schema_known.set()
        self.aborted = asyncio.Event()
        """Set when a producer breaks the channel, or an administrator ends it."""
        self.books: BridgeBooks[_Consumer] = BridgeBooks(name)
        """Its state and its consumer."""
        self.producers: dict[_Producer, None] = {}
        """Connected producers that have not received the outcome of their end, in the order in which they came."""
        self.arriving = set[_Producer]()
        """Producers that have dialled, with which nothing is agreed yet."""
        self.streams = Streams(told_name)
        self._purged_rows = 0

    @property
    def latency_share_seconds(self) -> float | None:
        """How long rows may wait in each of the two windows that they pass here; None: as long as these are."""
        return None if self.target_latency_seconds is None else self.target_latency_seconds / 2

    @property
    def stream_most_bytes(self) -> int:
        """The most bytes of chunks at the exchange's end of a stream, and as many inside the channel."""
        return self.window.most_bytes(MAX_CHUNK_BYTES)

    @property
    def state(self) -> BridgeState:
        """The state of the channel."""
        if self.is_producible and self.schema is None:
            return BridgeState.WAITING
        return self.books.state

    @property
    def is_producible(self) -> bool:
        """May producers put?"""
        return self.books.state is BridgeState.OPEN

    async def known_schema(self) -> pa.Schema:
        """Wait for the schema of the chunks, and return it.

        Raises:
            ChannelAbortedError: the channel broke or was removed before a schema was known.
        """
        await self._schema_known.wait()
        if self.schema is None or self.books.is_retired:
            raise self.books.refusal()
        return self.schema

    # Producers.

    def require_producible(self, schema: pa.Schema) -> None:
        """Refuse a producer that is too late, or has another schema.

        Raises:
            ChannelError: the channel is broken, or its consumer needs no more; the type tells why.
            ChannelSpentError: the channel was used before.
            SchemaMismatchError: the producer has another schema.
        """
        self.books.require_producible()
        if self.schema is not None:
            require_equal_schemas(ours=self.schema, theirs=fitted(schema, self.schema), owners=OF_PRODUCER)

    def announce(self, schema: pa.Schema, job: str = "") -> None:
        """Note the schema of the first accepted producer, which may be an attempt of a job."""
        if self.schema is None:
            self.schema, self._stated_by = schema, job
            self._schema_known.set()

    def end(self, by: str) -> None:
        """End the channel: no producer may put, and the consumer reads the remaining messages, then the end.

        Args:
            by: who ends it, in words.
        """
        if self.books.end(by):
            self.sender.end_nowait()

    async def outcome(self, until: EndOutcome | None) -> EndOutcome:
        """Return the fate of the messages in the channel; wait until the present consumer, if any, has consumed them.

        The call does not wait for a later consumer, nor after a consumer leaves that has taken no message.

        Args:
            until: ``ACCEPTED`` does not wait at all.

        Raises:
            ChannelError: the channel is broken.
        """
        consumer = self.books.awaited(until)
        has_consumed_all = consumer is not None and await consumer.has_consumed_all()
        has_cancelled = consumer is not None and consumer.has_cancelled
        return self.books.outcome(has_consumed_all=has_consumed_all, has_cancelled=has_cancelled)

    def abort(self, reason: str) -> None:
        """Break the channel: its data are incomplete, and the consumer gets an error instead of an end."""
        self.sender.abort(reason)
        if self.books.break_off(reason):
            self.aborted.set()
            self._tell_broken()

    # The consumer.

    async def claim(self, consumer: "_Consumer") -> None:
        """Make this consumer the channel's consumer.

        One that has lost its connection makes way, as one that is lost: this may be the same program, started again.

        Raises:
            ChannelBusyError: the channel has a consumer.
            ChannelSpentError: the channel had a consumer, and its data are gone.
        """
        while self.books.consumer is not None and self.books.consumer.is_suspended:
            await self.books.consumer.make_way(consumer.peer)
        self.books.claim(consumer)

    def cancel(self, reason: str) -> None:
        """Spend the channel: its consumer needs no more, and its producers hear of it."""
        if self.books.cancel(reason):
            self.receiver.cancel_nowait(reason)
            for producer in tuple(self.producers):
                producer.cancel(reason)

    def lose_consumer(self, reason: str, *, has_taken: bool) -> None:
        """Let the consumer go.  If it has taken messages, these are lost, the rest is incomplete; it breaks."""
        if self.books.lose_consumer(reason, has_taken=has_taken):
            self._tell_broken()
            self.receiver.close()

    def _tell_broken(self) -> None:
        self._schema_known.set()
        for producer in tuple(self.producers):
            producer.break_off()

    # Streams.

    def producing(self, end: RemoteReceiver, peer: str) -> "_Producer":
        """The stream of a producer that has dialled from ``peer``."""
        return _Producer(self, end, peer)

    def consuming(self, end: RemoteSender, peer: str) -> "_Consumer":
        """The stream of a consumer that has dialled from ``peer``."""
        return _Consumer(self, end, peer)

    # Administration.

    @property
    def users(self) -> "list[_Producer | _Consumer]":
        """The producers that wait for nothing but their end, and the consumer."""
        return [*self.producers, *([] if self.books.consumer is None else [self.books.consumer])]

    def is_untouched_but_for(self, job: str) -> bool:
        """Does nobody but this job lose anything if the channel begins anew?

        No producer is there whose stream goes on, nothing was sent, and nobody else has stated the schema.
        """
        has_taken = self.sender.statistics().sent_chunks or self.backlog.messages
        is_there = self.arriving or any(producer.is_live for producer in self.producers)
        is_stated = self.schema is not self.declared_schema and self._stated_by != job
        return self.is_producible and not (has_taken or is_there or is_stated)

    @property
    def backlog(self) -> Purged:
        """The messages in it, which a consumer would get."""
        numbers = self.receiver.statistics()
        return Purged(self.receiver.unconsumed, numbers.inbox_rows)

    def retire(self, error: Retired) -> int:
        """Leave the name for good: drop what waits, and end all streams with this error; how many.

        A stream that has lost its connection is over at once, and its peer gets the error when it comes again.
        """
        users = len(self.users)
        self.books.retire(error)
        if self.books.consumer is not None:
            self.books.consumer.end_with(self.books.refusal())
        self.abort(error(channel=self.name).reason)
        if not self.books.is_cancelled:  # a channel that was read to its end does not break, and has told nobody
            self._tell_broken()
        return users

    async def purge(self, timeout_seconds: float) -> Purged:
        """Drop the messages that wait, and return their permits; streams go on.

        What the consumer's stream has taken on already is not dropped, nor is what producers have not got in yet.

        Args:
            timeout_seconds: how long a message that is just leaving may take.

        Raises:
            ChannelInUseError: it takes longer, because the consumer has no room for it, or its owner holds a message;
                nothing was dropped.

        Spec: Consume.
        """
        consumer = self.books.consumer
        if consumer is not None and not await consumer.is_empty_handed(timeout_seconds):
            uses = f"a message waits for room with the consumer at {consumer.peer}"
            advice = "reset the channel with force, which ends its streams"
            raise ChannelInUseError(channel=self.name, deed="purged", uses=uses, advice=advice)
        if self.books.is_over:
            return Purged()
        try:
            dropped = self.receiver.purge()
        except LocalProtocolError as error:
            advice = "let the program that reads it consume its message"
            raise ChannelInUseError(channel=self.name, deed="purged", uses=str(error), advice=advice) from error
        except (ChannelClosedError, ChannelAbortedError):  # its reader in this process has left
            return Purged()
        self._purged_rows += dropped.rows
        self.books.purge(dropped.messages)
        if self.books.consumer is not None:
            self.books.consumer.wake()
        return dropped

    def peek(self, rows: int) -> list[pa.RecordBatch]:
        """The first rows that wait; they stay here."""
        found: list[pa.RecordBatch] = []
        for chunk in _chunks(self.receiver.core.runs):
            if rows <= 0:
                break
            if chunk.num_rows:
                found.append(chunk.slice(0, rows))
            rows -= chunk.num_rows
        return found

    def statistics(self) -> ChannelTraffic:
        """A snapshot of the channel."""
        numbers = self.sender.statistics()
        return self.streams.traffic(self.name, self.state, self.books.reason, numbers, purged_rows=self._purged_rows)


def _chunks(entries: Iterable[ChunkRun[pa.RecordBatch] | Message[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    for entry in entries:
        if not isinstance(entry, Message):
            payloads, _, start, _ = entry
            yield from islice(payloads, start, None)
        elif entry.kind is Kind.CHUNK:
            yield entry.payload


class _Producer(ProducerStream[BridgeChannel]):
    """A producer whose stream is bridged to the channel.  If it leaves without End, the channel breaks."""

    _has_finished = False

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Accept the producer, and pass its messages on to the channel."""
        channel = self._channel
        await self._accept(put, schema)
        try:
            aborted = await Bridge(self._end, channel.sender).run()
            if aborted is not None and self._end.ended_with is None:
                raise aborted
        except ChannelError as error:
            if isinstance(error, ChannelCancelledError):  # the channel's receiver may be in this process
                channel.cancel(error.reason)
            if channel.is_producible:
                raise
            if not channel.books.is_cancelled and not isinstance(self._end.ended_with, Abort):
                raise channel.books.refusal() from error
        match self._end.ended_with:
            case Abort() as abort:
                await self.give_up(abort)
            case End() as end:
                await self._require_whole(end)
                if end.closes_channel:
                    channel.end(f"the producer at {self.peer}")
                self._has_finished = True
                self._end_attempt()
                outcome = await channel.outcome(end.until)
                channel.producers.pop(self, None)
                self._end.answer_end(outcome)

    def cancel(self, reason: str) -> None:
        """Tell the producer that nothing more is needed."""
        self._has_finished = True
        self._end.cancel_nowait(reason)

    def break_off(self) -> None:
        """Send the producer, even an idle one, the error that the channel is broken."""
        if not isinstance(self._end.ended_with, Abort):
            self._end.break_off(self._channel.books.refusal())

    async def give_up(self, abort: Abort) -> None:
        """Break the channel, unless this is an attempt that has sent nothing."""
        if self.name and not self._is_bare:
            await self._break(f"the producer at {self.peer} gave up: {abort.reason}")

    async def _break(self, reason: str) -> None:
        self._channel.abort(reason)

    async def _accept(self, put: Put, schema: pa.Schema) -> None:
        channel = self._channel
        if put.producer or put.staging is not None:
            rule = "knows no producers by name, and publishes nothing"
            raise RetentionError(channel=channel.name, retention=Retention.ONCE.value, rule=rule)
        channel.require_producible(schema)
        channel.arriving.add(self)
        try:
            await self._end.meet()
        finally:
            channel.arriving.discard(self)
        # Meanwhile, another producer may have declared a schema or ended the channel.
        channel.require_producible(schema)
        await self._begin(put)
        if channel.latency_share_seconds is not None:
            self._end.aim_at(channel.latency_share_seconds)
        self._agree(schema, rows=fitted(schema, channel.schema))
        channel.announce(schema, "" if put.attempt is None else put.attempt.job)
        channel.producers[self] = None

    def fail(self, reason: str) -> None:
        """Break the channel if the stream failed before its end, unless this is an attempt that has sent nothing."""
        if self.name and not self._has_finished and not self._is_bare:
            self._channel.abort(f"the producer at {self.peer} is gone: {reason}")

    def leave(self) -> None:
        """Note that the stream is over."""
        self._channel.producers.pop(self, None)
        super().leave()


class _Consumer(ConsumerStream[BridgeChannel]):
    """A consumer with a bridge from the channel.  If it leaves between first message and end, the channel breaks."""

    def __init__(self, channel: BridgeChannel, end: RemoteSender, peer: str) -> None:
        """``peer`` is the consumer's address."""
        super().__init__(channel, end, peer)
        self._holds_channel = False
        self._bridge: Bridge | None = None
        self._left = asyncio.Event()

    async def serve(self, get: Get, schema: pa.Schema | None) -> None:
        """Accept the consumer, and pass the channel's messages on to it."""
        channel = self._channel
        if get.probe:
            self._agree(await self._meet(schema), is_probe=True)
            await self._end.end(closes_channel=False)
            return
        self._require_no_replay(get)
        await channel.claim(self)
        self._holds_channel = True
        self._agree(await self._meet(schema))
        self._bridge = Bridge(channel.receiver, self._end)
        aborted = await self._moved(self._bridge)
        if aborted is not None:
            self._end.abort(aborted.reason)
            channel.books.release()
        else:
            await self._end.end(closes_channel=False)
            if self.has_cancelled:  # behind its end: what it has dropped then, nobody has consumed
                return
            channel.books.spend()
        self._holds_channel = False

    async def _moved(self, bridge: Bridge) -> ChannelAbortedError | None:
        """Move messages until the channel ends; the error if it is broken: at once, whatever waits for room.

        Spec: PassAbort of Bridge.
        """
        channel = self._channel
        moving, broken = asyncio.create_task(bridge.run()), asyncio.create_task(channel.aborted.wait())
        try:
            await asyncio.wait((moving, broken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_all(moving, broken)
        if moving.cancelled():
            return ChannelAbortedError(channel=channel.name, reason=channel.books.reason)
        return moving.result()

    def _require_no_replay(self, get: Get) -> None:
        rule = ""
        if (get.from_row, get.to_row) != (None, None) or get.log_id:
            rule = "is read from where it stands: it has no ranges of rows"
        elif get.consumer not in ("", DEFAULT_CONSUMER):
            rule = f"has one consumer at a time, without a name such as {get.consumer!r}"
        elif get.with_time:
            rule = "passes rows on, and notes no times"
        if rule:
            raise RetentionError(channel=self._channel.name, retention=Retention.ONCE.value, rule=rule)

    async def has_consumed_all(self) -> bool:
        """Wait until all messages now in the channel are consumed; False: the consumer left, or its flow cannot tell.

        The call waits for messages that leave meanwhile, too: the consumer's feedback does not tell them apart.
        """
        end, channel = self._end, self._channel
        last = channel.books.last_message(channel.receiver.unconsumed, self._passed_on)
        sent: tuple[int, ...] | None = None
        while True:
            if sent is None and self._bridge is not None and channel.books.has_left(last, self._passed_on):
                sent = end.sent_mark
                if sent is None:  # this flow never reports consumption
                    return False
            if sent is not None and all(map(ge, end.acknowledged_mark, sent)):
                return True
            if end.state in (State.CLOSED, State.FAILED):
                # The channel's state is settled only after ``fail``; ``leave`` follows.
                await self._left.wait()
                return False
            await end.changed()

    async def make_way(self, by: str) -> None:
        """Leave the channel to another consumer, which comes when nothing here waits for messages any more."""
        reason = f"the consumer at {by} came while its connection was lost"
        if self._bridge is not None:  # its target's end would make it take one more, which nobody would get
            self._bridge.stop()
        self._end.break_off(PeerGoneError(who=f"the consumer at {self.peer}", reason=reason))
        await self._left.wait()

    async def is_empty_handed(self, timeout_seconds: float) -> bool:
        """Wait until no message is on its way to this consumer that has not left; False: it takes longer than this."""
        if self._bridge is None:
            return True
        try:
            async with patience(timeout_seconds):
                await self._bridge.empty_handed()
        except TimeoutError:
            return self._left.is_set()
        return True

    @property
    def _passed_on(self) -> int:
        return 0 if self._bridge is None else self._bridge.passed_on

    def wake(self) -> None:
        """Let a producer that waits for the end look again."""
        self._end.wake()

    @property
    def has_cancelled(self) -> bool:
        """Has the consumer said that it needs no more?"""
        return self._end.cancel is not None

    def cancel(self, reason: str) -> None:
        """Spend the channel."""
        if self._holds_channel:
            self._holds_channel = False
            self._channel.cancel(reason)

    def fail(self, reason: str) -> None:
        """Release the channel if the consumer has taken no message; else break it."""
        if self._holds_channel:
            self._channel.lose_consumer(reason, has_taken=self._bridge is not None and self._bridge.taken > 0)

    def leave(self) -> None:
        """Note that the stream is over."""
        self._left.set()
        super().leave()
