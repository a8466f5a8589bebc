"""Whoever no longer wants what other processes do ends them, without waiting for it."""

import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing
from types import CodeType, FrameType

import psutil
import pytest

from permitflow_model.side_by_side import in_processes, result_of
from tests.support.process import workers


def double(number: int) -> int:
    return 2 * number


def tell_or_work_for_ever(is_brief: bool) -> int:
    if not is_brief:
        threading.Event().wait()
    return psutil.Process().pid


def test_results_come_in_the_order_of_the_arguments() -> None:
    assert list(in_processes(double, [3, 1, 2], processes=2)) == [6, 2, 4]


def test_who_stops_listening_does_not_wait_for_what_is_being_done(capfd: pytest.CaptureFixture[str]) -> None:
    with closing(in_processes(tell_or_work_for_ever, [True, False, False, False], processes=2)) as results:
        worker = next(results)
    assert not psutil.pid_exists(worker)
    assert capfd.readouterr() == ("", "")


def test_an_interrupt_while_processes_start_is_seen_once_they_have() -> None:
    before = workers()

    def interrupting() -> Iterator[bool]:
        signal.raise_signal(signal.SIGINT)
        yield False

    with pytest.raises(KeyboardInterrupt):
        next(in_processes(tell_or_work_for_ever, interrupting(), processes=1))
    assert workers() <= before


def codes_of(thread: int) -> Iterator[CodeType]:
    """What a thread is doing."""
    frame: FrameType | None = sys._current_frames()[thread]
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def test_an_interrupt_that_another_thread_was_given_is_heeded_by_the_one_that_waits() -> None:
    future: Future[None] = Future()
    was_heeded, came_late = threading.Event(), threading.Event()
    waiting = threading.get_ident()

    def interrupt() -> None:
        while not {result_of.__code__, threading.Condition.wait.__code__} <= set(codes_of(waiting)):
            pass
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        if not was_heeded.wait(20):
            came_late.set()
            future.set_result(None)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        result_of(future)
    was_heeded.set()
    thread.join()
    assert not came_late.is_set()
