"""Whoever comes to an offer of shared memory besides the peer gets nothing, keeps nobody busy, and is sent away."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing
from typing import Any, NoReturn

import pytest

from permitflow.protocol.frames import SameHostAnswer
from permitflow.transports.blocking_calls import BlockingHostCall
from permitflow.transports.connection import PUT_STREAM
from permitflow.transports.same_host import offering
from permitflow.transports.shared_memory import SameHost, handover
from permitflow.transports.shared_memory.handover import Offer, connect
from tests.support.process import nothing_stays_open

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

GUARD_SECONDS = 30.0


@pytest.fixture
def offer() -> Iterator[Offer]:
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as made:
        yield made


def visit(offer: Offer) -> socket.socket:
    assert offer.frame is not None
    return connect(offer.frame.socket)


def test_a_second_visitor_gets_nothing_and_later_ones_find_nobody(offer: Offer) -> None:
    with visit(offer) as first, visit(offer) as second:
        assert not offer.serve()
        assert first.recv(1)
        with pytest.raises(BlockingIOError):
            second.recv(1)
        offer.turn_away()
        with pytest.raises(ConnectionResetError):
            second.recv(1)
        with pytest.raises(ConnectionRefusedError):
            visit(offer)
        assert not offer.serve()


def test_an_event_loop_watches_an_offer_until_it_was_visited(complete: Complete) -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        with offering(SameHost.AUTO, writes=True, who="the exchange") as offer, visit(offer) as first:
            assert offer.listener is not None
            watched = offer.listener.socket.fileno()
            with visit(offer) as second:
                assert await loop.sock_recv(first, 1)
                with pytest.raises(ConnectionResetError):
                    await loop.sock_recv(second, 1)
            assert not loop.remove_reader(watched)

    complete(test())


def test_the_thread_of_a_blocking_call_watches_its_offer_until_it_was_visited(offer: Offer) -> None:
    before = set(threading.enumerate())
    with ExitStack() as opened:
        silent = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        first, second = (opened.enter_context(visit(offer)) for _ in range(2))
        opened.enter_context(closing(BlockingHostCall(address, PUT_STREAM, who="the exchange", offer=offer)))
        watching = [thread for thread in set(threading.enumerate()) - before if "offers memory" in thread.name]
        for visitor in (first, second):
            visitor.settimeout(GUARD_SECONDS)
        assert first.recv(1)
        with pytest.raises(ConnectionResetError):
            second.recv(1)
        for thread in watching:
            thread.join(GUARD_SECONDS)
            assert not thread.is_alive()


def test_visitors_of_other_users_are_sent_away_and_keep_nobody_out(
    offer: Offer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as visits:
        strangers = [visits.enter_context(visit(offer)) for _ in range(5)]
        own = visits.enter_context(visit(offer))
        answers = iter([False] * 5 + [True])
        monkeypatch.setattr(handover, "is_same_user", lambda _: next(answers))
        assert [offer.serve() for _ in range(6)] == [True] * 5 + [False]
        assert [visitor.recv(1) for visitor in strangers] == [b""] * 5
        assert own.recv(1)


@pytest.mark.parametrize("reason", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_who_cannot_receive_a_visitor_sends_him_away_and_listens_no_more(
    monkeypatch: pytest.MonkeyPatch, reason: int
) -> None:
    def failing(_: socket.socket) -> NoReturn:
        # Each time: another thread takes whatever descriptor comes free.
        raise OSError(reason, os.strerror(reason))

    with (
        nothing_stays_open(),
        closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer,
        closing(visit(offer)) as visitor,
    ):
        monkeypatch.setattr(socket.socket, "accept", failing)
        assert not offer.serve()
        offer.turn_away()
        with pytest.raises(ConnectionResetError):
            visitor.recv(100)
        with pytest.raises(ConnectionRefusedError):
            visit(offer)
        assert offer.settle(SameHostAnswer(b"", "nothing was handed over"), lambda *ends: ends) is None
