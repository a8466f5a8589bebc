"""What cannot be staged or published is refused over both carriers, and troubles nobody else."""

import pytest

from permitflow.errors import (
    ChannelClosedError,
    InvalidParametersError,
    RetentionError,
    StagedPartError,
    StagingFullError,
    UnknownChannelError,
)
from permitflow.protocol.control import ChannelState, StagedPart
from permitflow.transports.grpc_aio import control
from tests.support.staging_world import STAGING_ROWS, world


@pytest.fixture(params=["127.0.0.1:0", "tcp://127.0.0.1:0"], ids=["gRPC", "TCP"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_batch_that_cannot_fit_fails_its_writer_and_nobody_else(address: str) -> None:
    async with world(address) as here:
        small = await here.stage([1])
        with pytest.raises(StagingFullError, match="staging_rows of the exchange larger") as caught:
            await here.stage([*range(100)], 1)
        assert (caught.value.channel, caught.value.limit_rows) == ("a", STAGING_ROWS)
        await here.until(lambda staged: not staged.open_attempts)
        assert not await here.publish(small)
        assert await here.read(1) == [1]


async def test_what_is_discarded_cannot_be_published_and_what_is_published_stays(address: str) -> None:
    async with world(address) as here, control(here.address) as orders:
        published = await here.stage([1])
        assert not await here.publish(published)
        part = await here.stage([2, 3], batch=1)
        assert (await orders.discard("q", 0, [published])).rows == 0
        assert (await orders.discard("q", 1, [])).rows == 0, "no attempt is named"
        assert (await orders.discard("q", 1, [part])).rows == 2
        with pytest.raises(StagedPartError):
            await here.publish(part, batch=1)
        assert await here.read(1) == [1]


async def test_a_channel_that_is_closed_ends_behind_all_that_was_published(address: str) -> None:
    async with world(address) as here, control(here.address) as orders:
        assert not await here.publish(await here.stage([*range(16)]))
        (position,) = await orders.close_channels(["a"])
        assert (position.state, position.next_row) == (ChannelState.ENDED, 16)
        late = StagedPart("b", 0, "x", 0)
        with pytest.raises(ChannelClosedError):
            await here.stage([1], batch=1)
        numbers: list[int] = []
        async for batch in here.exchange.replay_channel("a").read():
            numbers += batch.column(0).to_pylist()
            await here.exchange.replay_channel("a").acknowledge(len(numbers))
        assert numbers == [*range(16)]
        assert await here.publish(late), "it was, and the channel was open then"
        again = await here.stage([*range(16)], attempt="again")
        assert await here.publish(again), "a driver that runs the last batch again need not know that it was"


async def test_a_batch_is_not_published_into_a_channel_that_has_ended(address: str) -> None:
    async with world(address) as here, control(here.address) as orders:
        parts = [await here.stage([1], 0, channel="a"), await here.stage([2], 1, channel="b")]
        await orders.close_channels(["b"])
        with pytest.raises(ChannelClosedError):
            await here.publish(*parts)
        assert here.next_row("a") == 0


async def test_what_is_refused_is_said(address: str) -> None:
    async with world(address) as here:
        here.exchange.add_channel("once")
        with pytest.raises(RetentionError):
            await here.stage([1], channel="once")
        with pytest.raises(UnknownChannelError):
            await here.publish(StagedPart("nowhere", 0, "x", 1))
        with pytest.raises(InvalidParametersError, match="attempt"):
            await here.stage([1], attempt="")
        async with here.attempt(attempt="y"):
            with pytest.raises(StagedPartError, match="has begun before"):
                await here.stage([1], attempt="y")
        here.exchange.remove_channel("once")
