"""Staged rows, beside what their model leads (conformance/test_staging.py): room, time, words and restarts."""

import pytest

from permitflow.client import StagedPart, Staging
from permitflow.errors import InvalidParametersError, StagedPartError, StagingFullError, TooManyAttemptsError
from permitflow.exchange.books.replay import DEFAULT_CONSUMER, ReplayBooks
from permitflow.exchange.books.staging import ROOM_SECONDS, Part, PartState, StagingArea, StagingBooks
from tests.support.staged import publish

LIMIT_ROWS = 10
TIMEOUT_SECONDS = 100.0


class Exchange:
    """Books of two channels, and the words to use them in."""

    def __init__(self) -> None:
        """Nothing is staged."""
        self.books = StagingBooks(TIMEOUT_SECONDS)
        self.logs = {name: ReplayBooks(limit_rows=0) for name in "ab"}
        """Of channels without permits: all that is published takes room, until it is acknowledged."""
        self.areas: dict[str, StagingArea] = {
            name: self.books.add_channel(name, LIMIT_ROWS, log) for name, log in self.logs.items()
        }
        self._published: list[Part] = []

    def open(
        self, partition: int = 0, attempt: str = "x", *, batch: int = 0, query: str = "q", channel: str = "a"
    ) -> Part:
        """An attempt that has begun."""
        return self.books.open(channel, Staging(query, batch, partition, attempt), now=0.0)

    def staged(
        self, rows: int, partition: int = 0, attempt: str = "x", *, query: str = "q", channel: str = "a"
    ) -> Part:
        """An attempt at batch 0 that has ended."""
        part = self.open(partition, attempt, query=query, channel=channel)
        assert self.books.stage(part, rows, now=0.0)
        self.books.end(part, now=0.0)
        return part

    def publish(self, *parts: Part, batch: int = 0, query: str = "q") -> bool:
        """Was it published before?"""
        stated = [StagedPart(part.channel, part.staging.partition, part.staging.attempt, part.rows) for part in parts]
        publication = publish(self.books, query, batch, stated, now=0.0)
        self._published += publication.published
        return publication.was_published

    def acknowledge(self, rows: int, channel: str = "a") -> None:
        """A consumer needs so many rows less."""
        log = self.logs[channel]
        log.acknowledge(DEFAULT_CONSUMER, log.first_kept_row + rows)

    def drain(self, channel: str = "a") -> list[Part]:
        """Whose rows have been published since this was asked last, in order; all of them are acknowledged."""
        found = [part for part in self._published if part.channel == channel and part.rows]
        self._published = [part for part in self._published if part.channel != channel]
        assert self.logs[channel].kept_rows == sum(part.rows for part in found)
        self.acknowledge(self.logs[channel].kept_rows, channel)
        return found


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


def test_rows_staged_late_are_thrown_away_without_an_error(exchange: Exchange) -> None:
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
        publish(exchange.books, "q", 0, [StagedPart("a", 7, "x", 1), wrong], now=0.0)
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


def test_an_attempt_that_was_discarded_hears_why(exchange: Exchange) -> None:
    left, _, _ = exchange.open(), exchange.open(batch=1), exchange.open(query="another")
    assert exchange.books.discard("q", 0, [StagedPart("a", 0, "x", 0)] * 2, now=0.0) == (left,)
    with pytest.raises(StagedPartError, match="its batch was given up"):
        exchange.books.stage(left, 1, now=0.0)


def test_the_queries_that_published_last_are_remembered() -> None:
    books = StagingBooks(most_queries=2)
    books.restore({"old": 7, "older release": 3})
    assert publish(books, "old", 8, [], now=0.0).forgotten == ()
    assert publish(books, "new", 0, [], now=0.0).forgotten == ("older release",)
    assert [*books.published_batches.items()] == [("old", 8), ("new", 0)]
    assert publish(books, "old", 8, [], now=0.0).was_published
    assert publish(books, "another", 1, [], now=0.0).forgotten == ("old",), "to be told again is not to publish"
    assert not books.was_published("old", 8)


def test_a_batch_that_can_never_be_here_as_a_whole_is_refused(exchange: Exchange) -> None:
    exchange.staged(6)
    part = exchange.open(1)
    with pytest.raises(StagingFullError) as caught:
        exchange.books.stage(part, LIMIT_ROWS - 5, now=0.0)
    assert (caught.value.rows, caught.value.limit_rows) == (LIMIT_ROWS + 1, LIMIT_ROWS)
    assert exchange.books.stage(part, LIMIT_ROWS - 6, now=0.0)


# Room: an attempt that waits gets some in its turn, and what nobody will publish gives it back.


def test_the_attempt_that_waits_longest_is_not_overtaken(exchange: Exchange) -> None:
    exchange.staged(6, query="another")
    large, small = exchange.open(0), exchange.open(1)
    assert not large.wanted_rows, "none waits yet"
    assert not exchange.books.stage(large, 5, now=0.0)
    assert not exchange.books.stage(small, 1, now=1.0), "there is room, but it is not its turn"
    exchange.books.break_off(large, now=2.0)
    assert exchange.books.stage(small, 1, now=2.0)


def test_a_chunk_kept_out_for_too_long_is_refused_beside_the_next(exchange: Exchange) -> None:
    first, second, third = (exchange.open(query=query) for query in ("first", "second", "third"))
    assert exchange.books.stage(first, 4, now=0.0)
    assert exchange.books.stage(second, 3, now=0.0)
    assert not exchange.books.stage(first, 4, now=1.0)
    assert not exchange.books.stage(third, 3, now=1.0)
    assert not exchange.books.stage(first, 4, now=ROOM_SECONDS), "it has not waited for so long"
    assert not exchange.books.stage(third, 3, now=1.0 + ROOM_SECONDS), "it is not first in line"
    with pytest.raises(StagingFullError, match=r"at least 8 rows.*at most 10, and 3 of other.*--staging-rows.*fewer"):
        exchange.books.stage(first, 4, now=1.0 + ROOM_SECONDS)
    assert exchange.books.stage(third, 3, now=1.0 + ROOM_SECONDS)


def test_a_chunk_kept_out_by_an_older_attempt_is_refused(exchange: Exchange) -> None:
    exchange.staged(6, attempt="old")
    new = exchange.open(attempt="new")
    assert not exchange.books.stage(new, 5, now=0.0)
    with pytest.raises(StagingFullError, match=r"at least 5 rows.* and 6 of other"):
        exchange.books.stage(new, 5, now=ROOM_SECONDS)


def test_the_time_for_room_begins_anew_when_rows_leave(exchange: Exchange) -> None:
    exchange.publish(exchange.staged(4, query="published"), query="published")
    exchange.staged(3, query="staged")
    leaving, waiting = exchange.open(query="leaving"), exchange.open()
    assert exchange.books.stage(leaving, 2, now=0.0)
    assert not exchange.books.stage(waiting, 8, now=0.0)
    assert not exchange.books.stage(waiting, 8, now=ROOM_SECONDS), "acknowledgements may be on their way"
    exchange.acknowledge(4)
    exchange.books.break_off(leaving, now=ROOM_SECONDS + 1)
    assert not exchange.books.stage(waiting, 8, now=2 * ROOM_SECONDS), "something moves"
    with pytest.raises(StagingFullError):
        exchange.books.stage(waiting, 8, now=2 * ROOM_SECONDS + 1)


# Time.


def test_a_query_of_which_nothing_is_heard_leaves_nothing_behind(exchange: Exchange) -> None:
    silent, published = exchange.staged(2), exchange.staged(1, query="published")
    exchange.publish(published, query="published")
    assert exchange.books.expire(now=TIMEOUT_SECONDS) == ()
    assert exchange.books.expire(now=TIMEOUT_SECONDS + 1) == (silent,)
    assert (exchange.areas["a"].staged_rows, exchange.logs["a"].kept_rows) == (0, 1)


def prepare(exchange: Exchange, *parts: Part) -> None:
    stated = [StagedPart(part.channel, part.staging.partition, part.staging.attempt, part.rows) for part in parts]
    exchange.books.prepare(exchange.books.planning("q", 0, stated), now=0.0)


def test_only_a_silent_querys_prepared_parts_are_rolled_back(exchange: Exchange) -> None:
    prepared, ended = exchange.staged(2), exchange.staged(3, 1)
    prepare(exchange, prepared)
    assert exchange.books.in_doubt("a", now=TIMEOUT_SECONDS) == ()
    assert exchange.books.in_doubt("b", now=TIMEOUT_SECONDS + 1) == ()
    doubtful = exchange.books.in_doubt("a", now=TIMEOUT_SECONDS + 1)
    assert doubtful == (prepared,)
    exchange.books.rollback(doubtful, now=TIMEOUT_SECONDS + 1)
    assert exchange.areas["a"].staged_rows == ended.rows
    with pytest.raises(StagedPartError, match="is not staged"):
        exchange.publish(prepared, ended)


def test_a_rollback_of_one_channel_leaves_those_of_others_in_doubt(exchange: Exchange) -> None:
    one, other = exchange.staged(2), exchange.staged(3, 1, channel="b")
    prepare(exchange, one, other)
    exchange.books.rollback([one], now=TIMEOUT_SECONDS + 1)
    assert exchange.books.in_doubt("a", now=TIMEOUT_SECONDS + 1) == ()
    assert exchange.books.in_doubt("b", now=TIMEOUT_SECONDS + 1) == (other,)


def test_what_expires_is_no_sign_of_its_query(exchange: Exchange) -> None:
    prepared, ended = exchange.staged(2), exchange.staged(3, 1)
    prepare(exchange, prepared)
    assert exchange.books.expire(now=TIMEOUT_SECONDS + 1) == (ended,)
    assert exchange.books.in_doubt("a", now=TIMEOUT_SECONDS + 1) == (prepared,)


# After a restart of the exchange.


def test_restored_parts_can_be_published(exchange: Exchange) -> None:
    exchange.books.restore({"q": 3})
    exchange.logs["a"].publish(2)
    left = exchange.books.restore_part("a", Staging("q", 4, 0, "x"), (7, 5), now=0.0)
    late = exchange.books.restore_part("a", Staging("q", 2, 0, "x"), (2,), now=0.0)
    assert exchange.areas["a"].free_rows == -4, "what was kept stays, also where there is less room now"
    assert not late.is_kept
    assert exchange.publish(batch=3)
    assert not exchange.publish(left, batch=4)
    assert exchange.logs["a"].next_row == 14


LONG = "n" * 201


@pytest.mark.parametrize(
    "key",
    [("", 0, 0, "x"), (LONG, 0, 0, "x"), ("q", -1, 0, "x"), ("q", 0, -1, "x"), ("q", 0, 0, ""), ("q", 0, 0, LONG)],
)
def test_an_incomplete_or_long_key_is_refused_and_not_kept(exchange: Exchange, key: tuple[str, int, int, str]) -> None:
    with pytest.raises(InvalidParametersError):
        exchange.books.open("a", Staging(*key), now=0.0)
    assert not exchange.books.has_staged


def test_the_books_bound_attempts_and_take_a_late_one() -> None:
    books = StagingBooks(most_attempts=1)
    books.add_channel("a", LIMIT_ROWS, ReplayBooks(limit_rows=0))
    books.restore({"q": 3})
    kept = books.open("a", Staging("q", 4, 0, "x"), now=0.0)
    with pytest.raises(TooManyAttemptsError) as caught:
        books.open("a", Staging("q", 4, 1, "x"), now=0.0)
    assert caught.value.limit == 1
    assert not books.open("a", Staging("q", 3, 1, "x"), now=0.0).is_kept
    books.break_off(kept, now=0.0)
    assert books.open("a", Staging("q", 4, 1, "x"), now=0.0).is_kept
