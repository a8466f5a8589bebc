"""What needs an extra says so where the extra is missing."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("door", "missing", "extra"),
    [("permitflow.spark", "pyspark", "spark"), ("permitflow.client", "grpc", "grpc")],
)
def test_a_door_names_the_extra_that_is_missing(door: str, missing: str, extra: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import {door}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    told = f"ModuleNotFoundError: {missing} is not installed: pip install 'permitflow[{extra}]'"
    assert done.stderr.splitlines()[-1] == told
