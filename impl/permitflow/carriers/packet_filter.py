"""Drops what comes to a listening socket from some hosts, as a firewall does: who dials from there waits.

Linux runs a small program over each packet (``bpf(4)``, linux/filter.h), for which a process needs no privileges.
Elsewhere nothing is dropped.
"""

import ctypes
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

_SO_ATTACH_FILTER: Final = 26
_FROM_NETWORK_HEADER: Final = 0xFFF00000
_IPV4_SOURCE, _IPV6_SOURCE = _FROM_NETWORK_HEADER + 12, _FROM_NETWORK_HEADER + 8
_LOAD_BYTE, _LOAD, _AND, _JUMP_UNLESS_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
_VERSION_BITS, _IPV4 = 0xF0, 0x40
_DROP, _TAKE = 0, 0xFFFFFFFF
MOST_NETWORKS: Final = 60
"""A jump goes over 255 instructions at most."""


def drop_from(listener: socket.socket, networks: Sequence[str]) -> bool:
    """Drop what comes from these networks and no others: connections that are open already do not notice.

    Args:
        listener: of TCP.
        networks: a host of IPv4, or a network of IPv6 with a prefix of 64 bits; the last ``MOST_NETWORKS`` count.

    Returns:
        False: this system cannot do it.
    """
    if sys.platform != "linux":
        return False
    found = [ip_network(network) for network in networks[-MOST_NETWORKS:]]
    program = b"".join(struct.pack("=HBBI", *each) for each in _program(found))
    code = ctypes.create_string_buffer(program, len(program))
    number = len(program) // struct.calcsize("=HBBI")
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", number, ctypes.addressof(code)))
        return True
    return False


_Instruction = tuple[int, int, int, int]
"""Its code, how many to skip if it holds and if not, and its number."""


def _program(networks: Sequence[IPv4Network | IPv6Network]) -> list[_Instruction]:
    of_ipv4, of_ipv6 = list[_Instruction](), list[_Instruction]()
    drop = (_RETURN, 0, 0, _DROP)
    for network in networks:
        address = int(network.network_address)
        if network.version == 4:
            of_ipv4 += [(_JUMP_UNLESS_EQUAL, 0, 1, address), drop]
        else:
            upper, lower = address >> 96, address >> 64 & 0xFFFFFFFF
            of_ipv6 += [
                (_LOAD, 0, 0, _IPV6_SOURCE),
                (_JUMP_UNLESS_EQUAL, 0, 3, upper),
                (_LOAD, 0, 0, _IPV6_SOURCE + 4),
                (_JUMP_UNLESS_EQUAL, 0, 1, lower),
                drop,
            ]
    take = (_RETURN, 0, 0, _TAKE)
    of_ipv4 = [(_LOAD, 0, 0, _IPV4_SOURCE), *of_ipv4, take]
    begin = [
        (_LOAD_BYTE, 0, 0, _FROM_NETWORK_HEADER),
        (_AND, 0, 0, _VERSION_BITS),
        (_JUMP_UNLESS_EQUAL, 0, len(of_ipv4), _IPV4),
    ]
    return [*begin, *of_ipv4, *of_ipv6, take]
