"""A schedule as data: who sends what to whom over which carrier, and what goes wrong when.

Everything is drawn from a seed and a number.  Faults happen where so many bytes have passed in one direction of one
link, so that a seed replays as far as operating systems let it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

ROW_BYTES = 24
"""Of the three numbers of a row; what else is on the wire comes on top."""


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


class Direction(StrEnum):
    """Of bytes on a link."""

    UP = "up"
    """Towards the exchange."""
    DOWN = "down"


class Client(StrEnum):
    ASYNCIO = "asyncio"
    BLOCKING = "blocking"


class Kind(StrEnum):
    CUT = "cut"
    HALF_CLOSE = "half-close"
    BLACK_HOLE = "black hole"
    BIT_FLIP = "bit flip"
    STOP = "stop"
    KILL_PRODUCER = "kill producer"
    KILL_CONSUMER = "kill consumer"
    KILL_EXCHANGE = "kill exchange"
    DELAY = "delay"
    THROTTLE = "throttle"

    @property
    def is_slowness(self) -> bool:
        """Nothing breaks, it only takes longer."""
        return self in (Kind.DELAY, Kind.THROTTLE)


BREAKING = tuple(kind for kind in Kind if not kind.is_slowness)
GATES = 0.4
"""The share of bridged channels that lead to a gate."""
BARRIERS = 16
"""Of a gate, about."""
CYCLE = 2 * len(BREAKING) + len(BREAKING)
"""So many schedules have every kind of fault on both carriers and with both retentions: one kind for each bridged
channel, which does not outlive it, and two for each channel that keeps its rows."""

_VICTIMS = {
    Kind.KILL_PRODUCER: Party.PRODUCER,
    Kind.KILL_CONSUMER: Party.CONSUMER,
    Kind.KILL_EXCHANGE: Party.EXCHANGE,
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    kind: Kind
    link: Party
    """On which it happens, or whose bytes say when: the producer's or the consumer's."""
    direction: Direction
    after_bytes: int
    """Of this direction of the link, over all of its connections; a bit is flipped in the byte that comes next."""
    victim: Party | None = None
    """Who is stopped or killed."""
    seconds: float = 0.0
    """Of a delay: each piece takes so much longer.  Of a black hole: until new connections are served, the old ones
    never are again.  Of a stop: until SIGCONT.  Of a kill: until the victim is started again."""
    bytes_per_second: float = 0.0
    """Of a throttle."""
    bit: int = 0
    resets: bool = False
    """Of a cut: by RST instead of FIN."""

    def __str__(self) -> str:
        who = f" {self.victim}" if self.kind is Kind.STOP else ""
        return f"{self.kind}{who} after {self.after_bytes:,} bytes {self.direction} the {self.link}'s link"


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
class Schedule:
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
    """Does the exchange make them?"""
    is_gate: bool = False
    """Does the consumer align the channel's barriers with those of an input of its own?"""

    @property
    def name(self) -> str:
        """For people, short."""
        kinds = " + ".join(fault.kind for fault in self.faults)
        gate = " gate" if self.is_gate else ""
        return f"{self.number:03} {self.carrier} {self.retention}{gate}: {kinds}"

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
        return any(fault.kind is Kind.BIT_FLIP for fault in self.faults)


def generator(seed: int, number: int, party: str) -> Random:
    """The dice of one party of one schedule."""
    return Random(f"{seed}/{number}/{party}")


def draw(seed: int, number: int) -> Schedule:
    """Schedule ``number`` of a seed."""
    carrier, retention, kinds = _cell(seed, number)
    dice = generator(seed, number, "schedule")
    row_permits = dice.choice((16, 64, 256, 1024, 8192))
    # Each round trip takes a while where there is a delay; elsewhere more of them give faults more to hit.
    rounds = 24 if Kind.DELAY in kinds else 200
    rows = min(dice.randrange(1_500, 12_000), row_permits * rounds)
    largest = dice.choice((1, 8) if Kind.BIT_FLIP in kinds else (1, 8, 64, 500))
    rows = min(rows, 1_500 * largest)
    is_gate = retention is Retention.ONCE and generator(seed, number, "gate").random() < GATES
    producer = _draw_end(dice, largest, rows, idle_seconds=dice.choice((0.0, 0.0, 0.5, 1.5)))
    consumer = _draw_end(dice, dice.choice((1, row_permits // 8)), rows, idle_seconds=dice.choice((0.0, 0.0, 0.0, 0.5)))
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
        faults=tuple(fault for kind in kinds for fault in _faults_of(kind, dice, rows, row_permits)),
    )


def _cell(seed: int, number: int) -> tuple[Carrier, Retention, Sequence[Kind]]:
    """Of each cycle the first two thirds are bridged channels, the rest keep their rows; some are slow as well."""
    cycle, place = divmod(number, CYCLE)
    carrier = list(Carrier)[place % 2]
    place //= 2
    slow = {1: [Kind.DELAY], 3: [Kind.THROTTLE]}.get(place % 4, [])
    if place < len(BREAKING):
        return carrier, Retention.ONCE, [*slow, BREAKING[place]]
    kinds = list(BREAKING)
    Random(f"{seed}/{cycle}/pairs").shuffle(kinds)
    first = 2 * (place - len(BREAKING))
    return carrier, Retention.REPLAY, [*slow, *kinds[first : first + 2]]


def _draw_end(dice: Random, largest_chunk_rows: int, rows: int, *, idle_seconds: float) -> End:
    # Each end pauses for at most a second in all.
    chunks = max(1, 2 * rows // largest_chunk_rows)
    return End(
        client=dice.choice(list(Client)),
        largest_chunk_rows=largest_chunk_rows,
        pause_seconds=dice.choice((0.0, dice.uniform(0.0, 1.0) / chunks)),
        idle_seconds=idle_seconds,
    )


def _faults_of(kind: Kind, dice: Random, rows: int, row_permits: int) -> Sequence[Fault]:
    count = dice.randrange(1, 5) if kind is Kind.BIT_FLIP else 1
    return [_draw_fault(kind, dice, rows, row_permits) for _ in range(count)]


def _draw_fault(kind: Kind, dice: Random, rows: int, row_permits: int) -> Fault:
    link = dice.choice((Party.PRODUCER, Party.CONSUMER))
    # What comes back is all framing and counts, and flipped bits of data are mostly those of values.
    is_data = dice.random() < (0.4 if kind is Kind.BIT_FLIP else 0.75)
    direction = Direction.UP if (link is Party.PRODUCER) is is_data else Direction.DOWN
    after_bytes = dice.randrange(100) if kind.is_slowness else _draw_place(dice, is_data, rows, row_permits)
    victim = dice.choice(list(Party)) if kind is Kind.STOP else _VICTIMS.get(kind)
    seconds = {
        Kind.DELAY: dice.uniform(0.002, 0.03),
        Kind.BLACK_HOLE: dice.uniform(0.5, 6.0),
        Kind.STOP: dice.choice((1.0, 12.0)),
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
