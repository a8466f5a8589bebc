"""The memory of a ring: an anonymous, sealed file that both ends map.

It has no name, so the kernel frees it when both processes are gone, however they end.  Its size is sealed: a peer
that could shorten it could crash its reader.  The reader maps it without the right to write.

A forked child inherits every descriptor and mapping.  It closes its copies of the descriptors and sends nothing to
the peer, and its views return no space.  Its views stay readable, but their bytes may change once the parent has
released them.
"""

import contextlib
import fcntl
import mmap
import os
import secrets
import struct
import sys
import weakref
from typing import Protocol

from permitflow.errors import UndecodableDataError

RING_BYTES = 8 << 20
"""Fits into the cache of a processor core, and holds a window of a few large chunks."""

RING_NAME = "permitflow-ring"
"""The memory's name in the kernel's lists of mappings and descriptors; it is not an address."""

NONCE_BYTES = 32

# One page before the ring: format, size and nonce.
_HEADER = struct.Struct("<8sQ32s")
_HEADER_BYTES = 4096
_MAGIC = b"pfring01"

# Linux 5.1; Python 3.11's fcntl lacks the name.  Existing mappings may write, new ones may not.
_F_SEAL_FUTURE_WRITE = 0x10

_LEAST_BYTES = 64 << 10
_MOST_BYTES = 1 << 30


def why_impossible() -> str:
    """Why this system cannot share memory; empty if it can."""
    for name in ("memfd_create", "eventfd"):
        if not hasattr(os, name):
            return f"this system has no {name}"
    return ""


class Region:
    """One end's mapping.  It needs no closing: it lasts as long as it or a view of it has a reference."""

    def __init__(self, descriptor: int, capacity_bytes: int, nonce: bytes, *, writable: bool) -> None:
        """Map an open file; the caller keeps the descriptor.

        Raises:
            OSError: memory is limited, or writing is not allowed.
        """
        access = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
        size = _HEADER_BYTES + capacity_bytes
        # Before Python 3.13 a mapping keeps a duplicate of the descriptor.
        if sys.version_info >= (3, 13):
            self._map = mmap.mmap(descriptor, size, prot=access, trackfd=False)
        else:
            self._map = mmap.mmap(descriptor, size, prot=access)
        self.capacity_bytes = capacity_bytes
        self.nonce = nonce
        self.ring = memoryview(self._map)[_HEADER_BYTES:]


def create_region(capacity_bytes: int, *, writable: bool) -> tuple[Region, int]:
    """Make a region with a new nonce, and the descriptor for the peer.

    Args:
        capacity_bytes: of the ring.
        writable: whether this end writes; then no other mapping can.

    Raises:
        OSError: the system has reached a limit, or lacks a call.
    """
    descriptor = os.memfd_create(RING_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, _HEADER_BYTES + capacity_bytes)
        nonce = secrets.token_bytes(NONCE_BYTES)
        os.pwrite(descriptor, _HEADER.pack(_MAGIC, capacity_bytes, nonce), 0)
        region = Region(descriptor, capacity_bytes, nonce, writable=writable)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        if writable:
            _keep_for_this_end(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return region, descriptor


def open_region(descriptor: int, *, writable: bool) -> Region:
    """Map the region of a peer; the caller keeps the descriptor.

    Raises:
        UndecodableDataError: the file is not a region, or could be shortened.
        OSError: the file cannot be mapped.
    """
    size = os.fstat(descriptor).st_size
    if not _LEAST_BYTES <= size - _HEADER_BYTES <= _MOST_BYTES:
        raise _refused(f"it has {size} bytes")
    if not _seals(descriptor) & fcntl.F_SEAL_SHRINK:
        raise _refused("the peer could shorten it, because its size is not sealed")
    magic, capacity_bytes, nonce = _HEADER.unpack(os.pread(descriptor, _HEADER.size, 0))
    if magic != _MAGIC or capacity_bytes != size - _HEADER_BYTES:
        raise _refused(f"it begins with {magic!r} and gives its size as {capacity_bytes} bytes")
    region = Region(descriptor, capacity_bytes, nonce, writable=writable)
    if writable:
        _keep_for_this_end(descriptor)
    return region


def _keep_for_this_end(descriptor: int) -> None:
    """Forbid new mappings for writing, in every process."""
    # Older systems lack this seal.  It guards against defects, not against attacks by the same user.
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_SEAL)


def _seals(descriptor: int) -> int:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError as error:
        raise _refused(f"it is not an anonymous file ({error.strerror})") from error


def _refused(reason: str) -> UndecodableDataError:
    return UndecodableDataError(what="the shared memory that the peer offers", reason=reason)


class Forgetful(Protocol):
    """An object that holds descriptors."""

    def forget(self) -> None:
        """Close the descriptors and do nothing else; runs in the child, which has no other thread."""
        ...


_living: "weakref.WeakSet[Forgetful]" = weakref.WeakSet()


def forget_in_children(holder: Forgetful) -> None:
    """Call ``holder.forget`` in every child that is forked from now on."""
    _living.add(holder)


def _forget_all() -> None:
    for holder in list(_living):
        holder.forget()
    _living.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
