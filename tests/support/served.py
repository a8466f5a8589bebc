"""An exchange of this process, served with some channels."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa

from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.flow import Parameters
from permitflow.protocol.replay import Retention


@asynccontextmanager
async def served(
    *channels: str,
    parameters: Parameters | None = None,
    schema: pa.Schema | None = None,
    retention: Retention = Retention.ONCE,
    listen: str = "127.0.0.1:0",
    **of_exchange: Any,
) -> AsyncIterator[tuple[Exchange, str]]:
    """The exchange, and its address; all channels are alike, and the test may add others."""
    exchange = Exchange(parameters=parameters, **of_exchange)
    exchange.add_channels(channels, schema=schema, retention=retention)
    async with ExchangeServer(exchange, listen) as server:
        yield exchange, server.address
