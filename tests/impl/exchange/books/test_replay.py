"""The books of a channel that keeps its rows, beside what their model leads (conformance/test_kept_channel.py)."""

from collections.abc import Callable

import pytest

from permitflow.errors import (
    InvalidParametersError,
    RowsForgottenError,
    RowsNotThereError,
    WouldBlock,
)
from permitflow.exchange.books.replay import ReplayBooks


def test_rows_are_kept_until_the_slowest_consumer_acknowledges() -> None:
    books = ReplayBooks(10, ("etl", "audit"))
    assert books.produce(10) == 0
    assert books.acknowledge("etl", 7) == 0
    assert not books.has_room(1)
    assert books.acknowledge("audit", 4) == 4
    assert (books.first_kept_row, books.kept_rows, books.room_rows) == (4, 6, 4)
    assert books.acknowledged == {"etl": 7, "audit": 4}
    assert books.produce(4) == 10
    with pytest.raises(WouldBlock, match="a chunk of 1 rows must wait: 0 of 10 rows are free"):
        books.produce(1)
    assert books.peak_kept_rows == 10


def test_the_error_of_acknowledged_rows_names_a_row_that_is_there() -> None:
    books = ReplayBooks(10)
    books.produce(5)
    books.acknowledge("default", 1)
    books.expire(3)
    with pytest.raises(RowsForgottenError) as told:
        books.require_readable("default", 0)
    assert books.require_readable("default", told.value.first_kept_row) == 3


def test_rows_that_have_not_come_cannot_be_acknowledged_or_read() -> None:
    books = ReplayBooks(10)
    books.produce(5)
    deeds: list[Callable[[], int]] = [
        lambda: books.acknowledge("default", 6),
        lambda: books.require_readable("default", 0, 6),
        lambda: books.require_readable("default", 6),
    ]
    for deed in deeds:
        with pytest.raises(RowsNotThereError) as told:
            deed()
        assert (told.value.wanted_row, told.value.next_row) == (6, 5)
    assert books.require_readable("default", 5) == 5, "who follows may wait for the next row"
    assert books.require_readable("default", 5, 5) == 5, "nothing is there whatever comes"


@pytest.mark.parametrize(("from_row", "to_row"), [(-1, None), (3, 2), (None, -1)])
def test_an_impossible_range_of_rows_is_refused(from_row: int | None, to_row: int | None) -> None:
    books = ReplayBooks(10)
    books.produce(5)
    with pytest.raises(InvalidParametersError):
        books.require_readable("default", from_row, to_row)


@pytest.mark.parametrize("consumers", [(), "etl", ("",), ("etl", "etl"), (1,)])
def test_consumers_that_are_none_are_refused(consumers: tuple[str, ...]) -> None:
    with pytest.raises(InvalidParametersError, match="consumers must"):
        ReplayBooks(10, consumers)


def test_a_new_consumer_begins_with_the_first_kept_row() -> None:
    books = ReplayBooks(10, ("etl", "new"), next_row=9, acknowledged={"etl": 5, "gone": 2})
    assert books.acknowledged == {"etl": 5, "new": 2}
    alone = ReplayBooks(10, ("new",), next_row=9, acknowledged={"gone": 2})
    assert alone.acknowledged == {"new": 2}, "what the store has kept is there for it"
