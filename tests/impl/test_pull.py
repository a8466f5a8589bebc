"""Pull: a receiver of permits withholds some until its application asks for a message, or consumes one."""

import asyncio
from collections import deque
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, Permits, open_channel
from permitflow.client import RemoteSender, SameHost, get, put
from permitflow.client.blocking import open_sink, open_source
from permitflow.errors import OverspendError, WouldBlock
from permitflow.exchange import Exchange
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.stream.traffic import ChannelTraffic
from permitflow.tracing import FileTrace, read_trace
from permitflow_testing.traces import judge_all
from tests.support.served import served
from tests.support.turns import until

CHUNK = pa.record_batch({"n": [1, 2, 3]})
PULL = ChannelParameters(row_permits=8, permit_batch=2, initial_permits=0)


# The ends.


def test_withheld_permits_are_granted_once_on_request() -> None:
    receiver: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=8, initial_permits=3))
    assert (receiver.granted.rows, receiver.withheld, receiver.take_feedback()) == (3, 5, None)
    with pytest.raises(OverspendError, match="4 row permits but had only 3"):
        receiver.deliver_many(["a"], [4])
    assert receiver.ask()
    assert receiver.take_feedback() == Permits(rows=5)
    assert (receiver.granted.rows, receiver.withheld) == (8, 0)
    assert not receiver.ask()
    assert receiver.take_feedback() is None


def test_the_first_consumption_is_a_question_too() -> None:
    receiver: PermitReceiver[str] = PermitReceiver(ChannelParameters(row_permits=8, permit_batch=2, initial_permits=3))
    receiver.deliver_many(["a"], [2])
    receiver.try_receive()
    assert receiver.take_feedback() == Permits(rows=7)
    assert receiver.granted.rows == 8


def test_withheld_permits_are_no_progress_and_not_owed() -> None:
    sender: PermitSender[str] = PermitSender(ChannelParameters(row_permits=8, permit_batch=2, initial_permits=3))
    assert (sender.row_permits, sender.rows_held, sender.peak_rows_held, sender.unsettled()) == (3, 0, 0, None)
    assert (sender.sent_mark, sender.acknowledged_mark) == ((0, 0), (0, 0))
    sender.send_now([3])
    assert (sender.rows_held, sender.withheld, sender.sent_mark) == (3, 5, (3, 0))
    sender.on_feedback(Permits(rows=5))
    assert (sender.rows_held, sender.withheld, sender.acknowledged_mark) == (3, 0, (0, 0))
    sender.send_now([4])
    sender.on_feedback(Permits(rows=3))
    assert (sender.acknowledged_mark, sender.sent_mark) == ((3, 0), (7, 0))
    assert (sender.rows_held, sender.peak_rows_held, sender.unsettled()) == (4, 7, ("unreturned rows permits", 4))


# Nothing leaves before the application asks.


def inside(exchange: Exchange) -> ChannelTraffic:
    """The numbers of the channel within the exchange."""
    return exchange.statistics(["c"])[0]


async def produce(sender: RemoteSender) -> None:
    """Forty chunks, and a barrier."""
    await sender.send_many(deque([CHUNK] * 40))
    await sender.send_barrier("epoch")
    await sender.end()


@pytest.mark.parametrize("waits", [True, False])
async def test_nothing_leaves_before_the_application_asks(waits: bool) -> None:
    sender: LocalSender[pa.RecordBatch]
    receiver: LocalReceiver[pa.RecordBatch]
    sender, receiver = open_channel(PULL)
    with pytest.raises(WouldBlock, match="needs 3 row permits; 0 of 8 are unspent, and 8 are withheld until"):
        sender.send_nowait(CHUNK)
    sending = asyncio.create_task(sender.send(CHUNK))
    await asyncio.sleep(0)
    assert (sender.statistics().waiting_sends, sender.statistics().rows_held) == (1, 0)
    if not waits:
        with pytest.raises(WouldBlock, match="no message is here"):
            receiver.receive_nowait()
    assert (await receiver.receive()).payload is CHUNK
    await sending
    assert (sender.statistics().rows_held, sender.statistics().peak_rows_held) == (0, 3)


@pytest.mark.parametrize("same_host", [True, False])
async def test_nothing_leaves_an_exchange_before_the_application_asks(listen: str, same_host: bool) -> None:
    way = SameHost.REQUIRE if same_host else SameHost.NEVER
    async with (
        served("c", parameters=PULL, listen=listen) as (exchange, address),
        put(address, "c", CHUNK.schema, same_host=way) as sender,
        get(address, "c", same_host=way) as receiver,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(produce(sender))
        # What an exchange forwards it asks for by itself, so its own window fills.
        await until(lambda: inside(exchange).rows_held == 6 and sender.statistics().waiting_sends > 0)
        assert inside(exchange).rows_out == 0
        assert receiver.statistics().peak_inbox_rows == 0
        assert len([message async for message in receiver]) == 41


async def test_a_blocking_client_asks_by_itself(listen: str) -> None:
    def blocking_producer(address: str) -> None:
        with open_sink(address, "c", CHUNK.schema) as sink:
            for _ in range(50):
                sink.send(CHUNK)
            sink.end(closes_channel=True)

    def blocking_consumer(address: str) -> int:
        with open_source(address, "c") as source:
            return sum(1 for _ in source)

    async with served("c", parameters=PULL, schema=CHUNK.schema, listen=listen) as (_, address):
        consuming = asyncio.create_task(asyncio.to_thread(blocking_consumer, address))
        await asyncio.to_thread(blocking_producer, address)
        assert await consuming == 50


async def test_runs_recorded_through_an_exchange_follow_the_model(listen: str, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with FileTrace(path) as trace:
        async with (
            served("c", parameters=PULL, listen=listen, record=trace.recorder) as (_, address),
            put(address, "c", CHUNK.schema, record=trace.recorder) as sender,
            get(address, "c", record=trace.recorder) as receiver,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(produce(sender))
            assert len([message async for message in receiver]) == 41
    verdicts = list(judge_all(read_trace(path)))
    assert len(verdicts) == 3  # the producer's stream, the channel, the consumer's stream
    for verdict in verdicts:
        assert verdict.is_valid, verdict.describe()
