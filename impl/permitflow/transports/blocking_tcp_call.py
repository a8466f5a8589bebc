"""One stream over TCP for a caller without an event loop; see ``BlockingCall``.

One thread connects and reads, one writes, and one of them ends with the other: every wait of the caller has a time-out
and can be interrupted.
"""

import errno
import os
import queue
import select
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa

from permitflow.errors import PeerGoneError, PermitflowError, UndecodableDataError
from permitflow.transports.blocking_replies import JOIN_SECONDS, BlockingReplies
from permitflow.transports.carrier import Buffer
from permitflow.transports.shared_memory.outgoing import Outgoing
from permitflow.transports.shared_memory.sized_parts import size_of
from permitflow.transports.status import error_of
from permitflow.transports.strangers import NOTHING_SAID
from permitflow.transports.tcp_client import NEXT_ADDRESS_SECONDS, host_and_port
from permitflow.transports.tcp_framing import (
    HEADER_BYTES,
    KIND_OF_METHOD,
    PIECES_AT_ONCE,
    Kind,
    header,
    read_header,
    without,
)

__all__ = ["BlockingTcpCall", "send_all"]

CONNECT_SECONDS = 10.0
_PING_EVERY_SECONDS = 2.0
# As long as the other kind of client has.
_PATIENCE_SECONDS = 8.0
_LOOK_UP_SECONDS = 0.5  # most names take less; whoever closes waits no longer for the others


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
        # Whoever closes finds a connection that he can shut down, or nothing has begun and nothing will.
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
                return error_of(bytes(payload), who=self._who)
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
            self._hang_up()  # whoever reads hears of it

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
