"""What the system gives a process, for tests: descriptors, limits, addresses, time, and children."""

import gc
import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from permitflow.carriers.shared_memory.region import RING_NAME


@contextmanager
def nothing_stays_open(*, patience_seconds: float = 10.0) -> Iterator[None]:
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
    until = time.monotonic() + patience_seconds
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


@contextmanager
def reserved_address() -> Iterator[str]:
    """An address of this host that the system gives to no other socket, also while nothing listens there.

    One server at a time can listen there if it names the address.
    """
    with socket.socket() as held:
        # Without it no other socket could listen; with it, this one must not.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def workers() -> set[psutil.Process]:
    """All worker processes of this one: compare sets."""
    return {child for child in psutil.Process().children() if _is_worker(child)}


def _is_worker(child: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:  # a child of another test, which has ended
        return False
