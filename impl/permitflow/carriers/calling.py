"""How a client dials an exchange: its address says over which carrier.

A simulator replaces the network for the tasks of one context (``dialling_with``); everything above stays the same code.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

from permitflow.carriers import tcp
from permitflow.carriers.addresses import Scheme, is_loopback, parsed
from permitflow.carriers.carrier import Carrier
from permitflow.carriers.datagrams import udp
from permitflow.carriers.deadlines import require_seconds
from permitflow.carriers.dialling import resolved
from permitflow.carriers.reaching import Destination
from permitflow.errors import PeerGoneError, ResumeTimeoutError
from permitflow.opening import require_extra
from permitflow.patience import patience
from permitflow.pauses import pauses

T = TypeVar("T")


Dial: TypeAlias = Callable[[Destination], AbstractAsyncContextManager[Carrier]]
"""Makes a connection on entry, and has released it on exit."""


_chosen: ContextVar[Dial | None] = ContextVar("_chosen", default=None)


def calling(to: Destination) -> AbstractAsyncContextManager[Carrier]:
    """Dial over the carrier that the address names, or as ``dialling_with`` says.

    Raises:
        InvalidParametersError: the address is malformed, ``silence_seconds`` too short or too long, or ``security`` is
            not for this address, or a file of it cannot be used.
        TlsError: one of the two ends does not trust the other, or only one speaks TLS.
        PeerTimeoutError: no server answers there in time.
        PeerGoneError: no server has answered there, without retrying.
        ForkedError: the address needs gRPC, and a parent process used it before the fork.
    """
    require_seconds(silence_seconds=to.silence_seconds)
    if (chosen := _chosen.get()) is not None:
        return chosen(to)
    match parsed(to.address).scheme:
        case Scheme.TCP:
            return tcp.calling(to)
        case Scheme.UDP:
            return udp.calling(to)
        case Scheme.GRPC:
            require_extra("grpc", "grpc")  # the others work without
            from permitflow.carriers import grpc_calls

            return grpc_calls.calling(to)


@contextmanager
def dialling_with(way: Dial) -> Iterator[None]:
    """Dial in this way within the block, in this task and in those that it starts there."""
    token = _chosen.set(way)
    try:
        yield
    finally:
        _chosen.reset(token)


async def is_of_this_host(address: str) -> bool:
    """Does this address name the host of this process?  False if that cannot be found out.

    Raises:
        InvalidParametersError: the address is malformed.
    """
    if _chosen.get() is not None:
        return False
    _, host, port = parsed(address)
    if is_loopback(host):
        return True
    try:
        found = await resolved(host, port)
    except OSError:
        return False
    return any(_is_own(family, name) for family, _, _, _, name in found)


def _is_own(family: int, name: tuple[object, ...]) -> bool:
    """The kernel sends what is for this host from the same address.  Nothing is sent."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(name)
        except OSError:
            return False
        own: object = probe.getsockname()[0]
        return own == name[0]


_ATTEMPT_SECONDS = 10.0
"""The longest attempt: the peer may accept the connection, and say nothing."""


async def reached_again(
    attempt: Callable[[], Awaitable[T | None]], *, who: str, reason: str, seconds: float
) -> tuple[T, int]:
    """Dial a peer whose connection was lost until an attempt succeeds; return its result and the number of attempts.

    There is a pause before each attempt.

    Args:
        attempt: None, or an error that says that the peer is gone: it was in vain.  Other errors are passed on.
        who: the peer, in words for an error.
        reason: why the connection was lost.
        seconds: when to give up.

    Raises:
        ResumeTimeoutError: no attempt has succeeded in time.
    """
    attempts, last, waits = 0, "", pauses()
    try:
        async with patience(seconds):
            while True:
                await asyncio.sleep(next(waits))
                attempts += 1
                try:
                    async with asyncio.timeout(_ATTEMPT_SECONDS):
                        if (result := await attempt()) is not None:
                            return result, attempts
                except (PeerGoneError, TimeoutError) as error:
                    last = str(error)
    except TimeoutError:
        words = f"{reason}; the last attempt: {last}" if last else reason
        raise ResumeTimeoutError(who=who, reason=words, seconds=seconds, attempts=attempts) from None
