"""glibc keeps large blocks where it is asked to: fresh pages are asked of the kernel once, not for each block."""

import subprocess
import sys

import pytest

FAULTS_OF_MANY_BLOCKS = """
import resource
from permitflow.transports.malloc import keep_large_blocks
{}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def blocks():
    [b"x" * 1_000_000 for _ in range(8)]
blocks()
before = faults()
for _ in range(50):
    blocks()
print(faults() - before)
"""


def faults(preparation: str) -> int:
    command = [sys.executable, "-c", FAULTS_OF_MANY_BLOCKS.format(preparation)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's own")
def test_large_blocks_are_kept_by_who_wants_it() -> None:
    assert faults("assert keep_large_blocks()") < 1_000 < faults("")
