"""Shared memory has no name, cannot be shortened, and is written by one end only."""

import fcntl
import mmap
import os
from collections.abc import Callable

import pytest

from permitflow.errors import UndecodableDataError
from permitflow.transports.shared_memory.region import create_region, open_region

REGION_BYTES = 64 << 10


@pytest.mark.parametrize("creator_writes", [True, False])
def test_what_one_end_writes_the_other_reads(creator_writes: bool) -> None:
    mine, descriptor = create_region(REGION_BYTES, writable=creator_writes)
    theirs = open_region(descriptor, writable=not creator_writes)
    os.close(descriptor)
    writer, reader = (mine, theirs) if creator_writes else (theirs, mine)
    writer.ring[:5] = b"bytes"
    assert bytes(reader.ring[:5]) == b"bytes"
    assert mine.nonce == theirs.nonce
    assert reader.ring.readonly


@pytest.mark.parametrize("creator_writes", [True, False])
def test_nobody_can_shorten_it_or_write_into_it_once_both_have_it(creator_writes: bool) -> None:
    _, descriptor = create_region(REGION_BYTES, writable=creator_writes)
    open_region(descriptor, writable=not creator_writes)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 4096)
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        mmap.mmap(descriptor, 4096)
    os.close(descriptor)


def test_each_has_a_nonce_of_its_own_and_is_for_this_user_only() -> None:
    (one, first), (other, second) = create_region(REGION_BYTES, writable=True), create_region(REGION_BYTES, writable=True)
    assert one.nonce != other.nonce
    assert os.fstat(first).st_mode & 0o777 == 0o600
    assert not os.get_inheritable(first)
    os.close(first)
    os.close(second)


def unsealed() -> int:
    descriptor = os.memfd_create("unsealed", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, REGION_BYTES + 4096)
    return descriptor


def too_small() -> int:
    return os.memfd_create("small", os.MFD_ALLOW_SEALING)


def somebody_elses() -> int:
    descriptor = unsealed()
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    return descriptor


def a_pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (unsealed, "it could be shortened while it is read"),
        (too_small, "it has 0 bytes"),
        (somebody_elses, "it begins with "),
        (a_pipe, "it has 0 bytes"),
    ],
)
def test_other_memory_is_refused(wrong: Callable[[], int], reason: str) -> None:
    descriptor = wrong()
    with pytest.raises(UndecodableDataError, match=f"the shared memory that the peer offers .*: {reason}"):
        open_region(descriptor, writable=False)
    os.close(descriptor)
