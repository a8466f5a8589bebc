"""How a client dials an exchange: its address says over which carrier.

A simulator replaces the network for the tasks of one context (``dialling_with``); everything above stays the same code.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from random import Random
from typing import NamedTuple, TypeAlias, TypeVar

from permitflow.carriers import tcp
from permitflow.carriers.addresses import Scheme, parsed
from permitflow.carriers.carrier import Carrier
from permitflow.carriers.datagrams import udp
from permitflow.carriers.deadlines import require_seconds
from permitflow.carriers.dialling import resolved
from permitflow.carriers.reaching import Destination
from permitflow.errors import PeerGoneError, ResumeTimeoutError
from permitflow.opening import require_extra
from permitflow.patience import patience

T = TypeVar("T")


Dial: TypeAlias = Callable[[Destination], AbstractAsyncContextManager[Carrier]]
"""Makes a connection on entry, and has released it on exit."""


class _Way(NamedTuple):
    dial: Dial
    random: Random


_chosen: ContextVar[_Way | None] = ContextVar("_chosen", default=None)


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
        return chosen.dial(to)
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
def dialling_with(way: Dial, *, random: Random) -> Iterator[None]:
    """Dial in this way within the block, in this task and in those that it starts there.

    Args:
        way: makes connections.
        random: for the pauses between attempts.
    """
    token = _chosen.set(_Way(way, random))
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


_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0
_ATTEMPT_SECONDS = 10.0
"""The longest attempt: the peer may accept the connection, and say nothing."""


async def reached_again(
    attempt: Callable[[], Awaitable[T | None]], *, who: str, reason: str, seconds: float
) -> tuple[T, int]:
    """Dial a peer whose connection was lost until an attempt succeeds; return its result and the number of attempts.

    Before each attempt there is a pause of random length ("full jitter"), so that not all clients of an exchange come
    at the same moment; its upper bound doubles.  Two lines here, because packages for this have clocks of their own.

    Args:
        attempt: None, or an error that says that the peer is gone: it was in vain.  Other errors are passed on.
        who: the peer, in words for an error.
        reason: why the connection was lost.
        seconds: when to give up.

    Raises:
        ResumeTimeoutError: no attempt has succeeded in time.
    """
    chosen = _chosen.get()
    random = _jitter if chosen is None else chosen.random
    attempts = 0
    last = ""
    try:
        async with patience(seconds):
            while True:
                most = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** min(attempts, 30))
                await asyncio.sleep(random.uniform(0, most))
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


_jitter = Random()
