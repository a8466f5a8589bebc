"""What one process says about itself: processor seconds and memory."""

import resource
import sys
import time
from pathlib import Path

__all__ = ["cpu_seconds", "forget_peak_memory", "peak_memory_bytes"]

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")
# See proc(5): 5 sets the peak of resident memory to what it is now.
_RESET_PEAK = "5"


def cpu_seconds() -> float:
    """All threads, user and system."""
    return time.process_time()


def forget_peak_memory() -> None:
    """Begin a new measurement; without effect where the kernel cannot."""
    if _RESET.exists():
        _RESET.write_text(_RESET_PEAK)


def peak_memory_bytes() -> int:
    """The most resident memory since ``forget_peak_memory``, or since the start of the process."""
    if _STATUS.exists():
        (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
