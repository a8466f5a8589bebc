"""Topics as sources and sinks, against librdkafka's mock cluster: at least once, at the consumer's pace."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.client import get, put
from permitflow.errors import (
    AsyncFunctionError,
    BrokersUnreachableError,
    ChannelCancelledError,
    InvalidParametersError,
    KafkaRefusedError,
    LocalProtocolError,
    PoisonRecordError,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.kafka import (
    TOPIC_SCHEMA,
    KafkaProducer,
    KafkaRecords,
    Record,
    RecordPlace,
    channel_to_topic,
    topic_to_channel,
)
from permitflow.stages import Source, async_callback
from tests.support.kafka_cluster import KafkaCluster, kafka_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with kafka_cluster() as started:
        yield started


@pytest.fixture
def topic(cluster: KafkaCluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    cluster.add_topic(name, 2)
    return name


def config(cluster: KafkaCluster) -> dict[str, object]:
    return {"bootstrap.servers": cluster.servers}


def reading(cluster: KafkaCluster, topic: str, **options: Any) -> KafkaRecords:
    """A reader whose group has the topic's name."""
    quickly = {"group.id": topic, "session.timeout.ms": 2_500, "heartbeat.interval.ms": 200}
    return KafkaRecords(config(cluster) | quickly, [topic], **options)


async def write(cluster: KafkaCluster, topic: str, numbers: range) -> None:
    async with KafkaProducer(config(cluster)) as producer:
        await producer.write(Source(numbers), topic, value=str, key=str)


async def read(records: KafkaRecords, count: int) -> list[int]:
    """Read and consume so many."""
    found = []
    async for record in Source(records).take(count):
        found.append(int(record.value or b""))
        records.consumed(record)
    return found


async def test_each_record_comes_once_in_the_order_of_its_partition(cluster: KafkaCluster, topic: str) -> None:
    await write(cluster, topic, range(300))
    async with reading(cluster, topic, window=20) as records:
        places, numbers = [], []
        async for record in Source(records).take(300):
            places.append(record.place)
            numbers.append(int(record.value or b""))
            records.consumed(record)
    assert sorted(numbers) == list(range(300))
    for partition in (0, 1):
        offsets = [place.offset for place in places if place.partition == partition]
        assert offsets == list(range(len(offsets)))


async def test_only_what_was_consumed_is_committed(cluster: KafkaCluster, topic: str) -> None:
    await write(cluster, topic, range(20))
    async with reading(cluster, topic) as records:
        taken = [record async for record in Source(records).take(20)]
        done = [record for record in taken if record.offset < 5]
        for record in done:
            records.consumed(record)
    async with reading(cluster, topic) as records:
        assert sorted(await read(records, 20 - len(done))) == sorted(
            int(record.value or b"") for record in taken if record not in done
        )


async def test_stages_that_stand_still_mute_the_partitions(cluster: KafkaCluster, topic: str) -> None:
    await write(cluster, topic, range(100))
    async with reading(cluster, topic, window=10) as records:
        taken = [record async for record in Source(records).take(10)]
        while not records.is_muted:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await records.take()
        assert records.out == 10
        for record in taken:
            records.consumed(record)
        rest = await read(records, 90)
        assert not records.is_muted
    assert sorted([*(int(record.value or b"") for record in taken), *rest]) == list(range(100))


async def test_a_rebalance_leaves_no_record_out(cluster: KafkaCluster, topic: str) -> None:
    await write(cluster, topic, range(60))
    found: dict[KafkaRecords, set[int]] = {}
    are_all = asyncio.Event()

    async def share(records: KafkaRecords) -> None:
        async for record in records:
            found[records].add(int(record.value or b""))
            records.consumed(record)
            if len(set().union(*found.values())) == 200 and all(found.values()):
                are_all.set()

    async with reading(cluster, topic) as first:
        found[first] = {*await read(first, 60)}
        async with reading(cluster, topic) as second:
            found[second] = set()
            tasks = [asyncio.create_task(share(records)) for records in found]
            await write(cluster, topic, range(60, 200))
            await are_all.wait()
    await asyncio.gather(*tasks)


async def test_poison_fails_the_stream_behind_the_records_before_it(cluster: KafkaCluster, topic: str) -> None:
    async with KafkaProducer(config(cluster)) as producer:
        for value in ("1", "2", "x", "4"):
            await producer.send(topic, value, partition=0)
    async with reading(cluster, topic, decode=lambda record: int(record.value)) as records:
        taken = [await records.take(), await records.take()]
        with pytest.raises(PoisonRecordError, match=f"offset 2 of {topic}/0 cannot be decoded: ValueError"):
            await records.take()
        for record in taken:
            records.consumed(record)
    poison: list[Record] = []
    noted = lambda record, _: poison.append(record)  # noqa: E731
    async with reading(cluster, topic, decode=lambda record: int(record.value), when_poisoned=noted) as records:
        record = await records.take()
        records.consumed(record)
    assert ([each.place for each in poison], record.content) == ([RecordPlace(topic, 0, 2)], 4)
    await write(cluster, topic, range(5, 6))
    async with reading(cluster, topic) as records:
        assert await read(records, 1) == [5]


async def test_a_full_buffer_makes_the_producer_wait(topic: str) -> None:
    with kafka_cluster() as cluster:
        cluster.add_topic(topic, 1)
        async with KafkaProducer(config(cluster) | {"reconnect.backoff.max.ms": 100}, window=3) as producer:
            await (await producer.send(topic, b"0"))
            cluster.stop()
            sent = [await producer.send(topic, str(number)) for number in range(3)]
            waiting = asyncio.create_task(producer.send(topic, b"3"))
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            assert (done, producer.out) == (set(), 3)
            cluster.start()
            places = [await each for each in [*sent, await waiting]]
        assert [place.offset for place in places] == [1, 2, 3, 4]


async def test_a_record_that_is_not_delivered_in_time_fails_the_producer(topic: str) -> None:
    with kafka_cluster() as cluster:
        cluster.stop()
        impatient = config(cluster) | {"message.timeout.ms": 100, "enable.idempotence": False}
        with pytest.raises(KafkaRefusedError, match=f"at '{topic}': Local: Message timed out"):
            async with KafkaProducer(impatient) as producer:
                await producer.write(Source(range(3)), topic, value=str)


@pytest.mark.long
async def test_brokers_may_be_gone_for_a_while_and_not_for_ever(topic: str) -> None:
    with kafka_cluster() as cluster:
        cluster.add_topic(topic, 2)
        await write(cluster, topic, range(10))
        quick = {"unreachable_seconds": 0.5}
        async with reading(cluster, topic, **quick) as records:
            assert sorted(await read(records, 10)) == list(range(10))
            cluster.stop()
            with pytest.raises(BrokersUnreachableError, match=r"for 0\.5 s: .*brokers are down"):
                await records.take()
        cluster.start()
        await write(cluster, topic, range(10, 20))
        async with reading(cluster, topic) as records:
            found = await read(records, 10)
            while not set(range(10, 20)) <= set(found):  # what was not committed comes again
                found += await read(records, 1)


@pytest.mark.parametrize(
    ("given", "topics", "options", "told"),
    [
        ({}, ["t"], {}, "bootstrap.servers.* must be given"),
        ({"bootstrap.servers": "x"}, ["t"], {}, "group.id.* must be given"),
        (
            {"bootstrap.servers": "x", "group.id": "g", "enable.auto.commit": True},
            ["t"],
            {},
            "enable.auto.commit.* must be left out: offsets are committed when",
        ),
        ({"bootstrap.servers": "x", "group.id": "g"}, "orders", {}, "topics must be a list of at least one name"),
        ({"group.id": "g"}, ["t"], {"window": 0}, "window must be at least 1"),
    ],
)
def test_wrong_use_is_refused(given: dict[str, object], topics: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidParametersError, match=told):
        KafkaRecords(given, topics, **options)


@pytest.mark.parametrize("name", ["value", "key", "when_written"])
async def test_a_sink_refuses_functions_that_must_be_awaited(name: str) -> None:
    async def later(_: int) -> bytes:
        raise AssertionError

    functions: dict[str, Any] = {"value": str, name: later}
    with pytest.raises(AsyncFunctionError, match=rf"write\({name}\)"):
        await KafkaProducer({"bootstrap.servers": "nowhere:1"}).write(Source([1]), "t", **functions)


async def test_what_librdkafka_refuses_is_told() -> None:
    with pytest.raises(KafkaRefusedError, match="nonsense"):
        async with KafkaProducer({"bootstrap.servers": "x", "nonsense": 1}):
            pass
    records = KafkaRecords({"bootstrap.servers": "x", "group.id": "g"}, ["t"])
    with pytest.raises(LocalProtocolError, match="enter the context first"):
        await records.take()


async def test_rows_go_through_an_exchange_from_topic_to_topic(cluster: KafkaCluster, topic: str) -> None:
    cluster.add_topic("copy", 1)
    await write(cluster, topic, range(100))
    exchange = Exchange()
    exchange.add_channel("orders", ChannelParameters(row_permits=16, permit_batch=4), TOPIC_SCHEMA)
    async with (
        ExchangeServer(exchange, "tcp://127.0.0.1:0") as server,
        reading(cluster, topic, window=24) as records,
        put(server.address, "orders", TOPIC_SCHEMA) as sender,
        get(server.address, "orders") as receiver,
        KafkaProducer(config(cluster)) as producer,
    ):
        coming = asyncio.create_task(topic_to_channel(records, sender, most_rows=10))
        going = asyncio.create_task(channel_to_topic(receiver, producer, "copy"))
        async with reading(cluster, "copy") as copies:
            found = [await copies.take() for _ in range(100)]
        await records.aclose()
        await coming
        await sender.end()
        assert await going == 100
    assert sorted(int(record.value or b"") for record in found) == list(range(100))
    assert {record.key for record in found} == {str(number).encode() for number in range(100)}


@pytest.mark.long
async def test_a_chunk_without_the_column_is_refused(cluster: KafkaCluster, topic: str) -> None:
    sender: LocalSender[pa.RecordBatch]
    receiver: LocalReceiver[pa.RecordBatch]
    sender, receiver = open_channel(ChannelParameters(row_permits=8))
    await sender.send(pa.record_batch({"n": [1]}))
    async with KafkaProducer(config(cluster)) as producer:
        with pytest.raises(InvalidParametersError, match="key must be one of the columns n, not 'key'"):
            await channel_to_topic(receiver, producer, topic)


async def test_a_sink_whose_source_has_nothing_to_give_fails_at_once(topic: str) -> None:
    async def write_into(cluster: KafkaCluster) -> None:
        source: Source[int]
        source, offers = async_callback(4)
        impatient = config(cluster) | {"message.timeout.ms": 100, "enable.idempotence": False}
        async with KafkaProducer(impatient) as producer:
            await (await producer.send(topic, b"0"))
            cluster.stop()
            offers.offer(1)
            await producer.write(source, topic, value=str)

    with kafka_cluster() as cluster:
        cluster.add_topic(topic, 1)
        with pytest.raises(KafkaRefusedError, match="timed out"):
            await write_into(cluster)


async def test_an_error_of_a_users_function_fails_the_sink(cluster: KafkaCluster, topic: str) -> None:
    def fail(_: int) -> None:
        raise ZeroDivisionError

    async with KafkaProducer(config(cluster)) as producer:
        with pytest.raises(ZeroDivisionError):
            await producer.write(Source(range(3)), topic, value=str, when_written=fail)
        with pytest.raises(ZeroDivisionError):
            await producer.write(Source(range(3)), topic, value=lambda number: str(1 // number))


@pytest.mark.long
async def test_a_quiet_topic_does_not_hide_that_the_channel_is_gone(cluster: KafkaCluster, topic: str) -> None:
    exchange = Exchange()
    exchange.add_channel("orders", ChannelParameters(row_permits=16), TOPIC_SCHEMA)
    async with (
        ExchangeServer(exchange, "tcp://127.0.0.1:0") as server,
        reading(cluster, topic) as records,
        put(server.address, "orders", TOPIC_SCHEMA) as sender,
        get(server.address, "orders") as receiver,
    ):
        await receiver.cancel("enough")
        with pytest.raises(ChannelCancelledError, match="enough"):
            await topic_to_channel(records, sender)
