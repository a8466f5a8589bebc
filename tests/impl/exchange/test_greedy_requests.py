"""Peers that ask for too much at once, or under names that are books: they are refused, and nobody else waits."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import InvalidParametersError, PermitflowError, UndecodableDataError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.serving import carry_out
from permitflow.protocol.control import (
    Acknowledge,
    AskPositions,
    AskStatistics,
    ChannelPosition,
    ChannelRow,
    ChannelState,
    Close,
    ControlRequest,
    Positions,
    Publish,
    StagedPart,
)
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import ReplayBooks, Retention
from permitflow.protocol.staging import StagingBooks
from permitflow.transports.connection import CONTROL
from permitflow.transports.control_codec import encode_reply, encode_request
from permitflow.transports.grpc_aio import control, get, put
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.support.kept_rows import refused
from tests.support.peers_by_hand import dialling

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

SCHEMA = pa.schema([("n", pa.int64())])
BOOK = "n" * 201
ITEMS = 1_200_000
"""So many empty names or parts are 2.4 MB."""


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Exchange, str]]:
    """An exchange with a channel of each kind; whatever is asked, it still answers somebody else."""
    exchange = Exchange()
    exchange.add_channel("kept", schema=SCHEMA, retention=Retention.REPLAY)
    exchange.add_channel("once", schema=SCHEMA)
    async with ExchangeServer(exchange) as server:
        yield exchange, server.address
        async with control(server.address) as orders:
            assert [stands.channel for stands in await orders.positions(["kept"])] == ["kept"]


async def answer(address: str, message: bytes) -> PermitflowError:
    """How the exchange refuses a message of the Control method."""
    async with dialling(address, CONTROL) as call:
        await call.write([message])
        return await refused(call.read())


@pytest.mark.parametrize(
    "request_",
    [
        AskPositions(("kept",) * 2_000),
        Acknowledge((ChannelRow("kept", 0),) * 2_000),
        Close(("kept",) * 2_000),
        AskStatistics(("once", "kept", "once")),
    ],
    ids=lambda request: type(request).__name__,
)
async def test_a_request_that_names_a_channel_twice_is_refused_and_changes_nothing(request_: ControlRequest) -> None:
    async with serving() as (exchange, address):
        error = await answer(address, encode_request(request_))
        assert isinstance(error, InvalidParametersError)
        assert "channels must not name one twice" in str(error)
        assert exchange.replay_channel("kept").log.state is ChannelState.OPEN


@pytest.mark.parametrize(
    ("method", "field"),
    [("positions", 2), ("acknowledge", 2), ("publish", 3), ("discard", 3), ("close", 2), ("statistics", 1)],
)
def test_a_request_of_a_million_items_is_refused_without_a_look_at_them(
    complete: Complete, method: str, field: int
) -> None:
    request = pb.ControlRequest()
    getattr(request, method).ParseFromString(bytes((field << 3 | 2, 0)) * ITEMS)
    message = request.SerializeToString()

    async def test() -> float:
        async with serving() as (_, address):
            before = time.process_time()
            error = await answer(address, message)
            assert isinstance(error, InvalidParametersError)
            assert "must be at most 65,536 in a request, not 1200000" in str(error)
            return time.process_time() - before

    assert complete(test()) < 0.5


async def test_a_request_of_megabytes_is_refused_unread() -> None:
    async with serving() as (_, address):
        error = await answer(address, encode_request(AskStatistics(("once" * (5 << 18),))))
        assert isinstance(error, UndecodableDataError)
        assert "4194304 bytes are the most" in str(error)


@pytest.mark.parametrize("staging", [Staging(BOOK, 0, 0, "x"), Staging("q", 0, 0, BOOK)], ids=["query", "attempt"])
async def test_an_attempt_whose_names_are_books_is_refused_and_not_kept(staging: Staging) -> None:
    async with serving() as (exchange, address):

        async def dial() -> None:
            async with put(address, "kept", SCHEMA, staging=staging):
                pytest.fail("it was accepted")

        error = await refused(dial())
        assert isinstance(error, InvalidParametersError)
        assert "must have at most 200 characters" in str(error)
        assert not exchange.staging.books.has_staged


async def test_a_batch_whose_query_is_a_book_is_not_published() -> None:
    async with serving() as (exchange, address):
        error = await answer(address, encode_request(Publish(BOOK, 0, ())))
        assert isinstance(error, InvalidParametersError)
        assert not exchange.staging.books.published_batches


@pytest.mark.parametrize("names", [{"channel": BOOK}, {"consumer": BOOK}], ids=["channel", "consumer"])
async def test_a_name_that_nobody_could_have_is_no_part_of_an_error(names: dict[str, str]) -> None:
    wanted = {"channel": "kept", "consumer": "", **names}

    async with serving() as (_, address):

        async def dial() -> None:
            async with get(address, wanted["channel"], consumer=wanted["consumer"]):
                pytest.fail("it was accepted")

        by_order = await answer(address, encode_request(AskPositions((wanted["channel"],), wanted["consumer"])))
        for error in (by_order, await refused(dial())):
            assert isinstance(error, InvalidParametersError)
            assert f"{next(iter(names))} must have at most 200 characters" in str(error)


def test_what_an_older_exchange_has_kept_under_a_long_name_is_gone_on_with() -> None:
    books = StagingBooks()
    books.add_channel("kept", 8, ReplayBooks(8, channel="kept"))
    books.restore_part("kept", Staging("q", 0, 0, BOOK), [3], 0.0)
    assert [part.rows for part in books.publish("q", 0, [StagedPart("kept", 0, BOOK, 3)], 0.0).published] == [3]


def test_others_are_served_while_the_statistics_of_many_channels_are_told(complete: Complete) -> None:
    async def test() -> int:
        exchange = Exchange()
        names = [f"orders/{number}" for number in range(3_000)]
        for name in names:
            exchange.add_channel(name)
        asking = asyncio.create_task(carry_out(exchange, AskStatistics()))
        turns = 0
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        told = asking.result()
        assert [traffic.channel for traffic in told.channels] == names  # type: ignore[union-attr]  # so it is
        return turns

    assert complete(test()) > 3


def test_channels_may_go_while_the_statistics_of_all_are_told() -> None:
    exchange = Exchange()
    for name in "abc":
        exchange.add_channel(name, retention=Retention.REPLAY)
    telling = exchange.each_statistics()
    found = [next(telling).name]
    exchange.remove_channel("b")
    assert found + [each.name for each in telling] == ["a", "c"]


def test_a_reply_that_nobody_would_take_is_refused_in_words() -> None:
    wide = SCHEMA.with_metadata({"comment": "x" * (1 << 20)})

    def stands(number: int) -> ChannelPosition[pa.Schema]:
        return ChannelPosition(f"wide/{number}", 0, 0, ChannelState.OPEN, "", ChannelParameters(), wide)

    assert len(encode_reply(Positions(tuple(map(stands, range(30)))))) > 30 << 20
    with pytest.raises(
        InvalidParametersError, match="channels must be fewer at a time: the reply takes more than 32 MiB"
    ):
        encode_reply(Positions(tuple(map(stands, range(40)))))
