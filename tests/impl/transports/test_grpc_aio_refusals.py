"""What a real exchange refuses the asyncio client, and that nobody answers, as typed errors."""

from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import (
    InvalidParametersError,
    ParameterMismatchError,
    PeerTimeoutError,
    SchemaMismatchError,
    TransportError,
    UnknownChannelError,
)
from permitflow.exchange.server import ExchangeServer
from permitflow.exchange.statistics import BridgeState
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.transports.grpc_aio import describe, get, put
from tests.support.number_streams import SCHEMA, read, serving, until

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

pytestmark = pytest.mark.usefixtures("path")


def test_nobody_at_the_address_is_said_within_the_time(complete: Complete) -> None:
    async def test() -> None:
        for call in (
            get("127.0.0.1:1", "q", connect_timeout_seconds=0.2),
            put("127.0.0.1:1", "q", SCHEMA, connect_timeout_seconds=0.2),
        ):
            with pytest.raises(PeerTimeoutError, match=r"127\.0\.0\.1:1 .*'q'.*no connection within 0\.2 s"):
                async with call:
                    pass

    complete(test())


def test_a_schema_that_nobody_brings_is_missed_within_the_time(complete: Complete) -> None:
    async def test() -> None:
        async with serving(schema=None) as (exchange, server):
            assert exchange.channel("orders/0").state is BridgeState.WAITING
            for call in (
                get(server.address, "orders/0", agreement_timeout_seconds=0.3),
                get(server.address, "orders/0", agreement_timeout_seconds=0.3),
            ):
                with pytest.raises(PeerTimeoutError, match="has a producer announced the channel's schema"):
                    async with call:
                        pass
                await until(lambda: exchange.channel("orders/0")._consumer is None)

    complete(test())


def test_what_the_exchange_refuses_arrives_as_the_same_error(complete: Complete) -> None:
    async def test() -> None:
        async with serving(names=("orders/0", "orders/1")) as (_, server):
            with pytest.raises(UnknownChannelError, match=r"'lines/0'; known channels: orders/0, orders/1") as caught:
                await read(server.address, "lines/0")
            assert caught.value.known == ("orders/0", "orders/1")
            with pytest.raises(UnknownChannelError):
                await describe(server.address, "lines/0")
            with pytest.raises(SchemaMismatchError, match="m: string"):
                async with put(server.address, "orders/0", pa.schema([("m", pa.string())])):
                    pass
            with pytest.raises(SchemaMismatchError):
                async with get(server.address, "orders/0", schema=pa.schema([("m", pa.string())])):
                    pass
            whole = ChannelParameters(oversize=Oversize.WHOLE)
            with pytest.raises(ParameterMismatchError, match="oversize"):
                async with put(server.address, "orders/0", SCHEMA, wanted=whole):
                    pass
            with pytest.raises(InvalidParametersError, match="channel must not be empty"):
                await read(server.address, "")

    complete(test())


def test_a_producer_that_was_refused_does_not_decide_on_the_schema(complete: Complete) -> None:
    async def test() -> None:
        async with serving(schema=None) as (exchange, server):
            with pytest.raises(ParameterMismatchError):
                async with put(
                    server.address,
                    "orders/0",
                    pa.schema([("m", pa.string())]),
                    wanted=ChannelParameters(oversize=Oversize.WHOLE),
                ):
                    pass
            assert exchange.channel("orders/0").state is BridgeState.WAITING

    complete(test())


def test_an_address_that_is_taken_is_refused(complete: Complete) -> None:
    async def test() -> None:
        async with serving() as (exchange, server):
            with pytest.raises(TransportError, match=f"cannot listen at {server.address}"):
                async with ExchangeServer(exchange, server.address):
                    pass

    complete(test())
