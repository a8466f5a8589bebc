"""What a process has open and mapped: leaks are told from what somebody else closes meanwhile."""

import os
from pathlib import Path

from permitflow.transports.shared_memory.region import RING_NAME

__all__ = ["open_descriptors", "ring_mappings"]


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
