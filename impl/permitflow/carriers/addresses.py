"""Addresses of an exchange, wherever one is given: to a server, a client, the command line, as an option of Spark."""

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address
from typing import NamedTuple

from permitflow.errors import InvalidParametersError


class Scheme(StrEnum):
    """What stands before host and port."""

    GRPC = ""
    TCP = "tcp://"
    """Used without gRPC."""
    UDP = "udp://"
    """Used without gRPC; what the network loses is sent again."""


_WRITTEN = tuple(filter(None, Scheme))
_FORMS = " or ".join(f"{each}host:port" for each in _WRITTEN)

_LAST_PORT = 65_535
# Words that gRPC takes for a scheme, with something else than a port behind the colon.
_MOST_KNOWN = 256
"""Addresses that are not taken apart again: each stream asks for the parts of its own several times."""
_SCHEMES_OF_GRPC = {"unix", "unix-abstract", "vsock", "dns", "ipv4", "ipv6", "xds"}


class Address(NamedTuple):
    """A host and a port, and what carries the streams."""

    scheme: Scheme
    host: str
    port: int


def parsed(address: str, *, least_port: int = 1) -> Address:
    """The parts of ``host:port``, for gRPC, ``tcp://host:port`` or ``udp://host:port``; an IPv6 address in brackets.

    Args:
        address: the text.
        least_port: 0 where a server may choose any free port.

    Raises:
        InvalidParametersError: the address has another form, such as a list, or the scheme of another protocol.
    """
    if not isinstance(address, str):
        raise InvalidParametersError(name="address", value=address, rule="must be text, as in localhost:50051")
    return _parsed(address, least_port)


@lru_cache(_MOST_KNOWN)
def _parsed(address: str, least_port: int) -> Address:
    rule = _broken_rule(address, least_port)
    if rule:
        raise InvalidParametersError(name="address", value=address, rule=rule)
    scheme = scheme_of(address)
    host, _, port = address.removeprefix(scheme).rpartition(":")
    return Address(scheme, host.removeprefix("[").removesuffix("]"), int(port))


def several(text: str) -> tuple[str, ...]:
    """The addresses of the exchanges that share a stream's channels: one, or some with commas between them.

    Raises:
        InvalidParametersError: one of them is malformed, or there twice.
    """
    if not isinstance(text, str):
        parsed(text)  # which says what is wrong
    return _several(text)


@lru_cache(_MOST_KNOWN)
def _several(text: str) -> tuple[str, ...]:
    found = tuple(written(parsed(each.strip())) for each in text.split(","))
    for each in found:
        if found.count(each) > 1:
            raise InvalidParametersError(name="address", value=text, rule=f"must not name {each} twice")
    return found


def ranked(addresses: Sequence[str], channel: str) -> tuple[str, ...]:
    """Exchanges in the order in which a channel is looked for; the first one has it if nobody has chosen another.

    Rendezvous hashing: by the BLAKE2b hash, of 8 bytes, of address, a line feed and channel in UTF-8, the highest
    first.  So if an exchange leaves, only its own channels get another first one.
    """
    return tuple(sorted(addresses, key=lambda each: (_weight(each, channel), each), reverse=True))


def _weight(address: str, channel: str) -> bytes:
    return blake2b(f"{address}\n{channel}".encode(), digest_size=8).digest()


def scheme_of(text: str) -> Scheme:
    """The scheme with which a text begins, whether or not an address follows."""
    return next((each for each in _WRITTEN if text.startswith(each)), Scheme.GRPC)


def written(address: Address) -> str:
    """An address as ``parsed`` reads it."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{address.scheme}{host}:{address.port}"


def is_loopback(host: str) -> bool:
    """Is this ``localhost``, or an address of the loopback, which no other host reaches?"""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"


def _broken_rule(address: str, least_port: int) -> str:
    """What is wrong with an address, as "must be …"; empty if nothing is."""
    if "," in address:  # gRPC would use any of them
        return "must be a single host:port here"
    scheme, separator, _ = address.rpartition("://")
    if separator and not scheme_of(address):
        return f"must be host:port, {_FORMS}, without {scheme}://"
    host, colon, port = address.removeprefix(scheme_of(address)).rpartition(":")
    form = f"must be host:port, as in localhost:50051, {_FORMS}"
    if not colon or not _is_host(host) or (not separator and host in _SCHEMES_OF_GRPC):
        return form
    # Python makes no number of thousands of digits.
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and least_port <= int(port) <= _LAST_PORT):
        return f"{form}, with a port of {least_port} to {_LAST_PORT}"
    return ""


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return ":" in host and all(letter.isalnum() or letter in ":.%_-" for letter in host[1:-1])
    try:
        host.encode("idna")  # as a name lookup does
    except ValueError:
        return False
    return bool(host) and host.isprintable() and not set(host) & set(" :/?#@[]\\")
