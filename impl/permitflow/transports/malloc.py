"""The C library's memory, for processes that move large chunks over gRPC."""

from functools import cache

__all__ = ["expect_large_blocks"]

# Several messages of gRPC.
_EXPECTED_BYTES = 8 << 20


@cache
def expect_large_blocks() -> None:
    """Let glibc learn, once in this process, that blocks of some MiB come and go; what gRPC does as soon as it is used.

    By default it gets each block above 128 KiB from the kernel and returns it at once, so that gRPC spends more time
    on getting fresh pages than on moving data.  It learns from the first such block that is freed, see ``mallopt(3)``:
    from then on it keeps blocks up to that size, and gives back what is free beyond twice as much, in each of the heaps
    that threads have: some tens of MiB stay with a process that moves large chunks.  Here it is freed before the first
    message, and nothing of it was ever touched.  Whoever has told glibc what to do (``MALLOC_MMAP_THRESHOLD_``,
    ``mallopt``) has told it not to learn; so that stands.
    """
    bytearray(_EXPECTED_BYTES)
