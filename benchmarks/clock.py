"""One clock for producer and consumer: what one process reads can be subtracted from what the other one has read."""

import time

__all__ = ["now", "require_one_clock"]

# Of the system and not of a process: on Linux, and on macOS.
ONE_FOR_ALL = ("clock_gettime(CLOCK_MONOTONIC)", "mach_absolute_time()")

now = time.perf_counter


def require_one_clock() -> None:
    """Refuse to compare where each process may have a clock of its own.

    Raises:
        AssertionError: nobody knows whether that is so here.
    """
    clock = time.get_clock_info("perf_counter").implementation
    assert clock in ONE_FOR_ALL, f"{clock} may differ from process to process: what began in one cannot end in another"
