"""Addresses of an exchange, as those who listen and those who dial write them."""

from urllib.parse import urlsplit

from permitflow.errors import InvalidParametersError

__all__ = ["ONE_ADDRESS", "SCHEME", "host_and_port", "is_tcp"]

SCHEME = "tcp://"
"""Before an address that is used without gRPC."""

ONE_ADDRESS = "must be a single host:port, because an exchange is one process"


def is_tcp(address: str) -> bool:
    """Is an exchange served, or dialled, at this address over TCP, and not over gRPC?

    Raises:
        InvalidParametersError: it is a list of addresses, of which gRPC would take any.
    """
    if "," in address:
        raise InvalidParametersError(name="address", value=address, rule=ONE_ADDRESS)
    return address.startswith(SCHEME)


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of ``tcp://host:port``.

    Raises:
        InvalidParametersError: it is none.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as looking it up would
    except ValueError:
        host = port = None
    if not address.startswith(SCHEME) or host is None or port is None:
        raise InvalidParametersError(name="address", value=address, rule=f"must be {SCHEME}host:port")
    return host, port
