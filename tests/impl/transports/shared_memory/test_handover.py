"""Two ends share memory if both can and want to; otherwise each knows why not, and visitors get nothing."""

import array
import errno
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NoReturn, TypeVar

import pytest

from permitflow.errors import SameHostError, UndecodableDataError
from permitflow.protocol.frames import SameHostAnswer
from permitflow.transports.shared_memory import SameHost, handover
from permitflow.transports.shared_memory.handover import Offer, Received, accepted, connect, nonce_digest
from permitflow.transports.shared_memory.region import create_region
from permitflow.transports.shared_memory.ring import Ring
from tests.support.process import limited, nothing_stays_open

GREETING = b"permitflow same host 1"


@pytest.mark.parametrize("name", ["", "/tmp/socket", "permitflow-../../x", "permitflow-" + "0" * 33, "\0" * 43])
async def test_only_our_own_names_are_dialled(name: str) -> None:
    assert "is not 'permitflow-' with 32 hexadecimal digits" in str(await accepted(name, writes=False))


async def test_a_peer_that_hands_nothing_over_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_HANDOVER_SECONDS", 0.05)
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:
        assert offer.frame is not None
        assert "was not handed over in time" in str(await accepted(offer.frame.socket, writes=False))


@contextmanager
def somebodys(descriptors: Callable[[], list[int]], greeting: bytes) -> Iterator[str]:
    """A listener that hands over something else; its name."""
    name = "permitflow-" + os.urandom(16).hex()

    def serve() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0{name}")
            listener.listen()
            ready.set()
            peer, _ = listener.accept()
            with peer:
                handed = descriptors()
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", handed))] if handed else []
                peer.sendmsg([greeting], rights)
                for descriptor in handed:
                    os.close(descriptor)

    ready = threading.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    ready.wait()
    yield name
    thread.join()


def memory() -> int:
    return create_region(64 << 10, writable=False)[1]


@pytest.mark.parametrize(
    ("descriptors", "greeting", "words"),
    [
        (lambda: [], GREETING, "with 0 descriptors"),
        (lambda: [memory()], GREETING, "with 1 descriptors"),
        (lambda: [memory(), os.eventfd(0)], b"HTTP/1.1 400 Bad Req", "with 2 descriptors"),
        (lambda: [memory(), memory()], GREETING, "the event counter"),
        (lambda: [os.eventfd(0), os.eventfd(0)], GREETING, "the shared memory"),
        (lambda: [memory(), os.eventfd(0), os.eventfd(0)], GREETING, "with 2 descriptors"),
    ],
)
async def test_descriptors_that_are_handed_over_are_checked(
    descriptors: Callable[[], list[int]], greeting: bytes, words: str
) -> None:
    with nothing_stays_open():
        with somebodys(descriptors, greeting) as name:
            refused = await accepted(name, writes=False)
        if isinstance(refused, Received):
            # The kernel hands over no more descriptors than there is room for, and closes the others.
            refused.close()
            refused = words
        assert words in refused


L = TypeVar("L")


class OfferWithThread(Offer):
    """Served by a thread, which ends before the offer is settled."""

    def __init__(self, policy: SameHost, *, writes: bool) -> None:
        super().__init__(policy, writes=writes, who="the exchange")
        assert self.listener is not None
        self.listener.socket.setblocking(True)
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def settle(self, answer: SameHostAnswer | None, make: Callable[[socket.socket, Ring], L]) -> L | None:
        self.thread.join()
        return super().settle(answer, make)


@contextmanager
def offered(policy: SameHost = SameHost.AUTO, *, writes: bool = True) -> Iterator[Offer]:
    with closing(OfferWithThread(policy, writes=writes)) as offer:
        yield offer
        # Wakes a thread to which nobody came.
        offer.listener.socket.shutdown(socket.SHUT_RDWR) if offer.listener is not None else None
        offer.thread.join()


def name_of(offer: Offer) -> str:
    assert offer.frame is not None
    return offer.frame.socket


@pytest.mark.parametrize("offerer_writes", [True, False])
async def test_both_ends_come_to_share_memory(offerer_writes: bool) -> None:
    with offered(writes=offerer_writes) as offer:
        received = await accepted(name_of(offer), writes=not offerer_writes)
        assert isinstance(received, Received)
        link = offer.settle(SameHostAnswer(nonce_digest(received.region.nonce)), lambda *ends: ends)
        assert link is not None
        connection, ring = link
        connection.send(b"hello")
        assert received.socket.recv(10) == b"hello"
        for end in (connection, ring, received):
            end.close()
    assert offer.reason == ""


async def test_a_wrong_proof_is_refused() -> None:
    with offered() as offer:
        received = await accepted(name_of(offer), writes=False)
        assert isinstance(received, Received)
        with pytest.raises(UndecodableDataError, match="the proof of the exchange that it shares memory"):
            offer.settle(SameHostAnswer(nonce_digest(b"\0" * 32)), lambda *ends: ends)
        received.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "the peer cannot share memory"),
        (SameHostAnswer(b"", "the server has switched it off"), "the server has switched it off"),
    ],
)
def test_a_refusal_is_remembered_or_is_an_error(answer: SameHostAnswer | None, reason: str) -> None:
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:
        assert offer.settle(answer, lambda *ends: ends) is None
        assert offer.reason.startswith(reason)
    with (
        closing(Offer(SameHost.REQUIRE, writes=True, who="the exchange")) as offer,
        pytest.raises(SameHostError, match=f"no memory can be shared with the exchange: {reason}"),
    ):
        offer.settle(answer, lambda *ends: ends)


def test_a_system_that_cannot_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert Offer(SameHost.AUTO, writes=True, who="the exchange").reason == "this system has no memfd_create"
    with pytest.raises(SameHostError, match="this system has no memfd_create"):
        Offer(SameHost.REQUIRE, writes=True, who="the exchange")


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [(resource.RLIMIT_FSIZE, 1 << 20, "File too large"), (resource.RLIMIT_NOFILE, 3, "Too many open files")],
)
def test_a_limit_of_the_system_is_a_reason_and_leaves_nothing_open(limit: int, value: int, words: str) -> None:
    with nothing_stays_open():
        with limited(limit, value):
            offer = Offer(SameHost.AUTO, writes=True, who="the exchange")
        assert words in offer.reason


async def test_processes_of_another_user_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = os.geteuid() + 1
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:
        monkeypatch.setattr(os, "geteuid", lambda: nobody)
        assert "belongs to another user" in str(await accepted(name_of(offer), writes=False))
        offer.serve()
        answer = SameHostAnswer(b"x")
        with pytest.raises(UndecodableDataError):
            offer.settle(answer, lambda *ends: ends)


@pytest.fixture
def offer() -> Iterator[Offer]:
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as made:
        yield made


def visit(offer: Offer) -> socket.socket:
    assert offer.frame is not None
    return connect(offer.frame.socket)


def test_a_second_visitor_gets_nothing_and_later_ones_are_refused(offer: Offer) -> None:
    with visit(offer) as first, visit(offer) as second:
        assert offer.serve() is None
        assert first.recv(1)
        with pytest.raises(BlockingIOError):
            second.recv(1)
        offer.turn_away()
        with pytest.raises(ConnectionResetError):
            second.recv(1)
        with pytest.raises(ConnectionRefusedError):
            visit(offer)
        assert offer.serve() is None


async def test_another_host_is_a_reason() -> None:
    assert "no process listens there" in str(await accepted("permitflow-" + "0" * 32, writes=False))


def test_an_offer_that_cannot_accept_its_visitor_stops_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: socket.socket) -> NoReturn:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    with (
        nothing_stays_open(),
        closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer,
        closing(visit(offer)) as visitor,
    ):
        monkeypatch.setattr(socket.socket, "accept", failing)
        assert offer.serve() is None
        offer.turn_away()
        with pytest.raises(ConnectionResetError):
            visitor.recv(100)
        with pytest.raises(ConnectionRefusedError):
            visit(offer)
        assert offer.settle(SameHostAnswer(b"", "nothing was handed over"), lambda *ends: ends) is None
