"""A caller that no longer needs other processes ends them without waiting."""

import signal
import threading
from collections.abc import Iterator
from contextlib import closing

import psutil
import pytest

from permitflow_model.side_by_side import in_processes
from tests.support.process import workers


def double(number: int) -> int:
    return 2 * number


def tell_or_work_for_ever(is_brief: bool) -> int:
    if not is_brief:
        threading.Event().wait()
    return psutil.Process().pid


def test_results_come_in_the_order_of_the_arguments() -> None:
    assert list(in_processes(double, [3, 1, 2], processes=2)) == [6, 2, 4]


def test_a_caller_that_stops_reading_does_not_wait_for_the_rest(capfd: pytest.CaptureFixture[str]) -> None:
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
