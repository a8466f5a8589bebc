"""Exchanges in processes of their own, reached over every path, for clients that block; names with many addresses."""

import select
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from permitflow.client import SameHost, diagnosis
from tests.support.served_exchange import PATIENCE_SECONDS, ServedExchange, served_exchange

_HANG_SECONDS = 200.0

PATHS = {
    "shared memory": (SameHost.AUTO, "127.0.0.1:0"),
    "gRPC": (SameHost.NEVER, "127.0.0.1:0"),
    "TCP": (SameHost.NEVER, "tcp://127.0.0.1:0"),
}


@contextmanager
def served_over(path: str) -> Iterator[ServedExchange]:
    same_host, address = PATHS[path]
    # Nobody here looks at how it ends, and some leave rows behind, for which it would wait.
    with served_exchange(same_host=same_host, address=address, more=("--drain-seconds", "0")) as served:
        yield served


# Each starts a process.  Over TCP a client that blocks is the same shell around the asyncio client, whose tests take
# each path.
SAMPLED = [pytest.param(path, marks=pytest.mark.long if path == "TCP" else ()) for path in PATHS]


@pytest.fixture(scope="module", params=SAMPLED)
def exchange(request: pytest.FixtureRequest) -> Iterator[ServedExchange]:
    """One exchange for all tests that leave it alive."""
    with served_over(request.param) as served:
        yield served


@pytest.fixture(params=SAMPLED)
def mortal_exchange(request: pytest.FixtureRequest) -> Iterator[ServedExchange]:
    with served_over(request.param) as served:
        yield served


@pytest.fixture
def patient_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an exchange answers does not depend on how busy the machine is."""
    monkeypatch.setattr(diagnosis, "_LONGEST_ANSWER_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Other threads, for the end of a stream that the test is not looking at."""
    with ThreadPoolExecutor(4) as executor:
        yield executor


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that never answers: the queue of connections to be accepted is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        full = select.poll()
        full.register(listener, select.POLLIN)
        assert full.poll(_HANG_SECONDS * 1000)
        yield listener.getsockname()[1]


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port of 127.0.0.1 that is taken without a listener: connections are refused."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


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
    monkeypatch.setattr("permitflow.carriers.accepting._RETRY_SECONDS", 0)
    yield numbers
    assert not numbers, "it was tried"


@pytest.fixture
def resolve_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """From now on every name has these addresses, families and ports of 127.0.0.1, in this order."""

    def resolve_to(*addresses: tuple[int, int]) -> None:
        found = [(family, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for family, port in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)

    return resolve_to
