"""``permitflow demo jobs``: overloaded, with workers killed, each job is reported once; it ends when told to."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.permitflow_tools.cli.conftest import Report


def assert_exact(found: dict[str, Any]) -> None:
    assert found["problems"] == []
    assert found["submitted"] == found["finished"] > 0
    assert found["peak_queued"] == found["queue_capacity"]
    assert found["dropped"] > 0


@pytest.mark.long
def test_the_demo_drops_kills_and_reports_each_job_once(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    more = ("--overload-seconds", "2", "--kills", "2", "--lose", "0.3")
    code, found = report("demo", "jobs", *more, "-o", str(page), "--keep", str(tmp_path))
    assert_exact(found)
    assert (code, found["killed"]) == (0, ["w1#1", "w2#1"])
    assert "Content-Security-Policy" in page.read_text()
    assert "Traceback" not in "".join(log.read_text() for log in tmp_path.glob("*.log"))


@pytest.mark.long
@pytest.mark.timeout(1_000)
def test_a_minute_of_overload_leaves_queue_and_memory_bounded(report: Report) -> None:
    """The demo has the checks: 18,000 jobs come, and most of them are finished after the minute."""
    code, found = report("demo", "jobs", "--overload-seconds", "60", "--kills", "10", "--lose", "0.3")
    assert_exact(found)
    assert (code, len(found["killed"])) == (0, 10)


@pytest.mark.long
@pytest.mark.parametrize(("times", "code"), [(1, 0), (2, 130)], ids=["early, with exact counts", "at once"])
def test_ctrl_c_ends_the_demo_and_all_its_processes(tmp_path: Path, times: int, code: int) -> None:
    command = [sys.executable, "-m", "permitflow_tools.cli", "demo", "jobs", "--kills", "0", "--keep", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None  # it is a pipe
        wait_for(demo, "overload")
        family = psutil.Process(demo.pid).children(recursive=True)
        if times == 2:
            for each in family:
                if "examples.jobs.worker" in each.cmdline():
                    each.suspend()  # not all jobs can be finished
        demo.send_signal(signal.SIGINT)
        if times == 2:
            wait_for(demo, "the clients end")
            demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=120)
    assert (demo.returncode, "Traceback" in errors) == (code, False)
    assert "All checks passed" in output or code
    _, alive = psutil.wait_procs(family, timeout=50)
    assert alive == []


@pytest.mark.long
def test_a_master_that_is_killed_ends_the_demo(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "permitflow_tools.cli", "demo", "jobs", "--keep", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        wait_for(demo, "overload")
        family = psutil.Process(demo.pid).children(recursive=True)
        (master,) = (each for each in family if "examples.jobs.master" in each.cmdline())
        master.kill()
        _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 1
    assert errors.startswith("Error: master ended with exit code -9 (SIGKILL)")
    _, alive = psutil.wait_procs(family, timeout=50)
    assert alive == []


def wait_for(demo: "subprocess.Popen[str]", text: str) -> None:
    assert demo.stdout is not None  # it is a pipe
    assert any(text in line for line in demo.stdout)
