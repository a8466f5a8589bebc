"""What the ends of a remote channel report about themselves while they wait, and after they were closed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from permitflow.transports.grpc_aio import get, put
from tests.support.number_streams import SCHEMA, batch, serving, until

Complete = Callable[[Coroutine[Any, Any, Any]], Any]


async def test_a_barrier_that_waits_is_a_send_that_waits() -> None:
    async with serving() as (_, server), put(server.address, "orders/0", SCHEMA) as sender:
        # One is in the channel, one on its way into it, and the others have no permit.
        sends = [asyncio.create_task(sender.send_barrier(str(number))) for number in range(4)]
        await until(lambda: sum(send.done() for send in sends) == 2)
        assert sender.statistics().waiting_sends == 2
        sender.abort("enough")
        await asyncio.gather(*sends, return_exceptions=True)


async def test_peaks_outlive_the_ends() -> None:
    async with (
        serving() as (_, server),
        put(server.address, "orders/0", SCHEMA) as sender,
        get(server.address, "orders/0") as receiver,
    ):
        await sender.send(batch(1, 2, 3))
        await until(lambda: receiver.statistics().inbox_rows == 3)
        sender.abort("enough")
    assert receiver.statistics().inbox_rows == 0
    assert receiver.statistics().peak_inbox_rows == sender.statistics().peak_rows_held == 3
