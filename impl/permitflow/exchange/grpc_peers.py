"""Counts the connections of a gRPC server by their peers, and hangs up on those beyond a limit.

gRPC itself only counts all of them.  This looks at them a few times a second: within a look, a peer may have more.
"""

import asyncio
from contextlib import ExitStack, suppress
from time import thread_time
from typing import Final

from permitflow.carriers.grpc_connections import GrpcConnections, Name
from permitflow.errors import LimitReachedError, PermitflowError
from permitflow.exchange.admission import Admission

_BETWEEN_LOOKS_SECONDS: Final = 0.5
_LOOKS_SHARE: Final = 0.02
"""The largest share of the event loop's time: a look at thousands of connections takes milliseconds."""
_HURRIED_SHARE: Final = 0.2
"""The same while a connection that is to be hung up on is younger than the last look: its calls cost more."""
_MOST_EXCESSES: Final = 1
"""A client that has not heard yet how long headers may be is told so by an error, and may call again."""


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
        self._has_called = set[Name]()
        self._excesses: dict[Name, int] = {}
        self._has_excess = asyncio.Event()

    def note_call(self, peer: str) -> None:
        """A connection has made a call: its handshake is over.  ``peer`` is what gRPC calls it."""
        if (name := Name.of_call(peer)) is not None and name not in self._has_called:
            self._has_called.add(name)
            self._end_handshake(name)

    def note_excess(self, peer: str) -> None:
        """A call came with more metadata than gRPC lets pass once the peer has acknowledged our settings.

        Further ones would wait in gRPC with all their metadata: this hangs up.
        """
        if (name := Name.of_call(peer)) is not None:
            self._excesses[name] = number = self._excesses.get(name, 0) + 1
            if number == _MOST_EXCESSES + 1 and not self._connections.hang_up(name):
                self._has_excess.set()  # it is younger than the last look

    async def follow(self) -> None:
        """Look again and again, until this is cancelled."""
        try:
            while True:
                began = thread_time()
                self._look()
                spent_seconds = thread_time() - began
                await asyncio.sleep(spent_seconds / _HURRIED_SHARE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(_BETWEEN_LOOKS_SECONDS, spent_seconds / _LOOKS_SHARE)):
                        await self._has_excess.wait()
        finally:
            for name in tuple(self._holds):
                self._forget(name)

    def _look(self) -> None:
        come, gone = self._connections.look()
        for name in gone:
            self._forget(name)
        for name in sorted(come, key=lambda name: name not in self._has_called):  # who has called was there before
            self._admit(name)
        self._has_excess.clear()
        for name, number in self._excesses.items():
            if number > _MOST_EXCESSES:
                self._connections.hang_up(name)
        # Others have come and gone between two looks.
        self._has_called.intersection_update(self._holds)
        self._excesses = {name: number for name, number in self._excesses.items() if name in self._holds}
        overdue = asyncio.get_running_loop().time() - self._handshake_seconds
        for name in [name for name, (since, _) in self._handshakes.items() if since < overdue]:
            self._end_handshake(name)

    def _admit(self, name: Name) -> None:
        peer = f"tcp:[{name.host}]:{name.port}"

        def hang_up(_: PermitflowError) -> None:
            self._connections.hang_up(name)

        with ExitStack() as stack:
            try:
                stack.enter_context(self._admission.connection(peer))
            except LimitReachedError as error:
                hang_up(error)
                return
            if name not in self._has_called:
                handshake = ExitStack()
                handshake.enter_context(self._admission.handshake(peer, hang_up))
                self._handshakes[name] = asyncio.get_running_loop().time(), handshake
            self._holds[name] = stack.pop_all()

    def _end_handshake(self, name: Name) -> None:
        if (handshake := self._handshakes.pop(name, None)) is not None:
            handshake[1].close()

    def _forget(self, name: Name) -> None:
        self._end_handshake(name)
        if (hold := self._holds.pop(name, None)) is not None:
            hold.close()
