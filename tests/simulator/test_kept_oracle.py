"""The judge of kept channels notices what the model does not allow."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from permitflow.exchange.books.replay import ReplayBooks
from permitflow_model.kept_channel import Parameters
from tests.simulator.kept_oracle import UNLIMITED, KeptOracle

NAME = "default"
PARAMETERS = Parameters(consumers=1, row_permits=2, horizon=9, faults=UNLIMITED)


def judged(act: Callable[[KeptOracle, ReplayBooks], object]) -> list[str]:
    """What is wrong if this follows two rows, of which a consumer has taken the first."""
    broken: list[str] = []
    oracle = KeptOracle(PARAMETERS, (NAME,), broken)
    books = oracle.books(3, (NAME,))
    books.require_readable(NAME)
    books.produce(2)
    oracle.take(NAME, 0)
    assert not broken
    act(oracle, books)
    return broken


def test_what_a_consumer_may_do_is_allowed() -> None:
    def act(oracle: KeptOracle, books: ReplayBooks) -> None:
        oracle.take(NAME, 1)
        books.acknowledge(NAME, 1)
        again = oracle.books(3, (NAME,), next_row=3, acknowledged={NAME: 2})
        again.require_readable(NAME)
        oracle.take(NAME, 1)
        oracle.take(NAME, 2)
        oracle.end(NAME)

    assert not judged(act)


def test_a_batch_that_a_dead_exchange_has_published_needs_no_room() -> None:
    assert not judged_at_restart(next_row=5, published_rows=3)


def test_only_a_published_batch_needs_no_room() -> None:
    assert "Produce()" in judged_at_restart(next_row=5, published_rows=2)[0]


def judged_at_restart(*, next_row: int, published_rows: int) -> list[str]:
    """What is wrong if an exchange finds these rows, of which the dead one before it had counted none."""
    broken: list[str] = []
    oracle = KeptOracle(replace(PARAMETERS, staging_rows=4), (NAME,), broken)
    oracle.books(3, (NAME,))
    oracle.published_rows = published_rows
    oracle.books(3, (NAME,), next_row=next_row, acknowledged={NAME: 0})
    return broken


WRONG: dict[str, tuple[Callable[[KeptOracle, ReplayBooks], object], str]] = {
    "a row beyond the room": (lambda _, books: books.produce(1), "Produce"),
    "a row is left out": (lambda oracle, _: oracle.take(NAME, 2), "gets row 2, and the next one is 1"),
    "a row that was not taken is acknowledged": (lambda _, books: books.acknowledge(NAME, 2), "Acknowledge"),
    "an end before the last row": (lambda oracle, _: oracle.end(NAME), "ReadLogEnd"),
    "a row is forgotten at a restart": (
        lambda oracle, _: oracle.books(3, (NAME,), next_row=1),
        "the exchange counts",
    ),
    "a position is forgotten at a restart": (
        lambda oracle, books: (
            books.acknowledge(NAME, 1),
            oracle.books(3, (NAME,), next_row=2, acknowledged={NAME: 0}),
        ),
        "the exchange counts",
    ),
    "rows that never expire are gone": (lambda _, books: books.expire(1), "Expire"),
}


@pytest.mark.parametrize("what", WRONG)
def test_the_model_does_not_allow_it(what: str) -> None:
    act, told = WRONG[what]
    assert told in judged(act)[0]
