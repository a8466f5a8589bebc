"""Executors are found among what a driver has started, also beside children that have ended and nobody asked for."""

import subprocess
import sys

import psutil

from permitflow.demo.streaming.cluster import EXECUTOR_CLASS
from permitflow.demo.streaming.executors import executors_of

# Two children: one that has ended and stays a zombie, and one that looks like an executor.
DRIVER = f"""
import subprocess, sys
gone = subprocess.Popen(["true"], stdout=subprocess.PIPE)
gone.stdout.read()
looks_like_one = [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()", "{EXECUTOR_CLASS}"]
executor = subprocess.Popen(looks_like_one, stdout=subprocess.PIPE)
executor.stdout.readline()  # before, the kernel may not know its command line
print(executor.pid, flush=True)
sys.stdin.read()
executor.kill()
"""


def test_an_executor_is_found_beside_a_zombie() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        executor = int(driver.stdout.readline())
        assert len(psutil.Process(driver.pid).children()) == 2
        assert [process.pid for process in executors_of(driver.pid)] == [executor]
        driver.communicate("")
    assert executors_of(driver.pid) == []
