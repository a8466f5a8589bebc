"""``permitflow demo wordcount``: it holds what it shows, and ends when it is told to."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from examples.wordcount import demo as wordcount
from permitflow.errors import DemoError
from tests.permitflow_tools.cli.conftest import Report


def test_the_demo_stalls_kills_a_worker_and_counts_exactly(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    times = ("--stalls", "1", "--stall-seconds", "1", "--flow-seconds", "0.3")
    code, found = report("demo", "wordcount", *times, "--kill", "-o", str(page), "--keep", str(tmp_path))
    assert (code, found["holds"], found["is_exact"]) == (0, True, True)
    assert 0 < found["peak_held_bytes"] <= found["bound_bytes"]
    assert [source["source"] for source in found["sources"]] == ["front1#1/in/1", "front2#1/in/1"]
    assert found["sources"][0]["longest_seconds"] > 0.1
    assert found["deaths"] == ["worker 'back' has ended with exit code -9, in start 1"]
    text = page.read_text()
    assert "Content-Security-Policy" in text
    assert re.search(r"<title>back#1/out0, \d", text)
    assert text.count("<polyline") == 2


@pytest.mark.parametrize(
    ("times", "code"),
    [(1, 0), pytest.param(2, 130, marks=pytest.mark.long)],
    ids=["early, with exact counts", "at once"],
)
def test_ctrl_c_ends_the_demo_and_all_its_processes(tmp_path: Path, times: int, code: int) -> None:
    command = [sys.executable, "-m", "permitflow_tools.cli", "demo", "wordcount", "--keep", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None  # it is a pipe
        assert "the words flow" in demo.stdout.readline()
        family = psutil.Process(demo.pid).children(recursive=True)
        assert sum("examples.wordcount.worker" in each.cmdline() for each in family) == 2
        if times == 2:
            for worker in family:
                worker.suspend()  # nothing that is on its way can be counted
        demo.send_signal(signal.SIGINT)
        if times == 2:
            assert "asked to end" in demo.stdout.readline()
            demo.send_signal(signal.SIGINT)
        output, errors = demo.communicate(timeout=60)
    assert (demo.returncode, "Traceback" in errors) == (code, False)
    assert re.search(r"counts +exact", output) or code
    _, alive = psutil.wait_procs(family, timeout=50)
    assert alive == []
    assert "Traceback" not in "".join(log.read_text() for log in tmp_path.glob("*.log"))


def test_that_a_worker_does_not_start_is_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordcount, "START_SECONDS", 0)
    with pytest.raises(DemoError, match="a worker does not start"):
        asyncio.run(
            wordcount.run_wordcount(wordcount.WordCountSettings(), tmp_path, lambda line: None, asyncio.Event())
        )
