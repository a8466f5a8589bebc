"""A port that is reserved is free for whoever names it, and for nobody else."""

import asyncio
import socket

import pytest

from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from tests.support.ports import reserved_address


@pytest.mark.parametrize("scheme", ["", "tcp://"])
def test_exchanges_listen_there_one_after_the_other_and_nobody_is_given_it_meanwhile(
    run: asyncio.Runner, scheme: str
) -> None:
    async def serve(address: str) -> None:
        async with ExchangeServer(Exchange(), address) as server:
            assert server.address == address

    with reserved_address() as address:
        for _ in range(2):
            with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", int(address.rpartition(":")[2])))
            run.run(serve(scheme + address))
