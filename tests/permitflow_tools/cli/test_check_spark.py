"""``permitflow check --spark`` that is interrupted, or has no Spark: one line, and nothing is left behind.

Spark itself is not started here: what Ctrl-C does to it is done to whatever stands for it.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from pyspark import SparkContext

from permitflow.spark import local_session as spark_session
from permitflow_tools.checking import Check, grid_of, sweeping
from permitflow_tools.checking.sessions import ended_by_interrupts, heeding_as_before, starting_quietly
from permitflow_tools.cli.check_sweep import sweep_on

GRID = grid_of({"row_permits": [8], "permit_batch": [2]})


class FakeGateway:
    """Has a process, as a JVM is one."""

    def __init__(self) -> None:
        self.proc = subprocess.Popen(["sleep", "100"])


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGateway]:
    made = FakeGateway()
    monkeypatch.setattr(SparkContext, "_gateway", made)
    yield made
    made.proc.kill()
    made.proc.wait()


@contextmanager
def session_that_cannot_stop(*_: object, **__: object) -> Iterator[None]:
    try:
        yield
    finally:
        raise ConnectionError("the JVM is gone")


def swept(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(typer.Exit) as ended:
        sweep_on("local[2]", Check.DECIDE, GRID, max_states=1)
    return ended.value.exit_code, capfd.readouterr().err


def test_ctrl_c_in_a_check_on_spark_is_one_line_and_leaves_no_jvm(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], gateway: FakeGateway
) -> None:
    monkeypatch.setattr(spark_session, "local_session", session_that_cannot_stop)
    monkeypatch.setattr(sweeping, "sweep", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    handler = signal.getsignal(signal.SIGINT)
    assert swept(monkeypatch, capfd) == (130, "Error: interrupted, and Spark was stopped\n")
    assert gateway.proc.poll() == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_while_spark_starts_kills_what_has_been_started(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), starting_quietly(tmp_path / "log"):  # noqa: PT012  # the two belong together
        child = subprocess.Popen(["sleep", "100"])
        signal.raise_signal(signal.SIGINT)
    assert child.wait(60) == -signal.SIGKILL


def test_messages_of_a_starting_spark_go_to_a_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with starting_quietly(tmp_path / "log"):
        subprocess.run(["sh", "-c", "echo much >&2"], check=True)
    os.write(2, b"little")
    assert capfd.readouterr().err == "little"
    assert (tmp_path / "log").read_text() == "much\n"


def test_a_spark_that_does_not_start_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        os.write(2, b"WARNING: never mind\nno java here\n\tat somewhere\n")
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.\nand so on")

    monkeypatch.setattr(spark_session, "local_session", fails)
    code, said = swept(monkeypatch, capfd)
    assert code == 2
    assert said == (
        "Error: --spark local[2]: [JAVA_GATEWAY_EXITED] Java gateway process exited. It said: no java here\n"
    )


def test_without_ctrl_c_the_jvm_is_left_alone(gateway: FakeGateway) -> None:
    with pytest.raises(ValueError, match="mine"), ended_by_interrupts():
        raise ValueError("mine")
    assert gateway.proc.poll() is None


def test_a_check_on_spark_that_ignores_ctrl_c_goes_on_to_do_so(gateway: FakeGateway) -> None:
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with heeding_as_before():
            signal.signal(signal.SIGINT, signal.default_int_handler)  # as a session does
        with ended_by_interrupts():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)
    assert gateway.proc.poll() is None
