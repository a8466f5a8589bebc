"""What a process has open: leaks are told from what somebody else closes meanwhile."""

import os
from pathlib import Path

__all__ = ["open_descriptors"]


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
