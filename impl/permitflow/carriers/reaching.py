"""What a client dials, and how it reaches the host of that in the time that it has."""

from typing import NamedTuple, TypeVar

from permitflow.carriers.deadlines import SILENCE_SECONDS
from permitflow.carriers.dialling import Dialling
from permitflow.carriers.security import Security
from permitflow.errors import PeerGoneError, PeerTimeoutError
from permitflow.patience import patience

T = TypeVar("T")

_ADVICE = "is an exchange running there (permitflow serve)?"


class Destination(NamedTuple):
    """A stream of one method of an exchange, and how to dial for it."""

    address: str
    """Of the exchange."""
    method: str
    """Its full name."""
    who: str
    """The peer, in words for an error."""
    timeout_seconds: float | None
    """How long to wait for a connection; None: fail if no server listens there yet."""
    silence_seconds: float = SILENCE_SECONDS
    """A peer that gives no sign of life for longer is gone."""
    security: Security | None = None
    """TLS and a token."""
    retries: bool = True
    """False: there is one attempt, for at most ``timeout_seconds``, and no other if nobody listens there."""


async def reached(dialling: Dialling[T], to: Destination) -> T:
    """A connection to an exchange, whose host is dialled.

    Raises:
        PeerTimeoutError: nobody has answered in time.
        PeerGoneError: nobody listens there.
    """
    timeout_seconds, who = to.timeout_seconds, to.who
    try:
        async with patience(timeout_seconds):
            if to.retries and timeout_seconds is not None:
                return await dialling.connected()
            try:
                return await dialling.connected_at_once()
            except OSError:
                raise PeerGoneError(who=who, reason=f"{dialling.why_not}; {_ADVICE}") from None
    except TimeoutError:
        why = f" ({dialling.why_not})" if dialling.why_not else ""
        reason = f"no connection within {timeout_seconds:g} s{why}; {_ADVICE}"
        raise PeerTimeoutError(who=who, reason=reason) from None
