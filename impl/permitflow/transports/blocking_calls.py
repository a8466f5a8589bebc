"""One bidirectional call for a caller without an event loop: over gRPC, over TCP, or through shared memory.

Written messages wait in a queue that a thread empties, received ones in another one: so every wait of the caller has a
time-out and can be interrupted.  Both queues are bounded by permits, not by a limit of their own.  The core is touched
by the caller's thread only.

gRPC must not be loaded before a fork whose child will use it: import this module in the child.
"""

import errno
import os
import queue
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

import grpc
import pyarrow as pa

from permitflow.errors import PeerGoneError, PermitflowError, UndecodableDataError
from permitflow.protocol.frames import SameHostAnswer
from permitflow.transports.addresses import host_and_port, is_tcp
from permitflow.transports.arrow import MAX_MESSAGE_BYTES
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.checksum import Checksums
from permitflow.transports.connection import CLIENT_OPTIONS, expect_large_blocks
from permitflow.transports.deadlines import SILENCE_SECONDS
from permitflow.transports.same_host import NETWORK, SHARED_MEMORY
from permitflow.transports.shared_memory.blocking_link import BlockingLink, Outgoing
from permitflow.transports.shared_memory.handover import Offer
from permitflow.transports.shared_memory.ring import Ring, size_of, without
from permitflow.transports.tcp import (
    HEADER_BYTES,
    KIND_OF_METHOD,
    NEXT_ADDRESS_SECONDS,
    PIECES_AT_ONCE,
    Kind,
    header,
    read_header,
)
from permitflow.transports.wire_errors import NOTHING_SAID, decode_status, error_from_status

__all__ = [
    "JOIN_SECONDS",
    "BlockingCall",
    "BlockingHostCall",
    "BlockingReplies",
    "BlockingTcpCall",
    "Closed",
    "receive_within",
    "send_all",
]

# Closing wakes the threads of the call; this only keeps a defect from hanging the caller.
JOIN_SECONDS = 5.0


class Closed(NamedTuple):
    """The peer has closed the call: in good order, or with an error, which is the typed one if it sent one."""

    error: PermitflowError | None


def receive_within(call: "BlockingReplies | BlockingHostCall", seconds: float) -> Received | Closed | None:
    """The next message; None: nothing came in time.  For callers who give the call up when they are interrupted."""
    until = monotonic() + seconds
    while (reply := call.receive_nowait()) is None:
        if not call.wait(until - monotonic()):
            return None
    return reply


class BlockingReplies:
    """Messages from the peer, then ``Closed``; the queue is bounded by permits, not by a limit of its own."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        """``on_closed`` is called once ``Closed`` can be received, in the thread that has received it."""
        self._on_closed = on_closed
        self.is_over = False
        """Can ``Closed`` be received?"""
        # Not a queue: a caller that is interrupted when its ``get`` returns has lost the message.
        self._received: deque[Received | Closed] = deque()
        self._news = threading.Lock()
        self._news.acquire()
        self._is_closed = False
        self._lock = threading.Lock()

    def _note(self, reply: Received | Closed) -> None:
        """Let this be received; for one thread."""
        self._received.append(reply)
        if self._news.locked():
            self._news.release()

    def _note_end(self, error: PermitflowError | None) -> None:
        """Nothing more will come."""
        self._note(Closed(error))
        self.is_over = True
        self._on_closed()

    def _closes(self) -> bool:
        """Is this the first time that somebody closes?"""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        return not was_closed

    def wait(self, seconds: float) -> bool:
        """Wait until there may be something to receive; False: nothing came in so many seconds."""
        return bool(self._received) or self._news.acquire(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))

    def receive_nowait(self) -> Received | Closed | None:
        """The next message if it is here already; after ``Closed`` nothing comes."""
        return self._received.popleft() if self._received else None


class BlockingCall(BlockingReplies):
    """A call that is under way.  For one thread, except ``close``, which any thread may call."""

    def __init__(self, address: str, method: str, *, who: str, on_closed: Callable[[], None]) -> None:
        """Dial; that nobody answers shows in the first ``receive``.

        Args:
            address: as gRPC takes it, as in ``host:port``.
            method: full name, with slashes.
            who: the peer in words, for errors.
            on_closed: called once ``Closed`` can be received, in a thread of this object.
        """
        super().__init__(on_closed)
        self._who = who
        self._written: queue.SimpleQueue[tuple[Outgoing, bytes] | None] = queue.SimpleQueue()
        expect_large_blocks()
        self._channel = grpc.insecure_channel(address, options=CLIENT_OPTIONS)
        # No serialisers: the codec makes and reads the bytes, in the caller's thread.
        dial: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(method)
        self._call = dial(self._outgoing())
        self._reader = threading.Thread(target=self._read, name=f"permitflow reads from {address}", daemon=True)
        self._reader.start()

    def _outgoing(self) -> Iterator[bytes]:
        for message, content in iter(self._written.get, None):
            if not message.is_begun:
                message.is_begun = True
                yield content

    def _read(self) -> None:
        reason: PermitflowError | None = None
        try:
            for message in self._call:
                self._note(message)
        except grpc.RpcError as error:
            reason = self._typed(error)
        self._note_end(reason)

    def _typed(self, error: grpc.RpcError) -> PermitflowError:
        assert isinstance(error, grpc.Call)  # what a call raises is the call
        return error_from_status(error.code(), error.details(), error.trailing_metadata() or (), who=self._who)

    def write(self, message: Outgoing) -> None:
        """Have a message sent; does not wait.  What was written and is written again is sent once."""
        self._written.put((message, b"".join(message.pieces)))

    def half_close(self) -> None:
        """Say that nothing more will be written."""
        self._written.put(None)

    def close(self) -> None:
        """End the call, whatever state it is in, and its thread.  Closing twice is harmless."""
        if not self._closes():
            return
        self._call.cancel()
        # gRPC's own thread waits for the next message to write.
        self._written.put(None)
        self._reader.join(JOIN_SECONDS)
        self._channel.close()


CONNECT_SECONDS = 10.0
_PING_EVERY_SECONDS = 1.0
# As long as the other kind of client has.
_PATIENCE_SECONDS = SILENCE_SECONDS
_LOOK_UP_SECONDS = 0.5  # most names take less; closing waits no longer for the others


class BlockingTcpCall(BlockingReplies):
    """A stream that is under way.  For one thread, except ``close``, which any thread may call."""

    def __init__(self, address: str, method: str, *, who: str, on_closed: Callable[[], None]) -> None:
        """Dial; that nobody answers shows in the first ``receive``.

        Args:
            address: as in ``tcp://host:port``.
            method: full name, with slashes.
            who: the peer in words, for errors.
            on_closed: called once ``Closed`` can be received, in a thread of this object.

        Raises:
            InvalidParametersError: it is no address.
        """
        super().__init__(on_closed)
        self._name = host_and_port(address)
        self._who = who
        self._written: queue.SimpleQueue[tuple[Outgoing, Sequence[Buffer]] | None] = queue.SimpleQueue()
        self._write_header(KIND_OF_METHOD[method])
        self._socket: socket.socket | None = None
        self._is_connected = self._has_heard = False
        self._reader = threading.Thread(target=self._run, name=f"permitflow reads from {address}", daemon=True)
        self._reader.start()

    def _run(self) -> None:
        writer = threading.Thread(target=self._write_all, name=f"{self._reader.name}: writes", daemon=True)
        try:
            connection = self._connect()
            writer.start()
            error = self._read_all(connection)
        except PermitflowError as raised:
            error = raised
        except (OSError, MemoryError) as raised:
            error = self._gone(self._why(raised))
        self._note_end(error)
        if error is not None:
            self._hang_up()
        if writer.ident is not None:
            self._written.put(None)
            writer.join(JOIN_SECONDS)

    def _connect(self) -> socket.socket:
        """A connection with the first of the name's addresses that answers."""
        failures: list[OSError] = []
        addresses = socket.getaddrinfo(*self._name, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, name in addresses:
            patience_seconds = CONNECT_SECONDS if name == addresses[-1][-1] else NEXT_ADDRESS_SECONDS
            try:
                return self._dialled(socket.socket(family, kind, protocol), name, patience_seconds)
            except OSError as error:
                failures.append(error)
        raise OSError("; ".join(dict.fromkeys(map(str, failures))))

    def _dialled(self, connection: socket.socket, name: tuple[object, ...], patience_seconds: float) -> socket.socket:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin_to_dial(connection, name)
            _await_answer(connection, patience_seconds)
        except BaseException:
            with self._lock:
                self._socket = None
                connection.close()
            raise
        connection.settimeout(_PATIENCE_SECONDS)
        self._is_connected = True
        return connection

    def _begin_to_dial(self, connection: socket.socket, name: tuple[object, ...]) -> None:
        connection.setblocking(False)
        # Closing finds a connection to shut down, or nothing has begun and nothing will.
        with self._lock:
            if self._is_closed:
                raise ConnectionAbortedError("this end was closed")
            _require_no_error(connection.connect_ex(name))
            self._socket = connection

    def _read_all(self, connection: socket.socket) -> PermitflowError | None:
        """Until the peer closes its half in good order, or says why not."""
        while True:
            kind, size = read_header(self._bytes(connection, HEADER_BYTES), self._who)
            self._has_heard = True
            payload = self._bytes(connection, size)
            if kind is Kind.MESSAGE:
                self._note(payload.toreadonly())
            elif kind is Kind.END:
                return None
            elif kind is Kind.STATUS:
                return decode_status(bytes(payload), who=self._who)
            elif kind is not Kind.PING:
                return UndecodableDataError(what="a message", reason=f"{kind.name} may not come here")

    def _bytes(self, connection: socket.socket, size: int) -> memoryview:
        buffer = memoryview(pa.allocate_buffer(size)).cast("B")
        filled = 0
        while filled < size:
            count = connection.recv_into(buffer[filled:])
            if not count:
                raise self._gone("its connection was closed before the end")
            filled += count
        return buffer

    def _write_all(self) -> None:
        connection = self._socket
        assert connection is not None, "the thread starts with a connection"
        try:
            while True:
                try:
                    written = self._written.get(timeout=_PING_EVERY_SECONDS)
                except queue.Empty:
                    send_all(connection, [header(Kind.PING)])
                    continue
                if written is None:
                    return
                message, pieces = written
                if not message.is_begun:
                    message.is_begun = True
                    send_all(connection, pieces)
        except OSError:
            self._hang_up()  # the reading thread hears of it

    def _why(self, error: OSError | MemoryError) -> str:
        if not self._is_connected:
            return f"{error}; is an exchange running there (permitflow serve)?"
        if isinstance(error, TimeoutError):
            return f"it has given no sign of life for {_PATIENCE_SECONDS:g} s"
        return str(error)

    def _gone(self, reason: str) -> PeerGoneError:
        is_stranger = self._is_connected and not self._has_heard
        return PeerGoneError(who=self._who, reason=f"{reason}; {NOTHING_SAID}" if is_stranger else reason)

    def write(self, message: Outgoing) -> None:
        """Have a message sent; does not wait.  What was written and is written again is sent once."""
        first, *others = message.pieces
        size = size_of(message.pieces)
        self._written.put((message, [header(Kind.MESSAGE, size) + first, *others]))

    def _write_header(self, kind: Kind) -> None:
        self._written.put((Outgoing(()), [header(kind)]))

    def half_close(self) -> None:
        """Say that nothing more will be written."""
        self._write_header(Kind.END)

    def close(self) -> None:
        """End the stream, whatever state it is in, and its threads.  Closing twice is harmless."""
        if not self._closes():
            return
        self._written.put(None)
        self._hang_up()
        # Who only looks a name up has nothing that is to be closed, and cannot be interrupted.
        self._reader.join(_LOOK_UP_SECONDS if self._socket is None else JOIN_SECONDS)
        with self._lock:
            if self._socket is not None:
                self._socket.close()

    def _hang_up(self) -> None:
        """Wake the threads that dial, read and write."""
        with self._lock, suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


def _await_answer(connection: socket.socket, patience_seconds: float) -> None:
    waiting = select.poll()
    waiting.register(connection, select.POLLOUT)
    has_come = waiting.poll(patience_seconds * 1000)
    _require_no_error(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if has_come else errno.ETIMEDOUT)


def _require_no_error(number: int) -> None:
    if number not in (0, errno.EINPROGRESS):
        raise OSError(number, os.strerror(number))


def send_all(connection: socket.socket, pieces: Sequence[Buffer]) -> None:
    """As ``sendall``, whose time-out is for all of it: a large chunk may take long, as long as some of it is taken."""
    while pieces:
        pieces = without(pieces, connection.sendmsg(pieces[:PIECES_AT_ONCE]))


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
        self._checksums = Checksums(None)
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

    def outgoing(self, message: Sequence[Buffer]) -> Outgoing:
        """A message to ``write``: with a checksum, unless it goes through memory."""
        return Outgoing(self._checksums.add(message) if self._link is None else message)

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

    def checked(self, message: Received) -> Received:
        """The message that was sent, of one that was received last: as of ``HostCarrier``."""
        return self._checksums.check(message) if self._link is None else message

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
        stopping = select.poll()
        stopping.register(self._stop, select.POLLIN)
        while not any(descriptor == self._stop for descriptor, _ in waiting.poll()):
            again_seconds = self._offer.serve()
            if again_seconds is None:
                self._offer.turn_away()
                return
            stopping.poll(again_seconds * 1000)

    def close(self) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        os.close(self._stop)


def _link(connection: socket.socket, ring: Ring) -> BlockingLink:
    return BlockingLink(connection, ring, most_bytes=MAX_MESSAGE_BYTES)
