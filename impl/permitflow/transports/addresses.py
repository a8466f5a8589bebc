"""Addresses of an exchange, as those who listen and those who dial write them."""

from permitflow.errors import InvalidParametersError

__all__ = ["ONE_ADDRESS", "SCHEME", "is_tcp"]

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
