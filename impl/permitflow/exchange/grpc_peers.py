"""Counts the connections of a gRPC server by their peers, and hangs up on those beyond a limit.

gRPC itself only counts all of them.  This looks at them a few times a second: within a look, a peer may have more.
gRPC has one limit for all messages, and keeps what has come of them.  So while a first message is coming, this looks at
the bytes that have come of its connection: within such a look, a peer may send more than a first message may have.
gRPC has none for what is no message, such as pings, and answers it: who sends much of that is not let in for a while,
nor is a peer of which many calls end before anybody has heard what they want.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import thread_time
from typing import Final, Protocol

from permitflow.carriers.byte_stream import FRAMES_BYTES
from permitflow.carriers.connection import MOST_UNREAD_BYTES
from permitflow.carriers.grpc_connections import GrpcConnections, Name, Traffic
from permitflow.errors import LimitReachedError, PermitflowError
from permitflow.exchange.admission import Admission, peer_key
from permitflow.wire.arrow import MAX_MESSAGE_BYTES
from permitflow.wire.control_codec import MOST_REQUEST_BYTES

_log = logging.getLogger(__name__)

_BETWEEN_LOOKS_SECONDS: Final = 0.5
_BETWEEN_MEASURES_SECONDS: Final = 0.02
_LOOKS_SHARE: Final = 0.02
"""The largest share of the event loop's time: a look at thousands of connections takes tens of milliseconds."""
_HURRIED_SHARE: Final = 0.2
"""The same while a connection that is to be hung up on is younger than the last look: its calls cost more."""
_AT_ONCE: Final = 256
"""So many connections are measured before other tasks have their turn."""
_OF_STREAM_BYTES: Final = MOST_UNREAD_BYTES + MAX_MESSAGE_BYTES
"""What gRPC may hold of a stream, once it was answered: before that, a right client sends its first message only."""
_UNDER_WAY_SECONDS: Final = 60.0
"""So long what a stream has sent may still come when it is over here: over a slow network, or one that was silent."""
_MOST_LEAVING: Final = 1_024
"""Streams that are over: more than this many are not told apart; some systems measure nothing, and forget none."""
_OF_CONNECTION_BYTES: Final = 64 << 10
"""TLS's handshake, with certificates, and HTTP/2's."""
_OF_FRAMING: Final = 64
"""Of so many bytes of messages, one more: the headers of HTTP/2's frames and of TLS's records, for each 2 KiB."""
_OF_MESSAGE_BYTES: Final = 64
"""The same of each message: its length, a frame's header and a record's make 36."""
_QUIET_BYTES_PER_SECOND: Final = 64 << 10
"""Of a connection that is never hung up on for its noise: a consumer's feedback and its frames make a third of that."""
_OF_SENT: Final = 256
"""Of so many bytes that the peer has taken, one more: it gives room back, for each 32 KiB, and measures its line."""
_OF_CALL_BYTES: Final = 512
"""Its headers, of which most are told by a number from the second call on; with a token."""
_MOST_WAITING_BYTES: Final = 256 << 20
"""Of requests that nobody has handed over, of all peers: parts of such that come slowly look like pings."""
_LEAST_SHUT_OUT_SECONDS: Final = 1.0
"""For unheard calls: a system whose first packet is dropped dials again after this, and the log has a line for each."""
_MOST_EXCESSES: Final = 1
"""A client that has not heard yet how long headers may be is told so by an error, and may call again."""


class Call(Protocol):
    """A call that is being served."""

    received_bytes: int
    """Of the messages that gRPC has handed over."""
    received_messages: int
    has_written: bool
    """It was answered."""


class _Calls:
    """The calls of one connection."""

    def __init__(self, now: float) -> None:
        self.arriving = dict[Call, int]()
        """Those that have not said yet what they want, and what had come by then, and was no message."""
        self.begun = dict[Call, bool]()
        """The others, and whether each is a stream."""
        self.excesses = 0
        self._measured_at, self._noise_bytes = now, 0
        """What has come that is no message, nor may be of one that is coming, nor was left unread by a stream."""
        self._taken_bytes = self._told_bytes = 0
        """What the peer had taken then of what the exchange sends, and what had come of messages."""
        self._quiet_bytes = 0
        """What has come that is no message, and does not count: slowly enough, or left unread by streams."""
        self._over = self._over_bytes = 0
        """Calls that are over, and what has come of them."""
        self._leaving = deque[float](maxlen=_MOST_LEAVING)
        """Until when more may come of each stream that is over."""
        self._unknown_bytes = 0
        """What has come that is no message, nor gives room back, nor are headers."""
        self._requests = dict[Call, tuple[int, int]]()
        """Of each open call of requests, how many were handed over, and how much of that had come by then."""

    @property
    def messages_bytes(self) -> int:
        """Of all calls, with their framing."""
        return self._over_bytes + sum(_framed_bytes(call) for call in (*self.arriving, *self.begun))

    @property
    def are_over(self) -> bool:
        """Is none under way?"""
        return not self.arriving and not self.begun

    @property
    def _calls_bytes(self) -> int:
        """What gRPC may hold of all calls, with what may still come of those that are over."""
        requests = sum(not is_stream for is_stream in self.begun.values())
        first = len(self.arriving) + sum(is_stream and not call.has_written for call, is_stream in self.begun.items())
        # Such calls cost a peer nothing, and no right one has more than this in all of them at once.
        free_bytes = min(MOST_UNREAD_BYTES, requests * MOST_REQUEST_BYTES + first * FRAMES_BYTES)
        return self._streams * _OF_STREAM_BYTES + free_bytes

    @property
    def waiting_bytes(self) -> int:
        """What gRPC may hold of requests, also of parts that have come slowly."""
        if not self._requests:
            return 0
        before_bytes = min(before_bytes for _, before_bytes in self._requests.values())
        return max(0, self._unknown_bytes - before_bytes - self._streams * _OF_STREAM_BYTES)

    @property
    def _streams(self) -> int:
        """Those that were answered, also if they are over and more may come of them."""
        return len(self._leaving) + sum(is_stream and call.has_written for call, is_stream in self.begun.items())

    def is_too_much(self, received_bytes: int) -> bool:
        """Does gRPC hold more of this connection than its calls may have sent?"""
        before_bytes = next(iter(self.arriving.values()), 0)
        return received_bytes - before_bytes - self.messages_bytes > max(FRAMES_BYTES, self._calls_bytes)

    def note_noise(self, traffic: Traffic, now: float) -> tuple[int, bool]:
        """By how much there is more noise than the last time, and whether that is more than feedback makes.

        There is less if a message has been handed over since.
        """
        self._told_bytes = self.messages_bytes
        rest_bytes = max(0, traffic.received_bytes - self._told_bytes - _OF_CONNECTION_BYTES)
        taken_bytes = traffic.acknowledged_bytes - self._taken_bytes
        most_bytes = int((now - self._measured_at) * _QUIET_BYTES_PER_SECOND) + taken_bytes // _OF_SENT
        self._quiet_bytes = min(rest_bytes, self._quiet_bytes + most_bytes)
        while self._leaving and self._leaving[0] < now:
            self._keep_unread(rest_bytes - self._quiet_bytes)
        known_bytes = traffic.acknowledged_bytes // _OF_SENT + self._over * _OF_CALL_BYTES
        self._unknown_bytes = latest = max(0, rest_bytes - known_bytes)
        for call, (messages, before_bytes) in self._requests.items():
            has_come_whole = call.received_messages > messages
            self._requests[call] = call.received_messages, latest if has_come_whole else min(before_bytes, latest)
        former_bytes = self._noise_bytes
        self._noise_bytes = max(0, rest_bytes - self._quiet_bytes - self._calls_bytes)
        grown_bytes = self._noise_bytes - former_bytes
        self._measured_at, self._taken_bytes = now, traffic.acknowledged_bytes
        return grown_bytes, grown_bytes > most_bytes

    def _keep_unread(self, unread_bytes: int) -> None:
        """No more comes of the stream that was over first: what nobody has read of it is no noise."""
        self._leaving.popleft()
        unread_bytes = min(_OF_STREAM_BYTES, max(0, unread_bytes))
        self._quiet_bytes += unread_bytes
        self.arriving = {call: before_bytes + unread_bytes for call, before_bytes in self.arriving.items()}

    def follow_on(self) -> None:
        """They may be of another connection, of the same name, from now on, or since the last measure."""
        self._over_bytes -= self._told_bytes
        self._noise_bytes = self._taken_bytes = self._told_bytes = self._over = 0

    def begin(self, call: Call, is_stream: bool) -> None:
        """It has said what it wants."""
        self.arriving.pop(call, None)
        self.begun[call] = is_stream
        if not is_stream:
            self._requests[call] = call.received_messages, self._unknown_bytes

    def end(self, call: Call, now: float) -> None:
        """It is over."""
        self._over += 1
        self._over_bytes += _framed_bytes(call)
        self.arriving.pop(call, None)
        self._requests.pop(call, None)
        if self.begun.pop(call, False) and call.has_written:
            self._leaving.append(now + _UNDER_WAY_SECONDS)


def _framed_bytes(call: Call) -> int:
    return call.received_bytes + call.received_bytes // _OF_FRAMING + call.received_messages * _OF_MESSAGE_BYTES


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
        self._is_applied = True
        """The kernel drops what comes from these peers, and from no others."""
        self._has_hung_up = False
        self._refused: dict[Name, float] = {}
        """Until when calls may come of connections beyond a limit: they were hung up on before anybody heard them."""
        self._has_excess, self._has_arrival = asyncio.Event(), asyncio.Event()

    @contextmanager
    def call(self, peer: str, call: Call, *, is_stream: bool = True) -> Iterator[Callable[[], None]]:
        """A connection has made a call, which is under way in the block: the handshake of the connection is over.

        Args:
            peer: what gRPC calls it.
            call: of it.
            is_stream: rather than requests.

        Yields:
            Is to be called once the call has begun: it has said what it wants.
        """
        if (name := Name.of_call(peer)) is None:
            yield lambda: None
            return
        calls = self._calls_of(name)
        traffic = self._connections.traffic(name) if calls.begun or calls.messages_bytes else None
        calls.arriving[call] = 0 if traffic is None else traffic.received_bytes - calls.messages_bytes
        self._arriving[name] = calls
        self._has_arrival.set()

        def begin() -> None:
            calls.begin(call, is_stream)
            self._note_arrived(name)

        try:
            yield begin
        finally:
            now = asyncio.get_running_loop().time()
            calls.end(call, now)
            self._note_arrived(name)
            # Nobody has heard what it wants: its peer has not said it, or has shown no right token.
            if not call.received_messages and name not in self._refused:
                seconds = self._admission.failed_calls(_written(name))
                if seconds > 0.0:
                    self._shut_out_peer(peer_key(_written(name)), max(seconds, _LEAST_SHUT_OUT_SECONDS), now)
                    self._has_hung_up |= self._connections.hang_up(name)

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
            spent_seconds, names = thread_time() - began, tuple(self._holds)
            for start in range(0, len(names), _AT_ONCE):
                began = thread_time()
                self._measure(names[start : start + _AT_ONCE])
                spent_seconds += thread_time() - began
                await asyncio.sleep(0)
            self._bound_waiting()
            await asyncio.sleep(spent_seconds / _HURRIED_SHARE)
            # Who floods without a call may be gone, and back, before a later look.
            seconds = _BETWEEN_MEASURES_SECONDS if self._handshakes else _BETWEEN_LOOKS_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(max(seconds, spent_seconds / _LOOKS_SHARE)):
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
        now = asyncio.get_running_loop().time()
        for name in names:
            calls, traffic = self._calls.get(name), self._connections.traffic(name)
            if calls is None or traffic is None:  # it has gone since it was looked at, or was refused
                continue
            noise_bytes, is_loud = calls.note_noise(traffic, now)
            is_over = self._note_noise(name, noise_bytes, now, is_loud=is_loud)
            is_arriving = name in self._handshakes or name in self._arriving
            if is_over or (is_arriving and calls.is_too_much(traffic.received_bytes)):
                self._has_hung_up |= self._connections.hang_up(name)

    def _note_noise(self, name: Name, noise_bytes: int, now: float, *, is_loud: bool = True) -> bool:
        """Is it too much?  Then its peer is shut out; ``is_loud``: it may be."""
        seconds = self._admission.noise(_written(name), noise_bytes) if noise_bytes > 0 else 0.0
        if is_over := is_loud and seconds > 0.0:
            self._shut_out_peer(peer_key(_written(name)), seconds, now)
        return is_over

    def _bound_waiting(self) -> None:
        """Hang up on the connections of which most waits, if that is too much: their clients dial again."""
        waiting = [(size, name) for name, calls in self._calls.items() if (size := calls.waiting_bytes)]
        rest_bytes = sum(size for size, _ in waiting) - _MOST_WAITING_BYTES
        for size, name in sorted(waiting, reverse=True):
            if rest_bytes <= 0:
                return
            rest_bytes -= size
            self._has_hung_up |= self._connections.hang_up(name)

    def _shut_out_peer(self, key: str, seconds: float, now: float) -> None:
        is_new = key not in self._shut_out
        self._shut_out[key] = now + seconds
        if not is_new:
            return
        self._let_in_later(key)
        self._apply()
        fate = f"{'wait' if self._is_applied else 'are hung up on'} for {seconds:.1f} s"
        _log.info("%s sends much over gRPC that is no message, or says nothing: its new connections %s", key, fate)

    def _apply(self) -> None:
        self._is_applied = self._connections.drop_from(tuple(self._shut_out))

    def _look(self) -> None:
        self._has_hung_up = False
        come, gone, is_whole, twins = self._connections.look()
        here = {*come}
        for name in gone:
            self._forget(name, is_here=name in here)
        for name in sorted(come, key=lambda name: name not in self._calls):  # who has called was there before
            self._admit(name)
        self._has_excess.clear()
        for name, calls in self._calls.items():
            if calls.excesses > _MOST_EXCESSES:
                self._connections.hang_up(name)
        if is_whole:  # else each may be of a connection that will be found later
            self._calls = {
                name: calls
                for name, calls in self._calls.items()
                # Others have come and gone between two looks; or no look has found the connection of a call yet.
                if name in self._holds or not calls.are_over
            }
        now = asyncio.get_running_loop().time()
        for name, came_bytes in twins:  # calls of it are told as those of the older one
            self._note_noise(name, came_bytes - _OF_CONNECTION_BYTES, now)
        self._refused = {name: until for name, until in self._refused.items() if until > now}
        for name in [name for name, (since, _) in self._handshakes.items() if since < now - self._handshake_seconds]:
            self._end_handshake(name)
        self._let_in_again()

    def _let_in_later(self, key: str) -> None:
        """In time: the next look may be later."""
        loop = asyncio.get_running_loop()
        if self._shut_out.get(key, 0.0) > loop.time():
            loop.call_at(self._shut_out[key], self._let_in_later, key)
        else:
            self._let_in_again()

    def _let_in_again(self) -> None:
        now = asyncio.get_running_loop().time()
        over = [key for key, until in self._shut_out.items() if until <= now]
        for key in over:
            del self._shut_out[key]
        if over or not self._is_applied:
            self._apply()

    def _admit(self, name: Name) -> None:
        peer = _written(name)

        def hang_up(_: PermitflowError) -> None:
            self._refused[name] = asyncio.get_running_loop().time() + self._handshake_seconds
            self._connections.hang_up(name)

        calls = self._calls.get(name)
        if peer_key(peer) in self._shut_out and (calls is None or not calls.begun):  # the kernel had it already
            self._connections.hang_up(name)
            return
        with ExitStack() as stack:
            try:
                stack.enter_context(self._admission.connection(peer))
            except LimitReachedError as error:
                hang_up(error)
                return
            if calls is None:
                handshake = ExitStack()
                handshake.enter_context(self._admission.handshake(peer, hang_up))
                now = asyncio.get_running_loop().time()
                self._handshakes[name], self._calls[name] = (now, handshake), _Calls(now)
            self._holds[name] = stack.pop_all()

    def _end_handshake(self, name: Name) -> None:
        if (handshake := self._handshakes.pop(name, None)) is not None:
            handshake[1].close()

    def _forget(self, name: Name, *, is_here: bool = False) -> None:
        """It has gone; ``is_here``: another one of its name has come."""
        self._end_handshake(name)
        if (calls := self._calls.get(name)) is not None:
            calls.follow_on()
            if calls.are_over and not (is_here and calls.messages_bytes):
                del self._calls[name]  # else some may be of the next one of this name
        if (hold := self._holds.pop(name, None)) is not None:
            hold.close()


def _written(name: Name) -> str:
    return f"tcp:[{name.host}]:{name.port}"
