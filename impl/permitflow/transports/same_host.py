"""How the two ends of a stream agree to share memory, and the carrier that changes over to it, for asyncio.

Log and statistics say why two ends do not share memory.  If they do, the network's stream stays open underneath: its
end, its status and its heartbeat are still the peer's.  Each end's first message travels over it; after the agreement
everything else takes the link, in the order in which it was written.
"""

import asyncio
import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import NamedTuple

from permitflow.errors import PeerGoneError, SameHostError, UndecodableDataError
from permitflow.protocol.frames import SameHostAnswer, SameHostOffer
from permitflow.transports.arrow import MAX_MESSAGE_BYTES
from permitflow.transports.carrier import Buffer, Carrier, PromptCarrier, Received, Rest, Take, WriteNow
from permitflow.transports.checksum import Checksums
from permitflow.transports.shared_memory import SameHost
from permitflow.transports.shared_memory.handover import NO_OFFER, Offer, accepted, nonce_digest
from permitflow.transports.shared_memory.link import AsyncioLink
from permitflow.transports.shared_memory.ring import Ring, ring_end

__all__ = ["NETWORK", "SHARED_MEMORY", "HostCarrier", "Meeting", "Offer", "SameHost", "meet", "offering", "settle"]

_log = logging.getLogger(__name__)

SHARED_MEMORY = "shared memory"
NETWORK = "network"


class Meeting(NamedTuple):
    """What has come of an offer."""

    answer: SameHostAnswer | None = None
    """For the agreement."""
    link: AsyncioLink | None = None
    """For both directions; None if the stream stays where it is."""
    path: str = NETWORK
    """How messages travel, and why not otherwise."""


async def meet(offer: SameHostOffer | None, policy: SameHost, *, writes: bool, who: str) -> Meeting:
    """Accept the offer of a dialler, if that is possible.

    Args:
        offer: its offer.
        policy: of this end.
        writes: is this end the one that sends data?
        who: the dialler in words.

    Raises:
        SameHostError: one of the ends insists, and it is impossible.
    """
    if offer is None:
        refusal = NO_OFFER
    elif policy is SameHost.NEVER:
        refusal = "it is switched off at the end that was dialled"
    else:
        received = await accepted(offer.socket, writes=writes)
        if not isinstance(received, str):
            link = _link(received.socket, ring_end(received.region, received.counter, writes=writes))
            return Meeting(SameHostAnswer(nonce_digest(received.region.nonce)), link, SHARED_MEMORY)
        refusal = received
    _log.info("no shared memory with %s: %s", who, refusal)
    if policy is SameHost.REQUIRE or (offer is not None and offer.is_required):
        raise SameHostError(who=who, reason=refusal)
    return Meeting(None if offer is None else SameHostAnswer(b"", refusal), None, f"{NETWORK}: {refusal}")


@contextmanager
def offering(policy: SameHost, *, writes: bool, who: str) -> Iterator[Offer]:
    """Offer to share memory, to an acceptor that has yet to be dialled; at the end of the block withdraw it.

    Args:
        policy: of this end.
        writes: is this end the one that sends data?
        who: the acceptor in words.

    Raises:
        SameHostError: this end insists, and cannot even offer.
    """
    with closing(Offer(policy, writes=writes, who=who)) as offer:
        _watch(offer)
        try:
            yield offer
        finally:
            _withdraw(offer)


def settle(offer: Offer, answer: SameHostAnswer | None) -> Meeting:
    """What the acceptor has made of the offer.

    Raises:
        SameHostError: this end insists.
        UndecodableDataError: the acceptor says that it has the memory, and cannot prove it.
    """
    _withdraw(offer)
    link = offer.settle(answer, _link)
    if link is not None:
        return Meeting(None, link, SHARED_MEMORY)
    return Meeting(None, None, f"{NETWORK}: {offer.reason}")


def _watch(offer: Offer) -> None:
    if offer.listener is not None and offer.awaits_visitor:
        asyncio.get_running_loop().add_reader(offer.listener.socket.fileno(), _serve, offer)


def _serve(offer: Offer) -> None:
    again_seconds = offer.serve()
    if again_seconds is None:
        _withdraw(offer)
        offer.turn_away()
    elif again_seconds > 0:
        _withdraw(offer)
        asyncio.get_running_loop().call_later(again_seconds, _watch, offer)


def _withdraw(offer: Offer) -> None:
    if offer.listener is not None and offer.awaits_visitor:
        asyncio.get_running_loop().remove_reader(offer.listener.socket.fileno())


def _link(connection: socket.socket, ring: Ring) -> AsyncioLink:
    return AsyncioLink(connection, ring, most_bytes=MAX_MESSAGE_BYTES)


# As for a status of gRPC: a peer that has hung up the link has ended its stream as well, or is dead.
_VERDICT_SECONDS = 1.0


class HostCarrier:
    """See ``Carrier``.  It begins on the inner carrier, and may change over to a link.

    What the inner carrier takes has a checksum; what is read has one until ``checked`` has taken it away.
    """

    def __init__(self, inner: Carrier, *, who: str, checksums: bool | None = None) -> None:
        """Begin; ``who`` is at the other end, in words for an error; ``checksums`` as ``wanted`` of ``Checksums``."""
        self._inner = inner
        self._checksums = Checksums(checksums)
        self._prompt_inner = inner if isinstance(inner, PromptCarrier) else None
        self._who = who
        self.meeting = Meeting()
        self._link: AsyncioLink | None = None
        self.prompt: AsyncioLink | PromptCarrier | None = None
        """What hands messages over, since it was told to; it may be asked whether it ``has_more``."""
        self._is_decided = False
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ahead: asyncio.Task[Received | None] | None = None
        self._has_written = False
        self._is_closed = False

    def prepare(self, meeting: Meeting) -> None:
        """Note what both ends have agreed to, and become the owner of the link, if there is one."""
        self.meeting = meeting
        if meeting.link is not None and self._is_closed:
            meeting.link.close()

    def change_over(self) -> None:
        """From now on everything but this end's first message takes the link, if there is one."""
        self._link = link = self.meeting.link
        self._is_decided = True
        if not self._decided.done():
            self._decided.set_result(None)
        if link is not None and not self._is_closed:
            self._read_ahead().add_done_callback(lambda _: link.drain())

    # Reading.

    async def read(self) -> Received | None:
        """The next message; None once the peer has closed its half in good order."""
        if self._link is None and (not self._is_decided or self._ahead is not None):
            # A reader that waits when the decision is made must hear of it.
            ahead = self._read_ahead()
            await asyncio.wait((ahead, self._decided), return_when=asyncio.FIRST_COMPLETED)
            if self._link is None:
                message = await ahead
                self._ahead = None
                return message
        if self._link is None:
            return await self._inner.read()
        if (message := await self._link.read()) is None:
            await self._last_word()
        return message

    def hand_to(self, take: Take) -> WriteNow | None:
        """After the decision: call this with each message, if what carries them can do so; see ``PromptCarrier``.

        Says what is to be called in place of ``write_now`` from now on, if it can: the shortest way.
        """
        if self._link is not None:
            self._link.hand_to(take)
            self.prompt = self._link
            return self.write_now
        if (inner := self._prompt_inner) is None:
            return None
        inner.hand_to(take)
        self.prompt = inner
        return lambda message: inner.write_now(self._checksums.add(message))

    def checked(self, message: Received) -> Received:
        """The message that was sent, of one that was read or handed over last.

        Raises:
            AlteredMessageError: it was altered on the network.
            UndecodableDataError: it came over the network without a checksum.
        """
        return self._checksums.check(message) if self._link is None else message

    @property
    def has_more(self) -> bool:
        """After the decision: see ``PromptCarrier``."""
        return self.prompt is not None and self.prompt.has_more

    def _read_ahead(self) -> "asyncio.Task[Received | None]":
        if self._ahead is None:
            self._ahead = asyncio.ensure_future(self._inner.read())
        return self._ahead

    async def _last_word(self) -> None:
        """The link has ended: what the peer says by the end of its stream."""
        message = await asyncio.shield(self._read_ahead())
        if message is not None:
            reason = "it came over the network after everything was to come through memory"
            raise UndecodableDataError(what=f"a message of {len(message)} bytes", reason=reason)

    # Writing.

    async def write(self, message: Sequence[Buffer]) -> None:
        """Hand a message over; waits while the carrier is full."""
        if self._link is None or not self._has_written:
            self._has_written = True
            await self._inner.write(self._checksums.add(message))
            return
        try:
            await self._link.write(message)
        except OSError as error:
            raise await self._over(error) from error

    def write_now(self, message: Sequence[Buffer]) -> Rest | None:
        """As ``write``, as far as that can be done without waiting; what is left to be awaited, if anything."""
        if self._link is None or not self._has_written:
            self._has_written = True
            if self._prompt_inner is None:
                return partial(self._inner.write, self._checksums.add(message))
            return self._prompt_inner.write_now(self._checksums.add(message))
        try:
            rest = self._link.write_now(message)
        except OSError as error:
            return partial(self._raise_reason, error)
        return None if rest is None else partial(self._write_rest, rest)

    async def _write_rest(self, rest: Rest) -> None:
        try:
            await rest()
        except OSError as error:
            raise await self._over(error) from error

    async def _raise_reason(self, error: OSError) -> None:
        raise await self._over(error) from error

    async def _over(self, error: OSError) -> Exception:
        """The peer does not read any more: why?"""
        with suppress(TimeoutError):
            async with asyncio.timeout(_VERDICT_SECONDS):
                try:
                    await self._last_word()
                except Exception as verdict:
                    return verdict
        return PeerGoneError(who=self._who, reason=f"it closed the stream before the end ({error})")

    # The end.

    async def half_close(self) -> None:
        """Say that nothing more will be written."""
        if self._link is not None:
            self._link.shut()
        await self._inner.half_close()

    async def close(self) -> None:
        """Release the link; the inner carrier stays as it is.  Closing twice is harmless."""
        self._is_closed = True
        if self.meeting.link is not None:
            self.meeting.link.close()
        if self._ahead is not None and not self._ahead.done():
            self._ahead.cancel()
            await asyncio.wait({self._ahead})
        if self._ahead is not None and not self._ahead.cancelled():
            # Perhaps no task has waited for it.
            self._ahead.exception()
