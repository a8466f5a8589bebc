"""A blocking call that leaves gRPC for shared memory, once both ends have agreed to; see ``HostCarrier``."""

import os
import select
import socket
import threading

from permitflow.protocol.frames import SameHostAnswer
from permitflow.transports.addresses import is_tcp
from permitflow.transports.arrow import MAX_MESSAGE_BYTES
from permitflow.transports.blocking_call import BlockingCall
from permitflow.transports.blocking_replies import Closed
from permitflow.transports.blocking_tcp_call import BlockingTcpCall
from permitflow.transports.carrier import Received
from permitflow.transports.same_host import NETWORK, SHARED_MEMORY
from permitflow.transports.shared_memory.blocking_link import BlockingLink
from permitflow.transports.shared_memory.meeting import Offer
from permitflow.transports.shared_memory.outgoing import Outgoing
from permitflow.transports.shared_memory.ring import Ring

__all__ = ["BlockingHostCall"]


class BlockingHostCall:
    """See ``BlockingCall``."""

    def __init__(self, address: str, method: str, *, who: str, offer: Offer | None = None) -> None:
        """Dial.

        Args:
            address: as gRPC takes it, or ``tcp://host:port``.
            method: full name, with slashes.
            who: the peer in words, for errors.
            offer: to share memory; it belongs to this object now.
        """
        self._offer = offer
        self._link: BlockingLink | None = None
        self.path = NETWORK
        """How messages travel, and why not otherwise."""
        call = BlockingTcpCall if is_tcp(address) else BlockingCall
        try:
            self._call: BlockingCall | BlockingTcpCall = call(address, method, who=who, on_closed=self._note_closed)
        except BaseException:
            if offer is not None:
                offer.close()
            raise
        self._server = None if offer is None or offer.listener is None else _OfferServer(offer)

    def _note_closed(self) -> None:
        if self._link is not None:
            self._link.interrupt()

    def settle(self, answer: SameHostAnswer | None) -> None:
        """Change over to shared memory, if the acceptor has agreed to.

        Raises:
            SameHostError: this end insists.
            UndecodableDataError: the acceptor says that it has the memory, and cannot prove it.
        """
        self._end_server()
        if self._offer is None:
            return
        self._link = self._offer.settle(answer, _link)
        self.path = SHARED_MEMORY if self._link is not None else f"{NETWORK}: {self._offer.reason}"
        if self._link is not None and self._call.is_over:
            self._link.interrupt()

    def write(self, message: Outgoing) -> None:
        """Have a message sent.  One that a signal's exception has interrupted is to be written again, and goes once."""
        if self._link is None:
            self._call.write(message)
        else:
            self._link.write(message)

    @property
    def is_cut(self) -> bool:
        """Was a write interrupted so that nobody knows what of it has left?  Then nothing may follow it."""
        return self._link is not None and self._link.is_cut

    def half_close(self) -> None:
        """Say that nothing more will be written."""
        if self._link is not None:
            self._link.shut()
        self._call.half_close()

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something to receive; False: nothing came in so many seconds.

        Takes nothing, so that a signal's exception can do no harm.
        """
        if self._link is None or self._link.has_ended:
            # If the link has ended, why is said by the call.
            return self._call.wait(seconds)
        return self._link.wait(seconds)

    def receive_nowait(self) -> Received | Closed | None:
        """The next message if it is here already; after ``Closed`` nothing comes."""
        if self._link is not None and (message := self._link.read_nowait()) is not None:
            return message
        if self._link is None or self._link.has_ended:
            return self._call.receive_nowait()
        return None

    def close(self) -> None:
        """End the call, whatever state it is in, and its threads.  Closing twice is harmless."""
        self._call.close()
        self._end_server()
        if self._link is not None:
            self._link.close()
        if self._offer is not None:
            self._offer.close()

    def _end_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()


class _OfferServer:
    """A thread that hands the memory over while the caller waits for the agreement."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="permitflow offers memory", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._offer.listener is not None, "there is something to offer"
        waiting = select.poll()
        waiting.register(self._offer.listener.socket, select.POLLIN)
        waiting.register(self._stop, select.POLLIN)
        while not any(descriptor == self._stop for descriptor, _ in waiting.poll()):
            if not self._offer.serve():
                self._offer.turn_away()
                return

    def close(self) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        os.close(self._stop)


def _link(connection: socket.socket, ring: Ring) -> BlockingLink:
    return BlockingLink(connection, ring, most_bytes=MAX_MESSAGE_BYTES)
