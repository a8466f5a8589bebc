"""Connections in memory between the clients of ``aio`` and an exchange, which are cut at chosen messages."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import Self

from permitflow.carriers.calling import dialling_with
from permitflow.carriers.carrier import Carrier, Listener
from permitflow.carriers.reaching import Destination
from permitflow.carriers.resuming import ConnectionGivenUp
from permitflow.errors import PeerGoneError, PermitflowError, TransportError
from permitflow.exchange import Exchange
from permitflow.exchange.reception import Reception
from permitflow.wire.buffers import Buffer

ADDRESS = "exchange.example:1"


class _End:
    """The peer has ended the stream in good order."""


class _Cut:
    """The connection is lost."""


class Line(Carrier):
    """One end of a connection."""

    def __init__(self, network: "Network", *, is_dialler: bool) -> None:
        self._network, self.is_dialler = network, is_dialler
        self._loop = asyncio.get_running_loop()
        self.peer: Line
        self._listener: Listener | None = None
        self._inbox: deque[bytes | PermitflowError | _End | _Cut] = deque()
        self._is_paused = self._is_cut = self._is_over = self._is_full = False
        self._arrives_at = 0.0

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @property
    def sign_seconds(self) -> float | None:
        return self._network.sign_seconds

    def listen(self, listener: Listener) -> None:
        self._listener = listener
        self._loop.call_soon(self._deliver)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._loop.call_soon(self._deliver)

    def give(self, item: bytes | PermitflowError | _End | _Cut) -> None:
        """Let something arrive here."""
        self._inbox.append(item)
        self._loop.call_soon(self._deliver)

    def give_later(self, message: bytes, seconds: float) -> None:
        """Let a message arrive here, so long after the one before it."""
        self._arrives_at = max(self._arrives_at, self._loop.time()) + seconds
        if seconds:
            self._loop.call_at(self._arrives_at, self.give, message)
        else:
            self.give(message)

    def _deliver(self) -> None:
        while self._inbox and self._listener is not None and not self._is_over:
            if self._is_paused and isinstance(self._inbox[0], bytes):
                return  # an end is told at once, as over TCP
            item, listener = self._inbox.popleft(), self._listener
            if isinstance(item, bytes):
                listener.on_message(item, bool(self._inbox) and isinstance(self._inbox[0], bytes))
                continue
            self._is_over = True
            if isinstance(item, _Cut):
                self._is_cut = True
                listener.on_error(PeerGoneError(who="the other end", reason="the line was cut"))
            elif isinstance(item, _End):
                listener.on_end()
            else:
                listener.on_error(item)

    def write(self, message: Sequence[Buffer]) -> bool:
        assert not self._is_full, "nothing may be written before there is room"
        self._network.carry(self, b"".join(message))
        self._is_full = self._network.is_narrow
        if self._is_full:
            network = self._network
            seconds = network.write_seconds if self.is_dialler else network.answer_seconds
            self._loop.call_later(seconds, self._on_writable)
        return not self._is_full

    def _on_writable(self) -> None:
        self._is_full = False
        if self._listener is not None and not self._is_cut:  # also after the peer has ended: its half alone is closed
            self._listener.on_writable()

    def half_close(self) -> None:
        if self.is_dialler:  # an acceptor's half closes with the status, when all is over
            self.peer.give(_End())

    async def stop(self) -> None:
        self._listener = None


class Network:
    """All connections to one exchange, and how many messages have been written into them."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        resume_seconds: float = 30.0,
        cuts: Collection[int] = (),
        damages: Mapping[int, int] = MappingProxyType({}),
        loses: bool = True,
        is_narrow: bool = False,
        write_seconds: float = 0.0,
        answer_seconds: float = 0.0,
        arrival_seconds: float = 0.0,
        is_noticed: bool = True,
        outage_seconds: float = 0.0,
        sign_seconds: float | None = None,
    ) -> None:
        """Everything is open.

        Args:
            exchange: that is dialled.
            resume_seconds: of its server.
            cuts: numbers of messages, from 0 on, at which their connections are cut.
            damages: by the number of a message: the place of the byte in it that is altered.
            loses: is that message lost?
            is_narrow: does a connection take one message after the other?
            write_seconds: how long it takes each of a client's, if it is narrow.
            answer_seconds: how long it takes each of the exchange's, likewise.
            arrival_seconds: how long each of the exchange's is on its way, one behind the other; it may write the next.
            is_noticed: does the exchange notice the cuts?  If not, it does when ``notice`` is called.
            outage_seconds: with a cut, all connections are cut, and none can be made for so long.
            sign_seconds: as of a carrier.
        """
        self.reception = Reception(exchange, resume_seconds=resume_seconds)
        self.damages = damages
        self.cuts, self.loses, self.is_narrow, self.is_noticed = cuts, loses, is_narrow, is_noticed
        self.outage_seconds, self.sign_seconds = outage_seconds, sign_seconds
        self.write_seconds, self.answer_seconds = write_seconds, answer_seconds
        self._arrival_seconds = arrival_seconds
        self.is_down = False
        self._failure: Exception | None = None
        self.messages = self.connections = 0
        self.failures: list[Exception] = []
        """Of streams, for reasons that are not their peers'."""
        self._lines: dict[Line, None] = {}  # in their order
        self._unnoticed: list[Line] = []
        self._serving: set[asyncio.Task[None]] = set()

    def carry(self, line: Line, message: bytes) -> None:
        """Let a message arrive, unless the line is cut."""
        if line not in self._lines:
            return
        number, self.messages = self.messages, self.messages + 1
        if number in self.damages:
            place = self.damages[number] % len(message)
            message = message[:place] + bytes((message[place] ^ 4,)) + message[place + 1 :]
        is_cut = number in self.cuts
        if not (is_cut and self.loses):
            line.peer.give_later(message, 0.0 if line.is_dialler else self._arrival_seconds)
        if is_cut and self.outage_seconds:
            self.let_down()
            asyncio.get_running_loop().call_later(self.outage_seconds, self.let_up)
        elif is_cut:
            self.cut(line)

    def cut(self, line: Line) -> None:
        """Cut the connection of this end."""
        for end in (line, line.peer):
            if end in self._lines:
                del self._lines[end]
                if end.is_dialler or self.is_noticed:
                    self.tell_of_cut(end)
                else:
                    self._unnoticed.append(end)

    def tell_of_cut(self, end: Line) -> None:
        """Let an end notice the cut of its connection."""
        end.give(_Cut())

    def notice(self) -> None:
        """Let the exchange notice the cuts that it has not noticed."""
        while self._unnoticed:
            self._unnoticed.pop().give(_Cut())

    def cut_all(self) -> None:
        """Cut all connections."""
        for line in tuple(self._lines):
            self.cut(line)

    def let_down(self, failure: Exception | None = None) -> None:
        """Cut all connections, and let none be made; dialling raises this failure, by default that nobody answers."""
        self.is_down, self._failure = True, failure
        self.cut_all()

    def let_up(self) -> None:
        """Let connections be made again."""
        self.is_down = False

    @contextmanager
    def dialled(self) -> Iterator[None]:
        """Clients that are opened in the block dial here."""
        with dialling_with(self._calling):
            yield

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Self]:
        """Clients that are opened in the block dial here; nothing is served after it."""
        with self.dialled():
            try:
                yield self
            finally:
                await self.close()

    @asynccontextmanager
    async def _calling(self, to: Destination) -> AsyncIterator[Carrier]:
        await asyncio.sleep(0)
        if self.is_down:
            raise self._failure or PeerGoneError(who=to.who, reason="nobody answers")
        near, far = Line(self, is_dialler=True), Line(self, is_dialler=False)
        near.peer, far.peer = far, near
        self._lines |= {near: None, far: None}
        self.connections += 1
        serving = asyncio.create_task(self._serve(to.method, far))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        try:
            yield near
        finally:
            self.cut(near)

    async def _serve(self, method: str, line: Line) -> None:
        try:
            await self.reception.serve(method, line, peer="memory")
            last: PermitflowError | _End = _End()
        except ConnectionGivenUp:
            self.cut(line)
            return
        except PermitflowError as error:
            last = error
            if type(error) is TransportError:  # an exception within the exchange, told as the stream's
                self.failures.append(error)
        except Exception as error:
            self.failures.append(error)
            last = PeerGoneError(who="the exchange", reason=repr(error))
        if line in self._lines:
            line.peer.give(last)
        self._lines.pop(line, None)

    async def close(self) -> None:
        """Stop serving."""
        self.reception.refuse()
        self.reception.stop()
        await self.reception.close()
        for serving in tuple(self._serving):
            serving.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
