"""The books of attempts: one attempt at each task, and a total that must be right."""

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from permitflow.client import JobTotal, TaskAttempt
from permitflow.errors import (
    ChannelResetError,
    InvalidParametersError,
    JobTotalError,
    TaskRetryError,
    TooManyTasksError,
)
from permitflow.exchange.books.attempts import AttemptBooks, Sending


def begin(
    books: AttemptBooks,
    attempt: int = 1,
    *,
    job: str = "j",
    partition: int = 0,
    rows: int = 10,
    channel: str = "a",
    is_retry: bool = False,
    since_row: int | None = None,
    stop: Callable[[str], None] = lambda reason: None,
) -> Sending:
    return books.begin(TaskAttempt(job, partition, attempt, is_retry), channel, lambda: rows, stop, since_row)


def test_an_attempt_is_refused_once_rows_of_another_one_came() -> None:
    books = AttemptBooks()
    first = begin(books, 7)
    for _ in ("alive", "over"):
        with pytest.raises(
            TaskRetryError, match="task attempt 8 may not write partition 0: it is written for the second time"
        ):
            begin(books, 8)
        first.end()
    begin(books, 8, partition=1)
    begin(books, 8, job="another")


def test_a_later_attempt_stops_one_that_has_sent_nothing() -> None:
    books, stopped = AttemptBooks(), list[str]()
    for channel in ("a", "b"):
        begin(books, 7, rows=0, channel=channel, stop=stopped.append)
    begin(books, 7, rows=0, channel="c", stop=stopped.append).end()
    begin(books, 8, rows=5).end()
    assert len(stopped) == 2  # the third stream was over
    assert len(books) == 1
    with pytest.raises(TaskRetryError, match="a later attempt has taken its place"):
        begin(books, 7, channel="d")
    assert not books.spoils(TaskAttempt("j", 0, 7))
    with pytest.raises(TaskRetryError, match="rows of the first attempt may have been consumed"):
        begin(books, 9)
    books.require_total(JobTotal("j", 5), "a")


def test_a_later_attempt_needs_no_room_of_its_own() -> None:
    books = AttemptBooks(most_tasks=1)
    for attempt in (7, 8):
        begin(books, attempt, rows=0)
    assert len(books) == 1


def test_an_attempt_that_is_over_with_rows_elsewhere_is_the_only_one() -> None:
    """Also where those that it still sends into other channels have not come."""
    books, stopped = AttemptBooks(), list[str]()
    begin(books, 7, rows=0, stop=stopped.append)
    begin(books, 7, rows=1, channel="b").end()
    with pytest.raises(TaskRetryError):
        begin(books, 8)
    assert not stopped


@pytest.mark.parametrize(("since_row", "is_refused"), [(None, True), (4, True), (5, False)])
def test_a_retry_is_refused_where_rows_of_its_job_may_lie(since_row: int | None, is_refused: bool) -> None:
    """The exchange was started again, and all rows that it found were acknowledged."""
    books = AttemptBooks()
    books.open_channel("a", found_rows=range(5, 5))
    with pytest.raises(TaskRetryError) if is_refused else nullcontext():
        begin(books, 2, is_retry=True, since_row=since_row)
    begin(books, 2, partition=1, since_row=since_row)


def test_a_retry_is_refused_where_rows_from_before_a_reset_may_lie() -> None:
    """The exchange was started again before it, and a channel that keeps its rows has lost none by the reset."""
    books = AttemptBooks()
    books.open_channel("a", found_rows=range(5))
    books.open_channel("a", reset_row=5)
    assert not books.fail("another", "a")
    with pytest.raises(TaskRetryError):
        begin(books, 2, is_retry=True)


@pytest.mark.parametrize(("since_row", "is_refused"), [(None, False), (4, True), (5, False)])
def test_a_total_is_refused_where_other_rows_of_its_job_may_lie(since_row: int | None, is_refused: bool) -> None:
    """Of a stage that was run before the exchange was started again: its attempts are numbered from 0, too."""
    books = AttemptBooks()
    books.open_channel("a", found_rows=range(2, 5))
    begin(books, rows=3).end()
    with pytest.raises(JobTotalError) if is_refused else nullcontext():
        books.require_total(JobTotal("j", 3), "a", since_row)


def test_a_retry_is_refused_where_jobs_with_rows_are_forgotten() -> None:
    books = AttemptBooks(most_tasks=1)
    books.open_channel("a")
    begin(books, job="old").end()
    begin(books, job="new", channel="b").end()
    with pytest.raises(TaskRetryError):
        begin(books, 2, job="old", is_retry=True)


def test_one_attempt_sends_into_several_channels_once_into_each() -> None:
    books = AttemptBooks()
    begin(books, 7, rows=0)
    begin(books, 7, channel="b", rows=5).end()
    for attempt, channel in ((7, "a"), (7, "b"), (8, "c")):
        with pytest.raises(TaskRetryError):
            begin(books, attempt, channel=channel)
    assert books.spoils(TaskAttempt("j", 0, 8))  # whichever channel it names
    assert len(books) == 2
    books.require_total(JobTotal("j", 5), "b")
    assert not books.spoils(TaskAttempt("j", 0, 8))


def test_a_total_must_be_what_ended_attempts_have_sent() -> None:
    books = AttemptBooks()
    first, second = begin(books), begin(books, partition=1, rows=5)
    first.end()
    with pytest.raises(
        JobTotalError, match=r"15 rows of job 'j' count .* has taken 15 since it was started \(1 attempts still send"
    ):
        books.require_total(JobTotal("j", 15), "a")
    second.end()
    second.end()  # a stream that leaves after its end
    for rows, channel in ((10, "a"), (15, "b")):
        with pytest.raises(JobTotalError):
            books.require_total(JobTotal("j", rows), channel)
    books.require_total(JobTotal("j", 15), "a")
    books.require_total(JobTotal("j", 0), "b")


def test_no_task_begins_after_its_job_has_failed() -> None:
    books = AttemptBooks()
    begin(books)
    begin(books, channel="c", rows=0)
    for channel, has_rows in (("a", True), ("b", False), ("c", False)):
        assert books.fail("j", channel) is has_rows
        with pytest.raises(TaskRetryError):
            begin(books, partition=1, channel=channel)


def test_a_job_that_fails_stops_attempts_that_have_sent_nothing() -> None:
    """Else they would send a part of its rows after its abort."""
    books, stopped = AttemptBooks(), list[str]()
    for partition, rows in ((0, 0), (1, 5)):
        begin(books, partition=partition, rows=rows, stop=stopped.append)
    assert books.fail("j", "a")
    assert stopped == ["its job has failed"]


@pytest.mark.parametrize(("since_row", "may_have_rows"), [(None, True), (9, True), (10, False)])
def test_rows_from_before_an_exchange_may_be_of_a_job(since_row: int | None, may_have_rows: bool) -> None:
    books = AttemptBooks()
    books.open_channel("a", found_rows=range(4, 10))
    assert books.fail("j", "a", since_row) is may_have_rows


def test_a_job_that_was_planned_before_a_reset_is_over() -> None:
    """Though this exchange, which was started again, has never known it."""
    books = AttemptBooks()
    books.open_channel("a", found_rows=range(4, 10))
    books.open_channel("a", reset_row=12)
    for since_row in (4, 11):
        with pytest.raises(ChannelResetError):
            books.fail("j", "a", since_row)
        with pytest.raises(ChannelResetError):
            begin(books, since_row=since_row)
        with pytest.raises(ChannelResetError):
            books.require_total(JobTotal("j", 0), "a", since_row)
    begin(books, since_row=12)


def test_no_task_begins_after_the_total_of_its_job() -> None:
    books = AttemptBooks()
    books.require_total(JobTotal("j", 0), "a")
    with pytest.raises(TaskRetryError):
        begin(books)


def test_the_oldest_job_without_open_streams_is_forgotten_first() -> None:
    books = AttemptBooks(most_tasks=3)
    begin(books, job="open")
    begin(books, job="old").end()
    begin(books, job="new").end()
    begin(books, job="newest")
    assert len(books) == 3
    for job in ("open", "new", "newest"):
        with pytest.raises(TaskRetryError):
            begin(books, job=job)
    with pytest.raises(JobTotalError):  # it cannot end well any more
        books.require_total(JobTotal("old", 10), "a")


def test_rows_of_a_job_that_has_failed_stay_a_part() -> None:
    """Until the channel breaks, which its abort does."""
    books = AttemptBooks()
    books.open_channel("a")
    begin(books).end()
    books.require_total(JobTotal("j", 10), "a")
    assert books.unfinished("a") == ""
    books.fail("j", "a")
    assert books.unfinished("a") == "j"
    books.open_channel("a")
    assert books.unfinished("a") == ""


@pytest.mark.parametrize("says_total", [False, True])
def test_a_failed_job_that_is_forgotten_may_have_rows(says_total: bool) -> None:
    books = AttemptBooks(most_tasks=2)
    books.open_channel("a")
    begin(books, job="old").end()
    if says_total:
        books.require_total(JobTotal("old", 10), "a")
    else:
        assert books.fail("old", "a")
    for partition in (0, 1):
        begin(books, job="new", channel="b", partition=partition).end()
    assert books.fail("old", "a") is not says_total
    books.open_channel("a")  # it was reset
    assert not books.fail("old", "a")


def test_a_forgotten_job_has_no_rows_in_a_channel_that_was_reset() -> None:
    books = AttemptBooks(most_tasks=1)
    books.open_channel("a")
    begin(books, job="old").end()
    books.open_channel("a")
    begin(books, job="new", channel="b").end()
    assert not books.fail("other", "a")


def test_a_job_that_is_known_before_its_tasks_counts_once() -> None:
    books = AttemptBooks(most_tasks=2)
    books.fail("j", "a")
    for partition in (0, 1):
        begin(books, channel="b", partition=partition).end()
    assert len(books) == 2
    for partition in (0, 1):
        begin(books, job="next", partition=partition)
    assert len(books) == 2


def test_a_job_with_more_tasks_than_are_remembered_is_refused() -> None:
    books = AttemptBooks(most_tasks=2)
    for partition in (0, 1):
        begin(books, partition=partition).end()
    with pytest.raises(TooManyTasksError, match="remembers 2 tasks"):
        begin(books, partition=2)
    assert len(books) == 2


def test_a_job_may_put_into_a_channel_that_is_added_later() -> None:
    books = AttemptBooks()
    begin(books)
    books.open_channel("b")
    begin(books, 1, channel="b")
    books.remove_channel("b")
    books.open_channel("b")
    with pytest.raises(ChannelResetError):
        begin(books, 2, partition=1, channel="b")
    books.require_total(JobTotal("j", 0), "c")


def test_jobs_without_tasks_take_no_more_memory_than_others() -> None:
    books = AttemptBooks(most_tasks=2)
    for number in range(5):
        books.require_total(JobTotal(f"job {number}", 0), "a")
    assert len(books) == 2


@pytest.mark.parametrize("attempt", [("", 0, 1), ("j" * 201, 0, 1), ("j", -1, 1)])
def test_an_attempt_without_a_proper_name_is_refused(attempt: tuple[str, int, int]) -> None:
    with pytest.raises(InvalidParametersError):
        AttemptBooks().begin(TaskAttempt(*attempt), "a", lambda: 0, lambda reason: None)
