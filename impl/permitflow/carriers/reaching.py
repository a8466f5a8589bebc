"""Dials an exchange for a client, in the time that it has."""

from typing import TypeVar

from permitflow.carriers.dialling import Dialling
from permitflow.errors import PeerGoneError, PeerTimeoutError
from permitflow.patience import patience

T = TypeVar("T")

_ADVICE = "is an exchange running there (permitflow serve)?"


async def reached(dialling: Dialling[T], who: str, timeout_seconds: float | None, *, retries: bool) -> T:
    """A connection to an exchange.

    Args:
        dialling: to its host.
        who: the peer, in words for an error.
        timeout_seconds: the longest wait; None: each address of the name is tried once.
        retries: whether to try again in this time when nobody listens there.

    Raises:
        PeerTimeoutError: nobody has answered in time.
        PeerGoneError: nobody listens there.
    """
    try:
        async with patience(timeout_seconds):
            if retries and timeout_seconds is not None:
                return await dialling.connected()
            try:
                return await dialling.connected_at_once()
            except OSError:
                raise PeerGoneError(who=who, reason=f"{dialling.why_not}; {_ADVICE}") from None
    except TimeoutError:
        why = f" ({dialling.why_not})" if dialling.why_not else ""
        reason = f"no connection within {timeout_seconds:g} s{why}; {_ADVICE}"
        raise PeerTimeoutError(who=who, reason=reason) from None
