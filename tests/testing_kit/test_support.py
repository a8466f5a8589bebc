"""What tests rely on to find leaks, free addresses and lost time."""

import asyncio
import os
import socket
import threading
from time import sleep

import pytest

from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from tests.support.process import Stopwatch, nothing_stays_open, reserved_address, within


def test_an_open_file_is_named() -> None:
    opened: list[int] = []
    with pytest.raises(AssertionError, match=r"stays open: .*/dev/null"), nothing_stays_open(patience_seconds=0.0):
        opened.append(os.open(os.devnull, os.O_RDONLY))
    os.close(*opened)


def test_what_was_open_before_may_be_closed_meanwhile() -> None:
    before = os.open(os.devnull, os.O_RDONLY)
    with nothing_stays_open():
        os.close(before)


def test_what_is_closed_a_moment_later_does_not_stay() -> None:
    with nothing_stays_open():
        closing = threading.Timer(0.05, os.close, [os.open(os.devnull, os.O_RDONLY)])
        closing.start()
    closing.join()


class Cycle:
    """Open until it is found to be garbage."""

    def __init__(self) -> None:
        self.itself = self
        self.descriptor = os.open(os.devnull, os.O_RDONLY)

    def __del__(self) -> None:
        os.close(self.descriptor)


def test_what_only_garbage_holds_does_not_stay() -> None:
    with nothing_stays_open():
        Cycle()


@pytest.mark.parametrize("scheme", ["", "tcp://"])
def test_exchanges_listen_there_one_after_the_other_and_nobody_is_given_it_meanwhile(
    run: asyncio.Runner, scheme: str
) -> None:
    async def serve(address: str) -> None:
        async with ExchangeServer(Exchange(), address) as server:
            assert server.address == address

    with reserved_address() as address:
        for _ in range(2):
            with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
                other.bind(("127.0.0.1", int(address.rpartition(":")[2])))
            run.run(serve(scheme + address))


def test_time_counts_while_looks_follow_each_other() -> None:
    watch = Stopwatch(100.0)
    for hundredths in range(1, 501):
        watch.look(100.0 + hundredths / 100)
    assert watch.seconds == pytest.approx(5.0)


def test_a_machine_that_stands_still_costs_next_to_nothing() -> None:
    watch = Stopwatch(100.0)
    for now in (100.01, 130.0, 130.01):
        watch.look(now)
    assert watch.seconds < 0.1


def test_what_takes_too_long_fails() -> None:
    with pytest.raises(AssertionError, match=r"it took 0\.\d s, and may take 0\.05 s"), within(0.05) as watch:  # noqa: PT012
        while watch.seconds < 0.1:
            sleep(0.01)


def test_what_is_soon_done_does_not_and_its_errors_come_through() -> None:
    with pytest.raises(ValueError, match="its own"), within(60.0):
        raise ValueError("its own")
    with within(60.0):
        pass
