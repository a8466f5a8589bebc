"""How the two ends of a stream agree to share memory, for asyncio.  Why they do not is in log and statistics."""

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from permitflow.errors import SameHostError
from permitflow.protocol.frames import SameHostAnswer, SameHostOffer
from permitflow.transports.arrow import MAX_MESSAGE_BYTES
from permitflow.transports.shared_memory.asyncio_link import AsyncioLink
from permitflow.transports.shared_memory.handover import nonce_digest
from permitflow.transports.shared_memory.meeting import NO_OFFER, Offer, accepted
from permitflow.transports.shared_memory.policy import SameHost
from permitflow.transports.shared_memory.ring import Ring, ring_end

__all__ = ["NETWORK", "SHARED_MEMORY", "Meeting", "Offer", "SameHost", "meet", "offering", "settle"]

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
        if offer.listener is not None:
            asyncio.get_running_loop().add_reader(offer.listener.socket.fileno(), _serve, offer)
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


def _serve(offer: Offer) -> None:
    if not offer.serve():
        _withdraw(offer)
        offer.turn_away()


def _withdraw(offer: Offer) -> None:
    if offer.listener is not None and offer.awaits_visitor:
        asyncio.get_running_loop().remove_reader(offer.listener.socket.fileno())


def _link(connection: socket.socket, ring: Ring) -> AsyncioLink:
    return AsyncioLink(connection, ring, most_bytes=MAX_MESSAGE_BYTES)
