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
    growth, step, step_at = changes.get("growth", 0), changes.get("step", 0), changes.get("step_at", 0)
    sizes = [10**8 + n * growth // 10 + step * (n >= step_at) for n in range(changes.get("samples", 100))]
    samples = [soak.Sample(n / 10, size, 10**8) for n, size in enumerate(sizes)]
    return soak.Run(1.0, source, changes.get("rows", 100), samples)


def test_broken_promises_would_be_seen(soak: ModuleType) -> None:
    assert soak.broken_promises("x", a_run(soak), 100, 8) == []
    assert soak.broken_promises("x", a_run(soak, peak=9), 100, 8) == [
        "x: 9 permits were out on rows/0#get1, more than 8"
    ]
    assert soak.broken_promises("x", a_run(soak, rows=99), 100, 8) == ["x: 99 rows arrived, not 100"]


@pytest.mark.parametrize("samples", [40, 100, 3_000])
def test_growing_memory_would_be_seen(soak: ModuleType, samples: int) -> None:
    assert soak.growing(soak.growths(a_run(soak, samples=samples))) == []
    assert soak.growing(soak.growths(a_run(soak, samples=samples, growth=255 * 1024))) == []
    assert soak.growing(soak.growths(a_run(soak, samples=samples, growth=257 * 1024))) == [
        "slow consumer: the memory of the source grows by 257 KiB per second"
    ]


@pytest.mark.parametrize("at", [30, 40, 50, 80, 99])
def test_a_pool_that_is_filled_late_is_no_growth_and_hides_none(soak: ModuleType, at: int) -> None:
    assert soak.growing(soak.growths(a_run(soak, step=4 << 20, step_at=at))) == []
    assert soak.growing(soak.growths(a_run(soak, step=4 << 20, step_at=at, growth=2**19))) != []
    # Freed again, it hides nothing either.
    assert soak.growing(soak.growths(a_run(soak, step=-(4 << 20), step_at=at, growth=2**19))) != []
