"""What production code asks of its machine, replaced for a simulated world: clocks, sockets, chance and one thread."""

import logging
import random
import secrets
import socket
import sys
import time
import uuid
from asyncio import get_running_loop
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from permitflow import pauses
from permitflow.carriers import calling, dialling, heartbeat
from permitflow.carriers.datagrams import udp
from permitflow.exchange import Security, server
from permitflow.exchange.channels.staging import StagingAreas
from permitflow.mute import sockets as mute_sockets
from tests.simulator.datagrams import DatagramSocket
from tests.simulator.outcome import Outcome
from tests.simulator.sockets import SimulatedSocket
from tests.simulator.world import Host, World

INSECURE = Security(insecure=True)
"""Of a simulated exchange: nobody else is on its network."""
_PING_SECONDS = 1.0
_STAGING_DEFAULTS = StagingAreas.__init__.__kwdefaults__ or {}
_WHEREVER_FOUND: dict[str, object] = {"monotonic": time.monotonic, "time": time.time, "uuid4": uuid.uuid4}
"""By the name under which modules import them."""


class _Pinger:
    """The thread that gives signs of life: it goes on while its process's event loop is busy."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pings: dict[Callable[[], None], None] = {}
        self._is_due = False

    def add(self, ping: Callable[[], None]) -> None:
        """See ``heartbeat``."""
        self._pings[ping] = None
        self._go_on()

    def remove(self, ping: Callable[[], None]) -> None:
        """See ``heartbeat``."""
        self._pings.pop(ping, None)

    def _go_on(self) -> None:
        if not self._is_due and self._pings and self._host.is_running_now:
            self._is_due = True
            self._host.world.after(_PING_SECONDS, self._ping)

    def _ping(self) -> None:
        self._is_due = False
        if self._host.is_running_now and not self._host.is_paused:
            for ping in tuple(self._pings):
                ping()
        self._go_on()


def _create_server(address: tuple[str, int], **_: object) -> SimulatedSocket:
    loop = get_running_loop()
    assert isinstance(loop, Host), "only simulated hosts listen"
    return loop.world.network.listen(address)


_SOCKETS_OF_MUTE = SimpleNamespace(**{**vars(socket), "socket": lambda family, *_: SimulatedSocket(family)})


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Let production code see this world and nothing else."""
    pingers: dict[Host, _Pinger] = {}
    drawn = world.random
    ids = random.Random(drawn.getrandbits(64))

    def pinger() -> _Pinger:
        host = get_running_loop()
        assert isinstance(host, Host), "only simulated hosts have a heartbeat"
        return pingers.setdefault(host, _Pinger(host))

    instead: dict[str, object] = {
        "monotonic": lambda: world.now,
        "time": lambda: world.clock_seconds + world.now,
        "uuid4": lambda: uuid.UUID(int=ids.getrandbits(128), version=4),
    }
    sockets = SimpleNamespace(create_server=_create_server, SOCK_STREAM=1, socket=SimulatedSocket)
    state = random.getstate()
    random.seed(ids.getrandbits(64))
    replaced: list[tuple[Any, str, object]] = [
        *((module, name, instead[name]) for module, name in _places()),
        (heartbeat, "_pinger", pinger),
        (server, "socket", sockets),
        (server, "place", lambda host, port, _: (2, (host, port))),
        (calling, "_is_own", lambda *_: False),
        (pauses, "dice", random.Random(ids.getrandbits(64))),
        (dialling.connected, "__defaults__", (SimulatedSocket,)),
        (mute_sockets, "socket", _SOCKETS_OF_MUTE),
        (udp, "new_socket", DatagramSocket),
        (udp, "place", lambda host, port, _: (2, (host, port))),
        (udp, "_datagram_bytes", lambda _: world.network.conditions.datagram_bytes),
        (udp, "os", SimpleNamespace(urandom=ids.randbytes)),
        (StagingAreas.__init__, "__kwdefaults__", {**_STAGING_DEFAULTS, "clock": lambda: world.now}),
        (secrets, "randbits", ids.getrandbits),
        (secrets, "token_bytes", lambda size=32: ids.randbytes(size)),
        (secrets, "token_hex", lambda size=32: ids.randbytes(size).hex()),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in replaced]
    try:
        for where, name, value in replaced:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)
        random.setstate(state)


class _Storyteller(logging.Handler):
    """What the package logs is told with the story, and not on the terminal."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if self._world.story is not None:
            self._world.story.append((self._world.now, "log", record.getMessage()))


@contextmanager
def simulated_run(world: World, outcome: Outcome) -> Iterator[None]:
    """The same until this world ends; the outcome gets what is the same of all worlds."""
    log, storyteller = logging.getLogger("permitflow"), _Storyteller(world)
    log.addHandler(storyteller)
    with simulated(world):
        try:
            yield
            outcome.broken += [problem for host in world.hosts for problem in host.problems]
        finally:
            world.close()
            log.removeHandler(storyteller)
    outcome.digest, outcome.seconds, outcome.story = world.digest, world.now, world.story or []


_found: list[tuple[Any, str]] = []


def _places() -> list[tuple[Any, str]]:
    """Modules of the package that have imported one of these by name; looked for once."""
    if not _found:
        for name, module in sorted(sys.modules.items()):
            if name.startswith("permitflow."):
                for attribute, original in _WHEREVER_FOUND.items():
                    if vars(module).get(attribute) is original:
                        _found.append((module, attribute))
    return _found
