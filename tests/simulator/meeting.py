"""A simulated producer, exchange and consumer that come at any time, rest, are stopped for a while, or are lost."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from permitflow import ChannelParameters, Kind
from permitflow.carriers.same_host import SameHost
from permitflow.client import get, put
from permitflow.errors import PermitflowError
from permitflow.exchange import Exchange, ExchangeServer
from tests.simulator.oracle import Oracle
from tests.simulator.sockets import Conditions, Network
from tests.simulator.surroundings import INSECURE, simulated
from tests.simulator.world import Host, WaitsForEver, World

EXCHANGE, PRODUCER, CONSUMER = PARTIES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
"""They are addresses, because a host's name is its address here."""
CHANNEL, SCHEMA = "c", pa.schema([("n", pa.int64())])
CHUNKS, ROWS, PACE_SECONDS = 10, 4, 1.0
"""The producer sends a chunk in each second, so that there is a middle."""
ALL = list(range(CHUNKS * ROWS))
LONG_SECONDS: Final = 3_600.0
"""Of the patient, and the end of the world: nobody waits for so long."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """What carries a stream."""

    scheme: str
    lost_share: float = 0.0
    resume_seconds: float = 0.0

    @property
    def address(self) -> str:
        return f"{self.scheme}{EXCHANGE}:5600"


@dataclass(frozen=True)
class Stop:
    """A process that is stopped, and goes on later."""

    party: str
    at_seconds: float
    seconds: float


@dataclass(kw_only=True)
class Meeting:
    """One run; who is not named in ``comes_at`` never comes."""

    way: Way
    comes_at: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(PARTIES, 0.0))
    rests: Mapping[str, float] = field(default_factory=dict)
    """Of an application: how long it does nothing in the middle."""
    stops: tuple[Stop, ...] = ()
    power_off: Mapping[str, float] = field(default_factory=dict)
    """When a host is lost without a word."""
    flips: Mapping[str, float] = field(default_factory=dict)
    """Of a client: when a bit flips in what it writes next."""
    is_patient: bool = True
    """Do clients wait for others as long as it takes?  Otherwise by default."""
    has_schema: bool = False
    """Does the exchange know it before a producer has come?"""
    read: list[int] = field(default_factory=list)
    ended_at: dict[str, float] = field(default_factory=dict)
    """Of each client that is over."""
    errors: dict[str, Exception] = field(default_factory=dict)
    seconds: float = 0.0

    def run(self) -> "Meeting":
        """Let everybody come, until all clients are over and the exchange has stopped.

        Raises:
            WaitsForEver: somebody waits for ever.
            AssertionError: the model allows a step not, or something is left behind.
        """
        world = self._world = World(0)
        self._network = Network(world, Conditions(lost_share=self.way.lost_share))
        self._oracle = Oracle()
        self._hosts: dict[str, Host] = {}
        self._stopping: asyncio.Event | None = None
        with simulated(world):
            try:
                for party, seconds in self.comes_at.items():
                    world.after(seconds, self._come, party)
                for stop in self.stops:
                    world.after(stop.at_seconds, self._stop, stop)
                for party, seconds in self.power_off.items():
                    world.after(seconds, self._lose, party)
                for party, seconds in self.flips.items():
                    world.after(seconds, self._flip, party)
                world.run(until=LONG_SECONDS + sum(self.comes_at.values()))
                self.seconds = world.now
                if self._stopping is not None and self._hosts[EXCHANGE].is_running_now:
                    self._hosts[EXCHANGE].schedule(self._stopping.set)
                    world.run(until=world.now + LONG_SECONDS)
                self._require_order()
            except WaitsForEver as error:
                raise WaitsForEver(f"{error}; waiting: {'; '.join(world.unfinished())}") from None
            finally:
                world.close()
        return self

    def _require_order(self) -> None:
        assert self._oracle.broken == []
        assert [problem for host in self._world.hosts for problem in host.problems] == []
        assert [*self._world.left_behind()] == []

    # Who comes, and what happens to them.

    def _come(self, party: str) -> None:
        host = self._hosts[party] = self._world.new_host(party)
        acts = {EXCHANGE: self._serve, PRODUCER: self._produce, CONSUMER: self._consume}
        act = acts[party]()
        host.begin(act if party == EXCHANGE else self._play(party, act))

    def _stop(self, stop: Stop) -> None:
        host = self._hosts[stop.party]
        host.pause()
        self._world.after(stop.seconds, host.go_on)

    def _lose(self, party: str) -> None:
        self._network.crash(self._hosts[party], is_power=True)
        self._note_over(party)

    def _flip(self, party: str) -> None:
        (outgoing,) = (
            dialler.outgoing for dialler, _ in self._network.open_connections() if dialler.host is self._hosts[party]
        )
        assert outgoing is not None, "it is connected"
        outgoing.flips_next = True

    def _note_over(self, party: str) -> None:
        self.ended_at[party] = self._world.now
        if {PRODUCER, CONSUMER} & {*self.comes_at} <= {*self.ended_at}:
            self._world.stop()

    async def _play(self, party: str, act: Coroutine[Any, Any, None]) -> None:
        try:
            await act
        except PermitflowError as error:
            self.errors[party] = error
        self._note_over(party)

    async def _serve(self) -> None:
        parameters = ChannelParameters(row_permits=2 * ROWS, permit_batch=ROWS, max_chunk_cost=ROWS)
        exchange = Exchange(parameters=parameters, record=self._oracle.recorder, same_host=SameHost.NEVER)
        exchange.add_channel(CHANNEL, schema=SCHEMA if self.has_schema else None)
        async with ExchangeServer(
            exchange, self.way.address, resume_seconds=self.way.resume_seconds, security=INSECURE
        ):
            self._stopping = asyncio.Event()
            await self._stopping.wait()
        self._world.stop()

    @property
    def _options(self) -> dict[str, Any]:
        patience = {"connect_timeout_seconds": LONG_SECONDS, "agreement_timeout_seconds": LONG_SECONDS}
        return {
            "record": self._oracle.recorder,
            "same_host": SameHost.NEVER,
            "resume_seconds": self.way.resume_seconds,
            **(patience if self.is_patient else {}),
        }

    async def _produce(self) -> None:
        async with put(self.way.address, CHANNEL, SCHEMA, **self._options) as sender:
            for start in ALL[::ROWS]:
                await asyncio.sleep(PACE_SECONDS)
                if start == ALL[len(ALL) // 2]:
                    await asyncio.sleep(self.rests.get(PRODUCER, 0.0))
                numbers = pa.array(range(start, start + ROWS), pa.int64())
                await sender.send(pa.record_batch([numbers], schema=SCHEMA))
            await sender.end()

    async def _consume(self) -> None:
        async with get(self.way.address, CHANNEL, **self._options) as receiver:
            async for message in receiver:
                assert message.kind is Kind.CHUNK
                self.read += message.payload.column(0).to_pylist()
                if len(self.read) == len(ALL) // 2:
                    await asyncio.sleep(self.rests.get(CONSUMER, 0.0))
