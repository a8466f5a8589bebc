"""Garbage collection is put off for many objects, and nobody's choice is changed."""

import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from permitflow.transports.garbage import collecting_later


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


def test_it_is_off_while_many_objects_are_made_and_on_afterwards_also_after_an_error() -> None:
    gc.enable()
    with suppress(ValueError), collecting_later(10_000):
        assert not gc.isenabled()
        raise ValueError("halfway")
    assert gc.isenabled()


def test_few_objects_change_nothing() -> None:
    gc.enable()
    with collecting_later(10):
        assert gc.isenabled()


def test_where_it_is_off_it_stays_off() -> None:
    gc.disable()
    with collecting_later(10_000):
        pass
    assert not gc.isenabled()
