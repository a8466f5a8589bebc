"""Staged rows have room, in turn: whoever waits gets some, and what nobody will publish gives it back."""

import pytest

from permitflow.errors import StagedPartError, StagingFullError
from permitflow.protocol.control import StagedPart
from permitflow.protocol.staging import SILENT_SHARE, PartState
from tests.support.staging_words import LATER, TIMEOUT_SECONDS, Exchange


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


def test_published_rows_without_permits_take_up_room_until_they_are_acknowledged(exchange: Exchange) -> None:
    published = exchange.staged(8)
    exchange.publish(published)
    part = exchange.open(batch=1)
    assert not exchange.books.stage(part, 3, now=0.0)
    exchange.acknowledge(1)
    assert exchange.books.stage(part, 3, now=0.0)
    assert exchange.areas["a"].free_rows == 0


def test_a_batch_that_can_never_fit_is_told_so_at_once(exchange: Exchange) -> None:
    exchange.staged(6, 0)
    exchange.staged(6, 0, query="another", channel="b")
    part = exchange.open(1)
    assert exchange.books.stage(part, 4, now=0.0)
    with pytest.raises(StagingFullError) as caught:
        exchange.books.stage(part, 1, now=0.0)
    assert (caught.value.channel, caught.value.batch, caught.value.rows, caught.value.limit_rows) == ("a", 0, 11, 10)


def test_a_batch_that_will_fit_waits(exchange: Exchange) -> None:
    exchange.staged(6, query="another")
    part = exchange.open()
    assert not exchange.books.stage(part, 10, now=0.0)
    exchange.books.discard("another", 0, [StagedPart("a", 0, "x", 6)], now=1.0)
    assert exchange.books.stage(part, 10, now=1.0)


def test_who_waits_for_longer_is_not_overtaken(exchange: Exchange) -> None:
    exchange.staged(6, query="another")
    large, small = exchange.open(0), exchange.open(1)
    assert not exchange.books.stage(large, 5, now=0.0)
    assert not exchange.books.stage(small, 1, now=1.0), "there is room, but it is not its turn"
    exchange.books.break_off(large, now=2.0)
    assert exchange.books.stage(small, 1, now=2.0)


def test_of_two_attempts_that_block_each_other_the_newer_one_goes_on(exchange: Exchange) -> None:
    old, new = exchange.open(attempt="old"), exchange.open(attempt="new")
    assert exchange.books.stage(old, 6, now=0.0)
    assert exchange.books.stage(new, 3, now=0.0)
    assert not exchange.books.stage(new, 3, now=0.0)
    assert exchange.books.tidy(now=1.0) == (), "one of them may be killed at any moment"
    assert exchange.books.tidy(now=LATER) == (old,)
    assert exchange.books.stage(new, 3, now=LATER)
    with pytest.raises(StagedPartError, match="gave its room up"):
        exchange.books.stage(old, 1, now=LATER)


def test_of_two_batches_that_block_each_other_the_one_that_began_first_goes_on(exchange: Exchange) -> None:
    first, done = exchange.open(query="first"), exchange.staged(2, 0, query="second")
    open_still = exchange.open(1, query="second")
    assert exchange.books.stage(first, 4, now=0.0)
    assert exchange.books.stage(open_still, 3, now=0.0)
    assert not exchange.books.stage(open_still, 3, now=0.0)
    assert not exchange.books.stage(first, 4, now=1.0)
    assert exchange.books.tidy(now=1.0 + LATER) == (open_still,), "its producer is there to be told"
    assert done.state is PartState.ENDED
    assert exchange.books.stage(first, 4, now=1.0 + LATER)


def test_a_query_that_has_died_keeps_nobody_from_writing_until_its_time_out(exchange: Exchange) -> None:
    dead, waiting = exchange.staged(6, query="dead"), exchange.open()
    assert not exchange.books.stage(waiting, 5, now=0.0)
    silent_seconds = TIMEOUT_SECONDS / SILENT_SHARE
    assert exchange.books.tidy(now=silent_seconds) == (), "it may be between two of its tasks"
    alive = exchange.open(7, query="dead")
    assert exchange.books.tidy(now=LATER + silent_seconds) == (), "it is"
    exchange.books.break_off(alive, now=LATER)
    assert exchange.books.tidy(now=LATER + silent_seconds + 1) == (dead,)
    assert exchange.books.stage(waiting, 5, now=LATER + silent_seconds + 1)


def test_a_slow_consumer_makes_nobody_give_way(exchange: Exchange) -> None:
    published, old, new = exchange.staged(1), exchange.open(batch=1, attempt="old"), exchange.open(batch=1)
    exchange.publish(published)
    assert exchange.books.stage(old, 9, now=0.0)
    assert not exchange.books.stage(new, 9, now=0.0)
    assert exchange.books.tidy(now=LATER) == ()
    exchange.acknowledge(1)
    assert exchange.books.tidy(now=LATER) == (), "something has moved just now"
    assert exchange.books.tidy(now=2 * LATER) == (old,)


# Time.


def test_a_query_of_which_nothing_is_heard_leaves_nothing_behind(exchange: Exchange) -> None:
    silent, published = exchange.staged(2), exchange.staged(1, query="published")
    exchange.publish(published, query="published")
    assert exchange.books.tidy(now=TIMEOUT_SECONDS) == ()
    assert exchange.books.tidy(now=TIMEOUT_SECONDS + 1) == (silent,)
    assert (exchange.areas["a"].staged_rows, exchange.logs["a"].kept_rows) == (0, 1)


def test_a_query_with_an_open_stream_is_not_silent(exchange: Exchange) -> None:
    exchange.staged(2)
    part = exchange.open(1)
    assert exchange.books.tidy(now=1_000 * TIMEOUT_SECONDS) == ()
    exchange.books.end(part, now=1_000 * TIMEOUT_SECONDS)
    assert exchange.books.tidy(now=1_000 * TIMEOUT_SECONDS) == ()
