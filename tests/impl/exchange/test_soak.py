"""The soak in small: two processes, the bound over many rows, and flat memory with a consumer 100 times slower."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(scope="module")
def soak(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("soak_grpc", repository / "benchmarks/soak_grpc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_many_rows_pass_within_the_bound_and_a_slow_consumer_costs_no_memory(repository: Path) -> None:
    script = repository / "benchmarks/soak_grpc.py"
    small = ["--rows", "300000", "--slow-seconds", "4", "--row-permits", "8192", "--chunk-rows", "256", "--json"]
    # What gRPC notes by the way is no error.
    environment = {**os.environ, "GRPC_VERBOSITY": "ERROR"}
    command = [sys.executable, str(script), *small]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["broken"] == []
    assert done.returncode == 0
    fast, slow = told["runs"]["full speed"], told["runs"]["slow consumer"]
    assert (fast["rows"], fast["chunks"]) == (300_000, 1172)
    assert fast["peak_permits_outstanding"] <= told["bound"] == 8192
    # The window was full: the bound was tried.
    assert slow["peak_permits_outstanding"] == slow["peak_permits_in_the_exchange"] == 8192
    assert slow["back_pressure_rate"] > 0.5
    assert slow["rows_per_second"] < fast["rows_per_second"] / 20


def a_run(soak: ModuleType, **changes: Any) -> Any:
    """A run that kept every promise, but for these changes."""
    stream = {"stream": "rows/0#get1", "numbers": {"peak_permits_outstanding": changes.get("peak", 8)}}
    source = {"name": "rows/0", "numbers": {"peak_permits_outstanding": 8}, "streams": [stream]}
    growth = changes.get("growth", 0)
    samples = [soak.Sample(n / 10, 10**8 + n * growth // 10, 10**8) for n in range(100)]
    return soak.Run(1.0, source, changes.get("rows", 100), samples)


def test_broken_promises_would_be_seen(soak: ModuleType) -> None:
    assert soak.broken_promises("x", a_run(soak), 100, 8) == []
    assert soak.broken_promises("x", a_run(soak, peak=9), 100, 8) == [
        "x: 9 permits were out on rows/0#get1, more than 8"
    ]
    assert soak.broken_promises("x", a_run(soak, rows=99), 100, 8) == ["x: 99 rows arrived, not 100"]


def test_growing_memory_would_be_seen(soak: ModuleType) -> None:
    assert soak.growing(soak.growths(a_run(soak)), 10.0) == []
    assert soak.growing(soak.growths(a_run(soak, growth=2**20)), 10.0) == [
        "slow consumer: the memory of the source grows by 1024 KiB per second"
    ]
