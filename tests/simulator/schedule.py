"""A schedule as data: who sends what to whom under which conditions, and what goes wrong when; drawn from a seed.

Each seed draws first *which* kinds of trouble there are (a swarm: most schedules lack most of them), and then how much.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from permitflow import ChannelParameters
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW
from permitflow.flows.seam import Parameters
from tests.simulator.applications import BARRIER, WATERMARK, Receiving, Sending
from tests.simulator.coverage import COVERED
from tests.simulator.sockets import Conditions

CONSUMER, EXCHANGE = "consumer", "exchange"
TCP, UDP = "tcp://", "udp://"


class Fault(StrEnum):
    """What may go wrong."""

    CUT = "cut"
    """Over UDP: a dialler gets another port, which ends its connection."""
    HALF_CLOSE = "half-close"
    """One direction of a connection ends, and nobody has ended it; over UDP, what a dialler sends is refused."""
    SILENCE = "silence"
    """One direction of a connection carries nothing any more."""
    FLIP = "flip"
    """A bit; over UDP, that datagram is lost."""
    PART = "part"
    """Two hosts do not reach each other for a while."""
    PAUSE = "pause"
    """A process is stopped, and goes on after a while."""
    CRASH = "crash"
    """A process ends; its kernel closes its connections."""
    POWER = "power"
    """A host ends, with all that its kernel would have said."""

    @property
    def is_bridgeable(self) -> bool:
        """Does a stream that resumes survive it?"""
        return self not in (Fault.CRASH, Fault.POWER)


@dataclass(frozen=True)
class Trouble:
    """A fault after so many turns of the hosts, or at a time."""

    turn: int
    fault: Fault
    host: str
    """Where it happens; of a connection: its dialler."""
    seconds: float = 0.0
    """How long it lasts, or how late it is noticed."""
    at_seconds: float | None = None
    """When it happens, whatever the turn."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """All that is drawn before a run; the run itself draws latencies and turns."""

    seed: int
    parameters: Parameters
    conditions: Conditions
    chunks: tuple[tuple[int, ...], ...]
    """For each producer: the rows of its chunks; or ``BARRIER``, ``WATERMARK``."""
    troubles: tuple[Trouble, ...]
    turn_seconds: float
    most_in_turn: int
    pause_seconds: dict[str, float]
    """Of each client, before each message."""
    late_seconds: dict[str, float]
    """How late each client begins."""
    silence_seconds: float
    resume_seconds: float
    """How long a stream waits for another connection; 0: not at all."""
    sending: tuple[Sending, ...]
    """Of each producer."""
    receiving: Receiving
    byte_window: int
    scheme: str
    """Of the exchange's address: TCP or UDP."""
    first_message_seconds: float = 0.0
    """Producers send nothing before."""
    exchange_resumes: bool = True
    """False: its clients offer it in vain."""

    @property
    def exchange_resume_seconds(self) -> float:
        """``resume_seconds`` of the exchange."""
        return self.resume_seconds if self.exchange_resumes else 0.0

    @property
    def is_bridgeable(self) -> bool:
        """Must streams survive all of it?  Each loss is noticed after the silence at the latest."""
        troubles = [each for each in self.troubles if not (self.scheme == UDP and each.fault is Fault.FLIP)]
        if not all(trouble.fault.is_bridgeable for trouble in troubles):
            return False
        noticing = self.silence_seconds + _NOTICING_SECONDS
        seconds = sum(each.seconds + noticing for each in troubles)
        if self._may_seem_silent:
            seconds += noticing
        return not seconds or seconds < self.exchange_resume_seconds

    @property
    def may_outlast_farewells(self) -> bool:
        """May a line be lost for longer than a client waits at its end, until its last words are out?"""
        return sum(each.seconds + self.silence_seconds for each in self.troubles) > _FAREWELL_SECONDS

    @property
    def _may_seem_silent(self) -> bool:
        """May all signs of life that a silence has room for be lost, though nothing else is wrong?"""
        loses = self.conditions.lost_share + self.conditions.altered_share > 0
        return loses and self.silence_seconds < _ROOMY_SECONDS

    @property
    def producers(self) -> tuple[str, ...]:
        return tuple(f"producer{number}" for number in range(len(self.chunks)))

    @property
    def clients(self) -> tuple[str, ...]:
        return (*self.producers, CONSUMER)


_COVERED_SHARE = 0.15
_NOTICING_SECONDS = 15.0
"""Beyond the silence: signs of life come each second, and an attempt to dial again takes up to 10 s."""
_ROOMY_SECONDS = 20.0
"""So many signs of life, each of which comes twice, are not all lost."""
_FAREWELL_SECONDS = 20.0
"""A client waits for 30 s, and an attempt to dial again takes up to 10 s of them."""
_UDP_SHARE = 0.2
_UNWILLING_SHARE = 1 / 16
_MOMENT_EACH = 32
OPERATOR_SECONDS = 1.0
"""For each client that there was, until whoever is missing is replaced."""
_STOPPED_SECONDS = 2.0
"""Shorter than each silence."""
_SECONDS = (1e-3, 0.05, 2.0, 10.0, 60.0)
_RESUME_SECONDS = (0.0, 5.0, 60.0, 300.0, 300.0)
_PAUSES = (0.0, 0.0, 0.0, 1e-4, 2e-3, 0.1)
_LATE = (0.0, 0.0, 1e-3, 0.3, 8.0)
_TURNS = (40, 150, 600)


def draw(seed: int, scheme: str = "") -> Schedule:
    """The schedule of this seed; over UDP for some seeds, unless ``scheme`` says over what."""
    drawn = _draw_for_tcp(seed)
    if Random(f"resumes {seed}").random() < _UNWILLING_SHARE:
        drawn = replace(drawn, exchange_resumes=False)
    if seed % _MOMENT_EACH == 0:
        random = Random(f"moment {seed}")
        drawn = random.choice((_succeeded, _stopped_as_it_begins))(drawn, random)
    random = Random(f"datagrams {seed}")
    over_udp = random.random() < _UDP_SHARE
    if scheme == TCP or not (scheme or over_udp):
        return drawn
    conditions = replace(
        drawn.conditions,
        lost_share=random.choice((0.0, 0.0, 0.01, 0.1, 0.3)),
        doubled_share=random.choice((0.0, 0.0, 0.2)),
        altered_share=random.choice((0.0, 0.0, 0.05)),
        datagram_bytes=random.choice((300, 1_200)),
        inbox_bytes=random.choice((8_192, drawn.conditions.inbox_bytes)),
    )
    return replace(drawn, conditions=conditions, scheme=UDP)


def _draw_for_tcp(seed: int) -> Schedule:
    random = Random(seed)
    producers = 2 if random.random() < 0.2 else 1
    row_permits = random.choice((2, 3, 4, 6, 8, 12))
    batch = random.randrange(1, row_permits)
    most = row_permits - batch + 1
    parameters = (
        COVERED
        if random.random() < _COVERED_SHARE
        else ChannelParameters(
            row_permits=row_permits,
            permit_batch=batch,
            max_chunk_cost=random.randrange(1, most + 1),
            barrier_permits=random.choice((1, 2, 10)),
            initial_permits=random.choice((-1, -1, -1, 0, random.randrange(row_permits + 1))),
        )
    )
    chunks = tuple(_chunks(random, parameters.max_chunk_cost) for _ in range(producers))
    clients = (*(f"producer{number}" for number in range(producers)), CONSUMER)
    return Schedule(
        seed=seed,
        parameters=parameters,
        conditions=Conditions(
            least_latency_seconds=1e-5,
            most_latency_seconds=random.choice((1e-4, 1e-3, 1e-3, 0.03)),
            capacity_bytes=random.choice((64, 300, 2000, 1 << 16, 1 << 16)),
            short_share=random.choice((0.0, 0.0, 0.02, 0.3)),
        ),
        chunks=chunks,
        troubles=troubles(random, clients),
        turn_seconds=random.choice((0.0, 1e-6, 2e-5, 2e-4)),
        most_in_turn=random.choice((1, 2, 8, 64)),
        pause_seconds={client: random.choice(_PAUSES) for client in clients},
        late_seconds={client: random.choice(_LATE) for client in clients},
        silence_seconds=random.choice((3.0, 5.0, 20.0)),
        resume_seconds=random.choice(_RESUME_SECONDS),
        sending=tuple(random.choice([*Sending]) for _ in range(producers)),
        receiving=random.choice([*Receiving]),
        byte_window=byte_window_of(seed),
        scheme=TCP,
    )


# Moments that faults after some turns do not meet in thousands of schedules.


def _succeeded(drawn: Schedule, random: Random) -> Schedule:
    """A consumer dies before it has taken anything, and the first message comes when its successor does."""
    dies = 0.5
    succeeds = dies + OPERATOR_SECONDS * len(drawn.clients)
    beside = replace(drawn, conditions=replace(drawn.conditions, most_latency_seconds=1e-4))
    return replace(
        beside,
        troubles=(Trouble(0, Fault.CRASH, CONSUMER, at_seconds=dies),),
        late_seconds=dict.fromkeys(drawn.clients, 0.0),
        first_message_seconds=succeeds + random.random() * _beginning_seconds(beside),
        resume_seconds=_RESUME_SECONDS[-1],
        exchange_resumes=True,
    )


def _stopped_as_it_begins(drawn: Schedule, random: Random) -> Schedule:
    """A consumer is stopped while it begins: the answer and the first messages come in one piece."""
    late = 1.0
    stops = late + random.random() * _beginning_seconds(drawn)
    return replace(
        drawn,
        troubles=(Trouble(0, Fault.PAUSE, CONSUMER, _STOPPED_SECONDS, at_seconds=stops),),
        late_seconds={**dict.fromkeys(drawn.producers, 0.0), CONSUMER: late},
        resume_seconds=_RESUME_SECONDS[-1],
        exchange_resumes=random.random() < 0.5,
    )


def _beginning_seconds(drawn: Schedule) -> float:
    """About as long as a stream takes to begin: to connect, and to say what it wants."""
    return 4 * drawn.conditions.most_latency_seconds + 20 * drawn.turn_seconds


def byte_window_of(seed: int) -> int:
    """For half of the seeds a small one, in which a chunk or a few have room; for the others none that is felt."""
    return Random(f"bytes {seed}").choice((1, 500, 1_000, 2_000, *4 * (DEFAULT_BYTE_WINDOW,)))


def _chunks(random: Random, most_rows: int) -> tuple[int, ...]:
    sizes = [1, 1, most_rows, *random.choices((2, 3, BARRIER, WATERMARK, 2 * most_rows + 1), k=2)]
    return tuple(random.choice(sizes) for _ in range(random.choice((0, 1, 2, 4, 6, 10))))


def troubles(random: Random, clients: tuple[str, ...]) -> tuple[Trouble, ...]:
    """What goes wrong."""
    if random.random() < 0.2:
        return ()
    kinds = random.sample(list(Fault), k=random.choice((1, 1, 2, 3)))
    hosts = random.choice(((*clients, EXCHANGE), clients, (EXCHANGE,), (CONSUMER,)))
    turns = random.choice(_TURNS)
    found = []
    for _ in range(random.choice((1, 1, 2, 4))):
        fault = random.choice(kinds)
        host = random.choice(hosts)
        if host == EXCHANGE and fault not in (Fault.PAUSE, Fault.CRASH, Fault.POWER):
            host = random.choice(clients)
        found.append(Trouble(random.randrange(turns), fault, host, random.choice(_SECONDS)))
    return tuple(sorted(found, key=lambda trouble: trouble.turn))
