"""One bidirectional gRPC call for a caller without an event loop.

Written messages wait in a queue that gRPC empties; one thread brings received ones into another queue, so that every
wait of the caller has a time-out and can be interrupted.  Both queues are bounded by permits, not by a limit of their
own.  The core is touched by the caller's thread only.

gRPC must not be loaded before a fork whose child will use it: import this module in the child.
"""

import queue
import threading
from collections.abc import Callable, Iterator

import grpc

from permitflow.errors import PermitflowError
from permitflow.transports.blocking_replies import JOIN_SECONDS, BlockingReplies
from permitflow.transports.connection import CLIENT_OPTIONS
from permitflow.transports.malloc import expect_large_blocks
from permitflow.transports.shared_memory.outgoing import Outgoing
from permitflow.transports.status import error_from_status

__all__ = ["BlockingCall"]


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
