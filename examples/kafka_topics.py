"""A topic through an exchange into another topic: each side at the other's pace, and no record left out.

Without an address of brokers it brings its own: librdkafka's mock cluster.
"""

import asyncio
import sys

from confluent_kafka import Producer

from permitflow import ChannelParameters
from permitflow.client import get, put
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.kafka import TOPIC_SCHEMA, KafkaProducer, KafkaRecords, channel_to_topic, topic_to_channel
from permitflow.stages import Source


async def from_topic(servers: str, exchange: str) -> None:
    """From a topic into a channel, for ever."""
    group = {"bootstrap.servers": servers, "group.id": "to-the-exchange"}
    async with KafkaRecords(group, ["orders"]) as records, put(exchange, "orders", TOPIC_SCHEMA) as sender:
        await topic_to_channel(records, sender)


async def to_topic(servers: str, exchange: str) -> None:
    """From a channel into a topic, until the channel's end."""
    async with get(exchange, "orders") as receiver, KafkaProducer({"bootstrap.servers": servers}) as producer:
        await channel_to_topic(receiver, producer, "copies")


async def main(servers: str) -> None:
    """Write a thousand orders, copy them, and read the copies."""
    async with KafkaProducer({"bootstrap.servers": servers}) as producer:
        await producer.write(Source(range(1_000)), "orders", value=str, key=lambda number: str(number % 7))
    exchange = Exchange()
    exchange.add_channel("orders", ChannelParameters(row_permits=64))
    async with ExchangeServer(exchange, "127.0.0.1:0") as server:
        copying = [asyncio.create_task(copy(servers, server.address)) for copy in (from_topic, to_topic)]
        async with KafkaRecords({"bootstrap.servers": servers, "group.id": "sum"}, ["copies"]) as records:
            total = 0
            async for record in Source(records).take(1_000):
                total += int(record.value or b"")
                records.consumed(record)
        for task in copying:
            task.cancel()
        await asyncio.wait(copying)
    print(f"1,000 orders, sum {total:,}")


if len(sys.argv) > 1:
    asyncio.run(main(sys.argv[1]))
else:
    # The cluster lives as long as this client of it, and makes a topic when it is asked for it.
    mock = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
    known = [mock.list_topics(topic, timeout=10) for topic in ("orders", "copies")]
    asyncio.run(main(",".join(f"{broker.host}:{broker.port}" for broker in known[0].brokers.values())))
