"""Addresses of an exchange, wherever one is given: to a server, a client, the command line, as an option of Spark."""

from typing import NamedTuple

from permitflow.errors import InvalidParametersError

SCHEME = "tcp://"
"""The prefix of an address that is used without gRPC."""

_LAST_PORT = 65_535
# Words that gRPC takes for a scheme, with something else than a port behind the colon.
_SCHEMES_OF_GRPC = {"unix", "unix-abstract", "vsock", "dns", "ipv4", "ipv6", "xds"}


class Address(NamedTuple):
    """A host and a port, over TCP or over gRPC."""

    is_tcp: bool
    host: str
    port: int


def parsed(address: str, *, least_port: int = 1) -> Address:
    """The parts of ``host:port``, for gRPC, or ``tcp://host:port``; an IPv6 address stands in brackets.

    Args:
        address: the text.
        least_port: 0 where a server may choose any free port.

    Raises:
        InvalidParametersError: the address has another form, such as a list, or the scheme of another protocol.
    """
    rule = _broken_rule(address, least_port)
    if rule:
        raise InvalidParametersError(name="address", value=address, rule=rule)
    host, _, port = address.removeprefix(SCHEME).rpartition(":")
    return Address(address.startswith(SCHEME), host.removeprefix("[").removesuffix("]"), int(port))


def is_tcp(address: str) -> bool:
    """Does this address name an exchange over TCP, not over gRPC?

    Raises:
        InvalidParametersError: it is not an address that can be dialled.
    """
    return parsed(address).is_tcp


def _broken_rule(address: object, least_port: int) -> str:
    """What is wrong with an address, as "must be …"; empty if nothing is."""
    if not isinstance(address, str):
        return "must be text, as in localhost:50051"
    if "," in address:  # gRPC would use any of them
        return "must be a single host:port, because an exchange is one process"
    scheme, separator, _ = address.rpartition("://")
    if separator and scheme != "tcp":
        return f"must be host:port, or {SCHEME}host:port, without {scheme}://"
    host, colon, port = address.removeprefix(SCHEME).rpartition(":")
    form = f"must be host:port, as in localhost:50051, or {SCHEME}host:port"
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
