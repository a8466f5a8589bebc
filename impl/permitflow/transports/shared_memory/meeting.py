"""Whether two ends share memory: the one that dials offers, the one that accepts tries, and each knows why not."""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TypeVar

from permitflow.errors import PermitflowError, SameHostError, UndecodableDataError
from permitflow.protocol.frames import SameHostAnswer, SameHostOffer
from permitflow.transports.shared_memory.forks import forget_in_children
from permitflow.transports.shared_memory.handover import Listener, Received, connect, nonce_digest, receive
from permitflow.transports.shared_memory.policy import SameHost
from permitflow.transports.shared_memory.region import RING_BYTES, why_impossible
from permitflow.transports.shared_memory.ring import Ring, ring_end

__all__ = ["NO_OFFER", "Offer", "accepted"]

_log = logging.getLogger(__name__)

L = TypeVar("L")

NO_OFFER = "the peer does not offer to share memory"

# The dialer hands over as soon as its event loop, or a thread that does nothing else, has its turn.
_HANDOVER_SECONDS = 2.0


class Offer:
    """The end that dials: what it offers, and what has become of that.  For one thread at a time."""

    def __init__(self, policy: SameHost, *, writes: bool, who: str, capacity_bytes: int = RING_BYTES) -> None:
        """Prepare the memory, unless that is switched off or impossible here.

        Args:
            policy: of this end.
            writes: is this end the one that sends data?
            who: the peer in words, for errors and for the log.
            capacity_bytes: of the ring.

        Raises:
            SameHostError: this end insists, and cannot even offer.
        """
        self._policy = policy
        self._who = who
        self.reason = "it is switched off at this end" if policy is SameHost.NEVER else why_impossible()
        """Why no memory is shared; empty while it may be."""
        self._writes = writes
        self._connection: socket.socket | None = None
        self.listener: Listener | None = None
        if not self.reason:
            try:
                self.listener = Listener(capacity_bytes, writes=writes)
            except (OSError, ValueError, MemoryError) as error:
                self.reason = f"this system refuses: {_words(error)}"
        if self.reason:
            self._refuse()
        forget_in_children(self)

    @property
    def frame(self) -> SameHostOffer | None:
        """What the first frame says; None if nothing is offered."""
        if self.listener is None:
            return None
        return SameHostOffer(self.listener.name, self._policy is SameHost.REQUIRE)

    def _refuse(self) -> None:
        _log.info("no shared memory with %s: %s", self._who, self.reason)
        if self._policy is SameHost.REQUIRE:
            raise SameHostError(who=self._who, reason=self.reason)

    @property
    def awaits_visitor(self) -> bool:
        """Is the listener's socket to be watched?"""
        return self.listener is not None and self.listener.socket.fileno() >= 0

    def serve(self) -> bool:
        """Hand over to whoever has connected, if it is the first of this user; is the socket to be watched further?

        If not, the watcher stops watching, and then calls ``turn_away``: it would be told of the next visitor, who gets
        nothing, again and again.  So also where the system refuses, for want of descriptors or memory.
        """
        if self.listener is None or not self.awaits_visitor:
            return False
        try:
            self._connection = self.listener.accept()
        except OSError as error:
            _log.info("no shared memory with %s: its visit cannot be received: %s", self._who, _words(error))
            return False
        return self._connection is None

    def turn_away(self) -> None:
        """Hang up on all others who have connected, and listen no more.  Nobody watches the socket any more."""
        if self.listener is not None:
            self.listener.socket.close()

    def settle(self, answer: SameHostAnswer | None, make: Callable[[socket.socket, Ring], L]) -> L | None:
        """Make the link that the peer has agreed to, or note why there is none.

        Raises:
            SameHostError: this end insists.
            UndecodableDataError: the peer says that it has the memory, and cannot prove it.
        """
        if self.listener is not None and answer is not None and answer.proof:
            return self._link(self.listener, answer.proof, make)
        if self.listener is not None:
            self.reason = "the peer does not know how to share memory" if answer is None else answer.refusal
            self.close()
            self._refuse()
        return None

    def _link(self, listener: Listener, proof: bytes, make: Callable[[socket.socket, Ring], L]) -> L:
        connection = self._connection
        if connection is None or proof != nonce_digest(listener.region.nonce):
            raise UndecodableDataError(what=f"the proof of {self._who} that it shares memory", reason="it is wrong")
        self._connection = None
        link = make(connection, ring_end(listener.region, listener.take_counter(), writes=self._writes))
        self.close()
        return link

    def forget(self) -> None:
        """In the child of a fork."""
        self.close()

    def close(self) -> None:
        """Withdraw what is not in use.  Closing twice is harmless."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


async def accepted(name: str, *, writes: bool) -> Received | str:
    """Accept an offer; what was received, or why that was impossible.

    Args:
        name: under which the memory can be fetched.
        writes: is this end the one that sends data?
    """
    try:
        connection = connect(name)
    except ConnectionRefusedError:
        return "nobody listens there: another host, a container with a network of its own, or another visitor was first"
    except (OSError, PermitflowError) as error:
        return _words(error)
    try:
        async with asyncio.timeout(_HANDOVER_SECONDS):
            return await _received(connection, writes=writes)
    except TimeoutError:
        reason = "the memory was not handed over in time"
    except (OSError, ValueError, MemoryError, PermitflowError) as error:
        reason = _words(error)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return reason


def _words(error: Exception) -> str:
    """Without the number that the operating system has for it."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


async def _received(connection: socket.socket, *, writes: bool) -> Received:
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(connection.fileno(), came.set)
    try:
        while (received := receive(connection, writes=writes)) is None:
            await came.wait()
            came.clear()
        return received
    finally:
        loop.remove_reader(connection.fileno())
