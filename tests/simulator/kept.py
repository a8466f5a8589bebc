"""Channels that keep their rows on a simulated disk, while processes die, disks fill up and networks are cut.

Named producers, writers of staged batches, and consumers go on after whatever happens, as their users do.  Another
producer is within the exchange's own process, and loses its patience in the middle of a write.  The laws:

1. A row number has one value, for all consumers and for ever; there are no gaps.  In some schedules rows expire: then
   each consumer sees a row, or is told that it has expired.  In some, producers come again with one more column: its
   values are those that they sent, and null where the producer did not know it.
2. The exchange never takes back what it has told: a producer's count of rows, a position, a published batch.
3. Each producer's rows, and each published batch, are there once, in order.
4. The store always opens.
5. The model allows each step of the exchange and of its consumers, as it happens (``kept_oracle``).
6. Once nothing goes wrong any more, everybody comes to an end; and then the file has what the consumers have read.
   In some schedules the channel is broken instead of ended: then that is what they hear, behind the last row.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from random import Random
from typing import Final
from unittest.mock import patch

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.carriers.same_host import SameHost
from permitflow.client import AioControl, StagedPart, Staging, control, get, put
from permitflow.errors import (
    ChannelAbortedError,
    LogReplacedError,
    PermitflowError,
    ProducerReplacedError,
    ProtocolError,
    RowsExpiredError,
    RowsForgottenError,
    RowsNotThereError,
    StoreError,
)
from permitflow.exchange import Exchange, ExchangeServer, Retention, SqliteStore
from permitflow.exchange.channels import replay_channel
from permitflow.exchange.channels.replay_channel import ReplayChannel
from permitflow.stream.control import ChannelState
from permitflow.stream.frames import EndOutcome
from permitflow_model.kept_channel import Parameters
from tests.simulator.coverage import key_of_kept
from tests.simulator.disk import NEVER, Crashed, SimulatedDisk
from tests.simulator.kept_oracle import UNLIMITED, KeptOracle
from tests.simulator.outcome import Outcome
from tests.simulator.schedule import byte_window_of
from tests.simulator.sockets import Conditions, Network
from tests.simulator.stores import SimulatedSystem, new_store
from tests.simulator.surroundings import INSECURE, simulated_run
from tests.simulator.world import Host, WaitsForEver, World

SCHEMA: Final = pa.schema([("n", pa.int64())])
GROWN: Final = SCHEMA.append(pa.field("again", pa.int64()))
"""With the number once more."""
CHANNEL: Final = "c"
EXCHANGE: Final = "exchange"
ADDRESS: Final = "tcp://exchange:5600"
QUERY: Final = "q"
PATIENCE_SECONDS: Final = 900.0
_RESTART_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.5
_AMPLE_ROWS: Final = 100
_STAGING_ROWS: Final = 64
_FULL_BYTES: Final = 1 << 17
_PRODUCER_SHIFT: Final = 1 << 16
_BATCH_SHIFT: Final = 1 << 32
_INSIDE: Final = "inside"
_INSIDE_NUMBER: Final = 99

_RARER_TROUBLES: Final = ("silence", "forgotten", "slow disk", "flush", "clock")
_RARER_SECONDS: Final = (2.0, 30.0)
_READ_ONLY_SECONDS: Final = (0.5, 5.0, 40.0)
_CLOCK_JUMPS: Final = (-3e7, -2.0, 2.0, 3e7)

_NEVER_TOLD: Final = (LogReplacedError, RowsForgottenError, RowsNotThereError, ProtocolError)
"""What no client may ever hear: it has only asked for what it was told, and here nobody breaks the protocol."""


def expire_seconds_of(seed: int) -> float | None:
    """For a quarter of the seeds rows expire, sooner or later."""
    return Random(f"expiry {seed}").choice((0.01, 1.0, *6 * (None,)))


def is_growing(seed: int) -> bool:
    """For a quarter of the seeds the second producer, and each one that comes again, brings one more column."""
    return Random(f"columns {seed}").random() < 0.25


def is_breaking(seed: int) -> bool:
    """For a fifth of the seeds the channel is broken once all rows are there, and not ended."""
    return Random(f"break {seed}").random() < 0.2


def _clients(producers: Sized, batches: Sized, consumers: tuple[str, ...]) -> tuple[str, ...]:
    return (*(f"producer{number}" for number in range(len(producers))), *consumers, *(("writer",) if batches else ()))


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All that is drawn before a run."""

    parameters: ChannelParameters
    has_store: bool
    """Else it makes a new one."""
    kept_rows: int
    conditions: Conditions
    producers: tuple[tuple[int, ...], ...]
    """For each named producer, the rows of its chunks."""
    batches: tuple[tuple[int, ...], ...]
    """For each batch to stage, the rows of its partitions."""
    consumers: tuple[str, ...]
    troubles: tuple[tuple[int, str, str, float], ...]
    """After how many turns, what, whose, and for how long."""
    dies_in_operation: tuple[int, ...]
    """For each life of the exchange: how many operations its disk has before it dies; 0: it does not."""
    had_power: float
    turn_seconds: float
    most_in_turn: int
    write_seconds: float
    log_bytes: int
    silence_seconds: float
    inside: tuple[int, ...]
    """The rows of the chunks that the exchange's own process appends."""
    patience_seconds: float
    """Its, for the first chunk that waits; twice as long each time."""
    publishing_seconds: float
    """How long the writer waits to hear that a batch is published; twice as long each time."""

    @property
    def clients(self) -> tuple[str, ...]:
        """Those that something happens to."""
        return _clients(self.producers, self.batches, self.consumers)

    @classmethod
    def drawn(cls, random: Random) -> "Plan":
        """Draw."""
        row_permits = random.choice((2, 4, 8))
        most_rows = 3
        producers = tuple(
            tuple(random.randint(1, most_rows) for _ in range(random.choice((1, 3, 6))))
            for _ in range(random.choice((0, 1, 1, 2)))
        )
        batches = tuple(
            tuple(random.randint(0, 4) for _ in range(random.choice((1, 2))))
            for _ in range(random.choice((0, 0, 1, 2)))
        )
        consumers = ("default", "audit")[: random.choice((1, 1, 2))]
        clients = _clients(producers, batches, consumers)
        kinds = random.sample(("crash", "power", "client", "cut", "part", "full", "pause"), k=random.choice((0, 1, 2)))
        troubles = tuple(
            (random.randrange(random.choice((60, 400))), random.choice(kinds), random.choice(clients),
             random.choice((0.01, 2.0, 40.0)))
            for _ in range(random.choice((1, 2, 4)) if kinds else 0)
        )  # fmt: skip
        dies = random.choice(((), (), (0.3, 0.3), (1.0,), (0.0, 1.0)))
        return cls(
            parameters=ChannelParameters(row_permits=row_permits, permit_batch=random.randrange(1, row_permits)),
            has_store=random.random() < 0.9,
            kept_rows=random.choice((4, 6, _AMPLE_ROWS)),
            conditions=Conditions(
                most_latency_seconds=random.choice((1e-3, 1e-3, 0.03)), capacity_bytes=random.choice((300, 1 << 16))
            ),
            producers=producers,
            batches=batches,
            consumers=consumers,
            troubles=tuple(sorted(troubles)),
            dies_in_operation=tuple(random.randint(1, 120) if random.random() < share else 0 for share in dies),
            had_power=random.choice((0.0, 0.5, 1.0)),
            turn_seconds=random.choice((1e-6, 2e-5)),
            most_in_turn=random.choice((1, 4, 64)),
            write_seconds=random.choice((1e-5, 1e-3, 0.05)),
            log_bytes=random.choice((1 << 16, 32 << 20)),
            silence_seconds=random.choice((5.0, 20.0)),
            inside=tuple(random.randint(1, most_rows) for _ in range(random.choice((0, 0, 1, 4)))),
            patience_seconds=random.choice((1e-4, 1e-2)),
            publishing_seconds=random.choice((1e-3, 1e-2, 600.0)),
        )


def rarer_troubles(seed: int, clients: tuple[str, ...]) -> tuple[tuple[int, str, str, float], ...]:
    """For a third of the seeds what else goes wrong, as in ``Plan.troubles``."""
    random = Random(f"rarer {seed}")
    return tuple(
        (random.randrange(300), random.choice(_RARER_TROUBLES), random.choice(clients), random.choice(_RARER_SECONDS))
        for _ in range(random.choice((0, 0, 0, 0, 1, 3)))
    )


def read_only_troubles(seed: int, clients: tuple[str, ...]) -> tuple[tuple[int, str, str, float], ...]:
    """For an eighth of the seeds the disk becomes read-only, as in ``Plan.troubles``."""
    random = Random(f"disk {seed}")
    if random.random() >= 1 / 8:
        return ()
    return tuple(
        (random.randrange(200), "read-only", clients[0], random.choice(_READ_ONLY_SECONDS))
        for _ in range(random.choice((1, 1, 2)))
    )


def away_troubles(seed: int, consumers: tuple[str, ...]) -> tuple[tuple[int, str, str, float], ...]:
    """For half of the seeds whose channel is broken a consumer is away for a while, as in ``Plan.troubles``."""
    random = Random(f"away {seed}")
    if not is_breaking(seed) or random.random() < 0.5:
        return ()
    return ((random.randrange(400), "away", random.choice(consumers), random.choice((2.0, 10.0))),)


def life_window_of(seed: int, life: int) -> int:
    """For a fifth of the seeds each life of the exchange has another window."""
    return byte_window_of(seed if Random(f"windows {seed}").random() < 0.8 else seed + life * _BATCH_SHIFT)


def twin_at(seed: int) -> int:
    """For some of the seeds the turn at which a producer's program is started a second time; 0: it is not."""
    return Random(f"twin {seed}").choice((20, 60, 200, *17 * (0,)))


@dataclass
class _Client:
    """A party that goes on until it has done what it wants, over all its lives."""

    name: str
    act: "Callable[[_Client], Awaitable[None]] | None" = None
    """What it does; None: it is within the exchange."""
    host: Host | None = None
    is_over: bool = False
    told: int = 0
    """Of a producer, and of a consumer: rows that the exchange has said it has, or has let go of."""
    at: int | None = None
    """Of a consumer: the row that is to come next; None: its stream has not begun."""
    asked: int = 0
    """Of a consumer: the row up to which it has asked to let go; of the answer it may not have heard."""
    errors: Counter[str] = field(default_factory=Counter)


class KeptRun:
    """One run."""

    def __init__(self, seed: int, *, tells: bool = False) -> None:
        """``tells``: keep the story."""
        random = Random(seed)
        self.seed, self.plan = seed, Plan.drawn(random)
        plan = self.plan
        self.world = World(seed, turn_seconds=plan.turn_seconds, most_in_turn=plan.most_in_turn, tells=tells)
        self.network = Network(self.world, plan.conditions)
        self.disk = SimulatedDisk(self.world.random)
        self.disk.on_crash = self._exchange_dies
        self.system = SimulatedSystem(self.disk, f"kept{seed}", self._write_later, log_bytes=plan.log_bytes)
        if plan.has_store:
            self.disk.take_over(new_store(), self.system.root)
        self.clients: dict[str, _Client] = {}
        self.values: dict[int, int] = {}
        """By row number, as any consumer has ever seen it."""
        self.grown: dict[int, int | None] = {}
        """By row number, what stands in the column that came later."""
        self.read: dict[str, set[int]] = {name: set() for name in plan.consumers}
        self.expired: dict[str, set[int]] = {name: set() for name in plan.consumers}
        """The rows of which each consumer was told that they have expired."""
        self.next_row = 0
        """The highest that the exchange has ever told."""
        self.broken: list[str] = []
        self.seen: Counter[str] = Counter()
        followed = Parameters(
            consumers=len(plan.consumers),
            row_permits=plan.kept_rows,
            staging_rows=_STAGING_ROWS if plan.batches else 0,
            horizon=self._all_rows,
            expires=expire_seconds_of(seed) is not None,
            faults=UNLIMITED,
        )
        self.oracle = KeptOracle(followed, plan.consumers, self.broken, key_of_kept(followed))
        self._exchange: Host
        self._lives = 0
        self._next_has_power = True
        self._is_stopping = self._is_over = False
        self._is_slow_until = 0.0
        self._stopping = asyncio.Event()

    def run(self) -> Outcome:
        """Run it to its end, and judge it."""
        outcome = Outcome(self.seed, seen=self.seen, steps=self.oracle.steps, states=self.oracle.states)
        books = patch.object(replay_channel, "ReplayBooks", self.oracle.books)
        try:
            with books, simulated_run(self.world, outcome):
                try:
                    self._run()
                finally:
                    self.disk.on_crash = lambda: None
                    self.disk.crash()
                outcome.broken += self.broken
        finally:
            self.system.unmount()
        return outcome

    def _run(self) -> None:
        world, plan = self.world, self.plan
        self.clients[_INSIDE] = _Client(_INSIDE)
        self._start_exchange()
        for number, chunks in enumerate(plan.producers):
            self._add(f"producer{number}", partial(self._produce, number, chunks))
        if plan.batches:
            self._add("writer", self._write_batches)
        self.clients[_INSIDE].is_over = not plan.inside
        for name in plan.consumers:
            self._add(name, self._consume)
        self._add("closer", self._close)
        rarer = (
            *rarer_troubles(self.seed, plan.clients),
            *read_only_troubles(self.seed, plan.clients),
            *away_troubles(self.seed, plan.consumers),
        )
        for turn, what, whose, seconds in (*plan.troubles, *rarer):
            world.at_turn(turn, self._bring, what, whose, seconds)
        if (turn := twin_at(self.seed)) and plan.producers:
            world.at_turn(turn, self._begin_twin, self.clients["producer0"])
        try:
            world.run(until=PATIENCE_SECONDS)
            self._is_stopping = True
            self._exchange.schedule(self._stopping.set)
            world.run(until=world.now + 60.0)
            if not twin_at(self.seed):  # of two that run the same program, one may live on
                self.broken += world.left_behind()
            self._judge_file()
        except WaitsForEver as error:
            waiting = [
                f"{client.name} ({', '.join(client.errors)})" for client in self.clients.values() if not client.is_over
            ]
            self.broken.append(f"{error}: {', '.join(waiting) or 'the exchange'} waits")
        self._judge()

    # The exchange and its machine.

    def _write_later(self, do: Callable[[], object]) -> None:
        late = max(0.0, self._is_slow_until - self.world.now)
        self.world.after((self.plan.write_seconds + late) * self.world.random.random(), do)

    def _start_exchange(self) -> None:
        plan, disk = self.plan, self.disk
        if self._lives:
            self.system.go_on(had_power=self._next_has_power)
        host = self._exchange = self.world.new_host(EXCHANGE)
        if self._lives < len(plan.dies_in_operation) and plan.dies_in_operation[self._lives]:
            disk.crashes_at = disk.operations + plan.dies_in_operation[self._lives]
            self._next_has_power = self.world.random.random() < plan.had_power
        self._lives += 1
        host.begin(self._serve())

    async def _serve(self) -> None:
        plan, failed = self.plan, self.disk.failed_flushes
        try:
            with SqliteStore(self.system.folder, self.system) as store:
                exchange = Exchange(
                    parameters=plan.parameters,
                    same_host=SameHost.NEVER,
                    store=store,
                    byte_window=life_window_of(self.seed, self._lives),
                )
                published = store.published_batches().get(QUERY, -1) + 1
                self.oracle.published_rows = sum(map(sum, plan.batches[:published]))
                channel = exchange.add_channel(
                    CHANNEL,
                    schema=SCHEMA,
                    retention=Retention.REPLAY,
                    consumers=plan.consumers,
                    kept_rows=plan.kept_rows,
                    staging_rows=_STAGING_ROWS,
                    expire_seconds=expire_seconds_of(self.seed),
                )
                if channel.books.next_row < self.next_row:
                    self.broken.append(f"the store has {channel.books.next_row} rows, and {self.next_row} were told")
                async with ExchangeServer(exchange, ADDRESS, silence_seconds=plan.silence_seconds, security=INSECURE):
                    self._stopping = asyncio.Event()
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._append_inside(channel))
                        if not self._is_stopping:
                            await self._stopping.wait()
        except Crashed:
            return
        except StoreError as error:
            if self.disk.is_dead:
                return
            faults = self.disk.faults
            if faults.capacity_bytes == NEVER and not faults.is_read_only and self.disk.failed_flushes == failed:
                self.broken.append(f"the store does not open: {error}")
                self.world.stop()
            else:
                self.seen["disk error, not opened"] += 1
                self.disk.crash()
            return
        self._is_over = True
        self.world.stop()

    def _exchange_dies(self) -> None:
        if asyncio.events._get_running_loop() is self._exchange:
            # It does not get beyond this callback: its disk lets it do nothing.
            self.world.after(0.0, self._end_exchange)
        else:
            self._end_exchange()

    def _end_exchange(self) -> None:
        if self._exchange.is_running_now:
            self.world.tell(EXCHANGE, "dies" if self._next_has_power else "loses its power")
            self.seen["crash" if self._next_has_power else "power"] += 1
            self.network.crash(self._exchange, is_power=not self._next_has_power)
            if not self._is_stopping:
                self.world.after(_RESTART_SECONDS, self._start_exchange)
            else:
                self.world.stop()

    # Trouble.

    def _bring(self, what: str, whose: str, seconds: float) -> None:
        world, network = self.world, self.network
        client = self.clients[whose]
        assert client.host is not None, "it has begun"
        match what:
            case "crash" | "power":
                self._next_has_power = what == "crash"
                self.disk.crash()
                return
            case "client" if not client.is_over and client.host.is_running_now:
                world.tell(whose, "crashes")
                network.crash(client.host, is_power=False)
                world.after(_RESTART_SECONDS, self._begin, client)
            case "part":
                network.part(whose, EXCHANGE, seconds)
            case "away":
                network.part(whose, EXCHANGE, seconds)
                for ends in network.open_connections():
                    if ends[0].host is client.host:
                        network.cut(ends, (0.0, 0.0))
            case "pause":
                world.tell(EXCHANGE, f"is stopped for {seconds:g} s")
                self._exchange.pause()
                world.after(seconds, self._exchange.go_on)
            case "full":
                world.tell(EXCHANGE, f"has a full disk for {seconds:g} s")
                self.disk.faults.capacity_bytes = self.disk.used_bytes() + _FULL_BYTES
                world.after(seconds, self._make_room)
            case "read-only":
                world.tell(EXCHANGE, f"has a read-only disk for {seconds:g} s")
                self.disk.faults.is_read_only = True
                world.after(seconds, self._mount_again)
            case "cut":
                open_ = [ends for ends in network.open_connections() if ends[0].host is client.host]
                if not open_:
                    return
                late = min(seconds, 2.0)
                network.cut(open_[-1], world.random.choice(((0.0, late), (late, 0.0), (None, late), (0.0, 0.0))))
            case "silence" | "forgotten":
                open_ = [ends for ends in network.open_connections() if ends[0].host is client.host]
                if not open_:
                    return
                ends = open_[-1]
                if what == "forgotten":  # as by a router on the way, which tells nobody
                    network.cut(ends, (None, None))
                else:
                    pipe = world.random.choice(ends).outgoing
                    assert pipe is not None, "it is connected"
                    network.silence(ends, pipe)
            case "slow disk":
                world.tell(EXCHANGE, f"has a slow disk for {seconds:g} s")
                self._is_slow_until = world.now + seconds
            case "flush":
                self.disk.faults.fails_next_flush = True
            case "clock":
                jump = world.random.choice(_CLOCK_JUMPS)
                world.tell(EXCHANGE, f"has a clock that jumps by {jump:g} s")
                world.clock_seconds += jump
            case _:
                return
        self.seen[what] += 1

    def _make_room(self) -> None:
        self.disk.faults.capacity_bytes = NEVER

    def _mount_again(self) -> None:
        self.disk.faults.is_read_only = False

    # Clients.

    def _add(self, name: str, act: Callable[[_Client], Awaitable[None]]) -> None:
        client = self.clients[name] = _Client(name, act)
        self._begin(client)

    def _begin(self, client: _Client) -> None:
        assert client.act is not None, "it has a host of its own"
        assert client.host is None or not client.host.is_running_now, "two lives of one client would take turns"
        client.host = self.world.new_host(client.name)
        client.host.begin(self._go_on(client, client.act))

    def _begin_twin(self, client: _Client) -> None:
        """Start the same program a second time, though the first one may live: one of them is to hear of the other."""
        if client.act is not None and not client.is_over:
            self.world.tell(client.name, "is started again beside itself")
            self.world.new_host(client.name).begin(self._go_on(client, client.act))

    async def _go_on(self, client: _Client, act: Callable[[_Client], Awaitable[None]]) -> None:
        """Try until it is done."""
        while True:
            try:
                await act(client)
                break
            except _NEVER_TOLD as error:
                self.broken.append(f"{client.name} hears: {error}")
                break
            except ProducerReplacedError as error:
                self.seen["producer ProducerReplacedError"] += 1
                self.world.tell(client.name, f"leaves: {error}")
                return
            except PermitflowError as error:
                client.errors[type(error).__name__] += 1
                self.seen[f"{client.name.rstrip('0123456789')} {type(error).__name__}"] += 1
                self.world.tell(client.name, f"tries again after {type(error).__name__}: {error}")
                await asyncio.sleep(_AGAIN_SECONDS)
        self._note_over(client)

    def _note_over(self, client: _Client) -> None:
        client.is_over = True
        self.world.tell(client.name, "is done")
        if all(each.is_over for each in self.clients.values()):
            self.world.stop()

    def _note_told(self, client: _Client, row: int) -> None:
        if row < client.told:
            self.broken.append(f"{client.name} was told of {client.told} rows, and then of {row}")
        client.told = max(client.told, row)

    async def _produce(self, number: int, chunks: tuple[int, ...], client: _Client) -> None:
        rows = sum(chunks)
        ends = [0, *accumulate(chunks)]
        schema = GROWN if is_growing(self.seed) and (number or client.errors) else SCHEMA
        async with put(
            ADDRESS, CHANNEL, schema, producer=client.name, same_host=SameHost.NEVER, silence_seconds=self._silence
        ) as sender:
            first = sender.first_row
            assert first is not None, "a named producer is told"
            if first > rows:
                self.broken.append(f"{client.name} has sent {rows} rows at most, and the exchange has {first}")
            self._note_told(client, first)
            for start, end in pairwise(ends):
                if end > first:
                    await sender.send(_rows(_PRODUCER_SHIFT * number, max(start, first), end, schema))
            outcome = await sender.end(closes_channel=False)
            if outcome is EndOutcome.ACCEPTED:
                self._note_told(client, rows)

    async def _append_inside(self, channel: ReplayChannel) -> None:
        """The channel knows which rows of what was cancelled are there."""
        client, patience = self.clients[_INSIDE], self.plan.patience_seconds
        ends = [0, *accumulate(self.plan.inside)]
        while True:
            there = channel.rows_of(_INSIDE)
            if there < client.told:
                self.broken.append(f"{_INSIDE} was told of {client.told} rows, and then of {there}")
                break
            client.told = there
            if client.is_over or there >= ends[-1]:
                break
            start, end = next((start, end) for start, end in pairwise(ends) if end > there)
            try:
                async with asyncio.timeout(patience):
                    await channel.append(_rows(_PRODUCER_SHIFT * _INSIDE_NUMBER, max(start, there), end), _INSIDE)
                client.told = end
            except TimeoutError:
                self.seen["gave up in the exchange"] += 1
                patience *= 2
            except StoreError:
                await asyncio.sleep(_AGAIN_SECONDS)
        if not client.is_over:
            self._note_over(client)

    async def _write_batches(self, client: _Client) -> None:
        """As Spark's driver: it stages a batch again as a whole until it is published."""
        seconds = self.plan.publishing_seconds
        while client.told < len(self.plan.batches):
            batch = client.told
            attempt = f"attempt {client.errors.total()} {self.world.now}"
            parts = []
            for partition, rows in enumerate(self.plan.batches[batch]):
                staging = Staging(QUERY, batch, partition, attempt)
                async with put(
                    ADDRESS, CHANNEL, SCHEMA, staging=staging, same_host=SameHost.NEVER, silence_seconds=self._silence
                ) as sender:
                    first = _BATCH_SHIFT * (batch + 1) + _PRODUCER_SHIFT * partition
                    for row in range(rows):
                        await sender.send(_rows(first, row, row + 1))
                    await sender.end(closes_channel=False)
                parts.append(StagedPart(CHANNEL, partition, attempt, rows))
            try:
                async with self._control() as orders, asyncio.timeout(seconds):
                    published = await orders.publish(QUERY, batch, parts)
            except TimeoutError:
                client.errors["TimeoutError"] += 1
                self.seen["gave up publishing"] += 1
                seconds *= 2
                continue
            if published.last_batch > batch:
                self.broken.append(f"batch {published.last_batch} was published before batch {batch} was asked for")
            self.seen["published before" if published.was_published else "published"] += 1
            client.told = batch + 1

    async def _consume(self, client: _Client) -> None:
        """Read to the end; rows that have expired are acknowledged, too."""
        try:
            await self._read_on(client)
        except RowsExpiredError as error:
            self._note_expired(client, error)
            async with self._control() as orders:
                await self._acknowledge(orders, client, error.first_kept_row)
            raise

    def _note_expired(self, client: _Client, error: RowsExpiredError) -> None:
        seconds = expire_seconds_of(self.seed)
        is_early = seconds is not None and self.world.now < seconds and not self.seen["clock"]
        if seconds is None or is_early or error.first_kept_row > self._all_rows:
            self.broken.append(f"{client.name} hears: {error}")
        if not client.told <= error.wanted_row < error.first_kept_row:
            self.broken.append(f"{client.name} has acknowledged {client.told} rows, and hears: {error}")
        # What was on its way to a consumer without a connection is gone as well.
        first = error.wanted_row if client.at is None else client.at
        if first > error.wanted_row:
            self.broken.append(f"{client.name} has seen {first} rows, and hears: {error}")
        self.expired[client.name].update(range(first, error.first_kept_row))

    @property
    def _all_rows(self) -> int:
        plan = self.plan
        return sum(map(sum, (*plan.producers, plan.inside, *plan.batches)))

    async def _read_on(self, client: _Client) -> None:
        """Read from the last acknowledged row on; a second of its rows, and the end, are acknowledged."""
        row, client.at = client.told, None
        self.oracle.lose(client.name)
        async with get(
            ADDRESS,
            CHANNEL,
            consumer="" if client.name == "default" else client.name,
            from_row=self.world.random.choice((None, client.asked)),
            same_host=SameHost.NEVER,
            silence_seconds=self._silence,
        ) as receiver:
            first = receiver.first_row
            assert first is not None, "it is a channel that keeps its rows"
            if first < row:
                self.broken.append(f"{client.name} has acknowledged {row} rows, and the exchange knows of {first}")
            row = client.at = first
            async with self._control() as orders:
                if row == client.asked:  # of which the exchange may not have heard: a full channel would stay full
                    await self._acknowledge(orders, client, row)
                try:
                    async for message in receiver:
                        for value, *grown in zip(*(each.to_pylist() for each in message.payload.columns), strict=True):
                            self._note_value(client, row, value)
                            self._note_grown(client, row, value, *grown)
                            row = client.at = row + 1
                        if self.plan.kept_rows < _AMPLE_ROWS or self.world.random.random() < 0.5:
                            await self._acknowledge(orders, client, row)
                    if is_breaking(self.seed):
                        self.broken.append(f"{client.name} reads to an end, and the channel is broken")
                except ChannelAbortedError:
                    if not is_breaking(self.seed):
                        raise
                    self.seen["broken behind the last row"] += 1
                self.oracle.end(client.name)
                await self._acknowledge(orders, client, row)

    def _note_grown(self, client: _Client, row: int, value: int, *grown: int | None) -> None:
        """What a reader that knows the later column sees there: null, of a producer that does not, or the number."""
        for again in grown:
            self.seen["rows with the later column"] += again is not None
            is_grown = value < _BATCH_SHIFT and value // _PRODUCER_SHIFT in range(1, _INSIDE_NUMBER)
            if again not in ((value,) if is_grown else (value, None)) or again != self.grown.setdefault(row, again):
                self.broken.append(f"{client.name} sees {again} beside {value} in row {row}")

    async def _acknowledge(self, orders: AioControl, client: _Client, row: int) -> None:
        told, client.asked = self.next_row, max(client.asked, row)
        (position,) = await orders.acknowledge({CHANNEL: row}, consumer="" if client.name == "default" else client.name)
        if position.acknowledged_row < row:
            self.broken.append(f"{client.name} has acknowledged {row} rows, and is told of {position.acknowledged_row}")
        if position.next_row < told:
            self.broken.append(f"{told} rows were told, and then {position.next_row}")
        self.next_row = max(self.next_row, position.next_row)
        client.told = max(client.told, row)

    def _note_value(self, client: _Client, row: int, value: int) -> None:
        if self.values.setdefault(row, value) != value:
            self.broken.append(f"row {row} was {self.values[row]}, and is {value} for {client.name}")
        self.oracle.take(client.name, row)
        self.read[client.name].add(row)
        self.next_row = max(self.next_row, row + 1)

    async def _close(self, client: _Client) -> None:
        """Close the channel once all rows are there, or break it."""
        others = [each for each in self.clients.values() if each.name.startswith(("producer", "writer", _INSIDE))]
        while not all(each.is_over for each in others):  # noqa: ASYNC110  # they are other hosts
            await asyncio.sleep(0.1)
        consumer = "" if "default" in self.plan.consumers else "audit"
        async with self._control() as orders:
            if not is_breaking(self.seed):
                await orders.close_channels([CHANNEL], consumer=consumer)
                return
            while (await orders.positions([CHANNEL], consumer=consumer))[0].state is not ChannelState.BROKEN:
                async with put(
                    ADDRESS, CHANNEL, SCHEMA, same_host=SameHost.NEVER, silence_seconds=self._silence
                ) as sender:
                    sender.abort("no more rows")

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[AioControl]:
        async with control(ADDRESS, silence_seconds=self._silence) as orders:
            yield orders

    @property
    def _silence(self) -> float:
        return self.plan.silence_seconds

    # Laws.

    def _judge(self) -> None:
        if self.broken:
            return
        values = [self.values[row] for row in sorted(self.values)]
        for name, rows in self.read.items():
            if missing := {*range(self._all_rows)} - rows - self.expired[name]:
                self.broken.append(f"{name} has not seen rows {sorted(missing)}")
        if self.values.keys() - {*range(self._all_rows)}:
            self.broken.append(f"there are rows too many: {sorted(self.values)}")
        if any(self.expired.values()):
            self._judge_order(values)
            return
        for number, chunks in (*enumerate(self.plan.producers), (_INSIDE_NUMBER, self.plan.inside)):
            first = _PRODUCER_SHIFT * number
            found = [value for value in values if first <= value < first + _PRODUCER_SHIFT]
            if found != [*range(first, first + sum(chunks))]:
                self.broken.append(f"of the producer's {sum(chunks)} rows from {first} on, these are there: {found}")
        published = [value for value in values if value >= _BATCH_SHIFT]
        if published != [*self._staged()]:
            self.broken.append(f"of the batches, these rows are there: {published}, and not {[*self._staged()]}")

    def _judge_order(self, values: list[int]) -> None:
        """Some rows were seen by nobody: the others are in the order of their producers, each once."""
        kinds = [value % _BATCH_SHIFT // _PRODUCER_SHIFT if value < _BATCH_SHIFT else -1 for value in values]
        for kind in {*kinds}:
            found = [value for value, own in zip(values, kinds, strict=True) if own == kind]
            if found != sorted({*found}):
                self.broken.append(f"of one producer, or of the batches, rows are there in this order: {found}")

    def _staged(self) -> Iterator[int]:
        for batch, partitions in enumerate(self.plan.batches):
            for partition, rows in enumerate(partitions):
                first = _BATCH_SHIFT * (batch + 1) + _PRODUCER_SHIFT * partition
                yield from range(first, first + rows)

    def _judge_file(self) -> None:
        """The exchange has stopped, or died while it stopped; everything was acknowledged."""
        self.disk.crash()
        self.disk.faults.fails_next_flush = self.disk.faults.is_read_only = False
        self.system.go_on(had_power=False)
        with SqliteStore(self.system.folder, self.system) as store:
            (place,) = store.open_channels([CHANNEL], parameters=self.plan.parameters, consumers=self.plan.consumers)
            kept = place.load()
        state = ChannelState.BROKEN if is_breaking(self.seed) else ChannelState.ENDED
        if kept.next_row != self._all_rows or kept.state is not state:
            self.broken.append(f"the file has {kept.next_row} rows, {kept.state.value}; {self._all_rows} were sent")
        if wrong := {name: row for name, row in (kept.acknowledged or {}).items() if row != kept.next_row}:
            self.broken.append(f"all rows were acknowledged, and the file says {wrong}")
        if kept.staged:
            self.seen["staged rows left"] += 1


def _rows(first: int, start: int, stop: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first + start, first + stop), pa.int64())] * len(schema), schema=schema)


def run_seed(seed: int, tells: bool) -> Outcome:
    """Run one seed."""
    return KeptRun(seed, tells=tells).run()
