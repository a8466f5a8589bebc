"""A consumer of a group as an asynchronous iterable, for ``Source`` and for ``async for``.

librdkafka's calls block, so one thread of each consumer makes all of them, one turn after the other; what they tell is
handed to the event loop between two turns.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from permitflow.callables import plain
from permitflow.change import Change
from permitflow.errors import (
    BrokersUnreachableError,
    EndOfStream,
    InvalidParametersError,
    LocalProtocolError,
    PoisonRecordError,
)
from permitflow.kafka.ledger import Ledger, Partition, Record
from permitflow.kafka.told import record_of, refused
from permitflow.stages.core.parameters import require_above_0, require_at_least

DEFAULT_WINDOW = 10_000

# How long a turn waits for a first record, and takes further ones that are here already.
_TURN_SECONDS = 0.1
_MOST_OF_A_TURN = 1_000
# A shorter stop mutes nothing: ``pause`` throws away what librdkafka has fetched ahead.
_STILL_SECONDS = 0.1
_REMIND_SECONDS = 60.0
_PROBE_SECONDS = 2.0
# librdkafka goes on by itself, or the next commit says the same.
_PASSING = frozenset(
    (
        KafkaError._PARTITION_EOF,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._MAX_POLL_EXCEEDED,
    )
)

_UNREACHABLE = frozenset((KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL))

_log = logging.getLogger(__name__)


class KafkaRecords(AsyncIterable[Record]):
    """The records of some topics, as one consumer of a group gets them: at least once, each partition in its order.

    Use it as a context, and iterate over it, or over ``Source(records)``::

        async with KafkaRecords({"bootstrap.servers": "...", "group.id": "etl"}, ["orders"]) as records:
            async for record in Source(records).map_async(store, at_most=8):
                records.consumed(record)

    A record holds one of ``window`` permits until ``consumed`` was told of it and of all before it in its partition.
    The partitions are muted (``pause``) while no permit is left, and go on (``resume``) once an eighth of the window is
    back; the consumer stays in its group, however long that takes.  An offset is committed only when all before it is
    consumed: what was not comes again after a crash or a rebalance, and nothing is left out.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topics: Sequence[str],
        *,
        window: int = DEFAULT_WINDOW,
        commit_seconds: float = 1.0,
        unreachable_seconds: float = 60.0,
        decode: Callable[[Record], Any] | None = None,
        when_poisoned: Callable[[Record, Exception], object] | None = None,
    ) -> None:
        """Nothing is dialled before the context is entered.

        Args:
            config: librdkafka's, with ``bootstrap.servers`` and ``group.id``.  Where it does not say otherwise, a group
                without offsets begins with the earliest records, and at most 16 MiB are fetched ahead.
            topics: by name, or, with ``^``, by a pattern.
            window: the most records that are delivered and not consumed; a rebalance may bring one more.
            commit_seconds: how often offsets are committed; also when partitions are revoked, and at the end.
            unreachable_seconds: how long to wait for any broker.
            decode: makes ``record.content`` of each record; one for which it fails is poison.
            when_poisoned: called with a poisonous record and its error; the record counts as consumed, and is left
                out.  By default the iteration fails with ``PoisonRecordError``, and the record is not consumed.

        Raises:
            InvalidParametersError: ``group.id`` or ``bootstrap.servers`` is missing, offsets would be committed by
                librdkafka, no topic is named, or a number is out of its range.
        """
        require_at_least(1, window=window)
        require_above_0(commit_seconds=commit_seconds, unreachable_seconds=unreachable_seconds)
        for name in ("bootstrap.servers", "group.id"):
            if not config.get(name):
                raise InvalidParametersError(name=f"config[{name!r}]", value=config.get(name), rule="must be given")
        for name in ("enable.auto.commit", "enable.auto.offset.store"):
            if str(config.get(name, False)).lower() != "false":
                rule = "must be left out: offsets are committed when records are consumed"
                raise InvalidParametersError(name=f"config[{name!r}]", value=config[name], rule=rule)
        if isinstance(topics, str) or not topics:
            raise InvalidParametersError(name="topics", value=topics, rule="must be a list of at least one name")
        self._topics = list(topics)
        self._config = {
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 16_384,
            **config,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "error_cb": self._note_error,
            "on_commit": self._note_commit,
        }
        self._decode = None if decode is None else plain(decode, place="KafkaRecords(decode)")
        self._when_poisoned = (
            None if when_poisoned is None else plain(when_poisoned, place="KafkaRecords(when_poisoned)")
        )
        self._commit_seconds, self._unreachable_seconds = commit_seconds, unreachable_seconds
        self._ledger = Ledger(window, max(1, window // 8))
        self._lock = threading.Lock()  # the ledger is told of rebalances in the thread
        self._records: deque[Record] = deque()
        self._change = Change()
        self._thread = ThreadPoolExecutor(1, "kafka-consumer")
        self._consumer: Consumer | None = None
        self._pump: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._is_closing = False
        self._down_since: float | None = None
        self._last_error = ""
        self._fatal: KafkaError | None = None
        self._muted_since = 0.0
        self._has_unmuted = False
        """Partitions were assigned since the last turn; librdkafka begins to read them."""
        self._committed_at = monotonic()

    async def __aenter__(self) -> "KafkaRecords":
        """Join the group.

        Raises:
            KafkaRefusedError: librdkafka refuses the configuration.
            LocalProtocolError: it was entered before.
        """
        if self._pump is not None or self._is_closing:
            raise LocalProtocolError("these records were read before; make new ones for each run")
        try:
            self._consumer = Consumer(self._config, logger=_log)
            self._consumer.subscribe(
                self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
            )
        except KafkaException as error:
            raise refused(error.args[0], "consumer") from error
        self._pump = asyncio.create_task(self._run(), name="kafka records")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Commit what is consumed, and leave the group."""
        await self.aclose()

    async def aclose(self) -> None:
        """Commit what is consumed, leave the group, and wait for both; the iteration ends.  Twice is harmless."""
        if self._is_closing:
            return
        self._is_closing = True
        self._change.note()
        try:
            if self._pump is not None:
                await asyncio.wait([self._pump])
        finally:
            # Also when this is cancelled: the thread leaves the group by itself.
            leaving = asyncio.get_running_loop().run_in_executor(self._thread, self._leave)
            self._thread.shutdown(wait=False)
            await asyncio.shield(leaving)

    @property
    def is_muted(self) -> bool:
        """Are the partitions muted, because no permit is left?"""
        return self._ledger.is_muted

    @property
    def out(self) -> int:
        """Records that hold a permit: delivered, and they or one before them are not consumed."""
        return self._ledger.out

    def consumed(self, *records: Record) -> None:
        """The stages are done with these records; in any order.  Those of a revoked partition count no more."""
        with self._lock:
            for record in records:
                self._ledger.consume(record)
        self._change.note()

    def __aiter__(self) -> AsyncIterator[Record]:
        """The records from here on, until they are closed; the iteration itself closes nothing."""
        return _Each(self)

    async def take(self) -> Record:
        """The next record; else as ``take_many``."""
        return (await self.take_many(1))[0]

    async def take_many(self, most: int) -> list[Record]:
        """The records that are here, at least one; wait only for the first.  A cancelled call has taken none.

        Raises:
            EndOfStream: they were closed.
            PoisonRecordError: of the next record.
            BrokersUnreachableError: no broker has answered for ``unreachable_seconds``.
            KafkaRefusedError: a broker refuses, such as a topic that it does not have.
        """
        require_at_least(1, most=most)
        if self._pump is None:
            raise LocalProtocolError("enter the context first: async with KafkaRecords(...) as records")
        while True:
            taken: list[Record] = []
            with self._lock:
                while self._records and len(taken) < most:
                    record = self._records.popleft()
                    if self._ledger.is_ours(record):
                        taken.append(record)
            if taken:
                return taken
            if self._failure is not None:
                raise self._failure
            if self._is_closing:
                raise EndOfStream
            await self._change.wait()

    # In the event loop.

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self._is_closing:
                if self._ledger.room <= 0 and not self._ledger.is_muted:
                    await self._for_a_moment()
                if messages := await loop.run_in_executor(self._thread, self._turn):
                    for message in messages:
                        self._hand_over(message)
                    self._change.note()
        except KafkaException as error:
            self._failure = refused(error.args[0], "consumer")
        except Exception as error:
            self._failure = error
        self._change.note()

    async def _for_a_moment(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_STILL_SECONDS):
                await self._change.until(lambda: self._ledger.room > 0 or self._is_closing)

    def _hand_over(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() not in _PASSING:
                raise refused(error, str(message.topic()))
            return
        self._down_since = None
        record, poison = record_of(message), None
        if self._decode is not None:
            try:
                record = replace(record, content=self._decode(record))
            except Exception as error:
                poison = error
        with self._lock:
            if not self._ledger.deliver(record):
                return
        if poison is None:
            self._records.append(record)
        elif self._when_poisoned is None:
            raise PoisonRecordError(**record.place._asdict(), reason=f"{type(poison).__name__}: {poison}") from poison
        else:
            self._when_poisoned(record, poison)
            self.consumed(record)

    # In the thread.

    def _turn(self) -> list[Message]:
        consumer = self._consumer
        assert consumer is not None
        with self._lock:
            mutes, unmutes, room = self._ledger.mutes(), self._ledger.unmutes(), self._ledger.room
        if mutes:
            self._muted_since = monotonic()
        if mutes or (self._ledger.is_muted and self._has_unmuted):
            consumer.pause(consumer.assignment())
        elif unmutes:
            consumer.resume(consumer.assignment())
        self._has_unmuted = False
        self._remind()
        if monotonic() - self._committed_at >= self._commit_seconds:
            self._commit(consumer)
        self._require_brokers(consumer)
        first = consumer.poll(_TURN_SECONDS)
        rest = consumer.consume(min(room, _MOST_OF_A_TURN) - 1, 0) if first is not None and room > 1 else []
        if self._fatal is not None:
            raise refused(self._fatal, "consumer")
        return [*([first] if first is not None else ()), *rest]

    def _remind(self) -> None:
        if self._ledger.is_muted and monotonic() - self._muted_since >= _REMIND_SECONDS:
            self._muted_since = monotonic()
            with self._lock:
                out, oldest = self._ledger.out, self._ledger.oldest
            if oldest is not None:
                _log.warning("muted for %g s: %d records wait behind %s", _REMIND_SECONDS, out, oldest.place)

    def _commit(self, consumer: Consumer) -> None:
        with self._lock:
            due = self._ledger.take_due()
        self._committed_at = monotonic()
        if due:
            consumer.commit(offsets=_offsets(due), asynchronous=True)

    def _require_brokers(self, consumer: Consumer) -> None:
        if self._down_since is None or monotonic() - self._down_since < self._unreachable_seconds:
            return
        try:
            consumer.list_topics(timeout=_PROBE_SECONDS)
        except KafkaException as error:
            servers = str(self._config["bootstrap.servers"])
            seconds = self._unreachable_seconds
            raise BrokersUnreachableError(servers=servers, waited_seconds=seconds, reason=self._last_error) from error
        self._down_since = None

    def _leave(self) -> None:
        consumer = self._consumer
        if consumer is None:
            return
        try:
            self._commit_now(consumer, None)
        finally:
            consumer.close()

    def _commit_now(self, consumer: Consumer, partitions: Sequence[Partition] | None) -> None:
        with self._lock:
            due = self._ledger.take_due(partitions)
        if not due or self._down_since is not None:
            return
        try:
            consumer.commit(offsets=_offsets(due), asynchronous=False)
        except KafkaException as error:
            _log.warning("offsets were not committed, so records will come again: %s", error)

    # librdkafka calls these, in the thread.

    def _assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with self._lock:
            self._ledger.assign(_named(partitions))
        self._has_unmuted = True

    def _revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        named = _named(partitions)
        self._commit_now(consumer, named)
        self._lost(consumer, partitions)

    def _lost(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with self._lock:
            self._ledger.revoke(_named(partitions))

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error
        if error.code() in _UNREACHABLE:
            self._last_error = error.str()
            self._down_since = self._down_since or monotonic()

    def _note_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            if error is not None or each.error is not None:
                with self._lock:
                    self._ledger.was_not_committed(Partition(each.topic, each.partition), each.offset)


class _Each(AsyncIterator[Record]):
    """A run of stages closes the iterator that it has opened; what is consumed after that must still count."""

    def __init__(self, records: KafkaRecords) -> None:
        self._records = records

    async def __anext__(self) -> Record:
        try:
            return await self._records.take()
        except EndOfStream:
            raise StopAsyncIteration from None


def _named(partitions: Sequence[TopicPartition]) -> list[Partition]:
    return [Partition(each.topic, each.partition) for each in partitions]


def _offsets(due: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in due.items()]
