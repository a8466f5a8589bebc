"""Whoever was dialled fetches memory where it was told to: under our names only, and it looks at what it is handed."""

import array
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from permitflow.transports.shared_memory import SameHost, handover
from permitflow.transports.shared_memory.handover import Offer, Received, accepted
from permitflow.transports.shared_memory.region import create_region
from tests.support.process import nothing_stays_open

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
GREETING = b"permitflow same host 1"


def test_another_host_is_a_reason(complete: Complete) -> None:
    assert "nobody listens there" in complete(accepted("permitflow-" + "0" * 32, writes=False))


@pytest.mark.parametrize("name", ["", "/tmp/socket", "permitflow-../../x", "permitflow-" + "0" * 33, "\0" * 43])
def test_only_our_own_names_are_dialled(complete: Complete, name: str) -> None:
    assert "is none of ours" in complete(accepted(name, writes=False))


def test_somebody_who_hands_nothing_over_is_not_waited_for(complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_HANDOVER_SECONDS", 0.05)
    with closing(Offer(SameHost.AUTO, writes=True, who="the exchange")) as offer:
        assert offer.frame is not None
        assert "was not handed over in time" in complete(accepted(offer.frame.socket, writes=False))


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
def test_what_is_handed_over_is_looked_at(
    complete: Complete, descriptors: Callable[[], list[int]], greeting: bytes, words: str
) -> None:
    with nothing_stays_open():
        with somebodys(descriptors, greeting) as name:
            refused = complete(accepted(name, writes=False))
        if isinstance(refused, Received):
            # The kernel hands over no more descriptors than there is room for, and closes the others.
            refused.close()
            refused = words
        assert words in refused
