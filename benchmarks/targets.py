"""The performance promises, and whether a run keeps them.  The tables report a broken promise as such."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.curves import Stalled
from benchmarks.idle_channels import IdleChannels
from benchmarks.imbalance import BOUNDS, CONTROL, EQUAL_COSTS, PERMITS, WIDE_BOUNDS, WIDE_PERMITS, Imbalance
from benchmarks.latency import LATENCY_PEERS, Latency
from benchmarks.local_channel import ANYIO, LocalRate
from benchmarks.peers.way import ways_for
from benchmarks.results import Results, Series
from benchmarks.spark_exchange import QUERY, SINK, SOURCE, SparkJob
from benchmarks.stages import CHUNK, FILTER, StageCost
from benchmarks.throughput import Cell, StreamEnds

# Throughput as a multiple of Flight's DoExchange with permits by hand, by size of chunk; both with their best numbers.
LEAST_MULTIPLES = {
    "remote": {"1": 4.0, "64": 4.0, "1,024": 1.2, "4,096": 1.0, "65,536": 1.0, "wide": 1.0},
    "same host": {"1": 5.0, "64": 5.0, "1,024": 2.5, "4,096": 2.5, "65,536": 3.0, "wide": 3.0},
}
# A call for each message at both ends, as with a stream of anyio's; and several at once.
LOCAL_CANDIDATES = ("receive", "send_many, receive_many")
LEAST_LOCAL = 2.0
# A stopped consumer costs little more than its window; a thousand idle channels fit on any machine.
MOST_BYTES_FOR_A_BYTE = 1.25
MOST_IDLE_GIBIBYTES = 1.0
MOST_IDLE_CORES = 0.1
# Rows per second of the faster upstream as a multiple of the slower one's.
LEAST_IMBALANCE = {BOUNDS.name: 3.0, WIDE_BOUNDS.name: 3.0}
MOST_IMBALANCE = {PERMITS.name: 1.05, WIDE_PERMITS.name: 1.05, CONTROL.name: 1.05}
MOST_POINTS_APART = 5.0
# Latency as a multiple of another way's.
MOST_LATENCY = {"remote": 1.2, "same host": 0.4}
# Rows per second as a multiple of the peer's; and the seconds of a query.
LEAST_SPARK = {SOURCE: 0.8, SINK: 0.9}
MOST_SPARK = {QUERY: 1.3}
# What a step on a chunk costs, as a multiple of what it costs in an asynchronous generator.
MOST_STAGE = 1.2


@dataclass(frozen=True)
class Verdict:
    """On one promise."""

    promise: str
    found: Series
    target: float
    is_upper_limit: bool = False

    @property
    def is_met(self) -> bool:
        """By the median of the rounds."""
        found = self.found.median
        return found <= self.target if self.is_upper_limit else found >= self.target

    @property
    def told(self) -> str:
        return "met" if self.is_met else "not met"


def judge(results: Results) -> list[Verdict]:
    return [
        *_throughput(results.get("throughput", Cell)),
        *_latency(results.get("latency", Latency)),
        *_local(results.get("local", LocalRate)),
        *_stages(results.get("stages", StageCost)),
        *_ends(results.get("ends", StreamEnds)),
        *_imbalance(results.get("imbalance", Imbalance)),
        *_spark(results.get("spark", SparkJob)),
        *_stopped(results.get("stalled", Stalled)),
        *_idle(results.get("channels", IdleChannels)),
    ]


def _throughput(cells: list[Cell]) -> Iterator[Verdict]:
    rates = {(cell.way, cell.payload): cell.chunks_per_second for cell in cells if cell.is_tuned}
    (peer,) = ways_for("peer")
    for target, least in LEAST_MULTIPLES.items():
        for way in ways_for(target):
            for payload, multiple in least.items():
                mine, theirs = rates.get((way.name, payload)), rates.get((peer.name, payload))
                if mine is not None and theirs is not None:
                    yield Verdict(f"{way.name} ÷ {peer.name}, {payload}", mine.ratio_to(theirs), multiple)


def _latency(latencies: list[Latency]) -> Iterator[Verdict]:
    medians = {latency.way: latency.median_microseconds for latency in latencies}
    for target, most in MOST_LATENCY.items():
        peer = LATENCY_PEERS[target]
        for way in ways_for(target):
            if way.name in medians and peer in medians:
                what = f"latency of a lone chunk: {way.name} ÷ {peer}"
                yield Verdict(what, medians[way.name].ratio_to(medians[peer]), most, is_upper_limit=True)


def _local(rates: list[LocalRate]) -> Iterator[Verdict]:
    by_candidate = {(rate.candidate, rate.chunk_rows): rate.million_messages_per_second for rate in rates}
    for rate in rates:
        if rate.candidate in LOCAL_CANDIDATES:
            found = rate.million_messages_per_second.ratio_to(by_candidate[ANYIO, rate.chunk_rows])
            yield Verdict(f"in a process: {rate.candidate} ÷ {ANYIO}, {rate.chunk_rows:,} rows", found, LEAST_LOCAL)


def _stages(costs: list[StageCost]) -> Iterator[Verdict]:
    for cost in costs:
        if (cost.element, cost.work) == (CHUNK, FILTER):
            what = f"{cost.steps} stages that {cost.work} of a {cost.element} ÷ generators"
            yield Verdict(what, cost.ratio, MOST_STAGE, is_upper_limit=True)


def _ends(ends: list[StreamEnds]) -> Iterator[Verdict]:
    for end in ends:
        what = f"{end.way}: failures in {end.streams:,} ends of streams with permits on their way"
        yield Verdict(what, Series.of([end.failed]), 0.0, is_upper_limit=True)


def _imbalance(found: list[Imbalance]) -> Iterator[Verdict]:
    by_setup = {each.setup: each for each in found}
    for limits, is_upper_limit in ((LEAST_IMBALANCE, False), (MOST_IMBALANCE, True)):
        for name in (name for name in limits if name in by_setup):
            yield Verdict(f"imbalance, {name}", by_setup[name].ratio, limits[name], is_upper_limit=is_upper_limit)
    if (equal := by_setup.get(EQUAL_COSTS.name)) is not None:
        pairs = zip(equal.local_back_pressure_rate.values, equal.remote_back_pressure_rate.values, strict=True)
        apart = Series.of(100 * abs(local - remote) for local, remote in pairs)
        what = f"points between back-pressure rates, {equal.setup}"
        yield Verdict(what, apart, MOST_POINTS_APART, is_upper_limit=True)


def _spark(jobs: list[SparkJob]) -> Iterator[Verdict]:
    for job in jobs:
        if job.job in LEAST_SPARK:
            rate = job.peer_seconds.ratio_to(job.seconds)
            yield Verdict(f"Spark {job.job}, rows/s ÷ {job.peer}", rate, LEAST_SPARK[job.job])
        else:
            time = job.seconds.ratio_to(job.peer_seconds)
            yield Verdict(
                f"Spark, {job.job} through the exchange ÷ direct", time, MOST_SPARK[job.job], is_upper_limit=True
            )


def _stopped(stalled: list[Stalled]) -> Iterator[Verdict]:
    for way in dict.fromkeys(each.way for each in stalled):
        mine = sorted((each for each in stalled if each.way == way), key=lambda each: each.row_permits)
        # The least of the rounds: a process does not always give back the memory of an earlier job.
        memory = mine[-1].peak_memory_bytes.low - mine[0].peak_memory_bytes.low
        window = mine[-1].window_bytes - mine[0].window_bytes
        if window:
            what = f"{way}: bytes of memory for each byte of window, of a consumer that has stopped"
            yield Verdict(what, Series.of([memory / window]), MOST_BYTES_FOR_A_BYTE, is_upper_limit=True)


def _idle(found: list[IdleChannels]) -> Iterator[Verdict]:
    for kind in dict.fromkeys(each.kind for each in found):
        mine = sorted((each for each in found if each.kind == kind), key=lambda each: each.channels)
        if len(mine) > 1:
            memory, processors = _thousand_more(mine[0], mine[-1])
            what = f"a thousand more idle channels, {kind}"
            yield Verdict(f"{what}: GiB", Series.of([memory]), MOST_IDLE_GIBIBYTES, is_upper_limit=True)
            yield Verdict(f"{what}: processors", Series.of([processors]), MOST_IDLE_CORES, is_upper_limit=True)


def _thousand_more(few: IdleChannels, many: IdleChannels) -> tuple[float, float]:
    """GiB and processors; what all channels share is in both, and so in neither."""
    more = many.channels - few.channels
    extra_bytes = many.channels * many.bytes_per_channel - few.channels * few.bytes_per_channel
    extra_cores = many.channels * many.cpu_share_per_channel - few.channels * few.cpu_share_per_channel
    return 1_000 * extra_bytes / more / 2**30, 1_000 * extra_cores / more
