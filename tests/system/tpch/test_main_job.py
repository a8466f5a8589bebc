"""The main job as a user runs it, at a small scale; and interrupted."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from examples.tpch.settings import DemoSettings
from examples.tpch.two_jobs import HOPS, judges

DEMO = [sys.executable, "-m", "permitflow_tools.cli", "demo", "--scale", "0.01"]
WITHOUT_CHECKS = """
import sys
import permitflow_tools.cli
import examples.tpch.two_jobs

async def no_evidence(*_):
    return []

examples.tpch.two_jobs.gather_evidence = no_evidence
sys.argv[1:] = ["demo", "--scale", "0.01"]
permitflow_tools.cli.main()
"""
# A guard against hangs: two Spark sessions on a machine that has other things to do; a tenth of it on an idle one.
LONGEST_SECONDS = 600


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which nothing is cached yet."""
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.mark.timeout(LONGEST_SECONDS)
@pytest.mark.long
def test_the_answer_is_right_and_everything_about_it_is_checked(cache: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*DEMO, "--json", "--keep", str(tmp_path / "kept")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=cache,
        timeout=LONGEST_SECONDS,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["holds"] is True
    assert report["problems"] == []
    assert [mode["mode"] for mode in report["answer"]] == ["MAIL", "SHIP"]
    assert report["answer"] == report["direct_answer"]
    late = sum(mode["high_line_count"] + mode["low_line_count"] for mode in report["answer"])
    assert late > 100
    hops = {hop: [stream for stream in report["streams"] if stream["hop"] == hop] for hop in HOPS}
    for streams in hops.values():
        assert (len(streams), sum(stream["rows"] for stream in streams)) == (2, late)
        for stream in streams:
            assert 0 < stream["peak_rows_held"] <= stream["window_rows"] == DemoSettings.row_permits
            assert 0.0 <= stream["blocked_share"] <= 1.0
    texts = [check["text"] for check in report["checks"]]
    assert [text.partition(" ")[2].partition(":")[0] for text in texts[:3]] == [*judges()]
    steps = int(texts[-1].partition(" ")[0].replace(",", ""))
    assert steps > 6 * sum(stream["chunks"] for stream in hops[HOPS[0]])
    assert len(report["seconds"]) == 6
    assert (tmp_path / "kept" / "traces" / "exchange.jsonl").is_file()


@pytest.mark.timeout(LONGEST_SECONDS)
@pytest.mark.long
def test_ctrl_c_leaves_no_process_and_no_file(cache: dict[str, str], tmp_path: Path) -> None:
    environment = {**cache, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", WITHOUT_CHECKS]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment
    ) as demo:
        assert demo.stdout is not None
        with descendants_of(demo.pid) as family:
            # By then the exchange and both Spark jobs are there.
            for line in demo.stdout:
                if "Spark has started" in line:
                    break
            else:
                pytest.fail("the demo ended before it could be interrupted")
        assert sum(process.name() == "java" for process in family if process.is_running()) >= 2
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 130
    _, alive = psutil.wait_procs(family, timeout=20)
    assert [process.cmdline() for process in alive] == []
    assert list(tmp_path.glob("permitflow-demo-*")) == []


@contextmanager
def descendants_of(pid: int) -> Iterator[list[psutil.Process]]:
    """All children at the end of the block, and theirs."""
    family: list[psutil.Process] = []
    yield family
    family += psutil.Process(pid).children(recursive=True)
