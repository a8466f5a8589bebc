"""A connection is cut between a client and the exchange: what becomes of the rows, at both ends."""

import asyncio

import pytest

from permitflow import ChannelParameters
from permitflow.client import SameHost, get, put
from permitflow.errors import ChannelAbortedError, PeerGoneError
from tests.support.cutting_proxy import Cut, Direction, cutting
from tests.support.number_streams import SCHEMA, everything, send_for_ever
from tests.support.served import served

LISTEN = {"gRPC": "127.0.0.1:0", "TCP": "tcp://127.0.0.1:0"}
WINDOW = ChannelParameters(row_permits=64)


@pytest.fixture(params=LISTEN)
def listen(request: pytest.FixtureRequest) -> str:
    return LISTEN[request.param]


@pytest.mark.parametrize("direction", Direction)
async def test_a_producer_that_does_not_resume_is_told_of_a_cut(listen: str, direction: Direction) -> None:
    async with (
        served("n", parameters=WINDOW, schema=SCHEMA, listen=listen) as (_, address),
        cutting(address, [Cut(2_000, direction)]) as way,
        asyncio.timeout(20),
        get(address, "n", same_host=SameHost.NEVER) as receiver,
    ):
        reading = asyncio.create_task(everything(receiver))
        with pytest.raises(PeerGoneError):
            async with put(way.address, "n", SCHEMA, same_host=SameHost.NEVER) as sender:
                await send_for_ever(sender)
        with pytest.raises(ChannelAbortedError):
            await reading
        assert way.cuts == 1
