"""Every carrier of the network spares its users turns of the event loop: after the agreement, tasks only wait."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pyarrow as pa
import pytest

from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer, ServerCall
from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports.carrier import Buffer, Rest
from permitflow.transports.client_call import ClientCall
from permitflow.transports.grpc_aio import SameHost, get, put
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.tcp import TcpStream

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
CHUNK = pa.record_batch({"n": pa.array(range(100))})


@pytest.mark.parametrize(
    ("address", "carriers"),
    [("127.0.0.1:0", {ClientCall, ServerCall}), ("tcp://127.0.0.1:0", {TcpStream})],
    ids=["gRPC", "TCP"],
)
def test_what_comes_up_is_written_where_it_comes_up(
    complete: Complete, monkeypatch: pytest.MonkeyPatch, address: str, carriers: set[type]
) -> None:
    written_at_once: set[type] = set()
    for carrier in (ClientCall, ServerCall, TcpStream):

        def note(self: Any, message: Sequence[Buffer], write_now: Any = carrier.write_now) -> Rest | None:
            written_at_once.add(type(self))
            rest: Rest | None = write_now(self, message)
            return rest

        monkeypatch.setattr(carrier, "write_now", note)

    async def test() -> None:
        exchange = Exchange(same_host=SameHost.NEVER)
        exchange.add_channel("orders", ChannelParameters(row_permits=200))
        async with (
            ExchangeServer(exchange, address) as server,
            put(server.address, "orders", CHUNK.schema) as sender,
            get(server.address, "orders") as receiver,
            asyncio.TaskGroup() as group,
        ):
            # Neither the agreement nor the end tells: many messages, of which each one waits for permits.
            group.create_task(send_all(sender))
            assert [message.rows async for message in receiver] == [100] * 10

    async def send_all(sender: RemoteSender) -> None:
        for _ in range(10):
            await sender.send(CHUNK)
        await sender.end()

    complete(test())
    assert written_at_once == carriers
