"""How clients reach an exchange: at one address."""

import asyncio
from collections.abc import Callable

import pyarrow as pa
import pytest

from permitflow.client import aio, blocking
from permitflow.client.health import is_serving
from permitflow.errors import InvalidParametersError

SCHEMA = pa.schema([("n", pa.int64())])


async def enter(context: object) -> None:
    async with context:  # type: ignore[attr-defined]  # one of three
        pass


DIALLING: dict[str, Callable[[str], object]] = {
    "get": lambda address: asyncio.run(enter(aio.get(address, "orders"))),
    "put": lambda address: asyncio.run(enter(aio.put(address, "orders", SCHEMA))),
    "control": lambda address: asyncio.run(enter(aio.control(address))),
    "open_source": lambda address: blocking.open_source(address, "orders"),
    "open_sink": lambda address: blocking.open_sink(address, "orders", SCHEMA),
    "blocking control": lambda address: blocking.control(address).positions(["orders"]),
    "health": is_serving,
}


@pytest.mark.parametrize("address", ["a:1,b:2", "tcp://a:1,tcp://b:2"])
@pytest.mark.parametrize("dial", DIALLING.values(), ids=DIALLING.keys())
def test_a_list_of_addresses_is_refused_in_words(dial: Callable[[str], object], address: str) -> None:
    with pytest.raises(InvalidParametersError, match="address must be a single host:port, because") as caught:
        dial(address)
    assert caught.value.value == address
