"""The methods of an exchange, by the names under which they are called; the same over every carrier."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Protocol

from permitflow.exchange.consuming import serve_get
from permitflow.exchange.controlling import serve_control
from permitflow.exchange.producing import serve_put
from permitflow.exchange.registry import Exchange
from permitflow.transports.carrier import Carrier
from permitflow.transports.connection import CONTROL, GET_STREAM, PUT_STREAM

__all__ = ["METHODS", "Serve"]


class Serve(Protocol):
    """Serves one stream."""

    def __call__(self, exchange: Exchange, carrier: Carrier, *, peer: str, stopping: asyncio.Event) -> Awaitable[None]:
        """Serve it to its end.

        Raises:
            PermitflowError: what the peer must be told.
        """
        ...


METHODS: Mapping[str, Serve] = {GET_STREAM: serve_get, PUT_STREAM: serve_put, CONTROL: serve_control}
