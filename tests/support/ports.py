"""Addresses for exchanges that are started again where they were."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["reserved_address"]


@contextmanager
def reserved_address() -> Iterator[str]:
    """An address of this host that the system gives to nobody else, also while nobody listens there.

    Whoever names it can listen there, one at a time.
    """
    with socket.socket() as held:
        # Without it nobody could; with it, this socket must not listen itself.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"
