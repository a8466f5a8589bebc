"""Addresses of an exchange, for the server that listens and the client that dials."""

from urllib.parse import urlsplit

from permitflow.errors import InvalidParametersError

SCHEME = "tcp://"
"""The prefix of an address that is used without gRPC."""

ONE_ADDRESS = "must be a single host:port, because an exchange is one process"


def is_tcp(address: str) -> bool:
    """Does this address name an exchange over TCP, not over gRPC?

    Raises:
        InvalidParametersError: it is a list of addresses; gRPC would use any of them.
    """
    if "," in address:
        raise InvalidParametersError(name="address", value=address, rule=ONE_ADDRESS)
    return address.startswith(SCHEME)


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of ``tcp://host:port``.

    Raises:
        InvalidParametersError: the address has another form.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
        (host or "").encode("idna")  # as a name lookup does
    except ValueError:
        host = port = None
    if not address.startswith(SCHEME) or host is None or port is None:
        raise InvalidParametersError(name="address", value=address, rule=f"must be {SCHEME}host:port")
    return host, port
