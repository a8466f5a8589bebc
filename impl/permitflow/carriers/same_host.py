"""How the two ends of a stream agree to share memory, and the carrier that changes over to it, for asyncio.

Log and statistics say why two ends do not share memory.  If they do, the network's stream stays open underneath and
still carries the peer's end, status and heartbeat.  Each end's first message travels over it; after the agreement all
other messages take the link, in the order of writing.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple

from permitflow.carriers.carrier import Carrier, Ear, Interruptions, Listener
from permitflow.carriers.shared_memory import SameHost
from permitflow.carriers.shared_memory.handover import NO_OFFER, Offer, accepted, nonce_digest
from permitflow.carriers.shared_memory.link import AsyncioLink
from permitflow.carriers.shared_memory.ring import Ring, ring_end
from permitflow.errors import PeerGoneError, PermitflowError, SameHostError, TransportError, UndecodableDataError
from permitflow.stream.frames import SameHostAnswer, SameHostOffer
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.buffers import Buffer, Received
from permitflow.wire.checksum import Checksums
from permitflow.wire.signs import ANSWER, ASK

__all__ = ["NETWORK", "SHARED_MEMORY", "HostCarrier", "Meeting", "Offer", "SameHost", "meet", "settle"]

_log = logging.getLogger(__name__)

SHARED_MEMORY = "shared memory"
NETWORK = "network"


class Meeting(NamedTuple):
    """The result of an offer."""

    answer: SameHostAnswer | None = None
    """The answer in the agreement."""
    link: AsyncioLink | None = None
    """The link for both directions; None if the stream stays on the network."""
    path: str = NETWORK
    """The path of messages, and the reason for it."""


async def meet(offer: SameHostOffer | None, policy: SameHost, *, writes: bool, who: str) -> Meeting:
    """Accept the offer of a dialler, if that is possible.

    Args:
        offer: its offer.
        policy: of this end.
        writes: is this end the one that sends data?
        who: the dialler in words.

    Raises:
        SameHostError: one of the ends requires it, and it is impossible.
    """
    if offer is None:
        refusal = NO_OFFER
    elif policy is SameHost.NEVER:
        refusal = "the server has switched it off"
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


def settle(offer: Offer, answer: SameHostAnswer | None) -> Meeting:
    """Evaluate the acceptor's answer to the offer.

    Raises:
        SameHostError: this end requires shared memory, and there is none.
        UndecodableDataError: the acceptor claims to have the memory, and cannot prove it.
    """
    ends = offer.settle(answer)
    if ends is not None:
        return Meeting(None, _link(*ends), SHARED_MEMORY)
    return Meeting(None, None, f"{NETWORK}: {offer.reason}")


def _link(connection: socket.socket, ring: Ring) -> AsyncioLink:
    return AsyncioLink(connection, ring, most_bytes=MAX_MESSAGE_BYTES)


def _as_it_is(message: Received) -> Received:
    return message


# As for a status of gRPC: a peer that has hung up the link has ended its stream as well, or is dead.
_VERDICT_SECONDS = 1.0


class HostCarrier(Carrier):
    """Begins on a network's carrier, and may change over to a link; the network's stays open underneath.

    Messages over the network have a checksum; ``checked`` removes it from received ones.
    """

    def __init__(self, inner: Carrier, *, who: str, checksums: bool | None = None) -> None:
        """Begin; ``who`` is at the other end, in words for an error; ``checksums`` as ``wanted`` of ``Checksums``."""
        self._inner = inner
        # An acceptor makes none where TLS protects them, and its dialler follows.
        self._checksums = Checksums(checksums and not inner.is_protected if checksums is not None else None)
        self.checked: Callable[[Received], Received] = self._checksums.check
        """Takes the checksum off a message that is being heard over the network, and raises as ``Checksums.check``."""
        self._who = who
        self.meeting = Meeting()
        self._link: AsyncioLink | None = None
        self._listener: Listener | None = None
        self._has_written = self._is_network_full = self._is_stopped = False
        # Of a link, and of the network underneath.
        self._has_link_ended = self._has_network_ended = self._has_told_end = self._is_over = self._may_answer = False
        self._verdict: asyncio.TimerHandle | None = None

    def prepare(self, meeting: Meeting) -> None:
        """Note what both ends have agreed to, and become the owner of the link, if there is one."""
        self.meeting = meeting
        if meeting.link is not None:
            self._inner.survive(0.0)  # memory lives no longer than its processes, and then both ends know
            if self._is_stopped:
                meeting.link.close()

    def change_over(self) -> None:
        """Let everything but this end's first message take the link from now on, if there is one."""
        link = self.meeting.link
        if link is not None and not self._is_stopped:
            listener = self._listener
            assert listener is not None, "the agreement was heard"
            self._link, self.checked = link, _as_it_is
            self._inner.listen(
                Ear(self._on_stray, self._on_network_writable, self._on_network_end, self._on_network_error)
            )
            link.listen(Ear(listener.on_message, listener.on_writable, self._on_link_end, self._on_link_error))

    # Reading.

    def listen(self, listener: Listener) -> None:
        """See ``Carrier``."""
        self._listener = listener
        if self._link is None:
            self._inner.listen(listener)

    def pause(self) -> None:
        """See ``Carrier``."""
        (self._link or self._inner).pause()

    def resume(self) -> None:
        """See ``Carrier``."""
        (self._link or self._inner).resume()

    # Writing.

    def write(self, message: Sequence[Buffer]) -> bool:
        """See ``Carrier``."""
        if self._link is None:
            self._has_written = True
            return self._write_network(message)
        if self._has_written:
            return self._link.write(message)
        self._has_written = True
        self._inner.write(self._checksums.add(message))
        return True  # the link takes the next message

    def write_sign(self, sign: Buffer) -> bool:
        """See ``Carrier``; a link loses no message, and an acceptor may be asked before its first message."""
        return self._write_network((sign,)) if self._link is None else True

    def _write_network(self, message: Sequence[Buffer]) -> bool:
        self._is_network_full = not self._inner.write(self._checksums.add(message))
        return not self._is_network_full

    @property
    def is_protected(self) -> bool:
        """See ``Carrier``."""
        return self._inner.is_protected

    @property
    def sign_seconds(self) -> float | None:
        """See ``Carrier``: only a checksum shows that a message was lost."""
        return self._inner.sign_seconds if self._link is None and self._checksums.are_made else None

    def _on_network_writable(self) -> None:
        """The agreement may come before the network's carrier takes more than the first message; then nothing was
        written into the link yet, for its user waits for this."""
        if self._is_network_full and self._listener is not None:
            self._is_network_full = False
            self._listener.on_writable()

    @property
    def takes_last_words(self) -> bool:
        """See ``Carrier``."""
        return self._inner.takes_last_words if self._link is None else self._may_answer

    @property
    def resume_seconds(self) -> float | None:
        """See ``Carrier``."""
        return self._inner.resume_seconds

    def survive(self, seconds: float) -> None:
        """See ``Carrier``."""
        self._inner.survive(seconds)

    def distrust(self, error: PermitflowError) -> bool:
        """See ``Carrier``."""
        return self._link is None and self._inner.distrust(error)

    async def settled(self) -> None:
        """See ``Carrier``."""
        await self._inner.settled()

    @property
    def interruptions(self) -> Interruptions:
        """See ``Carrier``."""
        return self._inner.interruptions

    def half_close(self) -> None:
        """See ``Carrier``."""
        if self._link is not None:
            self._link.half_close()
        self._inner.half_close()

    # The end of both: the link's end comes first, and the end of the network's stream states the reason.

    def _on_link_end(self) -> None:
        self._has_link_ended = True
        if self._has_network_ended and not (self._has_told_end or self._is_over) and self._listener is not None:
            self._has_told_end = True  # an error may follow: a peer that was killed takes no last word
            self._listener.on_end()

    def _on_network_end(self) -> None:
        self._has_network_ended = True
        if self._link is not None:
            self._link.drain()
        if self._has_link_ended:
            self._on_link_end()

    def _on_network_error(self, error: PermitflowError) -> None:
        if self._link is not None:
            self._link.drain()
        self._tell(error, may_answer=self._inner.takes_last_words)

    def _on_stray(self, message: Received, _has_more: bool) -> None:
        """Only a sign may come, whose writer had not heard the agreement yet: once it has, it awaits no answer."""
        try:
            if self._checksums.check(message) in (ASK, ANSWER):
                return
            reason = "it came over the network after everything was to come through memory"
            raise UndecodableDataError(what=f"a message of {len(message)} bytes", reason=reason)
        except PermitflowError as error:
            self._tell(error, may_answer=True)

    def _on_link_error(self, error: PermitflowError) -> None:
        """Find the reason of a wrong message, or of a peer that stopped reading."""
        if not isinstance(error, TransportError):
            self._tell(error, may_answer=self._link is not None and self._link.takes_last_words)
        elif self._verdict is None:
            gone = PeerGoneError(who=self._who, reason=f"it closed the stream before the end ({error.__cause__})")
            self._verdict = asyncio.get_running_loop().call_later(_VERDICT_SECONDS, self._tell, gone)

    def _tell(self, error: PermitflowError, *, may_answer: bool = False) -> None:
        if not self._is_over and self._listener is not None:
            self._is_over, self._may_answer = True, may_answer
            self._listener.on_error(error)

    async def stop(self) -> None:
        """See ``Carrier``."""
        self._is_stopped = self._is_over = True
        if self._verdict is not None:
            self._verdict.cancel()
        if self.meeting.link is not None:
            self.meeting.link.close()
        await self._inner.stop()
