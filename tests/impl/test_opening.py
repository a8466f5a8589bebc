"""What needs an extra says so where the extra is missing."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("use", "missing", "extra"),
    [
        ("import permitflow.spark", "pyspark", "spark"),
        ("import permitflow.client", "pyarrow", "grpc"),
        (
            "import asyncio; from permitflow.client import get; asyncio.run(get('[::1]:1', 'a').__aenter__())",
            "grpc",
            "grpc",
        ),
    ],
)
def test_a_use_names_the_extra_that_is_missing(use: str, missing: str, extra: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; {use}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    told = f"ModuleNotFoundError: {missing} is not installed: pip install 'permitflow[{extra}]'"
    assert done.stderr.splitlines()[-1] == told
