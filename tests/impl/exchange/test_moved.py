"""A channel that another process of the exchange has: a client that asks elsewhere is told where, and goes there."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import NoReturn

import pyarrow as pa
import pytest

from permitflow.carriers.addresses import parsed
from permitflow.client import TaskAttempt, control, describe, get, put
from permitflow.errors import (
    ChannelAbortedError,
    ChannelResetError,
    InvalidParametersError,
    MovedError,
    PermitflowError,
    UnknownChannelError,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.exchange.access import Access
from permitflow.stream.control import ControlRequest

BATCH = pa.record_batch({"x": [1, 2, 3]})


class At:
    """Everything is at this port, or all that is known."""

    port = 0

    def __init__(self) -> None:
        self.known: Collection[str] = ()

    def missing(self, channel: str) -> PermitflowError:
        if self.known and channel not in self.known:
            return UnknownChannelError(channel=channel, known=tuple(self.known))
        return MovedError(what=f"channel {channel!r}", port=self.port)

    async def carry_out(self, request: ControlRequest, access: Access) -> NoReturn:
        raise MovedError(what="the administration", port=self.port)


@asynccontextmanager
async def two_servers(scheme: str, *channels: str) -> AsyncIterator[tuple[str, str]]:
    """The addresses of a door, and of a process with channels that sends everybody else back to the door."""
    door, process = At(), At()
    exchange = Exchange(elsewhere=process)
    exchange.add_channels(channels)
    async with (
        ExchangeServer(Exchange(elsewhere=door), f"{scheme}127.0.0.1:0") as outside,
        ExchangeServer(exchange, f"{scheme}127.0.0.1:0") as inside,
    ):
        door.known = channels
        door.port, process.port = parsed(inside.address).port, parsed(outside.address).port
        yield outside.address, inside.address


@pytest.mark.parametrize("scheme", ["", "tcp://", "udp://"])
@pytest.mark.parametrize("resume_seconds", [0.0, 5.0], ids=["plain", "resumable"])
async def test_clients_go_where_the_channel_is(scheme: str, resume_seconds: float) -> None:
    async with (
        two_servers(scheme, "orders") as (door, _),
        put(door, "orders", BATCH.schema, resume_seconds=resume_seconds) as sender,
    ):
        await sender.send(BATCH)
        assert (await describe(door, "orders")).schema == BATCH.schema
        async with get(door, "orders", resume_seconds=resume_seconds) as receiver, asyncio.TaskGroup() as group:
            group.create_task(sender.end(closes_channel=True))
            assert [message.rows async for message in receiver] == [3]


async def test_the_door_knows_all_channels_of_a_stream() -> None:
    async with two_servers("tcp://", "orders/0", "orders/1") as (door, _):
        with pytest.raises(InvalidParametersError, match="must be at least 2, because the exchange has orders/1"):
            await put(door, "orders/0", BATCH.schema, spread_over=1).__aenter__()
        async with put(door, "orders/0", BATCH.schema, spread_over=2) as sender:
            await sender.end()


async def test_the_door_knows_which_of_a_jobs_channels_lack() -> None:
    async with two_servers("tcp://", "orders", "payments") as (door, _):
        with pytest.raises(UnknownChannelError, match="nowhere"):
            await put(door, "orders", BATCH.schema, job_channels=["payments", "nowhere"]).__aenter__()
        async with put(door, "orders", BATCH.schema, job_channels=["payments"]) as sender:
            await sender.end()


async def test_a_failed_job_breaks_channels_of_processes_with_its_rows() -> None:
    """The door does not know which these are; that the exchange lacks a channel of the job is no reason."""
    async with two_servers("tcp://", "orders", "payments") as (door, _):
        async with put(door, "orders", BATCH.schema, attempt=TaskAttempt("job", 0, 1)) as sender:
            await sender.end(closes_channel=False)
        for channel, refusal in (("orders", ChannelAbortedError), ("payments", ChannelResetError)):
            with pytest.raises(refusal):
                await failing(door, channel)
        async with put(door, "payments", BATCH.schema) as sender:
            await sender.end()


async def failing(door: str, channel: str) -> None:
    async with put(door, channel, BATCH.schema, failed_job="job", job_channels=["lacking"]) as sender:
        sender.abort("it has failed")
    await put(door, channel, BATCH.schema).__aenter__()


async def test_processes_that_name_each_other_are_followed_a_few_times() -> None:
    async with two_servers("tcp://") as (door, _):
        with pytest.raises(MovedError, match="channel 'none' is served at port"):
            await describe(door, "none")


async def test_a_process_that_is_not_the_door_takes_no_orders() -> None:
    async with two_servers("tcp://", "orders") as (door, process):
        async with control(process) as orders:
            with pytest.raises(MovedError) as caught:
                await orders.statistics()
        assert caught.value.port == parsed(door).port
