"""How a client dials an exchange: its address says over which carrier.

A simulator replaces the network for the tasks of one context (``dialling_with``); everything above stays the same code.
"""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from permitflow.carriers import tcp
from permitflow.carriers.addresses import Scheme, parsed
from permitflow.carriers.carrier import Carrier
from permitflow.carriers.datagrams import udp
from permitflow.carriers.deadlines import SILENCE_SECONDS, require_seconds


class Calling(Protocol):
    """Dials: makes a connection on entry, and has released it on exit."""

    def __call__(
        self, address: str, method: str, who: str, timeout_seconds: float | None, silence_seconds: float = ...
    ) -> AbstractAsyncContextManager[Carrier]:
        """A stream of one method of the exchange at this address.

        Args:
            address: of the exchange.
            method: its full name.
            who: the peer, in words for an error.
            timeout_seconds: how long to wait for a connection; None: fail if no server listens there yet.
            silence_seconds: a peer that gives no sign of life for longer is gone.

        Raises:
            InvalidParametersError: the address is malformed.
            PeerTimeoutError: no server answers there in time.
            PeerGoneError: no server has answered there, without retrying.
        """
        ...


_chosen: ContextVar[Calling | None] = ContextVar("_chosen", default=None)


def calling(
    address: str, method: str, who: str, timeout_seconds: float | None, silence_seconds: float = SILENCE_SECONDS
) -> AbstractAsyncContextManager[Carrier]:
    """As ``Calling``, over the carrier that the address names, or as ``dialling_with`` says.

    Raises:
        InvalidParametersError: the address is malformed, or ``silence_seconds`` too short or too long.
    """
    require_seconds(silence_seconds=silence_seconds)
    if (chosen := _chosen.get()) is not None:
        return chosen(address, method, who, timeout_seconds, silence_seconds)
    match parsed(address).scheme:
        case Scheme.TCP:
            return tcp.calling(address, method, who, timeout_seconds, silence_seconds)
        case Scheme.UDP:
            return udp.calling(address, method, who, timeout_seconds, silence_seconds)
        case Scheme.GRPC:
            from permitflow.carriers import grpc_calls  # the others work without grpc

            return grpc_calls.calling(address, method, who, timeout_seconds, silence_seconds)


@contextmanager
def dialling_with(way: Calling) -> Iterator[None]:
    """Dial in this way within the block, in this task and in those that it starts there."""
    token = _chosen.set(way)
    try:
        yield
    finally:
        _chosen.reset(token)
