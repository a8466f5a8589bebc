"""The master's book of several jobs, beside the model of one: order, bounds, and clients that are forgotten."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.jobs.book import Job, JobBook, JobId, Submitted
from permitflow.errors import InvalidParametersError

CAPACITY, OPEN = 3, 4


def book_with(*numbers: int, client: str = "c1", capacity: int = CAPACITY) -> JobBook:
    book = JobBook(capacity, OPEN)
    for number in numbers:
        book.submit(JobId(client, number), 0, 0.0)
    return book


def taken(book: JobBook) -> list[int]:
    """The numbers of all jobs, as new workers get one each."""
    workers = map("new {}".format, count())
    return [job.id.number for job in iter(lambda: taken_by(book, next(workers)), None)]


def taken_by(book: JobBook, worker: str) -> Job | None:
    """What a worker gets that is there, or comes."""
    book.join(worker)
    return book.take(worker, 0.0)


def test_the_oldest_gives_way_and_is_new_when_it_comes_again() -> None:
    book = book_with(0, 1, 2, 3)
    assert book.submit(JobId("c1", 1), 0, 0.0) is Submitted.KNOWN
    assert book.submit(JobId("c1", 0), 0, 0.0) is Submitted.QUEUED
    assert taken(book) == [2, 3, 0]


def test_the_job_of_a_dead_worker_comes_first() -> None:
    book = book_with(0, 1, 2)
    assert taken_by(book, "w") is not None
    book.lose("w")
    assert book.counts["given_again"] == 1
    assert taken(book) == [0, 1, 2]


def test_a_worker_has_one_job_at_a_time() -> None:
    book = book_with(0, 1)
    assert taken_by(book, "w") is not None
    assert taken_by(book, "w") is None
    assert book.finish(JobId("c1", 0), 1)
    assert taken_by(book, "w") is not None


def test_a_worker_that_did_not_join_gets_nothing() -> None:
    assert book_with(0).take("w", 0.0) is None


def test_a_result_of_a_job_that_nobody_has_is_not_taken() -> None:
    book = book_with(0)
    assert not book.finish(JobId("c1", 0), 1)
    assert taken(book) == [0]


def test_a_forgotten_client_leaves_nothing_behind() -> None:
    book = book_with(0, 1)
    assert taken_by(book, "w") is not None
    book.forget("c1")
    assert book.finish(JobId("c1", 0), 1)
    assert taken_by(book, "w") is not None
    assert book.finish(JobId("c1", 1), 1)
    assert (book.entries, [*book.clients]) == (0, [])


def test_a_client_has_no_room_for_new_jobs_until_it_confirms() -> None:
    book = book_with(*range(OPEN), capacity=OPEN)
    assert book.submit(JobId("c1", OPEN), 0, 0.0) is Submitted.REFUSED
    assert book.submit(JobId("c2", 0), 0, 0.0) is Submitted.QUEUED  # and the oldest gives way
    assert book.submit(JobId("c1", OPEN), 0, 0.0) is Submitted.QUEUED


def test_a_book_without_room_for_a_job_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match="most_open must be at least 1"):
        JobBook(CAPACITY, 0)


CLIENTS, WORKERS, NUMBERS = ("c1", "c2"), ("w1", "w2"), st.integers(0, 5)
JOBS = st.builds(JobId, st.sampled_from(CLIENTS), NUMBERS)
STEPS = st.one_of(
    st.tuples(st.just("submit"), JOBS),
    st.tuples(st.just("finish"), JOBS),
    st.tuples(st.just("confirm"), JOBS),
    st.tuples(st.just("forget"), st.sampled_from(CLIENTS)),
    st.tuples(st.sampled_from(("join", "take", "lose")), st.sampled_from(WORKERS)),
)


@given(st.lists(STEPS, max_size=40))
def test_the_book_stays_in_its_bounds_whatever_comes(steps: list[tuple[str, JobId | str]]) -> None:
    book = JobBook(CAPACITY, OPEN)
    for step, about in steps:
        match step, about:
            case "submit", JobId():
                book.submit(about, 0, 0.0)
            case "finish", JobId():
                book.finish(about, 1)
            case "confirm", JobId():
                book.confirm(about)
            case "forget", str():
                book.forget(about)
            case "join", str():
                book.join(about)
            case "take", str():
                book.take(about, 0.0)
            case "lose", str():
                book.lose(about)
        assert book.queued <= CAPACITY
        assert book.entries <= CAPACITY + len(WORKERS) + OPEN * len(CLIENTS)
        assert all(len(book.unconfirmed(client)) <= OPEN for client in CLIENTS)
        assert book.counts["passed_over"] == 0
