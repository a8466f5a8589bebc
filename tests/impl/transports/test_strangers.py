"""Who dials an address where no exchange listens is told who does, as far as that shows."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from permitflow.errors import PeerGoneError, PeerTimeoutError, PermitflowError
from permitflow.transports.grpc_aio import get
from permitflow.transports.grpc_blocking import control, open_source
from permitflow.transports.wire_errors import behind_grpc, whose

GUARD_SECONDS = 60.0
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
SSH = b"SSH-2.0-OpenSSH_9.6\r\n"
SETTINGS = b"\0\0\x12\x04\0\0\0\0\0"


@contextmanager
def stranger(greeting: bytes) -> Iterator[str]:
    """Listens, greets whoever dials once he has said something, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # it was shut down
                return
            with connection, suppress(OSError):  # he may have hung up
                connection.recv(1 << 16)
                connection.sendall(greeting)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def dial_blocking(address: str, run: asyncio.Runner) -> None:
    open_source(address, "orders/0", timeout_seconds=GUARD_SECONDS)


def dial_asyncio(address: str, run: asyncio.Runner) -> None:
    # gRPC takes a stranger for an exchange that is about to start, and tries for as long as it may.
    seconds = GUARD_SECONDS if address.startswith("tcp://") else 0.5

    async def dial() -> None:
        async with get(address, "orders/0", connect_timeout_seconds=seconds):
            pass

    run.run(dial())


def ask(address: str, run: asyncio.Runner | None = None, seconds: float = GUARD_SECONDS) -> None:
    with control(address, timeout_seconds=seconds) as questions:
        questions.statistics()


Dial = Callable[[str, asyncio.Runner], None]


@pytest.mark.parametrize("dial", [dial_blocking, dial_asyncio, ask])
@pytest.mark.parametrize(
    ("scheme", "greeting", "told"),
    [
        ("tcp://", HTTP, "an HTTP server's"),
        ("tcp://", SSH, "an SSH server's"),
        ("tcp://", SETTINGS, "a gRPC server's: dial it as host:port"),
        ("tcp://", b"", "it has never said a word"),
        ("", HTTP, "an HTTP server listens there"),
        ("", SSH, "another program listens there"),
        ("", b"", "it hung up without a word"),
    ],
)
def test_the_error_says_who_is_there(
    monkeypatch: pytest.MonkeyPatch, run: asyncio.Runner, dial: Dial, scheme: str, greeting: bytes, told: str
) -> None:
    monkeypatch.setattr("permitflow.transports.client_call._REASON_SECONDS", GUARD_SECONDS)
    with stranger(greeting) as address, pytest.raises(PermitflowError) as caught:
        dial(scheme + address, run)
    assert told in caught.value.message
    assert scheme + address in caught.value.message


def test_one_that_does_not_answer_may_be_another_program() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        for scheme in ("tcp://", ""):
            with pytest.raises(PeerTimeoutError, match="does another program listen there"):
                ask(f"{scheme}127.0.0.1:{port}", seconds=0.1)


def test_a_port_where_nobody_listens_wants_an_exchange() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for scheme in ("tcp://", ""):
            with pytest.raises(PeerGoneError, match="is an exchange running there"):
                ask(f"{scheme}127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (b"GET / HT", "HTTP client"),
        (b"PRI * HT", "gRPC client"),
        (b"\x16\x03\x01\x02\0\x01\0\x01", "client that expects TLS"),
        (b"\x15\x03\x01\0\x02\x02\x46\0", "server that expects TLS"),
        (b"whatever", "is this the exchange's address"),
    ],
)
def test_the_first_bytes_tell_who_it_is(first: bytes, words: str) -> None:
    assert words in whose(first)


def test_what_grpc_says_of_an_exchange_is_left_as_it_is() -> None:
    assert behind_grpc("unknown channel 'orders/9'") == ""
