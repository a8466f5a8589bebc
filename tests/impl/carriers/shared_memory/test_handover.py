"""Two ends share memory if both can and want to; otherwise each knows why not, and visitors get nothing."""

import array
import errno
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from permitflow.carriers.shared_memory import handover
from permitflow.carriers.shared_memory.handover import HandedOver, Offer, accepted, nonce_digest
from permitflow.carriers.shared_memory.region import create_region
from permitflow.client import SameHost
from permitflow.errors import SameHostError, UndecodableDataError
from permitflow.stream.frames import SameHostAnswer
from tests.support.process import limited, nothing_stays_open
from tests.support.turns import turns

GREETING = b"permitflow same host 2"


@pytest.mark.parametrize("name", ["", "/tmp/socket", "permitflow-../../x", "permitflow-" + "0" * 33, "\0" * 43])
async def test_only_our_own_names_are_dialled(name: str) -> None:
    assert "is not 'permitflow-' with 32 hexadecimal digits" in str(await accepted(name, writes=False))


async def test_a_peer_that_hands_nothing_over_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_HANDOVER_SECONDS", 0.05)
    name = "permitflow-" + "0" * 32
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(f"\0{name}")
        silent.listen()
        assert "was not handed over in time" in str(await accepted(name, writes=False))


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
        if isinstance(refused, HandedOver):
            # The kernel hands over no more descriptors than there is room for, and closes the others.
            refused.close()
            refused = words
        assert words in refused


@contextmanager
def offered(policy: SameHost = SameHost.AUTO, *, writes: bool = True) -> Iterator[Offer]:
    with closing(Offer(policy, writes=writes, who="the exchange")) as offer:
        yield offer


async def taken(offer: Offer, *, writes: bool = False) -> HandedOver:
    assert offer.frame is not None
    received = await accepted(offer.frame.socket, writes=writes)
    assert isinstance(received, HandedOver)
    return received


@pytest.mark.parametrize("offerer_writes", [True, False])
async def test_both_ends_share_memory_and_later_visitors_are_refused(offerer_writes: bool) -> None:
    with offered(writes=offerer_writes) as offer:
        received = await taken(offer, writes=not offerer_writes)
        assert offer.frame is not None
        assert "no process listens there" in str(await accepted(offer.frame.socket, writes=False))
        ends = offer.settle(SameHostAnswer(nonce_digest(received.region.nonce)))
        assert ends is not None
        connection, ring = ends
        connection.send(b"hello")
        assert received.socket.recv(10) == b"hello"
        for end in (connection, ring, received):
            end.close()
        assert offer.reason == ""


async def test_a_wrong_proof_is_refused() -> None:
    with offered() as offer:
        received = await taken(offer)
        with pytest.raises(UndecodableDataError, match="the proof of the exchange that it shares memory"):
            offer.settle(SameHostAnswer(nonce_digest(b"\0" * 32)))
        received.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "the peer cannot share memory"),
        (SameHostAnswer(b"", "the server has switched it off"), "the server has switched it off"),
    ],
)
async def test_a_refusal_is_remembered_or_is_an_error(answer: SameHostAnswer | None, reason: str) -> None:
    with nothing_stays_open(), offered() as offer:
        assert offer.settle(answer) is None
        assert offer.reason.startswith(reason)
    with (
        offered(SameHost.REQUIRE) as offer,
        pytest.raises(SameHostError, match=f"no memory can be shared with the exchange: {reason}"),
    ):
        offer.settle(answer)


async def test_a_system_that_cannot_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    assert Offer(SameHost.AUTO, writes=True, who="the exchange").reason == "this system has no memfd_create"
    with pytest.raises(SameHostError, match="this system has no memfd_create"):
        Offer(SameHost.REQUIRE, writes=True, who="the exchange")


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [(resource.RLIMIT_FSIZE, 1 << 20, "File too large"), (resource.RLIMIT_NOFILE, 3, "Too many open files")],
)
async def test_a_limit_of_the_system_is_a_reason_and_leaves_nothing_open(limit: int, value: int, words: str) -> None:
    with nothing_stays_open():
        with limited(limit, value):
            offer = Offer(SameHost.AUTO, writes=True, who="the exchange")
        assert words in offer.reason


async def test_processes_of_another_user_are_refused_by_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with offered() as offer:
        assert offer.frame is not None
        monkeypatch.setattr(handover, "is_same_user", lambda _: False)
        assert "belongs to another user" in str(await accepted(offer.frame.socket, writes=False))
        with socket.socket(socket.AF_UNIX) as visitor:
            visitor.setblocking(False)
            visitor.connect("\0" + offer.frame.socket)
            await turns()
            assert visitor.recv(1) == b""
        with pytest.raises(UndecodableDataError):
            offer.settle(SameHostAnswer(b"x"))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM])
async def test_a_visitor_is_accepted_later_or_refused(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    failures = [number]
    accept = socket.socket.accept

    def failing(listener: socket.socket) -> tuple[socket.socket, object]:
        if failures:
            raise OSError(failures.pop(), "a limit")
        return accept(listener)

    with offered() as offer:
        assert offer.frame is not None
        monkeypatch.setattr(socket.socket, "accept", failing)
        received = await accepted(offer.frame.socket, writes=False)
        if number == errno.EMFILE:
            assert isinstance(received, HandedOver)
            received.close()
        else:
            assert "reset" in str(received)
