"""The connections of a gRPC server as the kernel knows them: gRPC tells nobody who has made them, and closes none.

Linux lists a process's sockets in ``/proc/self/fd``.  Elsewhere none is found, and nobody is hung up on.
"""

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple

from permitflow.carriers.packet_filter import drop_from

_DESCRIPTORS: Final = "/proc/self/fd"
_BYTES_AT_ONCE: Final = 1 << 20
_INFO_BYTES: Final = 136
_ACKNOWLEDGED, _RECEIVED = slice(120, 128), slice(128, 136)
"""Of ``tcpi_bytes_acked`` and ``tcpi_bytes_received`` in Linux's ``tcp_info`` (linux/tcp.h, of 4.1 and later)."""


class Name(NamedTuple):
    """The name of a peer's end of a connection."""

    host: str
    port: int

    @classmethod
    def of_call(cls, peer: str) -> "Name | None":
        """Of a peer as in ``ipv4:203.0.113.5:4242`` or ``ipv6:[2001:db8::1]:4242``; None: it is not over TCP."""
        address = peer.partition(":")[2]
        host, _, port = address.rpartition(":")
        try:
            return cls(_plain(host.strip("[]")), int(port))
        except ValueError:
            return None


@lru_cache(1_024)  # a peer makes many calls
def _plain(host: str) -> str:
    """The address without its zone, and as IPv4 if it is one."""
    found = ip_address(host.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


class Traffic(NamedTuple):
    """How many bytes a connection has had so far."""

    received_bytes: int
    acknowledged_bytes: int
    """Of what this end has sent, as much as the peer's kernel has."""


class _Entry(NamedTuple):
    descriptor: str
    socket: str
    """The kernel's name of it, which no later socket has."""


class GrpcConnections:
    """The connections that were accepted at one port of this process."""

    def __init__(self, port: int) -> None:
        """Look at none yet."""
        self._port = port
        self._entries: dict[_Entry, Name | None] = {}
        self._by_name: dict[Name, _Entry] = {}
        self._listening: list[_Entry] = []
        """The sockets that accept them."""

    def look(self) -> tuple[list[Name], list[Name]]:
        """Names that have come since the last look, and names that have gone; some microseconds for each descriptor."""
        try:
            entries = [*_sockets()]
        except OSError:  # no descriptor is free to look with, or the system has no such list
            return [], []
        former, self._entries = self._entries, {}
        for entry in entries:
            if entry in former:
                self._entries[entry] = former[entry]
                continue
            with _opened(entry) as found:
                if found is not None:  # else it was closed, or no descriptor is free: the next look asks again
                    self._entries[entry] = self._name_in(found)
                    if self._is_listening(found):
                        self._listening.append(entry)
        names = {name: entry for entry, name in self._entries.items() if name is not None}
        come = [name for name, entry in names.items() if self._by_name.get(name) != entry]
        gone = [name for name, entry in self._by_name.items() if names.get(name) != entry]
        self._by_name = names
        return come, gone

    def drop_from(self, networks: Sequence[str]) -> bool:
        """Let new connections from these networks, and no others, wait; see ``packet_filter``.

        Returns:
            False: they do not, or not all; no descriptor is free, or this system cannot do it.
        """
        dropping = 0
        for entry in self._listening:
            with _opened(entry) as found:
                dropping += found is not None and drop_from(found, networks)
        return 0 < len(self._listening) == dropping

    def hang_up(self, name: Name) -> bool:
        """Shut this connection, of which a look has told; gRPC notices that, and releases it.  False: it is gone."""
        entry = self._by_name.get(name)
        if entry is None:
            return False
        with _opened(entry) as found:
            if found is None:
                return False
            with suppress(OSError):
                found.shutdown(socket.SHUT_RDWR)
                while found.recv(_BYTES_AT_ONCE, socket.MSG_TRUNC | socket.MSG_DONTWAIT):
                    pass  # gRPC would go through all that has come
            return True

    def traffic(self, name: Name) -> Traffic | None:
        """Of this connection, of which a look has told, as the kernel has counted it; None: nobody knows."""
        if (entry := self._by_name.get(name)) is None:
            return None
        with _opened(entry) as found:
            if found is None:
                return None
            info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        return Traffic(*(int.from_bytes(info[part], sys.byteorder) for part in (_RECEIVED, _ACKNOWLEDGED)))

    def _name_in(self, found: socket.socket) -> Name | None:
        if not self._is_of_port(found):
            return None
        try:
            host, port = found.getpeername()[:2]  # a listening socket has none
        except OSError:
            return None
        return Name(_plain(host), port)

    def _is_listening(self, found: socket.socket) -> bool:
        return self._is_of_port(found) and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))

    def _is_of_port(self, found: socket.socket) -> bool:
        if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
            return False
        with suppress(OSError):
            return bool(found.getsockname()[1] == self._port)
        return False


def _sockets() -> Iterator[_Entry]:
    for descriptor in os.listdir(_DESCRIPTORS):
        with suppress(OSError):  # closed meanwhile
            if (target := os.readlink(f"{_DESCRIPTORS}/{descriptor}")).startswith("socket:"):
                yield _Entry(descriptor, target)


@contextmanager
def _opened(entry: _Entry) -> Iterator[socket.socket | None]:
    """The socket, whatever becomes of its descriptor meanwhile; None: it was closed, or no descriptor is free."""
    try:
        descriptor = os.dup(int(entry.descriptor))
    except OSError:
        yield None
        return
    found: socket.socket | None = None
    try:
        # The descriptor may have become another one's since.
        if os.readlink(f"{_DESCRIPTORS}/{descriptor}") == entry.socket:
            found = socket.socket(fileno=descriptor)
        yield found
    finally:
        os.close(descriptor) if found is None else found.close()
