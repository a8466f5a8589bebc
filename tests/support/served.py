"""An exchange of this process, served with some channels."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from permitflow import GateParameters, InputGate, Parameters
from permitflow.client import get
from permitflow.exchange import Exchange, ExchangeServer, Retention


@asynccontextmanager
async def served(
    *channels: str,
    parameters: Parameters | None = None,
    schema: pa.Schema | None = None,
    retention: Retention = Retention.ONCE,
    listen: str = "127.0.0.1:0",
    of_server: Mapping[str, Any] = MappingProxyType({}),
    **of_exchange: Any,
) -> AsyncIterator[tuple[Exchange, str]]:
    """The exchange, and its address; all channels are alike, and the test may add others."""
    exchange = Exchange(parameters=parameters, **of_exchange)
    exchange.add_channels(channels, schema=schema, retention=retention)
    async with ExchangeServer(exchange, listen, **of_server) as server:
        yield exchange, server.address


@asynccontextmanager
async def stopped_behind_a_barrier(chunk: pa.RecordBatch) -> AsyncIterator[tuple[Exchange, str]]:
    """A gate of two channels has received a chunk of ``late``; one of ``ahead`` is behind a barrier."""
    parameters = GateParameters(inputs=2, exclusive=0, floating=8)
    gate: InputGate[pa.RecordBatch]
    async with (
        served("ahead", "late", parameters=parameters, schema=chunk.schema) as (exchange, address),
        InputGate(parameters) as gate,
        get(address, "ahead", wanted=parameters, group=gate.group) as first,
        get(address, "late", wanted=parameters, group=gate.group) as second,
    ):
        gate.add(first)
        gate.add(second)
        ahead, late = (exchange.channel(name).sender for name in ("ahead", "late"))
        await ahead.send_barrier(1)
        await ahead.send(chunk)
        await late.send(chunk)
        await gate.receive()
        yield exchange, address
