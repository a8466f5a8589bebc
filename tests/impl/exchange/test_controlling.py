"""Orders about many channels are written at once; where the store fails, each channel is done as a whole, or not."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import RowsNotThereError, StoreWriteError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.serving import carry_out
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.protocol.control import Acknowledge, ChannelRow, ChannelState, Close, ControlRequest
from permitflow.protocol.replay import Retention

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

NAMES = tuple(f"orders/{number}" for number in range(50))
CHUNK = pa.record_batch({"n": pa.array(range(8), pa.int64())})
ORDERS: list[ControlRequest] = [Acknowledge(tuple(ChannelRow(name, 5) for name in NAMES)), Close(NAMES)]


async def filled(store: SqliteStore | None = None) -> Exchange:
    """An exchange whose channels have rows."""
    exchange = Exchange(store=store)
    for channel in exchange.add_channels(NAMES, retention=Retention.REPLAY):
        await exchange.replay_channel(channel.name).append(CHUNK)
    return exchange


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_an_order_about_many_channels_shares_a_flush(complete: Complete, tmp_path: Path, order: ControlRequest) -> None:
    async def test() -> int:
        with SqliteStore(tmp_path) as store:
            exchange = await filled(store)
            before, may_go_on = store.commits, threading.Event()
            store._database.post(lambda _: may_go_on.wait(60))  # as a disk that is busy
            async with asyncio.TaskGroup() as group:
                group.create_task(carry_out(exchange, order))
                for _ in range(10):
                    await asyncio.sleep(0)
                may_go_on.set()
            return store.commits - before

    # That for which the disk was busy, and one for all channels.
    assert complete(test()) <= 2


async def test_an_acknowledgement_of_a_row_that_is_not_there_acknowledges_none_of_the_others() -> None:
    exchange = await filled()
    with pytest.raises(RowsNotThereError):
        await carry_out(exchange, Acknowledge((ChannelRow(NAMES[0], 5), ChannelRow(NAMES[1], 9))))
    assert exchange.replay_channel(NAMES[0]).position().acknowledged_row == 0


async def test_where_the_store_fails_each_channel_is_acknowledged_or_not_and_the_order_may_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> None:
        raise StoreWriteError(path="here", reason="database or disk is full")

    exchange = await filled()
    channels = [exchange.replay_channel(name) for name in NAMES]
    with monkeypatch.context() as patch:
        patch.setattr(channels[3].log.store, "acknowledge", fail)
        with pytest.raises(StoreWriteError, match="disk is full"):
            await carry_out(exchange, ORDERS[0])
    stand = [channel.position().acknowledged_row for channel in channels]
    assert stand == [0 if number == 3 else 5 for number in range(len(NAMES))]
    await carry_out(exchange, ORDERS[0])
    assert [channel.position().acknowledged_row for channel in channels] == [5] * len(NAMES)


def test_an_order_that_is_given_up_is_carried_out_as_a_whole(complete: Complete, tmp_path: Path) -> None:
    async def test() -> set[ChannelState]:
        with SqliteStore(tmp_path) as store:
            exchange = await filled(store)
            may_go_on = threading.Event()
            store._database.post(lambda _: may_go_on.wait(60))
            closing = asyncio.create_task(carry_out(exchange, Close(NAMES)))
            for _ in range(10):
                await asyncio.sleep(0)
            closing.cancel()
            may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await closing
            return {exchange.replay_channel(name).log.state for name in NAMES}

    assert complete(test()) == {ChannelState.ENDED}
