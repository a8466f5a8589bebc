"""Counts the connections of a gRPC server by their peers, and hangs up on those beyond a limit.

gRPC itself only counts all of them.  This looks at them a few times a second: within a look, a peer may have more.
gRPC has one limit for all messages, and keeps what has come of them.  So while a first message is coming, this looks at
the bytes that have come of its connection: within such a look, a peer may send more than a first message may have.
gRPC has none for what is no message, such as pings, and answers it: who sends much of that is not let in for a while.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import thread_time
from typing import Final, Protocol

from permitflow.carriers.byte_stream import FRAMES_BYTES
from permitflow.carriers.connection import MOST_UNREAD_BYTES
from permitflow.carriers.grpc_connections import GrpcConnections, Name
from permitflow.errors import LimitReachedError, PermitflowError
from permitflow.exchange.admission import Admission, peer_key
from permitflow.wire.arrow import MAX_MESSAGE_BYTES

_log = logging.getLogger(__name__)

_BETWEEN_LOOKS_SECONDS: Final = 0.5
_BETWEEN_MEASURES_SECONDS: Final = 0.02
_LOOKS_SHARE: Final = 0.02
"""The largest share of the event loop's time: a look at thousands of connections takes milliseconds."""
_HURRIED_SHARE: Final = 0.2
"""The same while a connection that is to be hung up on is younger than the last look: its calls cost more."""
_OF_STREAM_BYTES: Final = MOST_UNREAD_BYTES + MAX_MESSAGE_BYTES
"""What gRPC may hold of a stream."""
_OF_CONNECTION_BYTES: Final = 64 << 10
"""TLS's handshake, with certificates, and HTTP/2's."""
_OF_FRAMING: Final = 64
"""Of so many bytes of messages, one more: the headers of HTTP/2's frames and of TLS's records, for each 2 KiB."""
_QUIET_BYTES_PER_SECOND: Final = 64 << 10
"""Of a connection that is never hung up on for its noise: a consumer's feedback and its frames make a third of that."""
_MOST_EXCESSES: Final = 1
"""A client that has not heard yet how long headers may be is told so by an error, and may call again."""


class Call(Protocol):
    """A call that is being served."""

    received_bytes: int
    """Of the messages that gRPC has handed over."""


class _Calls:
    """The calls of one connection."""

    def __init__(self, now: float) -> None:
        self.arriving, self.begun = set[Call](), set[Call]()
        """Those that have not said yet what they want, and those that have a stream."""
        self.excesses = 0
        self.before_bytes = 0
        """What had come, and was no message, when the first of ``arriving`` began."""
        self._measured_at, self._noise_bytes = now, 0
        """What has come that is no message, nor may be of one that is coming, nor was left unread by a stream."""
        self._over_bytes = self._streams = 0

    @property
    def delivered_bytes(self) -> int:
        """Of the messages of all calls."""
        return self._over_bytes + sum(call.received_bytes for call in (*self.arriving, *self.begun))

    def is_too_much(self, received_bytes: int) -> bool:
        """Does gRPC hold more of this connection than its calls may have sent?"""
        most_bytes = max(1, len(self.arriving)) * FRAMES_BYTES + len(self.begun) * _OF_STREAM_BYTES
        return received_bytes - self.before_bytes - self.delivered_bytes > most_bytes

    def note_noise(self, received_bytes: int, now: float) -> tuple[int, bool]:
        """By how much there is more noise than the last time, and whether that is more than feedback makes.

        There is less if a message has been handed over since.
        """
        messages_bytes = self.delivered_bytes + self.delivered_bytes // _OF_FRAMING
        calls_bytes = len(self.arriving) * FRAMES_BYTES + self._streams * _OF_STREAM_BYTES
        former_bytes = self._noise_bytes
        self._noise_bytes = max(0, received_bytes - messages_bytes - calls_bytes - _OF_CONNECTION_BYTES)
        grown_bytes, most_bytes = self._noise_bytes - former_bytes, (now - self._measured_at) * _QUIET_BYTES_PER_SECOND
        self._measured_at = now
        return grown_bytes, grown_bytes > most_bytes

    def begin(self, call: Call) -> None:
        """It has a stream."""
        self._streams += 1
        self.arriving.discard(call)
        self.begun.add(call)

    def end(self, call: Call) -> None:
        """It is over."""
        self._over_bytes += call.received_bytes
        self.arriving.discard(call)
        self.begun.discard(call)


class GrpcPeers:
    """The peers of one gRPC server."""

    def __init__(self, admission: Admission, connections: GrpcConnections, handshake_seconds: float) -> None:
        """Nobody is connected.

        Args:
            admission: has the limits.
            connections: of the server.
            handshake_seconds: after so long without a call gRPC hangs up by itself.
        """
        self._admission, self._connections, self._handshake_seconds = admission, connections, handshake_seconds
        self._holds: dict[Name, ExitStack] = {}
        self._handshakes: dict[Name, tuple[float, ExitStack]] = {}
        """When each connection without a call came, also while it negotiates TLS."""
        self._calls: dict[Name, _Calls] = {}
        """Of each connection that a look has found, or that has made one."""
        self._arriving: dict[Name, _Calls] = {}
        """Of these, those with a call that has not said yet what it wants."""
        self._shut_out: dict[str, float] = {}
        """Until when new connections of these peers wait."""
        self._has_hung_up = False
        self._has_excess, self._has_arrival = asyncio.Event(), asyncio.Event()

    @contextmanager
    def call(self, peer: str, call: Call) -> Iterator[Callable[[], None]]:
        """A connection has made a call, which is under way in the block: the handshake of the connection is over.

        Args:
            peer: what gRPC calls it.
            call: of it.

        Yields:
            Is to be called once the call has a stream.
        """
        if (name := Name.of_call(peer)) is None:
            yield lambda: None
            return
        calls = self._calls_of(name)
        if not calls.arriving:
            if calls.delivered_bytes and (received_bytes := self._connections.received_bytes(name)) is not None:
                calls.before_bytes = received_bytes - calls.delivered_bytes
            self._arriving[name] = calls
            self._has_arrival.set()
        calls.arriving.add(call)

        def begin() -> None:
            calls.begin(call)
            self._note_arrived(name)

        try:
            yield begin
        finally:
            calls.end(call)
            self._note_arrived(name)

    def _calls_of(self, name: Name) -> _Calls:
        self._end_handshake(name)
        return self._calls.setdefault(name, _Calls(asyncio.get_running_loop().time()))

    def _note_arrived(self, name: Name) -> None:
        if (calls := self._arriving.get(name)) is not None and not calls.arriving:
            del self._arriving[name]

    def note_excess(self, peer: str) -> None:
        """A call came with more metadata than gRPC lets pass once the peer has acknowledged our settings.

        Further ones would wait in gRPC with all their metadata: this hangs up.
        """
        if (name := Name.of_call(peer)) is not None:
            calls = self._calls_of(name)
            calls.excesses += 1
            if calls.excesses == _MOST_EXCESSES + 1 and not self._connections.hang_up(name):
                self._has_excess.set()  # it is younger than the last look

    async def follow(self) -> None:
        """Look again and again, until this is cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._look_on())
                group.create_task(self._measure_on())
        finally:
            for name in tuple(self._holds):
                self._forget(name)

    async def _look_on(self) -> None:
        while True:
            began = thread_time()
            self._look()
            self._measure(self._holds)
            spent_seconds = thread_time() - began
            await asyncio.sleep(spent_seconds / _HURRIED_SHARE)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(_BETWEEN_LOOKS_SECONDS, spent_seconds / _LOOKS_SHARE)):
                    await self._has_excess.wait()

    async def _measure_on(self) -> None:
        while True:
            await self._has_arrival.wait()
            self._has_arrival.clear()
            await asyncio.sleep(_BETWEEN_MEASURES_SECONDS)
            while self._arriving:
                began = thread_time()
                if self._has_hung_up or any(name not in self._holds for name in self._arriving):
                    self._look()
                self._measure({**self._handshakes, **self._arriving})
                spent_seconds = thread_time() - began
                await asyncio.sleep(max(_BETWEEN_MEASURES_SECONDS, spent_seconds / _HURRIED_SHARE))

    def _measure(self, names: Iterable[Name]) -> None:
        """Hang up on connections of which more has come than their calls may have sent."""
        self._has_hung_up, now = False, asyncio.get_running_loop().time()
        for name in names:
            if (received_bytes := self._connections.received_bytes(name)) is None:
                continue
            calls = self._calls[name]
            noise_bytes, is_loud = calls.note_noise(received_bytes, now)
            seconds = self._admission.noise(_written(name), noise_bytes) if noise_bytes else 0.0
            if is_over := is_loud and seconds > 0.0:
                self._shut_out_peer(peer_key(_written(name)), seconds, now)
            is_arriving = name in self._handshakes or name in self._arriving
            if is_over or (is_arriving and calls.is_too_much(received_bytes)):
                self._has_hung_up |= self._connections.hang_up(name)

    def _shut_out_peer(self, key: str, seconds: float, now: float) -> None:
        if key not in self._shut_out:
            _log.info("%s sends much over gRPC that is no message: its new connections wait for %.1f s", key, seconds)
        self._shut_out[key] = now + seconds
        self._connections.drop_from(tuple(self._shut_out))

    def _look(self) -> None:
        come, gone = self._connections.look()
        for name in gone:
            self._forget(name)
        for name in sorted(come, key=lambda name: name not in self._calls):  # who has called was there before
            self._admit(name)
        self._has_excess.clear()
        for name, calls in self._calls.items():
            if calls.excesses > _MOST_EXCESSES:
                self._connections.hang_up(name)
        # Others have come and gone between two looks.
        self._calls = {
            name: calls
            for name, calls in self._calls.items()
            if name in self._holds or calls.arriving or calls.begun  # these may be of one that no look has found yet
        }
        now = asyncio.get_running_loop().time()
        for name in [name for name, (since, _) in self._handshakes.items() if since < now - self._handshake_seconds]:
            self._end_handshake(name)
        if over := [key for key, until in self._shut_out.items() if until < now]:
            for key in over:
                del self._shut_out[key]
            self._connections.drop_from(tuple(self._shut_out))

    def _admit(self, name: Name) -> None:
        peer = _written(name)

        def hang_up(_: PermitflowError) -> None:
            self._connections.hang_up(name)

        if peer_key(peer) in self._shut_out:  # the kernel had it already
            self._connections.hang_up(name)
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(self._admission.connection(peer))
            except LimitReachedError as error:
                hang_up(error)
                return
            if name not in self._calls:
                handshake = ExitStack()
                handshake.enter_context(self._admission.handshake(peer, hang_up))
                now = asyncio.get_running_loop().time()
                self._handshakes[name], self._calls[name] = (now, handshake), _Calls(now)
            self._holds[name] = stack.pop_all()

    def _end_handshake(self, name: Name) -> None:
        if (handshake := self._handshakes.pop(name, None)) is not None:
            handshake[1].close()

    def _forget(self, name: Name) -> None:
        self._end_handshake(name)
        self._calls.pop(name, None)
        if (hold := self._holds.pop(name, None)) is not None:
            hold.close()


def _written(name: Name) -> str:
    return f"tcp:[{name.host}]:{name.port}"
