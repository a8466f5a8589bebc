"""The books of a channel that keeps its rows: what they allow is what the model of a streaming query allows."""

from collections.abc import Callable

import pytest

from permitflow.errors import (
    InvalidParametersError,
    RowsExpiredError,
    RowsForgottenError,
    RowsNotThereError,
    WouldBlock,
)
from permitflow.exchange.books.replay import ReplayBooks
from permitflow_model.kernel.explore import explore
from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State, gone, keeps

PARAMETERS = {
    "small batches": Parameters(row_permits=3, batch_cap=1, sizes=(1, 2), horizon=5, driver_crashes=True, faults=1),
    "whole windows": Parameters(row_permits=2, batch_cap=2, sizes=(1, 2), horizon=5),
    "published beyond the window": Parameters(row_permits=2, staging_rows=3, batch_cap=1, sizes=(1, 2), horizon=5),
    "rows expire": Parameters(
        row_permits=2, staging_rows=1, batch_cap=1, sizes=(1, 2), horizon=4, expires=True, driver_crashes=True, faults=1
    ),
    "acknowledged in commit": Parameters(
        row_permits=3, batch_cap=1, sizes=(1, 2), horizon=5, acknowledge_in="commit", driver_crashes=True, faults=1
    ),
}


def books_in(state: State, row_permits: int) -> ReplayBooks:
    """As they are after a start from a store that has kept what the model keeps."""
    acknowledged = {"default": state.acknowledged}
    return ReplayBooks(row_permits, next_row=state.produced, acknowledged=acknowledged, expired_row=state.lost)


def follow(books: ReplayBooks, action: str, state: State) -> None:
    """Do what the model has done; other actions are none of the exchange's."""
    if action == "Produce":
        books.produce(state.produced - books.next_row)
    elif action == "ProduceBatch":
        books.publish(state.produced - books.next_row)
    elif action in ("Acknowledge", "AcknowledgeForDriver"):
        books.acknowledge("default", state.acknowledged)
    elif action == "Expire":
        books.expire(state.lost)


def require_same(books: ReplayBooks, state: State, parameters: Parameters) -> None:
    assert (books.next_row, books.acknowledged) == (state.produced, {"default": state.acknowledged})
    assert books.expired_row == state.lost
    assert books.kept_rows == state.produced - gone(state) <= parameters.row_permits + parameters.staging_rows
    assert books.excess_rows == max(0, books.kept_rows - parameters.row_permits)


@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
def test_the_books_take_over_and_keep_what_the_model_does(parameters: Parameters) -> None:
    for state in explore(SYSTEM, parameters).states:
        books = books_in(state, parameters.row_permits)
        if state.waiting:
            assert books.has_room(state.waiting) == SYSTEM.is_enabled("Produce", state, parameters)
        for row in range(state.produced + 1):
            assert is_readable(books, row) == keeps(state, row)


def is_readable(books: ReplayBooks, row: int) -> bool:
    try:
        books.require_readable("default", row)
    except (RowsForgottenError, RowsExpiredError):
        return False
    return True


@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
def test_each_step_of_the_model_is_a_step_of_the_books(parameters: Parameters) -> None:
    graph = explore(SYSTEM, parameters)
    for source, action, target in graph.edges:
        books = books_in(graph.states[source], parameters.row_permits)
        follow(books, action, graph.states[target])
        require_same(books, graph.states[target], parameters)


# What the model of one consumer does not say.


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


def test_less_than_was_acknowledged_before_changes_nothing() -> None:
    books = ReplayBooks(10)
    books.produce(5)
    assert books.acknowledge("default", 4) == 4
    for row in (4, 3, 0, -1):
        assert books.acknowledge("default", row) == 0
    assert books.acknowledged == {"default": 4}


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


def test_rows_that_have_expired_are_lost_to_those_who_need_them_only() -> None:
    books = ReplayBooks(10, ("etl", "audit"))
    books.produce(10)
    books.acknowledge("etl", 8)
    assert books.expire(6) == 6
    assert (books.acknowledged, books.first_kept_row, books.room_rows) == ({"etl": 8, "audit": 0}, 6, 6)
    assert books.require_readable("etl") == 8
    with pytest.raises(RowsExpiredError) as told:
        books.require_readable("audit")
    assert (told.value.wanted_row, told.value.first_kept_row) == (0, 6)
    assert books.acknowledge("audit", 6) == 0
    assert books.require_readable("audit") == 6


def test_what_all_have_acknowledged_does_not_expire() -> None:
    books = ReplayBooks(10)
    books.produce(10)
    books.acknowledge("default", 7)
    assert [books.expire(5), books.expire(7), books.expired_row] == [0, 0, 0]
    with pytest.raises(RowsNotThereError):
        books.expire(11)
