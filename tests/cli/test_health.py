"""``permitflow health``: an exit code for what watches over processes, and a line for people."""

import asyncio
import socket

from permitflow.exchange.health import Phase
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from tests.cli.conftest import Command, Report


def test_it_says_whether_the_exchange_is_ready(run: asyncio.Runner, command: Command) -> None:
    async def ask() -> list[tuple[int, str, str]]:
        exchange = Exchange()
        async with ExchangeServer(exchange, "127.0.0.1:0") as server:
            answers = [await asyncio.to_thread(command, "health", server.address)]
            exchange.readiness.enter(Phase.DRAINING)
            answers.append(await asyncio.to_thread(command, "health", server.address))
            answers.append(await asyncio.to_thread(command, "health", server.address, "--live"))
        return answers

    assert run.run(ask()) == [
        (0, "ready\n", ""),
        (1, "", "not ready: it takes no streams now\n"),
        (0, "ready\n", ""),
    ]


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
