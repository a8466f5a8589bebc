"""Pull: a receiver of permits withholds some until its application asks for a message, or consumes one."""

import asyncio
from collections import deque

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, LocalReceiver, LocalSender, Permits, open_channel
from permitflow.client import RemoteSender, SameHost, get, put
from permitflow.errors import WouldBlock
from permitflow.exchange import Exchange
from permitflow.flows.permits.core import PermitReceiver, PermitSender
from permitflow.stream.traffic import ChannelTraffic
from tests.support.served import served
from tests.support.turns import until

CHUNK = pa.record_batch({"n": [1, 2, 3]})
PULL = ChannelParameters(row_permits=8, permit_batch=2, initial_permits=0)


# The ends.


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
