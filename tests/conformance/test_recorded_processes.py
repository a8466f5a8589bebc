"""Recorded runs of two processes: real ones are valid, sabotaged ones are refused.

`nox -s trace-evidence` does the same with 100,000 chunks; the demo records two Spark jobs.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.sabotage import SABOTAGES
from permitflow.tracing import read_trace


def test_a_real_run_is_valid_and_sabotaged_ones_are_refused(repository: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.record_two_processes", "--chunks", "500", "--keep", str(tmp_path)]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=250, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "real run: 31,016 rows in 500 chunks came through" in run.stdout
    for stream in ("orders", "orders#put1", "orders#get1"):
        assert f"channel '{stream}': valid, " in run.stdout
    assert run.stdout.count("not a behaviour of the specification") == len(SABOTAGES)
    assert run.stdout.count("refused at the right step") == len(SABOTAGES)
    # The two ends of a stream come from two processes, with nothing in common but its name.
    trace = read_trace(tmp_path / "real")
    assert trace.is_complete
    assert {len(trace.channels[stream].logs) for stream in ("orders#put1", "orders#get1")} == {2}
