"""Staged rows: published once and whole, never in the way of others for ever, never left behind."""

import pytest

from permitflow.errors import InvalidParametersError, StagedPartError
from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.staging import PartState, StagingBooks
from tests.support.staging_words import LIMIT_ROWS, Exchange


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


def test_rows_are_published_into_their_channels_in_the_order_of_the_partitions(exchange: Exchange) -> None:
    second, first, other = exchange.staged(2, 1), exchange.staged(3, 0), exchange.staged(1, 2, channel="b")
    assert not exchange.drain()
    assert not exchange.publish(second, other, first)
    assert exchange.drain() == [first, second]
    assert exchange.drain("b") == [other]


def test_a_batch_is_published_once(exchange: Exchange) -> None:
    part = exchange.staged(2)
    assert not exchange.publish(part)
    exchange.drain()
    again = exchange.staged(2, attempt="after a crash of the driver")
    assert again.state is PartState.LATE
    assert exchange.publish(again)
    assert exchange.publish(), "whatever is said about its parts"
    assert not exchange.drain()


def test_what_is_staged_late_is_thrown_away_and_its_producer_is_not_troubled(exchange: Exchange) -> None:
    slow = exchange.open(attempt="slow")
    assert exchange.books.stage(slow, 2, now=0.0)
    exchange.publish(exchange.staged(2, attempt="fast"))
    assert exchange.areas["a"].staged_rows == 0
    assert exchange.books.stage(slow, 1_000, now=0.0)
    exchange.books.end(slow, now=0.0)
    older = exchange.open(batch=0, partition=5)
    assert not older.is_kept
    assert [part.staging.attempt for part in exchange.drain()] == ["fast"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (StagedPart("a", 0, "x", 3), "has staged 2 rows here, and should have 3"),
        (StagedPart("a", 0, "y", 2), "is not staged"),
        (StagedPart("b", 0, "x", 2), "is not staged"),
        (StagedPart("a", 1, "x", 2), "has not ended"),
    ],
)
def test_a_batch_is_published_as_a_whole_or_not_at_all(exchange: Exchange, wrong: StagedPart, words: str) -> None:
    part, whole = exchange.staged(2), exchange.staged(1, 7)
    exchange.open(1)
    with pytest.raises(StagedPartError, match=words):
        exchange.books.publish("q", 0, [StagedPart("a", 7, "x", 1), wrong], now=0.0)
    assert not exchange.drain()
    assert not exchange.publish(part, whole), "it can be published still"


def test_two_attempts_at_the_same_are_not_both_published(exchange: Exchange) -> None:
    one, two = exchange.staged(2, attempt="one"), exchange.staged(2, attempt="two")
    with pytest.raises(StagedPartError, match="beside another attempt"):
        exchange.publish(one, two)
    with pytest.raises(StagedPartError, match="or twice"):
        exchange.publish(one, one)
    exchange.publish(two)
    assert exchange.drain() == [two]
    assert one.state is PartState.LATE


def test_an_attempt_whose_stream_breaks_is_forgotten(exchange: Exchange) -> None:
    part = exchange.open()
    exchange.books.stage(part, 5, now=0.0)
    assert exchange.books.break_off(part, now=0.0)
    assert exchange.areas["a"].free_rows == LIMIT_ROWS
    with pytest.raises(StagedPartError, match="is not staged"):
        exchange.publish(part)
    ended = exchange.staged(1, attempt="y")
    assert not exchange.books.break_off(ended, now=0.0), "all of it was here"


def test_an_attempt_stages_once(exchange: Exchange) -> None:
    exchange.open()
    with pytest.raises(StagedPartError, match="has begun before"):
        exchange.open()


def test_an_empty_batch_and_empty_parts_are_published(exchange: Exchange) -> None:
    nothing = exchange.open()
    exchange.books.end(nothing, now=0.0)
    assert not exchange.publish(nothing, batch=0)
    assert not exchange.publish(batch=1)
    assert exchange.publish(batch=1)
    assert exchange.books.published_batches == {"q": 1}
    assert not exchange.drain()


def test_discarding_touches_nothing_that_is_published(exchange: Exchange) -> None:
    published = exchange.staged(2)
    exchange.publish(published)
    named = [StagedPart("a", 0, "x", 2)]
    assert exchange.books.discard("q", 0, named, now=0.0) == ()
    left = exchange.open(batch=1)
    exchange.books.stage(left, 3, now=0.0)
    assert exchange.books.discard("q", 1, named, now=0.0) == (left,)
    assert exchange.areas["a"].staged_rows == 0
    assert exchange.drain() == [published]
    with pytest.raises(StagedPartError, match="its batch was given up"):
        exchange.books.stage(left, 1, now=0.0)


def test_the_queries_that_published_last_are_remembered() -> None:
    books = StagingBooks(most_queries=2)
    books.restore({"old": 7, "older release": 3})
    assert books.publish("old", 8, [], now=0.0).forgotten == ()
    assert books.publish("new", 0, [], now=0.0).forgotten == ("older release",)
    assert [*books.published_batches.items()] == [("old", 8), ("new", 0)]
    assert books.publish("old", 8, [], now=0.0).was_published
    assert books.publish("another", 1, [], now=0.0).forgotten == ("old",), "to be told again is not to publish"
    assert not books.was_published("old", 8)


def test_a_memory_that_was_larger_shrinks() -> None:
    books = StagingBooks(most_queries=2)
    books.restore(dict.fromkeys("abcd", 0))
    assert books.publish("c", 1, [], now=0.0).forgotten == ("a", "b")
    assert [*books.published_batches] == ["d", "c"]


def test_attempts_that_are_not_named_are_not_discarded(exchange: Exchange) -> None:
    given_up, again = (exchange.staged(2, attempt=attempt) for attempt in ("first", "again"))
    named = [StagedPart("a", 0, "first", 2), StagedPart("a", 0, "never came", 2)]
    assert exchange.books.discard("q", 0, [], now=0.0) == ()
    assert exchange.books.discard("q", 0, named, now=0.0) == (given_up,)
    assert exchange.books.discard("q", 0, named, now=0.0) == ()
    assert not exchange.publish(again)


def test_discarding_a_batch_leaves_the_others(exchange: Exchange) -> None:
    given_up, other, foreign = exchange.open(), exchange.open(batch=1), exchange.open(query="another")
    assert exchange.books.discard("q", 0, [StagedPart("a", 0, "x", 0)], now=0.0) == (given_up,)
    assert [part.state for part in (other, foreign)] == [PartState.OPEN] * 2


def test_publishing_leaves_nothing_of_older_batches_behind(exchange: Exchange) -> None:
    leftover = exchange.staged(2)
    other = exchange.staged(2, query="another")
    exchange.publish(batch=3)
    assert (leftover.state, other.state) == (PartState.LATE, PartState.ENDED)
    assert exchange.areas["a"].staged_rows == 2


# Room.


def test_a_channel_that_is_removed_takes_along_what_is_staged_for_it(exchange: Exchange) -> None:
    part, other = exchange.open(), exchange.open(channel="b")
    assert exchange.books.remove_channel("a", now=0.0) == (part,)
    with pytest.raises(StagedPartError, match="its channel was removed"):
        exchange.books.stage(part, 1, now=0.0)
    assert exchange.books.stage(other, 1, now=0.0)


@pytest.mark.parametrize(
    "staging", [Staging("", 0, 0, "x"), Staging("q", -1, 0, "x"), Staging("q", 0, -1, "x"), Staging("q", 0, 0, "")]
)
def test_an_incomplete_key_is_refused(exchange: Exchange, staging: Staging) -> None:
    with pytest.raises(InvalidParametersError):
        exchange.books.open("a", staging, now=0.0)


# After a restart of the exchange.


def test_what_was_kept_goes_on(exchange: Exchange) -> None:
    exchange.books.restore({"q": 3})
    exchange.logs["a"].publish(2)
    left = exchange.books.restore_part("a", Staging("q", 4, 0, "x"), (7, 5), now=0.0)
    late = exchange.books.restore_part("a", Staging("q", 2, 0, "x"), (2,), now=0.0)
    assert exchange.areas["a"].free_rows == -4, "what was kept stays, also where there is less room now"
    assert not late.is_kept
    assert exchange.publish(batch=3)
    assert not exchange.publish(left, batch=4)
    assert exchange.logs["a"].next_row == 14
