"""A schedule as data: who sends what to whom over which carrier, and what goes wrong when.

Everything is drawn from a seed and a number.  Faults happen where so many bytes have passed in one direction of one
link, so that a seed replays as far as operating systems let it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import ceil
from random import Random

from tests.support.cutting_proxy import Direction

ROW_BYTES = 24
"""Of the three numbers of a row; what else is on the wire comes on top."""


class Subject(StrEnum):
    """What the faults happen to."""

    EXCHANGE = "exchange"
    """A producer, an exchange, a consumer."""
    STAGES = "stages"
    """The same, with a worker that streams from one channel of the exchange into another."""
    RESUME = "resume"
    """A producer, an exchange, a consumer, whose streams go on over new connections."""
    CALLS = "calls"
    """A client and a server of a streaming method of gRPC."""
    MUTE = "mute"
    """A sender of words, two workers that mute it, a reader of counts."""


class Carrier(StrEnum):
    GRPC = "grpc"
    TCP = "tcp"


class Retention(StrEnum):
    """Of the channel: bridged, or kept in a store of SQLite."""

    ONCE = "once"
    REPLAY = "replay"


class Party(StrEnum):
    PRODUCER = "producer"
    CONSUMER = "consumer"
    EXCHANGE = "exchange"
    WORKER = "worker"
    """Of stages, between two channels."""
    CLIENT = "client"
    SERVER = "server"
    SENDER = "sender"
    FRONT = "front"
    BACK = "back"
    READER = "reader"


class Client(StrEnum):
    ASYNCIO = "asyncio"
    BLOCKING = "blocking"


class FaultKind(StrEnum):
    CUT = "cut"
    HALF_CLOSE = "half-close"
    BLACK_HOLE = "black hole"
    BIT_FLIP = "bit flip"
    STOP = "stop"
    """Of one process, by SIGSTOP; SIGCONT later."""
    SLEEP = "sleep"
    """Of all processes at once, as those of a machine that sleeps."""
    CLOCK_JUMP = "clock jump"
    """Of the wall clock of one process, as a time server or a person sets it."""
    FULL_DISK = "full disk"
    """Of the one who keeps something."""
    KILL_PRODUCER = "kill producer"
    KILL_CONSUMER = "kill consumer"
    KILL_EXCHANGE = "kill exchange"
    KILL_WORKER = "kill worker"
    KILL_CLIENT = "kill client"
    KILL_SERVER = "kill server"
    KILL_FRONT = "kill front"
    KILL_BACK = "kill back"
    KILL_READER = "kill reader"
    DELAY = "delay"
    THROTTLE = "throttle"

    @property
    def is_slowness(self) -> bool:
        """Nothing breaks, it only takes longer."""
        return self in (FaultKind.DELAY, FaultKind.THROTTLE)

    @property
    def is_harmless(self) -> bool:
        """Everything must go well all the same."""
        return self.is_slowness or self in (FaultKind.SLEEP, FaultKind.CLOCK_JUMP)

    @property
    def has_turns(self) -> bool:
        """Does it happen to one party after the other?"""
        return self in (FaultKind.STOP, FaultKind.CLOCK_JUMP)


class Method(StrEnum):
    """Of a service: who streams."""

    SOURCE = "source"
    FLOW = "flow"
    SINK = "sink"


_DAMAGE = (FaultKind.CUT, FaultKind.HALF_CLOSE, FaultKind.BLACK_HOLE, FaultKind.BIT_FLIP, FaultKind.STOP)
_TWO_ENDS = (FaultKind.KILL_PRODUCER, FaultKind.KILL_CONSUMER, FaultKind.KILL_EXCHANGE)
_MACHINES = (FaultKind.SLEEP, FaultKind.CLOCK_JUMP)
BREAKING = (*_DAMAGE, *_TWO_ENDS)
"""What breaks an exchange's streams."""


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who takes part in a subject, and what may happen to them."""

    ends: tuple[Party, ...]
    """They come to an end by themselves; they are started in the opposite order."""
    servers: tuple[Party, ...]
    """Started before, in this order; each says where it listens, and is asked to end when all ends are over."""
    links: Mapping[Party, Party]
    """Who dials whom, through the proxy."""
    kinds: tuple[FaultKind, ...]
    """What may happen, in turn; beside slowness."""
    keeper: Party | None
    """Whose disk may be full."""
    shares: int
    """Of all schedules of a run, so many of ``SHARES``."""

    @property
    def parties(self) -> tuple[Party, ...]:
        return (*self.ends, *self.servers)

    @property
    def journals(self) -> tuple[Party, ...]:
        """Those who keep one: not the programs of the package."""
        return tuple(party for party in self.parties if party not in (Party.EXCHANGE, Party.FRONT, Party.BACK))


CASTS: Mapping[Subject, Cast] = {
    Subject.EXCHANGE: Cast(
        ends=(Party.PRODUCER, Party.CONSUMER),
        servers=(Party.EXCHANGE,),
        links={Party.PRODUCER: Party.EXCHANGE, Party.CONSUMER: Party.EXCHANGE},
        kinds=(*BREAKING, *_MACHINES, FaultKind.FULL_DISK),
        keeper=Party.EXCHANGE,
        shares=16,
    ),
    Subject.STAGES: Cast(
        ends=(Party.PRODUCER, Party.WORKER, Party.CONSUMER),
        servers=(Party.EXCHANGE,),
        links=dict.fromkeys((Party.PRODUCER, Party.WORKER, Party.CONSUMER), Party.EXCHANGE),
        kinds=(*BREAKING, FaultKind.KILL_WORKER, *_MACHINES, FaultKind.FULL_DISK),
        keeper=Party.EXCHANGE,
        shares=9,
    ),
    Subject.RESUME: Cast(
        ends=(Party.PRODUCER, Party.CONSUMER),
        servers=(Party.EXCHANGE,),
        links={Party.PRODUCER: Party.EXCHANGE, Party.CONSUMER: Party.EXCHANGE},
        kinds=(*BREAKING, *_MACHINES),
        keeper=None,
        shares=12,
    ),
    # gRPC itself has no checksums: bits are flipped where there is TLS.
    Subject.CALLS: Cast(
        ends=(Party.CLIENT,),
        servers=(Party.SERVER,),
        links={Party.CLIENT: Party.SERVER},
        kinds=(*_DAMAGE, FaultKind.KILL_CLIENT, FaultKind.KILL_SERVER, *_MACHINES),
        keeper=None,
        shares=7,
    ),
    # Plain TCP: nobody finds a flipped bit, and a peer that swallows everything is one that stands still.
    Subject.MUTE: Cast(
        ends=(Party.SENDER, Party.READER),
        servers=(Party.BACK, Party.FRONT),
        links={Party.SENDER: Party.FRONT, Party.FRONT: Party.BACK, Party.READER: Party.BACK},
        kinds=(
            *(
                FaultKind.CUT,
                FaultKind.HALF_CLOSE,
                FaultKind.STOP,
                FaultKind.KILL_FRONT,
                FaultKind.KILL_BACK,
                FaultKind.KILL_READER,
            ),
            *(*_MACHINES, FaultKind.FULL_DISK),
        ),
        keeper=Party.BACK,
        shares=8,
    ),
}
"""Subjects as a table."""
ADDRESSES = {Party.SENDER: "listen", Party.FRONT: "inlet", Party.READER: "out0"}
"""By what name a server of several addresses tells the one that is dialled; others have one, ``address``."""
SHARES = sum(cast.shares for cast in CASTS.values())

SLOW = 0.6
"""The share of the schedules of stages and calls in which nothing is slow."""
LEAVES = 0.75
"""The share of calls whose elements are all wanted."""
BREAKS = 0.3
"""The share of calls whose client's source fails at first, if it has one."""
JUMPS_SECONDS = (-86_400, -3_600, -5, 5, 3_600, 34_560_000)
"""Of wall clocks: up to 400 days."""
RESUME_SECONDS = 15.0
"""Of streams that go on: longer than any black hole and stop."""
MOST_CUTS = 6
"""Of a stream that goes on."""
GATES = 0.4
"""The share of bridged channels that lead to a gate."""
BARRIERS = 16
"""Of a gate, about."""
_BRIDGED = tuple(kind for kind in CASTS[Subject.EXCHANGE].kinds if kind is not FaultKind.FULL_DISK)
_KEPT = CASTS[Subject.EXCHANGE].kinds
CYCLE = 2 * len(_BRIDGED) + 2 * ceil(len(_KEPT) / 2)
"""So many schedules have every kind of fault on both carriers and with both retentions: one kind for each bridged
channel, which does not outlive it, and two for each channel that keeps its rows."""

_VICTIMS = {kind: Party(kind.removeprefix("kill ")) for kind in FaultKind if kind.startswith("kill ")}


@dataclass(frozen=True, kw_only=True)
class Fault:
    kind: FaultKind
    link: Party
    """On which it happens, or whose bytes say when: that of the one who dials."""
    direction: Direction
    after_bytes: int
    """Of this direction of the link, over all of its connections; a bit is flipped in the byte that comes next."""
    victim: Party | None = None
    """Who is stopped or killed, whose clock jumps, or whose disk is full."""
    seconds: float = 0.0
    """Of a delay: each piece takes so much longer.  Of a black hole: until new connections are served, the old ones
    never are again.  Of a stop or a sleep: until SIGCONT.  Of a kill: until the victim is started again.  Of a clock:
    how far it jumps.  Of a full disk: until there is room."""
    bytes_per_second: float = 0.0
    """Of a throttle."""
    bit: int = 0
    resets: bool = False
    """Of a cut: by RST instead of FIN."""

    @property
    def flips(self) -> int:
        """The bits of the next byte that change."""
        return 1 << self.bit if self.kind is FaultKind.BIT_FLIP else 0

    @property
    def what(self) -> str:
        """Of the table of results."""
        return f"{self.kind} {self.victim}" if self.kind.has_turns else self.kind

    def __str__(self) -> str:
        return f"{self.what} after {self.after_bytes:,} bytes {self.direction} the {self.link}'s link"


@dataclass(frozen=True, kw_only=True)
class End:
    client: Client
    largest_chunk_rows: int
    """Of a producer: the most rows that are sent at once; of a consumer: after how many at the latest it acknowledges
    them; rows that are not hold permits."""
    pause_seconds: float = 0.0
    """After each chunk."""
    idle_seconds: float = 0.0
    """Of a producer: between the last chunk and the end; of a consumer: before it begins to take."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """What a worker of stages does between two channels."""

    rechunk_rows: int
    prefetch: int
    """Chunks that its stages read ahead, a power of two; 0: none."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """How a method is called; each message has ``producer.largest_chunk_rows``."""

    method: Method
    window_bytes: int
    """Of each reader."""
    prefetch: int
    takes_rows: int
    """After so many the one who consumes has enough."""
    keeps_connection: bool
    """Does the client try again over the same one?"""
    breaks_at_row: int | None = None
    """Here the source of the client's first call fails."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    subject: Subject = Subject.EXCHANGE
    seed: int = 0
    number: int = 0
    carrier: Carrier = Carrier.TCP
    retention: Retention = Retention.ONCE
    row_permits: int
    rows: int
    producer: End
    consumer: End
    faults: tuple[Fault, ...]
    checksums: bool = True
    """Does the exchange make them, and TLS where there are calls?"""
    is_gate: bool = False
    """Does the consumer align the channel's barriers with those of an input of its own?"""
    pipeline: Pipeline | None = None
    call: Call | None = None
    resume_seconds: float = 0.0
    """Of both ends and the exchange: for so long after a cut they try to go on."""

    @property
    def name(self) -> str:
        """For people, short."""
        kinds = " + ".join(fault.kind for fault in self.faults)
        what = f"{self.call.method}" if self.call else f"{self.carrier} {self.retention}"
        gate = " gate" if self.is_gate else ""
        return f"{self.subject} {self.number:03} {what}{gate}: {kinds}"

    @property
    def cast(self) -> Cast:
        return CASTS[self.subject]

    @property
    def hops(self) -> tuple[tuple[Party, Party], ...]:
        """Whose rows come to whom."""
        if self.call:
            there, back = (Party.CLIENT, Party.SERVER), (Party.SERVER, Party.CLIENT)
            return {Method.SOURCE: (back,), Method.FLOW: (there, back), Method.SINK: (there,)}[self.call.method]
        if self.subject is Subject.MUTE:
            return ()
        way = (Party.PRODUCER, *((Party.WORKER,) if self.pipeline else ()), Party.CONSUMER)
        return tuple(pairwise(way))

    @property
    def can_go_on(self) -> bool:
        """Does what is interrupted begin again, so that it comes to its end whatever breaks?"""
        if self.call:
            return True
        if self.subject is Subject.MUTE:
            # Who sends over plain TCP does not know what has come.
            return not any(
                fault.kind is FaultKind.KILL_FRONT or (fault.link, fault.kind) == (Party.SENDER, FaultKind.CUT)
                for fault in self.faults
            )
        if self.resume_seconds:
            # Bits that change in a greeting, or in HTTP/2 itself, make it another protocol.
            return not self.kills and not self.has_flips
        return self.retention is Retention.REPLAY and not self.has_flips

    @property
    def kinds(self) -> set[FaultKind]:
        return {fault.kind for fault in self.faults}

    @property
    def kills(self) -> bool:
        return any(fault.kind in _VICTIMS for fault in self.faults)

    @property
    def servers_return(self) -> bool:
        """After they were killed."""
        return self.subject in (Subject.CALLS, Subject.MUTE) or self.retention is Retention.REPLAY

    @property
    def has_tls(self) -> bool:
        """Of calls: gRPC has no checksums of its own."""
        return self.call is not None and self.has_flips and self.checksums

    @property
    def exclusive(self) -> int:
        """Of a gate: the credit of an input alone, of ``row_permits`` in all; every second gate lends all of it."""
        return self.row_permits // 2 * (self.number // 2 % 2)

    @property
    def epoch_rows(self) -> int:
        """Of a gate: barrier n follows the chunk that brings the rows to at least n times as many."""
        return max(1, self.rows // BARRIERS)

    @property
    def has_flips(self) -> bool:
        return any(fault.kind is FaultKind.BIT_FLIP for fault in self.faults)


def generator(schedule: Schedule, party: str) -> Random:
    """The dice of one party of one schedule."""
    return _dice(schedule.subject, schedule.seed, schedule.number, party)


def _dice(subject: Subject, seed: int, number: int, party: str) -> Random:
    return Random(f"{'' if subject is Subject.EXCHANGE else subject}{seed}/{number}/{party}")


def draw(subject: Subject, seed: int, number: int) -> Schedule:
    """Schedule ``number`` of a subject and a seed."""
    return _DRAWS[subject](seed, number)


def _draw_exchange(seed: int, number: int) -> Schedule:
    carrier, retention, kinds = _cell(seed, number)
    dice = _dice(Subject.EXCHANGE, seed, number, "schedule")
    row_permits = dice.choice((16, 64, 256, 1024, 8192))
    # Each round trip takes a while where there is a delay; elsewhere more of them give faults more to hit.
    rounds = 24 if FaultKind.DELAY in kinds else 200
    rows = min(dice.randrange(1_500, 12_000), row_permits * rounds)
    largest = dice.choice((1, 8) if FaultKind.BIT_FLIP in kinds else (1, 8, 64, 500))
    rows = min(rows, 1_500 * largest)
    is_gate = retention is Retention.ONCE and _dice(Subject.EXCHANGE, seed, number, "gate").random() < GATES
    producer = _draw_end(dice, largest, rows, idle_seconds=dice.choice((0.0, 0.0, 0.5, 1.5)))
    consumer = _draw_consumer(dice, dice.choice((1, row_permits // 8)), largest, rows)
    return Schedule(
        seed=seed,
        number=number,
        carrier=carrier,
        retention=retention,
        row_permits=row_permits,
        rows=rows,
        producer=replace(producer, client=Client.ASYNCIO) if is_gate else producer,
        consumer=replace(consumer, client=Client.ASYNCIO) if is_gate else consumer,
        is_gate=is_gate,
        faults=_draw_faults(Subject.EXCHANGE, kinds, dice, rows, row_permits, turn=number // CYCLE * 2 + number % 2),
    )


def _draw_stages(seed: int, number: int) -> Schedule:
    """Kinds in turn; carriers and retentions in turn from kind to kind and from cycle to cycle."""
    dice = _dice(Subject.STAGES, seed, number, "schedule")
    kinds = CASTS[Subject.STAGES].kinds
    cycle, place = divmod(number, len(kinds))
    carrier, retention = list(Carrier)[(place + cycle) % 2], list(Retention)[(place // 2 + cycle // 2) % 2]
    kind = kinds[place]
    if kind is FaultKind.FULL_DISK:
        retention = Retention.REPLAY
    # A channel that keeps rows has room for those that a worker gathers.
    row_permits = dice.choice((16, 64, 256, 1024) if retention is Retention.ONCE else (256, 1024))
    largest = dice.choice((1, 8) if kind is FaultKind.BIT_FLIP else (1, 8, 64))
    slow = [] if dice.random() < SLOW else [dice.choice((FaultKind.DELAY, FaultKind.THROTTLE))]
    rows = min(dice.randrange(1_500, 8_000), row_permits * (24 if FaultKind.DELAY in slow else 200), 1_500 * largest)
    producer = _draw_end(dice, largest, rows, idle_seconds=dice.choice((0.0, 0.0, 0.5)))
    pipeline = Pipeline(rechunk_rows=dice.choice((1, 5, 50)), prefetch=dice.choice((0, 1, 8)))
    consumer = _draw_end(dice, min(largest, pipeline.rechunk_rows), rows, idle_seconds=dice.choice((0.0, 0.0, 0.5)))
    return Schedule(
        subject=Subject.STAGES,
        seed=seed,
        number=number,
        carrier=carrier,
        retention=retention,
        row_permits=row_permits,
        rows=rows,
        producer=replace(producer, client=Client.ASYNCIO),
        consumer=replace(consumer, client=Client.ASYNCIO, largest_chunk_rows=row_permits // 8),
        pipeline=pipeline,
        faults=_draw_faults(Subject.STAGES, [*slow, kind], dice, rows, row_permits, turn=cycle + cycle // 4),
    )


def _draw_resume(seed: int, number: int) -> Schedule:
    """Kinds in turn, over both carriers in turn; two carriers have the same kind."""
    dice = _dice(Subject.RESUME, seed, number, "schedule")
    kinds, carrier = CASTS[Subject.RESUME].kinds, list(Carrier)[number % 2]
    cycle, place = divmod(number // 2, len(kinds))
    kind = kinds[place]
    slow = [] if dice.random() < SLOW else [dice.choice((FaultKind.DELAY, FaultKind.THROTTLE))]
    row_permits = dice.choice((16, 64, 256, 1024, 8192))
    largest = dice.choice((1, 8) if kind is FaultKind.BIT_FLIP else (1, 8, 64, 500))
    rows = min(dice.randrange(1_500, 12_000), row_permits * (24 if FaultKind.DELAY in slow else 200), 1_500 * largest)
    is_gate = dice.random() < GATES
    producer = _draw_end(dice, largest, rows, idle_seconds=dice.choice((0.0, 0.0, 0.5, 1.5)))
    consumer = _draw_consumer(dice, dice.choice((1, row_permits // 8)), largest, rows)
    cuts = [kind] * (dice.randrange(MOST_CUTS) if kind is FaultKind.CUT else 0)
    return Schedule(
        subject=Subject.RESUME,
        seed=seed,
        number=number,
        carrier=carrier,
        row_permits=row_permits,
        rows=rows,
        producer=replace(producer, client=Client.ASYNCIO) if is_gate else producer,
        consumer=replace(consumer, client=Client.ASYNCIO) if is_gate else consumer,
        is_gate=is_gate,
        resume_seconds=RESUME_SECONDS,
        faults=_draw_faults(Subject.RESUME, [*slow, kind, *cuts], dice, rows, row_permits, turn=2 * cycle + number % 2),
    )


def _draw_calls(seed: int, number: int) -> Schedule:
    """Each kind with each method in turn."""
    dice = _dice(Subject.CALLS, seed, number, "schedule")
    kinds = CASTS[Subject.CALLS].kinds
    method, kind = list(Method)[number % len(Method)], kinds[number // len(Method) % len(kinds)]
    slow = [] if dice.random() < SLOW else [dice.choice((FaultKind.DELAY, FaultKind.THROTTLE))]
    chunk_rows = dice.choice((1, 8, 64))
    rows = chunk_rows * (24 if FaultKind.DELAY in slow else dice.randrange(60, 600))
    takes_rows = rows if dice.random() < LEAVES else chunk_rows * dice.randrange(1, rows // chunk_rows)
    breaking = _dice(Subject.CALLS, seed, number, "source")
    breaks_at_row = breaking.randrange(rows) if breaking.random() < BREAKS else None
    producer = _draw_end(dice, chunk_rows, rows, idle_seconds=dice.choice((0.0, 0.0, 0.5)))
    consumer = _draw_end(dice, chunk_rows, rows, idle_seconds=dice.choice((0.0, 0.0, 0.5)))
    return Schedule(
        subject=Subject.CALLS,
        seed=seed,
        number=number,
        carrier=Carrier.GRPC,
        row_permits=rows,
        rows=rows,
        producer=producer,
        consumer=consumer,
        call=Call(
            method=method,
            window_bytes=dice.choice((5, 64, 2_000, 65_535)),
            prefetch=dice.choice((0, 1, 16)),
            takes_rows=takes_rows,
            keeps_connection=dice.random() < 0.5,
            breaks_at_row=breaks_at_row,
        ),
        faults=_draw_faults(Subject.CALLS, [*slow, kind], dice, takes_rows, takes_rows, turn=number, method=method),
    )


def _draw_mute(seed: int, number: int) -> Schedule:
    """Kinds in turn."""
    dice = _dice(Subject.MUTE, seed, number, "schedule")
    kinds = CASTS[Subject.MUTE].kinds
    kind = kinds[number % len(kinds)]
    slow = [] if dice.random() < SLOW else [dice.choice((FaultKind.DELAY, FaultKind.THROTTLE))]
    rows = dice.randrange(1_000, 4_000) if FaultKind.DELAY in slow else dice.randrange(10_000, 60_000)
    idle_seconds = dice.choice((0.0, 0.5, 1.5))
    return Schedule(
        subject=Subject.MUTE,
        seed=seed,
        number=number,
        row_permits=rows,
        rows=rows,
        producer=_draw_end(dice, 1, rows, idle_seconds=0.0),
        consumer=_draw_end(dice, 1, rows, idle_seconds=idle_seconds),
        faults=_draw_faults(Subject.MUTE, [*slow, kind], dice, rows, rows, turn=number // len(kinds)),
    )


_DRAWS = {
    Subject.EXCHANGE: _draw_exchange,
    Subject.STAGES: _draw_stages,
    Subject.RESUME: _draw_resume,
    Subject.CALLS: _draw_calls,
    Subject.MUTE: _draw_mute,
}


def _cell(seed: int, number: int) -> tuple[Carrier, Retention, Sequence[FaultKind]]:
    """Of each cycle the first schedules are of bridged channels, the rest keep their rows; some are slow as well."""
    cycle, place = divmod(number, CYCLE)
    carrier = list(Carrier)[place % 2]
    place //= 2
    slow = {1: [FaultKind.DELAY], 3: [FaultKind.THROTTLE]}.get(place % 4, [])
    if place < len(_BRIDGED):
        return carrier, Retention.ONCE, [*slow, _BRIDGED[place]]
    kinds = list(_KEPT)
    Random(f"{seed}/{cycle}/pairs").shuffle(kinds)
    first = 2 * (place - len(_BRIDGED))
    return carrier, Retention.REPLAY, [*slow, *kinds[first : first + 2]]


def _draw_end(dice: Random, largest_chunk_rows: int, rows: int, *, idle_seconds: float) -> End:
    # Each end pauses for some second in all.
    chunks = max(1, 2 * rows // largest_chunk_rows)
    return End(
        client=dice.choice(list(Client)),
        largest_chunk_rows=largest_chunk_rows,
        pause_seconds=dice.choice((0.0, dice.uniform(0.0, 1.0) / chunks)),
        idle_seconds=idle_seconds,
    )


def _draw_consumer(dice: Random, acknowledged_rows: int, chunk_rows: int, rows: int) -> End:
    """One who acknowledges this many rows at once, and pauses after each chunk that it takes."""
    end = _draw_end(dice, acknowledged_rows, rows, idle_seconds=dice.choice((0.0, 0.0, 0.0, 0.5)))
    return replace(end, pause_seconds=end.pause_seconds * min(1.0, chunk_rows / acknowledged_rows))


def _draw_faults(
    subject: Subject,
    kinds: Sequence[FaultKind],
    dice: Random,
    rows: int,
    row_permits: int,
    *,
    turn: int,
    method: Method | None = None,
) -> tuple[Fault, ...]:
    return tuple(
        _draw_fault(subject, kind, dice, rows, row_permits, turn, method)
        for kind in kinds
        for _ in range(dice.randrange(1, 5) if kind is FaultKind.BIT_FLIP else 1)
    )


def _draw_fault(
    subject: Subject, kind: FaultKind, dice: Random, rows: int, row_permits: int, turn: int, method: Method | None
) -> Fault:
    cast = CASTS[subject]
    # Half of a sender's connection is its end.
    is_end = (subject, kind) == (Subject.MUTE, FaultKind.HALF_CLOSE)
    link = dice.choice(tuple(party for party in cast.links if not (is_end and party is Party.SENDER)))
    # What comes back is all framing and counts, and flipped bits of data are mostly those of values.
    is_data = dice.random() < (0.4 if kind is FaultKind.BIT_FLIP else 0.75)
    # Outside of its workers, a word count has nothing that comes back; between them, what does is ahead of the ends.
    is_data |= link in (Party.SENDER, Party.READER) or (subject is Subject.MUTE and kind.has_turns)
    data = _data_of(link, method)
    way = data[0] if len(data) == 1 else dice.choice(data)
    direction = way if is_data or len(data) > 1 else _OPPOSITE[way]
    after_bytes = dice.randrange(100) if kind.is_slowness else _draw_place(dice, is_data, rows, row_permits)
    victim = cast.parties[turn % len(cast.parties)] if kind.has_turns else _VICTIMS.get(kind)
    if kind is FaultKind.FULL_DISK:
        victim = cast.keeper
    seconds = {
        FaultKind.DELAY: dice.uniform(0.002, 0.03),
        FaultKind.BLACK_HOLE: dice.uniform(0.5, 6.0),
        FaultKind.STOP: dice.choice((1.0, 12.0)),
        FaultKind.SLEEP: dice.choice((1.0, 12.0)),
        FaultKind.CLOCK_JUMP: dice.choice(JUMPS_SECONDS),
        FaultKind.FULL_DISK: dice.uniform(0.3, 3.0),
    }.get(kind, dice.uniform(0.05, 0.5))
    return Fault(
        kind=kind,
        link=link,
        direction=direction,
        after_bytes=after_bytes,
        victim=victim,
        seconds=seconds,
        bytes_per_second=ROW_BYTES * rows / dice.uniform(0.5, 2.0),
        bit=dice.randrange(8),
        resets=dice.random() < 0.5,
    )


_OPPOSITE = {Direction.UP: Direction.DOWN, Direction.DOWN: Direction.UP}


def _data_of(link: Party, method: Method | None) -> Sequence[Direction]:
    """In which directions elements go."""
    if link is Party.WORKER or method is Method.FLOW:
        return tuple(Direction)
    up = link in (Party.PRODUCER, Party.SENDER, Party.FRONT) or method is Method.SINK
    return (Direction.UP if up else Direction.DOWN,)


def _draw_place(dice: Random, is_data: bool, rows: int, row_permits: int) -> int:
    """Where bytes certainly come by, if nothing else goes wrong: in the handshake, in the middle or near the end."""
    if not is_data:
        # Permits come back at least once for each window.
        return dice.randrange(60 + 12 * (rows // row_permits))
    total = ROW_BYTES * rows
    match dice.randrange(8):
        case 0 | 1:
            return dice.randrange(300)
        case 2:
            return int(total * dice.uniform(0.9, 0.99))
    return int(total * dice.uniform(0.02, 0.95))
