"""Recorded runs of two processes: real ones are valid, sabotaged ones are refused.

`nox -s trace-evidence` does the same with 100,000 chunks; the demo records two Spark jobs.
"""

import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
from typer.testing import CliRunner

from benchmarks.sabotage import SABOTAGES
from permitflow.tracing import read_trace
from permitflow_tools.cli.application import app

Runs: TypeAlias = tuple[Path, "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def runs(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The folder with the traces of all runs, and what the script has said about them."""
    folder = tmp_path_factory.mktemp("runs")
    command = [sys.executable, "-m", "benchmarks.record_two_processes", "--chunks", "500", "--keep", str(folder)]
    return folder, subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=250, check=False)


def test_a_real_run_is_valid_and_sabotaged_ones_are_refused(runs: Runs) -> None:
    folder, run = runs
    assert run.returncode == 0, run.stdout + run.stderr
    assert "real run: 31,016 rows in 500 chunks came through" in run.stdout
    for stream in ("orders", "orders#put1", "orders#get1"):
        assert f"channel '{stream}': valid, " in run.stdout
    assert run.stdout.count("not a behaviour of the specification") == len(SABOTAGES)
    assert run.stdout.count("refused at the right step") == len(SABOTAGES)
    # The two ends of a stream come from two processes, with nothing in common but its name.
    trace = read_trace(folder / "real")
    assert trace.is_complete
    assert {len(trace.channels[stream].logs) for stream in ("orders#put1", "orders#get1")} == {2}


@pytest.mark.parametrize("sabotage", SABOTAGES)
def test_the_command_shows_what_a_sabotaged_run_did(sabotage: str, runs: Runs) -> None:
    folder, _ = runs

    answer = CliRunner().invoke(app, ["trace", "validate", str(folder / sabotage)])

    assert answer.exit_code == 1
    assert "orders#put1: not a behaviour of the specification" in answer.stdout
    culprit = "Deliver (617 rows" if sabotage == "on-receipt" else "AddPermits (permits: "
    assert culprit in answer.stdout
    # Whether returned permits contradict the books, or were returned by nobody, depends on how far the ends had come.
    assert "is impossible: " in answer.stdout or "has no cause: " in answer.stdout
