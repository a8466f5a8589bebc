"""Addresses: what is no address of an exchange is refused where it is given, with what to write instead."""

import asyncio
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from permitflow.carriers.addresses import Address, Scheme, parsed
from permitflow.client import blocking, control, describe, get, put
from permitflow.client.health import is_serving
from permitflow.errors import InvalidParametersError

SCHEMA = pa.schema([("n", pa.int64())])
FORM = "must be host:port, as in localhost:50051, tcp://host:port or udp://host:port"
WRONG = {
    "localhost": FORM,
    "": FORM,
    ":50051": FORM,
    "local host:50051": FORM,
    "exchange/orders:50051": FORM,
    "::1:50051": FORM,
    "a..b:50051": FORM,
    "x" * 64 + ":50051": FORM,
    "a\udcffb:50051": FORM,
    ".:50051": FORM,
    "unix:5": FORM,
    "127.0.0.1:99999": "with a port of 1 to 65535",
    "127.0.0.1:0": "with a port of 1 to 65535",
    "127.0.0.1:" + "9" * 5_000: "with a port of 1 to 65535",
    "127.0.0.1:http": "with a port of 1 to 65535",
    "127.0.0.1:\u0665": "with a port of 1 to 65535",
    "tcp://localhost": FORM,
    "tcp://a..b:50051": FORM,
    "http://localhost:50051": "must be host:port, tcp://host:port or udp://host:port, without http://",
    "grpc://localhost:50051": "must be host:port, tcp://host:port or udp://host:port, without grpc://",
    "a:1,b:2": "must be a single host:port here",
    5600: "must be text",
    None: "must be text",
}


@pytest.mark.parametrize(("address", "rule"), WRONG.items(), ids=[ascii(address)[:30] for address in WRONG])
def test_what_is_no_address_is_refused_with_the_form(address: Any, rule: str) -> None:
    with pytest.raises(InvalidParametersError, match="address") as caught:
        parsed(address)
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("localhost:50051", Address(Scheme.GRPC, "localhost", 50051)),
        ("exchange_1.example:1", Address(Scheme.GRPC, "exchange_1.example", 1)),
        ("tcp://10.0.0.1:65535", Address(Scheme.TCP, "10.0.0.1", 65535)),
        ("[::1]:50051", Address(Scheme.GRPC, "::1", 50051)),
        ("tcp://[fe80::1%eth0]:50051", Address(Scheme.TCP, "fe80::1%eth0", 50051)),
        ("udp://[::1]:1", Address(Scheme.UDP, "::1", 1)),
        ("bücher.example:50051", Address(Scheme.GRPC, "bücher.example", 50051)),
    ],
)
def test_an_address_is_cut_into_its_parts(address: str, parts: Address) -> None:
    assert parsed(address) == parts


async def _opened(opening: Any) -> None:
    async with opening:
        pass


CALLS: dict[str, Callable[[str], object]] = {
    "get": lambda address: asyncio.run(_opened(get(address, "orders/0"))),
    "put": lambda address: asyncio.run(_opened(put(address, "orders/0", SCHEMA))),
    "control": lambda address: asyncio.run(_opened(control(address))),
    "describe": lambda address: asyncio.run(describe(address, "orders/0")),
    "is_serving": is_serving,
    "blocking source": lambda address: blocking.open_source(address, "orders/0"),
    "blocking sink": lambda address: blocking.open_sink(address, "orders/0", SCHEMA),
    "blocking control": lambda address: blocking.control(address),
    "probe": lambda address: blocking.probe(address, "orders/0"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("address", ["localhost", "127.0.0.1:99999", "http://127.0.0.1:50051"])
def test_every_client_refuses_a_wrong_address_before_it_dials(call: Callable[[str], object], address: str) -> None:
    with pytest.raises(InvalidParametersError, match="must be host:port"):
        call(address)
