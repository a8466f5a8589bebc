"""The connections of a gRPC server as the kernel knows them: gRPC tells nobody who has made them, and closes none.

Linux lists a process's sockets in ``/proc/self/fd``.  Elsewhere none is found, and nobody is hung up on.
"""

import errno
import os
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
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


class Look(NamedTuple):
    """What a look has found."""

    come: list[Name]
    """Since the last look."""
    gone: list[Name]
    is_whole: bool = True
    """False: there was no free descriptor to look with, and others may have come."""
    twins: Sequence[tuple[Name, int]] = ()
    """Those that it has hung up on, since an older one has their name, and how many bytes had come of each."""


class _Connection(NamedTuple):
    name: Name
    host: str
    """The address that was dialled; of IPv4 over a socket of IPv6, as in ``::ffff:127.0.0.1``."""

    def is_of(self, hosts: Collection[str]) -> bool:
        """Is it of a server that listens at these addresses?  One at all of IPv4 has none of IPv6, and vice versa."""
        return self.host in hosts or ("::" if ":" in self.host else "0.0.0.0") in hosts


class Entry(NamedTuple):
    """An open socket of this process."""

    descriptor: str
    socket: str
    """The kernel's name of it, which no later socket has."""

    @property
    def is_there(self) -> bool:
        """Is it open?  This takes no descriptor."""
        with suppress(OSError):
            return os.readlink(f"{_DESCRIPTORS}/{self.descriptor}") == self.socket
        return False


class GrpcConnections:
    """The connections that were accepted at one port of this process."""

    def __init__(self, port: int, own: Collection[Entry] = ()) -> None:
        """Look at none yet.

        Args:
            port: of the server.
            own: sockets, with those of the server among them: others may listen at the same port of another address.
                None: nobody does.
        """
        self._port, self._own = port, own
        self._entries: dict[Entry, _Connection | None] = {}
        self._by_name: dict[Name, Entry] = {}
        self._listening: dict[Entry, str] = {}
        """The sockets that accept them, and their addresses."""

    def look(self) -> Look:
        """Look who is there; some microseconds for each descriptor.

        A host may dial two addresses from one port: gRPC does not tell of which connection a call is.  So the newer one
        is hung up on: nobody can end a connection of another program on its host so.
        """
        try:
            entries = [*_sockets()]
        except OSError as error:  # otherwise the system has no such list
            return Look([], [], is_whole=error.errno not in (errno.EMFILE, errno.ENFILE))
        former, here = self._entries, {*entries}
        self._entries = {entry: found for entry, found in former.items() if entry in here}
        is_whole = True
        for entry in entries:
            if entry in former:
                continue
            with _opened(entry) as opened:
                if opened is None:  # the next look asks again
                    is_whole = is_whole and not entry.is_there
                else:
                    self._entries[entry] = self._see(entry, opened)
        hosts = frozenset(self._listening.values())
        names, dialled, twins = dict[Name, Entry](), dict[Name, str](), list[tuple[Name, int]]()
        for entry, each in self._entries.items():
            if each is None or not each.is_of(hosts):
                continue
            # Of one address there are no two: the older one is over.
            if dialled.setdefault(each.name, each.host) == each.host:
                names[each.name] = entry
            else:
                if entry not in former and (traffic := _traffic(entry)) is not None:
                    twins.append((each.name, traffic.received_bytes))
                _shut(entry)
        come = [name for name, entry in names.items() if self._by_name.get(name) != entry]
        gone = [name for name, entry in self._by_name.items() if names.get(name) != entry]
        self._by_name = names
        return Look(come, gone, is_whole, tuple(twins))

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
        return entry is not None and _shut(entry)

    def traffic(self, name: Name) -> Traffic | None:
        """Of this connection, of which a look has told, as the kernel has counted it; None: nobody knows."""
        return None if (entry := self._by_name.get(name)) is None else _traffic(entry)

    def _see(self, entry: Entry, found: socket.socket) -> _Connection | None:
        """None: it is no connection at this port."""
        if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
            return None
        with suppress(OSError):  # it has no peer any more
            host, port = found.getsockname()[:2]
            if port != self._port:
                return None
            if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                if not self._own or entry in self._own:
                    self._listening[entry] = host
                return None
            peer_host, peer_port = found.getpeername()[:2]
            return _Connection(Name(_plain(peer_host), peer_port), host)
        return None


def sockets() -> Collection[Entry]:
    """Those that are open now; none if nobody knows."""
    with suppress(OSError):
        return frozenset(_sockets())
    return ()


def _sockets() -> Iterator[Entry]:
    for descriptor in os.listdir(_DESCRIPTORS):
        with suppress(OSError):  # closed meanwhile
            if (target := os.readlink(f"{_DESCRIPTORS}/{descriptor}")).startswith("socket:"):
                yield Entry(descriptor, target)


@contextmanager
def _opened(entry: Entry) -> Iterator[socket.socket | None]:
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


def _traffic(entry: Entry) -> Traffic | None:
    with _opened(entry) as found:
        if found is None:
            return None
        info = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    return Traffic(*(int.from_bytes(info[part], sys.byteorder) for part in (_RECEIVED, _ACKNOWLEDGED)))


def _shut(entry: Entry) -> bool:
    """False: it was closed, or no descriptor is free."""
    with _opened(entry) as found:
        if found is None:
            return False
        with suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)
            while found.recv(_BYTES_AT_ONCE, socket.MSG_TRUNC | socket.MSG_DONTWAIT):
                pass  # gRPC would go through all that has come
        return True
