"""From a topic into a channel, and from a channel into a topic: at least once, each side at the other's pace."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from operator import itemgetter
from typing import NoReturn, Protocol

import pyarrow as pa

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.errors import EndOfStream, InvalidParametersError
from permitflow.flows.messages import Kind, Message
from permitflow.kafka.consuming import KafkaRecords
from permitflow.kafka.ledger import Record
from permitflow.kafka.producing import KafkaProducer, Value
from permitflow.kafka.watched import watched

TOPIC_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
    ]
)
"""The columns of a record, as Spark's Kafka source names them."""

_MOST_ROWS = 1_000
_LOOK_SECONDS = 0.1


class _Sender(SendEnd[pa.RecordBatch], Protocol):
    @property
    def sent_mark(self) -> tuple[int, ...] | None: ...

    @property
    def acknowledged_mark(self) -> tuple[int, ...]: ...


async def topic_to_channel(
    records: KafkaRecords,
    sender: _Sender,
    *,
    to_batch: Callable[[Sequence[Record]], pa.RecordBatch] | None = None,
    most_rows: int = _MOST_ROWS,
) -> None:
    """Send the records of topics into a channel of an exchange, until cancelled or closed::

        async with KafkaRecords(config, ["orders"]) as records, put(address, "orders", TOPIC_SCHEMA) as sender:
            await topic_to_channel(records, sender)

    A record is consumed, and its offset may be committed, when the exchange has acknowledged its row: of a channel that
    keeps its rows, when the row is stored.  A channel without room mutes the topic's partitions.

    Args:
        records: in their context.
        sender: as ``put`` opens it; its flow must tell what was consumed, as permits do.
        to_batch: makes a batch of some records; by default, with the columns of ``TOPIC_SCHEMA``.
        most_rows: of a batch.

    Raises:
        InvalidParametersError: the channel's flow does not tell what was consumed.
        PermitflowError: as ``KafkaRecords`` and ``SendEnd.send``.
    """
    unacknowledged: deque[tuple[tuple[int, ...], Sequence[Record]]] = deque()
    if sender.sent_mark is None:
        rule = "must be the sender of a flow that tells what was consumed, such as permits"
        raise InvalidParametersError(name="sender", value=sender.name, rule=rule)

    def look() -> None:
        known = sender.acknowledged_mark
        while unacknowledged and all(sent <= here for sent, here in zip(unacknowledged[0][0], known, strict=True)):
            records.consumed(*unacknowledged.popleft()[1])

    async def watching() -> NoReturn:
        refused = asyncio.create_task(sender.until_refused())
        try:
            while not refused.done():
                await asyncio.wait([refused], timeout=_LOOK_SECONDS)
                look()
            raise refused.result()
        finally:
            refused.cancel()

    async def sending() -> None:
        while True:
            try:
                taken = await records.take_many(most_rows)
            except EndOfStream:
                return
            await sender.send((to_batch or batch_of)(taken))
            mark = sender.sent_mark
            assert mark is not None  # as before
            unacknowledged.append((mark, taken))
            look()

    # A topic that has nothing to give must not hide that the channel is gone.
    await watched(sending(), watching())


async def channel_to_topic(
    receiver: ReceiveEnd[pa.RecordBatch],
    producer: KafkaProducer,
    topic: str,
    *,
    key: str | None = "key",
    value: str = "value",
) -> int:
    """Write the rows of a channel into a topic, until the channel's end; return how many::

        async with get(address, "orders") as receiver, KafkaProducer(config) as producer:
            await channel_to_topic(receiver, producer, "orders")

    A chunk is consumed, and its permits return, when the brokers have its rows.  So a topic that stands still stops the
    channel's producer.  A channel that keeps its rows forgets none before ``acknowledge`` says so.

    Args:
        receiver: as ``get`` opens it; barriers and watermarks are consumed, and leave nothing in the topic.
        producer: in its context.
        topic: where to.
        key: the column of keys, of bytes or text; None: records have none.
        value: the column of values, of bytes or text.

    Raises:
        InvalidParametersError: a chunk has no such column.
        PermitflowError: as ``ReceiveEnd.take`` and ``KafkaProducer.send``.
    """
    unwritten: deque[int] = deque()
    """Rows of each taken message that the brokers do not have yet."""

    def settle() -> None:
        while unwritten and unwritten[0] == 0:
            unwritten.popleft()
            receiver.consume()

    def written(_row: object) -> None:
        unwritten[0] -= 1
        settle()

    async def rows() -> AsyncIterator[tuple[Value, Value]]:
        while True:
            try:
                message = await receiver.take()
            except EndOfStream:
                return
            pairs = _pairs(message, key, value)
            unwritten.append(len(pairs))
            settle()
            for pair in pairs:
                yield pair

    return await producer.write(rows(), topic, value=itemgetter(1), key=itemgetter(0), when_written=written)


def batch_of(records: Sequence[Record]) -> pa.RecordBatch:
    """These records, with the columns of ``TOPIC_SCHEMA``."""
    columns = {
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "topic": [record.topic for record in records],
        "partition": [record.partition for record in records],
        "offset": [record.offset for record in records],
        "timestamp": [None if record.timestamp_ms < 0 else record.timestamp_ms for record in records],
    }
    return pa.record_batch(columns, schema=TOPIC_SCHEMA)


def _pairs(message: Message[pa.RecordBatch], key: str | None, value: str) -> list[tuple[Value, Value]]:
    if message.kind is not Kind.CHUNK:
        return []
    batch = message.payload
    for name, column in (("key", key), ("value", value)):
        if column is not None and column not in batch.schema.names:
            rule = f"must be one of the columns {', '.join(batch.schema.names)}"
            raise InvalidParametersError(name=name, value=column, rule=rule)
    values = batch.column(value).to_pylist()
    keys = [None] * len(values) if key is None else batch.column(key).to_pylist()
    return list(zip(keys, values, strict=True))
