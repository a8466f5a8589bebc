"""How the exchange that has a channel is found: at one of several addresses, in one of its processes; for how long."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from time import monotonic
from typing import TypeVar

from permitflow.carriers.addresses import parsed, ranked, several, written
from permitflow.carriers.calling import is_of_this_host
from permitflow.carriers.carrier import Carrier
from permitflow.carriers.deadlines import RESUME_SECONDS, require_seconds
from permitflow.carriers.reaching import Destination
from permitflow.carriers.resuming import calling_again
from permitflow.carriers.same_host import SameHost
from permitflow.carriers.security import Security
from permitflow.errors import (
    InvalidParametersError,
    MovedError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    StoreTakenOverError,
    UnknownChannelError,
)
from permitflow.patience import Limit
from permitflow.pauses import pauses
from permitflow.stream.resuming import ResumeOffer

T = TypeVar("T")

# To the door of an exchange and from there to the right process, and one more for a channel that was made anew.
_MOST_MOVES = 3
# One of several exchanges may be away: how long each is dialled at first and later, and for how long they are tried
# again if the caller does not wait for a server that is about to start.
_FIRST_DIAL_SECONDS, _LONGEST_DIAL_SECONDS = 0.5, 3.0
_SEARCH_SECONDS = 2.0


@asynccontextmanager
async def wherever(
    address: str, channel: str, timing: "Timing", at: Callable[[str], AbstractAsyncContextManager[T]]
) -> AsyncIterator[T]:
    """Begin a stream at the exchange that has its channel: one of these addresses."""
    addresses = ranked(several(address), channel)
    async with AsyncExitStack() as stack:
        if len(addresses) == 1:
            yield await _followed(addresses[0], at, stack)
            return
        waits = pauses()
        while True:
            failures: dict[str, PermitflowError] = {}
            for each in addresses:
                try:
                    found = await _followed(each, at, stack)
                    break
                except (UnknownChannelError, PeerGoneError, StoreTakenOverError) as error:
                    if isinstance(error, PeerTimeoutError) and timing.has_no_answer:
                        raise  # it has the channel
                    failures[each] = error
            else:
                if timing.is_over or all(isinstance(error, UnknownChannelError) for error in failures.values()):
                    raise not_found(channel, failures)
                await asyncio.sleep(next(waits))
                timing.be_more_patient()
                continue
            break
        yield found


async def _followed(address: str, at: Callable[[str], AbstractAsyncContextManager[T]], stack: AsyncExitStack) -> T:
    """Begin a stream at an exchange: the process that was dialled may name another one of the same exchange.

    Only its port is taken from the answer: an exchange cannot send its clients, or their tokens, to another host.
    """
    for _ in range(_MOST_MOVES):
        try:
            return await stack.enter_async_context(at(address))
        except MovedError as moved:
            address = written(parsed(address)._replace(port=moved.port))
    return await stack.enter_async_context(at(address))


def not_found(channel: str, failures: Mapping[str, PermitflowError]) -> PermitflowError:
    """The error about a channel that none of several exchanges serves."""
    known = [name for error in failures.values() if isinstance(error, UnknownChannelError) for name in error.known]
    gone = [error for error in failures.values() if not isinstance(error, UnknownChannelError)]
    if not gone:
        return UnknownChannelError(channel=channel, known=tuple(dict.fromkeys(known)))
    words = (
        f"{address}: {'it is not there' if isinstance(error, UnknownChannelError) else error}"
        for address, error in failures.items()
    )
    return PeerGoneError(who=f"the exchange that has channel {channel!r}", reason="; ".join(words))


async def resume_seconds_of(address: str, asked: float | None, same_host: SameHost = SameHost.NEVER) -> float:
    """How long a stream waits for another connection.

    Raises:
        InvalidParametersError: the time cannot work, or shared memory forbids it.
    """
    require_seconds(resume_seconds=asked)
    if asked is None:
        if same_host is SameHost.REQUIRE:
            return 0.0
        near = [await is_of_this_host(each) for each in several(address)]
        return 0.0 if all(near) else RESUME_SECONDS
    if asked and same_host is SameHost.REQUIRE:
        rule = "must be 0 where shared memory is required, which no stream survives"
        raise InvalidParametersError(name="resume_seconds", value=asked, rule=rule)
    return asked


class Timing:
    """The time-outs of one call: the whole wait, for the connection too, is no longer than the one for the answer.

    It begins when the block is entered.
    """

    def __init__(self, address: str, connect_seconds: float | None, answer_seconds: float) -> None:
        self.connect_seconds = None if connect_seconds is None else min(connect_seconds, answer_seconds)
        self.answer_seconds = answer_seconds
        self._is_search = len(several(address)) > 1
        if self._is_search:
            self._search_seconds = _SEARCH_SECONDS if self.connect_seconds is None else self.connect_seconds
            self.connect_seconds = _FIRST_DIAL_SECONDS

    def calling(
        self,
        address: str,
        method: str,
        who: str,
        silence_seconds: float,
        resume_seconds: float,
        security: Security | None,
    ) -> AbstractAsyncContextManager[tuple[Carrier, ResumeOffer | None]]:
        """Dial an exchange; an absent one of several is not waited for, because the channel may be at another."""
        retries = not self._is_search
        to = Destination(address, method, who, self.connect_seconds, silence_seconds, security, retries)
        return calling_again(to, resume_seconds)

    @property
    def is_over(self) -> bool:
        """Has the time passed in which one of several exchanges is looked for?"""
        return monotonic() - self._began >= self._search_seconds

    @property
    def has_no_answer(self) -> bool:
        """Has the time passed in which an answer must come?"""
        return monotonic() - self._began >= self.answer_seconds

    def be_more_patient(self) -> None:
        """Dial each of them for longer: it may be far away, or busy."""
        assert self.connect_seconds is not None, "there are several"
        self.connect_seconds = min(2 * self.connect_seconds, _LONGEST_DIAL_SECONDS)

    async def __aenter__(self) -> None:
        self._began = monotonic()
        self.limit = Limit(self.answer_seconds)

    async def __aexit__(self, *_: object) -> None:
        self.limit.end()
