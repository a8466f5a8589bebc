"""What tests rely on to find leaks, free addresses and lost time."""

import asyncio
import os
import socket

import pytest

from permitflow.exchange import Exchange, ExchangeServer
from tests.support.process import nothing_stays_open, reserved_address


def test_an_open_file_is_named() -> None:
    opened: list[int] = []
    with pytest.raises(AssertionError, match=r"stays open: .*/dev/null"), nothing_stays_open(patience_seconds=0.0):
        opened.append(os.open(os.devnull, os.O_RDONLY))
    os.close(*opened)


@pytest.mark.parametrize("scheme", ["", "tcp://"])
def test_a_reserved_address_serves_exchanges_one_after_the_other(run: asyncio.Runner, scheme: str) -> None:
    async def serve(address: str) -> None:
        async with ExchangeServer(Exchange(), address) as server:
            assert server.address == address

    with reserved_address() as address:
        for _ in range(2):
            with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", int(address.rpartition(":")[2])))
            run.run(serve(scheme + address))
