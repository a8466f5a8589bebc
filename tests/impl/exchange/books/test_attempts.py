"""The books of attempts: one attempt at each task, and a total that must be right."""

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
    books: AttemptBooks, attempt: int = 1, *, job: str = "j", partition: int = 0, rows: int = 10, channel: str = "a"
) -> Sending:
    return books.begin(TaskAttempt(job, partition, attempt), channel, lambda: rows)


def test_a_second_attempt_is_refused_whatever_became_of_the_first() -> None:
    books = AttemptBooks()
    first = begin(books, 7)
    for _ in ("alive", "over"):
        with pytest.raises(TaskRetryError, match=r"partition 0 .* \(task attempt 8\)"):
            begin(books, 8)
        first.end()
    begin(books, 8, partition=1)
    begin(books, 8, job="another")


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
    with pytest.raises(JobTotalError, match=r"15 rows of job 'j' count .* has taken 15 \(1 attempts still send"):
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
    for channel, has_rows in (("a", True), ("b", False)):
        assert books.fail("j", channel) is has_rows
        with pytest.raises(TaskRetryError):
            begin(books, partition=1, channel=channel)


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
        AttemptBooks().begin(TaskAttempt(*attempt), "a", lambda: 0)
