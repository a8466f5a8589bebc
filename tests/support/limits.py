"""Limits that the system sets to a process, for tests of what happens when they are reached."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["files_of_at_most", "limited"]


@contextmanager
def limited(limit: int, value: int) -> Iterator[None]:
    """This limit of the process, one of ``resource.RLIMIT_...``, has that value within the block."""
    before = resource.getrlimit(limit)
    resource.setrlimit(limit, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(limit, before)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """No file of this process can grow beyond that, as if the disk were full."""
    with limited(resource.RLIMIT_FSIZE, size_bytes):
        yield
