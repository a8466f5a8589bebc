"""Who dials a name over TCP tries each of its addresses, and says what it has heard of each."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.transports import tcp
from permitflow.transports.connection import GET_STREAM
from permitflow.transports.tcp import HEADER_BYTES, Kind, _connected, calling, header, host_and_port

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
# No system has it: as IPv6 where that is switched off.
UNKNOWN_FAMILY = 12_345


@pytest.mark.parametrize("family", [socket.AF_INET, UNKNOWN_FAMILY], ids=["refused", "no such family"])
def test_whoever_does_not_answer_at_the_first_address_is_dialled_at_the_next(
    complete: Complete, resolve_to: Callable[..., None], deaf_port: int, family: int
) -> None:
    async def test(listener: socket.socket) -> None:
        resolve_to((family, deaf_port), (socket.AF_INET, listener.getsockname()[1]))
        async with calling("tcp://twofold:1", GET_STREAM, "the exchange", timeout_seconds=100):
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(HEADER_BYTES) == header(Kind.GET)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        complete(test(listener))


def test_an_address_that_is_silent_does_not_keep_the_next_one_from_being_dialled(
    complete: Complete, resolve_to: Callable[..., None], silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(listener: socket.socket) -> None:
        resolve_to((socket.AF_INET, silent_port), (socket.AF_INET, listener.getsockname()[1]))
        async with calling("tcp://twofold:1", GET_STREAM, "the exchange", timeout_seconds=100):
            peer, _ = listener.accept()
            with peer:
                assert peer.recv(HEADER_BYTES) == header(Kind.GET)

    monkeypatch.setattr(tcp, "NEXT_ADDRESS_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        complete(test(listener))


async def heard_of_two() -> dict[object, OSError]:
    """What two addresses of a name have answered."""
    failures: dict[object, OSError] = {}
    dialling = asyncio.create_task(_connected("twofold", 1, failures))
    while len(failures) < 2:  # noqa: ASYNC110 - what is waited for is the socket's business
        await asyncio.sleep(0)
    dialling.cancel()
    await asyncio.wait({dialling})
    return failures


def test_that_an_address_was_silent_is_noted(
    complete: Complete,
    resolve_to: Callable[..., None],
    silent_port: int,
    deaf_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        failures = await heard_of_two()
        assert str(failures["127.0.0.1", silent_port]) == "127.0.0.1 does not answer"

    monkeypatch.setattr(tcp, "NEXT_ADDRESS_SECONDS", 0.01)
    resolve_to((socket.AF_INET, silent_port), (socket.AF_INET, deaf_port))
    complete(test())


def test_what_every_address_has_answered_is_noted(
    complete: Complete, resolve_to: Callable[..., None], deaf_port: int
) -> None:
    async def test() -> None:
        failures = await heard_of_two()
        assert [type(failure) for failure in failures.values()] == [OSError, ConnectionRefusedError]

    resolve_to((UNKNOWN_FAMILY, 1), (socket.AF_INET, deaf_port))
    complete(test())


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "a\udcffb", "."])
def test_a_name_that_nobody_can_look_up_is_refused(host: str) -> None:
    with pytest.raises(InvalidParametersError, match="must be tcp://host:port"):
        host_and_port(f"tcp://{host}:5600")
