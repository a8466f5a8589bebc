"""What the monitor knows, from packets that may be lost, come twice or late, or from anybody.  No clock, no socket.

Nothing that is sent can make it grow beyond its bounds: of sources, of their incarnations, of samples.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from .metrics_core import SECOND_NS, MalformedPacketError, Packet

MOST_SOURCES = 64
"""Further ones are refused."""
MOST_INCARNATIONS = 128
"""Of a source; further ones are refused, too."""
SAMPLE_NS = SECOND_NS // 2
MOST_SAMPLES = 360
"""Three minutes."""
_SEEN = 64
"""This many sequence numbers back it is known whether a packet has come before."""
_ALL_SEEN = (1 << _SEEN) - 1


@dataclass
class _Heard:
    """The packets of one incarnation about one process."""

    totals: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)
    sequence: int = 0
    """The number of the newest packet."""
    came: int = 0
    """How many different ones."""
    at_ns: int = 0
    _seen: int = 0
    """A bit for each of the last sequence numbers; the lowest is that of the newest."""

    def take(self, packet: Packet, now_ns: int) -> str:
        """Take what is newer than what is known.

        Returns:
            Whether it was taken, or came late or twice.
        """
        self.at_ns = now_ns
        ahead = packet.sequence - self.sequence
        if ahead > 0:
            self._seen = ((self._seen << ahead) & _ALL_SEEN if ahead < _SEEN else 0) | 1
            self.sequence, self.totals, self.gauges = packet.sequence, packet.totals, packet.gauges
            self.came += 1
            return "taken"
        bit = 1 << -ahead if -ahead < _SEEN else 0
        if not bit or self._seen & bit:
            return "twice" if bit else "late"
        self._seen |= bit
        self.came += 1
        return "late"


@dataclass
class _Source:
    """All that was heard from one process."""

    incarnations: dict[int, _Heard] = field(default_factory=dict)
    about: dict[str, tuple[int, _Heard]] = field(default_factory=dict)
    """What its newest incarnation that has said so says about others."""

    @property
    def newest(self) -> _Heard:
        """The newest incarnation that was heard of."""
        return self.incarnations[max(self.incarnations)] if self.incarnations else _Heard()

    def total(self, name: str, before: int | None = None) -> int:
        """The sum over all incarnations, or over those before one."""
        kept = (heard for number, heard in self.incarnations.items() if before is None or number < before)
        return sum(heard.totals.get(name, 0) for heard in kept)


class Arrivals:
    """How many packets arrive in any window of a second, both of its ends included."""

    def __init__(self, limit: int) -> None:
        """``limit`` is what may arrive in one; beyond it by one, no more is counted."""
        self.limit = limit
        self.peak = 0
        """The most so far."""
        self._times: deque[int] = deque(maxlen=limit + 1)
        self._peak_since = 0

    def add(self, at_ns: int) -> None:
        """A packet has arrived."""
        self._times.append(at_ns)
        self._leave(at_ns)
        self._peak_since = max(self._peak_since, len(self._times))
        self.peak = max(self.peak, len(self._times))

    def _leave(self, now_ns: int) -> None:
        while self._times and self._times[0] < now_ns - SECOND_NS:
            self._times.popleft()

    def peak_since(self, now_ns: int) -> int:
        """The most since this was asked before."""
        self._leave(now_ns)
        peak, self._peak_since = self._peak_since, len(self._times)
        return max(peak, len(self._times))


class Sample(TypedDict):
    """What was known at a time."""

    seconds: float
    """Since the beginning."""
    gauges: Mapping[str, float]
    """The gauges of the master."""
    totals: Mapping[str, int]
    """The totals of the master."""
    pulled: Mapping[str, int]
    """By each worker, in all its incarnations; what it has finished, if it does not count what it pulls."""
    packets: int
    """The most that have arrived in a second, since the sample before."""


class State(TypedDict):
    """All that is known, as JSON can have it.  Incarnations are named as in ``w1#2``."""

    seconds: float
    """Since the beginning."""
    packets_per_second: int
    """The limit."""
    peak_packets_per_second: int
    """The most in any second; one above the limit stands for all that is above it."""
    packets: Mapping[str, int]
    """What has become of them; ``missing`` and ``overflowed`` ones have not come, as far as that is known."""
    last_malformed: str
    """What was wrong with the last one that was malformed."""
    sources: Mapping[str, Mapping[str, int]]
    """The totals of each incarnation."""
    gauges: Mapping[str, Mapping[str, float]]
    """The gauges of the newest incarnation of each process."""
    heard_seconds_ago: Mapping[str, float]
    """When anything was taken from a process."""
    results: Mapping[str, Mapping[str, int]]
    """What the master has got from each process, in all, and before its newest incarnation."""
    undelivered: Mapping[str, int]
    """What the ended incarnations of a process had finished, and had not told before they ended."""
    samples: Sequence[Sample]


class MonitorState(State):
    """With what the monitor itself was told."""

    bounds: Mapping[str, float]
    """``queue_capacity`` and ``resend_seconds`` of the master and its clients; 0 where they are unknown."""
    lost_on_purpose: int


class Collector:
    """Takes packets, and says what they tell."""

    def __init__(self, packets_per_second: int, now_ns: int, expected: Collection[str] = ()) -> None:
        """Nothing has come.

        Args:
            packets_per_second: what all senders together promise not to exceed.
            now_ns: of a clock that never goes back.
            expected: the sources; packets of others are refused.  None: any may come, up to a number.
        """
        self.arrivals = Arrivals(packets_per_second)
        self.fates: Counter[str] = Counter()
        """How many packets have arrived, and how many of them were taken, late, twice, malformed or refused."""
        self.overflowed = 0
        """Packets that the kernel had no room for, as far as it has told."""
        self.last_malformed = ""
        self.samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        self._sources: dict[str, _Source] = {}
        self._began_ns = now_ns
        self._expected = frozenset(expected)

    def arrive(self, at_ns: int) -> None:
        """Count a packet against the limit, whatever it says."""
        self.fates["arrived"] += 1
        self.arrivals.add(at_ns)

    def take(self, content: bytes, now_ns: int) -> None:
        """Take what a packet tells, unless newer ones have told it."""
        try:
            packet = Packet.from_bytes(content)
        except MalformedPacketError as error:
            self.fates["malformed"] += 1
            self.last_malformed = error.reason
            return
        self.fates[self._take(packet, now_ns)] += 1

    def _take(self, packet: Packet, now_ns: int) -> str:
        if self._expected and not {packet.source, packet.about or packet.source} <= self._expected:
            return "refused"
        source = self._sources.get(packet.source)
        if source is None:
            if len(self._sources) >= MOST_SOURCES:
                return "refused"
            source = self._sources[packet.source] = _Source()
        if packet.about:
            return self._take_about(source, packet, now_ns)
        if packet.incarnation not in source.incarnations and len(source.incarnations) >= MOST_INCARNATIONS:
            return "refused"
        return source.incarnations.setdefault(packet.incarnation, _Heard()).take(packet, now_ns)

    def _take_about(self, source: _Source, packet: Packet, now_ns: int) -> str:
        incarnation, heard = source.about.get(packet.about, (0, _Heard()))
        if packet.incarnation < incarnation:
            return "late"
        if packet.incarnation > incarnation:
            if packet.about not in source.about and len(source.about) >= MOST_SOURCES:
                return "refused"
            heard = _Heard()
            source.about[packet.about] = packet.incarnation, heard
        return heard.take(packet, now_ns)

    # What is known.

    def total(self, source: str, name: str) -> int:
        """The sum over all incarnations of a source."""
        return self._sources[source].total(name) if source in self._sources else 0

    def missing(self) -> int:
        """How many packets have sequence numbers below those that came, and did not come."""
        return sum(
            sum(heard.sequence - heard.came for heard in source.incarnations.values())
            + sum(heard.sequence - heard.came for _, heard in source.about.values())
            for source in self._sources.values()
        )

    def _about(self) -> Iterator[tuple[str, _Heard]]:
        for source in self._sources.values():
            for name, (_, heard) in source.about.items():
                yield name, heard

    def _undelivered(self, name: str, heard: _Heard) -> int:
        before = int(heard.gauges.get("incarnation", 1))
        told = self._sources[name].total("finished", before) if name in self._sources else 0
        return max(0, heard.totals.get("results_before", 0) - told)

    def sample(self, now_ns: int, arrived_ns: int) -> None:
        """Keep what is known now, for the charts; ``arrived_ns`` is now, by the clock of arrivals."""
        master = self._sources.get("master", _Source())
        newest = master.newest
        self.samples.append(
            Sample(
                seconds=(now_ns - self._began_ns) / SECOND_NS,
                gauges=newest.gauges,
                totals={name: master.total(name) for name in newest.totals},
                pulled={
                    name: source.total("pulled") or source.total("finished")
                    for name, source in self._sources.items()
                    if name != "master"
                },
                packets=self.arrivals.peak_since(arrived_ns),
            )
        )

    def state(self, now_ns: int) -> State:
        """All that is known now."""
        sources = sorted(self._sources.items())
        return State(
            seconds=(now_ns - self._began_ns) / SECOND_NS,
            packets_per_second=self.arrivals.limit,
            peak_packets_per_second=self.arrivals.peak,
            packets={**self.fates, "missing": self.missing(), "overflowed": self.overflowed},
            last_malformed=self.last_malformed,
            sources={
                f"{name}#{number}": heard.totals
                for name, source in sources
                for number, heard in sorted(source.incarnations.items())
            },
            gauges={name: source.newest.gauges for name, source in sources},
            heard_seconds_ago={name: (now_ns - source.newest.at_ns) / SECOND_NS for name, source in sources},
            results={name: heard.totals for name, heard in self._about()},
            undelivered={name: self._undelivered(name, heard) for name, heard in self._about()},
            samples=[*self.samples],
        )
