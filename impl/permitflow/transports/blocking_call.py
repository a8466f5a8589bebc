"""One bidirectional gRPC call for a caller without an event loop.

Written messages wait in a queue that gRPC empties; one thread brings received ones into another queue, so that every
wait of the caller has a time-out and can be interrupted.  Both queues are bounded by permits, not by a limit of their
own.  The core is touched by the caller's thread only.

gRPC must not be loaded before a fork whose child will use it: import this module in the child.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import grpc

from permitflow.errors import PermitflowError
from permitflow.transports.carrier import Buffer
from permitflow.transports.connection import CLIENT_OPTIONS
from permitflow.transports.malloc import expect_large_blocks
from permitflow.transports.status import error_from_status

__all__ = ["BlockingCall", "Closed"]

# After a cancel the reading thread wakes up at once; this only keeps a defect from hanging the caller.
JOIN_SECONDS = 5.0


class Closed(NamedTuple):
    """The peer has closed the call: in good order, or with an error, which is the typed one if it sent one."""

    error: PermitflowError | None


class BlockingCall:
    """A call that is under way.  For one thread, except ``close``, which any thread may call."""

    def __init__(self, address: str, method: str, *, who: str, on_closed: Callable[[], None]) -> None:
        """Dial; that nobody answers shows in the first ``receive``.

        Args:
            address: as gRPC takes it, as in ``host:port``.
            method: full name, with slashes.
            who: the peer in words, for errors.
            on_closed: called once ``Closed`` can be received, in a thread of this object.
        """
        self._who = who
        self._on_closed = on_closed
        self.is_over = False
        """Can ``Closed`` be received?"""
        self._written: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[bytes | Closed] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()
        expect_large_blocks()
        self._channel = grpc.insecure_channel(address, options=CLIENT_OPTIONS)
        # No serialisers: the codec makes and reads the bytes, in the caller's thread.
        dial: grpc.StreamStreamMultiCallable[bytes, bytes] = self._channel.stream_stream(method)
        self._call = dial(self._outgoing())
        self._reader = threading.Thread(target=self._read, name=f"permitflow reads from {address}", daemon=True)
        self._reader.start()

    def _outgoing(self) -> Iterator[bytes]:
        return iter(self._written.get, None)

    def _read(self) -> None:
        try:
            for message in self._call:
                self._received.put(message)
        except grpc.RpcError as error:
            self._received.put(Closed(self._typed(error)))
        else:
            self._received.put(Closed(None))
        self.is_over = True
        self._on_closed()

    def _typed(self, error: grpc.RpcError) -> PermitflowError:
        assert isinstance(error, grpc.Call)  # what a call raises is the call
        return error_from_status(error.code(), error.details(), error.trailing_metadata() or (), who=self._who)

    def write(self, messages: Iterable[Sequence[Buffer]]) -> None:
        """Have messages sent, each in pieces; does not wait."""
        for message in messages:
            self._written.put(b"".join(message))

    def half_close(self) -> None:
        """Say that nothing more will be written."""
        self._written.put(None)

    def receive(self, timeout_seconds: float) -> bytes | Closed:
        """The next message; after ``Closed`` nothing comes.

        Raises:
            TimeoutError: nothing came in time.
        """
        try:
            return self._received.get(timeout=timeout_seconds)
        except queue.Empty:
            raise TimeoutError from None

    def receive_nowait(self) -> bytes | Closed | None:
        """The next message if it is here already."""
        try:
            return self._received.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """End the call, whatever state it is in, and its thread.  Closing twice is harmless."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._call.cancel()
        # gRPC's own thread waits for the next message to write.
        self._written.put(None)
        self._reader.join(JOIN_SECONDS)
        self._channel.close()
