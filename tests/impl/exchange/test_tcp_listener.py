"""Whoever cannot be let in now is let in later: no failure to accept is the end of accepting."""

import asyncio
import errno
import logging
import socket
from collections.abc import Iterator

import pytest

from permitflow.errors import PeerTimeoutError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.transports.grpc_aio import get
from permitflow.transports.health import is_serving


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How the next calls of the kernel that accept fail, last one first."""
    numbers: list[int] = []
    accept = socket.socket.accept

    def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if numbers:
            raise OSError(numbers.pop(), "it fails")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)
    monkeypatch.setattr("permitflow.exchange.tcp_listener._RETRY_SECONDS", 0)
    yield numbers
    assert not numbers, "it was tried"


def test_an_exchange_without_descriptors_takes_connections_once_it_has_some(
    run: asyncio.Runner, failures: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def dial() -> bool:
        async with ExchangeServer(Exchange(), "tcp://127.0.0.1:0") as server:
            failures.extend([errno.ENFILE, errno.EMFILE, errno.ECONNABORTED])
            return await asyncio.to_thread(is_serving, server.address)

    with caplog.at_level(logging.ERROR):
        assert run.run(dial())
    (complaint,) = caplog.messages  # once, not for each attempt
    assert "ulimit -n" in complaint


def test_who_finds_no_exchange_is_told_what_the_system_says(run: asyncio.Runner) -> None:
    async def dial(port: int) -> None:
        async with get(f"tcp://127.0.0.1:{port}", "orders/0", connect_timeout_seconds=0.2):
            pass

    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(PeerTimeoutError, match=r"Connect.* (refused|failed).*is an exchange running there"):
            run.run(dial(bound.getsockname()[1]))
