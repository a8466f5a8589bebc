"""The C library's memory, for processes that move large chunks over gRPC."""

import ctypes
import sys

__all__ = ["keep_large_blocks"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
# The most that glibc accepts.
_LARGE_BYTES = 32 << 20


def keep_large_blocks() -> bool:
    """Let glibc keep the memory of large messages for the next ones, in all of this process; say whether it does.

    By default it gets each block above 128 KiB from the kernel and returns it at once, so that gRPC spends more time
    on getting fresh pages than on moving data.  Costs memory: what was needed once stays with the process.  The same
    as ``MALLOC_MMAP_THRESHOLD_=33554432 MALLOC_TRIM_THRESHOLD_=33554432`` in its environment.  For both ends.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(name, _LARGE_BYTES) == 1 for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD))
