"""What stays open after a block is found; what somebody else closes, or opens for a moment, is not the block's."""

import os
import threading

import pytest

from tests.support import descriptors
from tests.support.descriptors import nothing_stays_open


def test_what_stays_open_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_PATIENCE_SECONDS", 0.0)
    opened: list[int] = []
    with pytest.raises(AssertionError, match=r"stays open: .*/dev/null"), nothing_stays_open():
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
