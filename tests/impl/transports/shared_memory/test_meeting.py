"""Two ends share memory if both can and want to; otherwise each knows why not, and nothing is left behind."""

import asyncio
import os
import resource
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from types import ModuleType
from typing import Any, NoReturn, TypeVar

import pytest

from permitflow.errors import SameHostError, UndecodableDataError
from permitflow.protocol.frames import SameHostAnswer
from permitflow.transports.shared_memory import SameHost, handover
from permitflow.transports.shared_memory.handover import Offer, Received, accepted, nonce_digest
from permitflow.transports.shared_memory.ring import Ring
from tests.support.process import limited, nothing_stays_open, open_descriptors, ring_mappings

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
L = TypeVar("L")


class OfferWithThread(Offer):
    """Served by a thread, which ends before the offer is settled, as a blocking call's does."""

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
    """An offer that is served."""
    with closing(OfferWithThread(policy, writes=writes)) as offer:
        yield offer
        # Wakes a thread to which nobody came.
        offer.listener.socket.shutdown(socket.SHUT_RDWR) if offer.listener is not None else None
        offer.thread.join()


def name_of(offer: Offer) -> str:
    assert offer.frame is not None
    return offer.frame.socket


@pytest.mark.parametrize("offerer_writes", [True, False])
def test_both_ends_come_to_share_memory(complete: Complete, offerer_writes: bool) -> None:
    with offered(writes=offerer_writes) as offer:
        received = complete(accepted(name_of(offer), writes=not offerer_writes))
        assert isinstance(received, Received)
        link = offer.settle(SameHostAnswer(nonce_digest(received.region.nonce)), lambda *ends: ends)
        assert link is not None
        connection, ring = link
        connection.send(b"hello")
        assert received.socket.recv(10) == b"hello"
        for end in (connection, ring, received):
            end.close()
    assert offer.reason == ""


def test_nobody_else_can_prove_it(complete: Complete) -> None:
    with offered() as offer:
        received = complete(accepted(name_of(offer), writes=False))
        with pytest.raises(UndecodableDataError, match="the proof of the exchange that it shares memory"):
            offer.settle(SameHostAnswer(nonce_digest(b"\0" * 32)), lambda *ends: ends)
        received.close()


def test_a_proof_without_a_visit_is_no_proof() -> None:
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:
        assert offer.listener is not None
        answer = SameHostAnswer(nonce_digest(offer.listener.region.nonce))
        with pytest.raises(UndecodableDataError):
            offer.settle(answer, lambda *ends: ends)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "the peer does not know how to share memory"),
        (SameHostAnswer(b"", "it is switched off at the end that was dialled"), "it is switched off at the end that"),
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


def test_what_is_switched_off_is_not_offered() -> None:
    offer = Offer(SameHost.NEVER, writes=True, who="the exchange")
    assert (offer.frame, offer.reason) == (None, "it is switched off at this end")


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


@pytest.mark.parametrize(("module", "call"), [(os, "eventfd"), (socket, "socket")])
def test_what_was_opened_before_a_limit_was_reached_is_closed(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, call: str
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(24, "Too many open files")

    with nothing_stays_open():
        with monkeypatch.context() as limited_now:
            limited_now.setattr(module, call, refuse)
            offer = Offer(SameHost.AUTO, writes=True, who="the exchange")
        assert offer.reason == "this system refuses: Too many open files"


@pytest.mark.parametrize("answer", [None, SameHostAnswer(b"", "it is switched off at the end that was dialled")])
def test_an_offer_that_is_not_taken_leaves_nothing_open(answer: SameHostAnswer | None) -> None:
    before, rings = open_descriptors(), ring_mappings()
    with nothing_stays_open():
        offer = Offer(SameHost.AUTO, writes=True, who="the exchange")
        assert open_descriptors() - before
        assert ring_mappings() - rings
        assert offer.settle(answer, lambda *ends: ends) is None


def test_memory_that_cannot_be_mapped_is_a_reason(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    with offered() as offer:
        before = open_descriptors()

        def refuse(*_: object, **__: object) -> None:
            raise OSError(12, "Cannot allocate memory")

        monkeypatch.setattr(handover, "open_region", refuse)
        assert "Cannot allocate memory" in complete(accepted(name_of(offer), writes=False))
        # The other end of the connection, which the offer keeps until it is settled.
        assert len(open_descriptors() - before) == 1


def test_processes_of_another_user_are_refused(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = os.geteuid() + 1
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:
        monkeypatch.setattr(os, "geteuid", lambda: nobody)
        assert "belongs to another user" in complete(accepted(name_of(offer), writes=False))
        offer.serve()
        answer = SameHostAnswer(b"x")
        with pytest.raises(UndecodableDataError):
            offer.settle(answer, lambda *ends: ends)


def test_a_cancelled_acceptance_leaves_nothing_open(complete: Complete) -> None:
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:

        async def test() -> None:
            with nothing_stays_open():
                task = asyncio.create_task(accepted(name_of(offer), writes=False))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
                assert task.cancelled()

        complete(test())
