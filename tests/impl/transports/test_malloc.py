"""glibc keeps large blocks once it expects them: fresh pages are asked of the kernel once, not for each block."""

import os
import subprocess
import sys

import pytest

FAULTS_OF_MANY_BLOCKS = """
import resource
from permitflow.transports.connection import expect_large_blocks
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


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's own")


def faults(preparation: str, **environment: str) -> int:
    command = [sys.executable, "-c", FAULTS_OF_MANY_BLOCKS.format(preparation)]
    told = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return int(told.stdout)


@LINUX
def test_blocks_of_messages_are_kept_once_they_are_expected() -> None:
    assert faults("expect_large_blocks()") < 1_000 < faults("")


@LINUX
def test_who_has_decided_otherwise_is_heeded() -> None:
    assert faults("expect_large_blocks()", MALLOC_MMAP_THRESHOLD_="131072") > 1_000
