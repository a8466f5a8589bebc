"""Finds the executors of a Spark driver among the processes of this machine."""

from collections.abc import Sequence

import psutil

from permitflow.demo.streaming.cluster import EXECUTOR_CLASS

__all__ = ["executors_of"]


def executors_of(driver: int) -> Sequence[psutil.Process]:
    """The JVMs of the executors that the driver with this process id has; the longest there comes first."""
    try:
        descendants = psutil.Process(driver).children(recursive=True)
        found = [process for process in descendants if EXECUTOR_CLASS in process.cmdline()]
        return sorted(found, key=lambda process: (process.create_time(), process.pid))
    except psutil.Error:
        # One of them has ended while we looked.
        return []
