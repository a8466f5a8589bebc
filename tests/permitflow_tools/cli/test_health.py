"""``permitflow health``: an exit code for what watches over processes, and a line for people."""

import asyncio
import socket

from permitflow.exchange.health import Phase
from permitflow.exchange.stores.store import Store
from tests.permitflow_tools.cli.conftest import Command, Report
from tests.support.served import served


async def test_it_says_whether_the_exchange_is_ready(command: Command) -> None:
    async with served() as (exchange, address):
        assert await asyncio.to_thread(command, "health", address) == (0, "ready\n", "")
        exchange.readiness.note_whole(False)
        words = "not ready: it takes no streams now, or not those of all channels\n"
        assert await asyncio.to_thread(command, "health", address) == (1, "", words)
        exchange.readiness.note_whole(True)
        assert (await asyncio.to_thread(command, "health", address))[0] == 0
        exchange.readiness.enter(Phase.DRAINING)
        assert await asyncio.to_thread(command, "health", address) == (1, "", words)
        assert await asyncio.to_thread(command, "health", "--address", address, "--live") == (0, "ready\n", "")


async def test_an_exchange_that_may_have_lost_its_store_is_not_ready(command: Command) -> None:
    class SharedStore(Store):
        is_own = True

    store = SharedStore()
    async with served(store=store) as (_, address), asyncio.timeout(30):
        for store.is_own, code in ((True, 0), (False, 1), (True, 0)):
            while (await asyncio.to_thread(command, "health", address))[0] != code:
                pass


def test_an_address_without_an_exchange_is_not_ready(report: Report) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        code, told = report("health", address, "--timeout", "60s")
    assert (code, told["ready"], told["address"]) == (1, False, address)
    assert "is gone" in str(told["reason"])


def test_a_listener_that_does_not_answer_is_not_ready(report: Report) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, told = report("health", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", "100ms")
    assert (code, told["ready"]) == (1, False)
    assert "no answer within 0.1 s" in str(told["reason"])
