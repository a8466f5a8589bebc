"""A call that is not repeatable is made once: the coordinator beside the driver, and what attempts say."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from permitflow.errors import RepeatedCallError
from permitflow.spark.calls import coordinator
from permitflow.spark.calls.attempts import Attempts, Coordinator
from permitflow.spark.calls.coordinator import GRANTED, Claims
from permitflow.spark.calls.options import CallOptions

CALL = CallOptions(address="127.0.0.1:1", method="a.B/C", module="m")
SOON_SECONDS = 20.0  # guards against hangs


@dataclass
class Task:
    """What Spark tells a task."""

    attempt: int
    action: str | None = "0"

    def taskAttemptId(self) -> int:  # noqa: N802 - Spark's name
        return self.attempt

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 - Spark's name
        assert key == "spark.sql.execution.id"
        return self.action


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that stands for the one beside which jobs are planned."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr("permitflow.spark.calls.attempts.os.getppid", lambda: process.pid)
        monkeypatch.setattr("permitflow.spark.calls.attempts.tempfile.gettempdir", lambda: str(tmp_path))
        yield process
        process.kill()


@pytest.fixture
def attempts(driver: object) -> Attempts:
    return Attempts.drawn(CALL)


def begin(attempts: Attempts, attempt: int, partition: int = 0, action: str | None = "0") -> dict[str, str]:
    task: Any = Task(attempt, action)
    return dict(attempts.begin(task, partition))


def test_each_call_is_granted_to_one_attempt(attempts: Attempts) -> None:
    begin(attempts, 7)
    with pytest.raises(RepeatedCallError, match=r"again by task attempt 9 at partition 0: attempt 7 has called before"):
        begin(attempts, 9)
    with pytest.raises(RepeatedCallError):  # as where a join reads one side again and again
        begin(attempts, 7)
    begin(attempts, 9, partition=1)


def test_a_second_action_may_call_again(attempts: Attempts) -> None:
    assert begin(attempts, 7, action="0") != begin(attempts, 9, action="1")


def test_an_attempt_says_who_it_is(attempts: Attempts) -> None:
    metadata = begin(attempts, 7, partition=3, action="5")
    assert metadata == {"permitflow-job": f"{attempts.job}-5", "permitflow-partition": "3", "permitflow-attempt": "7"}


def test_a_repeatable_call_asks_nobody() -> None:
    attempts = Attempts.drawn(CallOptions(address="127.0.0.1:1", method="a.B/C", module="m", repeatable=True))
    assert attempts.coordinator is None
    assert begin(attempts, 7)["permitflow-attempt"] == "7"
    assert begin(attempts, 9)["permitflow-attempt"] == "9"


def test_the_jobs_of_a_driver_share_a_coordinator(attempts: Attempts) -> None:
    other = Attempts.drawn(CALL)
    assert other.coordinator == attempts.coordinator
    assert other.job != attempts.job
    begin(attempts, 7)
    begin(other, 8)


def test_a_coordinator_ends_with_its_driver_and_then_nobody_calls(
    attempts: Attempts, driver: "subprocess.Popen[bytes]"
) -> None:
    driver.kill()
    driver.wait()
    with pytest.raises(RepeatedCallError, match=r"does not answer at .*Let executors connect to the driver"):
        call_on(attempts)


def call_on(attempts: Attempts) -> None:
    """Make calls for as long as a test may take."""
    until, partition = monotonic() + SOON_SECONDS, 0
    while monotonic() < until:
        begin(attempts, 7, partition := partition + 1)
        sleep(0.01)


def test_one_of_many_that_ask_at_once_may_call(attempts: Attempts) -> None:
    def ask(attempt: int) -> bool:
        try:
            begin(attempts, attempt)
        except RepeatedCallError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(ask, range(64))) == 1


def at(attempts: Attempts) -> Coordinator:
    assert attempts.coordinator is not None
    return attempts.coordinator


def test_strangers_can_neither_ask_nor_hold_others_up(attempts: Attempts) -> None:
    place = ("127.0.0.1", at(attempts).port)
    silent = [socket.create_connection(place) for _ in range(20)]
    with pytest.raises(OSError, match="was closed"):
        coordinator.ask(place, os.urandom(32), attempts.job, 0, 1)
    assert coordinator.ask(place, at(attempts).secret, attempts.job, 0, 1) == GRANTED
    for connection in silent:
        connection.close()


def test_an_answer_of_a_stranger_is_none(attempts: Attempts) -> None:
    """Another program may listen at the port on the worker's own host."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def answer() -> None:
            with listener.accept()[0] as connection, connection.makefile("rwb") as line:
                line.write(b"nonce\n")
                coordinator.send(line, b"another secret", b"!nonce", GRANTED)
                line.readline()

        pool.submit(answer)
        with pytest.raises(OSError, match="wrong code"):
            coordinator.ask(listener.getsockname(), at(attempts).secret, "job", 0, 1)


def test_claims_are_bounded_and_a_forgotten_job_calls_no_more() -> None:
    claims = Claims(most_tasks=3)
    for job in ("a", "b", "c", "d"):
        assert claims.ask(job, 0, 1) == GRANTED
    assert "many newer jobs" in claims.ask("a", 1, 2)
    assert "attempt 1 has called" in claims.ask("d", 0, 2)
