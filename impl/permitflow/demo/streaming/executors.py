"""Finds the executors of a Spark driver among the processes of this machine."""

from collections.abc import Sequence

import psutil

from permitflow.demo.streaming.cluster import EXECUTOR_CLASS

__all__ = ["executors_of"]


def executors_of(driver: int) -> Sequence[psutil.Process]:
    """The JVMs of the executors that the driver with this process id has."""
    try:
        descendants = psutil.Process(driver).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return sorted(filter(_is_executor, descendants), key=lambda process: process.pid)


def _is_executor(process: psutil.Process) -> bool:
    try:
        return EXECUTOR_CLASS in process.cmdline()
    except psutil.Error:
        # It has ended, perhaps without anybody having asked how.
        return False
