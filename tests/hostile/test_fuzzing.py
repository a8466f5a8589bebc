"""A minute of drawing anew finds nothing."""

import subprocess
import sys

import pytest

SECONDS = 60


@pytest.mark.long
def test_a_minute_of_fuzzing_finds_nothing() -> None:
    command = [sys.executable, "-m", "tests.hostile", "fuzz", "--seconds", str(SECONDS)]
    outcome = subprocess.run(command, check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
