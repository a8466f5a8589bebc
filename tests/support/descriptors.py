"""What a process has open and mapped: leaks are told from what somebody else opens and closes meanwhile."""

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from permitflow.transports.shared_memory.region import RING_NAME

__all__ = ["nothing_stays_open", "open_descriptors", "ring_mappings"]

_PATIENCE_SECONDS = 10.0


@contextmanager
def nothing_stays_open() -> Iterator[None]:
    """What the block opens and maps is closed and unmapped after it.

    What was there before may be closed meanwhile, and what another thread opens is given some time: neither is the
    block's.

    Raises:
        AssertionError: if something stays; it names it.
    """
    gc.collect()
    before = open_descriptors() | ring_mappings()
    yield
    if not (open_descriptors() | ring_mappings()) - before:
        return  # no need to look through all that the process holds
    until = time.monotonic() + _PATIENCE_SECONDS
    gc.collect()
    while left := (open_descriptors() | ring_mappings()) - before:
        assert time.monotonic() < until, f"stays open: {sorted(map(str, left))}"
        time.sleep(0.001)


def open_descriptors() -> frozenset[tuple[str, str]]:
    """Number and target of each open descriptor of this process.

    A count would fall as well when the garbage of an earlier test, or a thread of a library, closes something of its
    own: compare sets, ``open_descriptors() - before``.
    """
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            found.add((descriptor.name, os.readlink(descriptor)))
        except FileNotFoundError:
            continue  # the one with which the folder was read, or one that was just closed
    return frozenset(found)


def ring_mappings() -> frozenset[str]:
    """Each mapping of shared memory that this process has, by its addresses and its inode; compare these, too."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return frozenset(line for line in lines if RING_NAME in line)
