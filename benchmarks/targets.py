"""The performance promises, and whether a run keeps them.  The tables report a broken promise as such."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.local_channel import ANYIO
from benchmarks.peers.way import ways_for
from benchmarks.results import Results, Row, Series
from benchmarks.throughput import LATENCY_PEERS

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
# Latency as a multiple of another way's.
MOST_LATENCY = {"remote": 1.2, "same host": 0.4}
# Jobs of Spark.  Rows per second as a multiple of the peer's; and the seconds of a query.
SOURCE, SINK, QUERY = "source", "sink", "TPC-H query 12"
LEAST_SPARK = {SOURCE: 0.8, SINK: 0.9}
MOST_SPARK = {QUERY: 1.3}
# Chunks a second of a stream that can be resumed, as a multiple of those of one that cannot.
LEAST_RESUMED = 0.95
# Chunks a second over UDP where a packet in a hundred gets lost, as a multiple of those where none does.
LEAST_LOSSY = 0.5
# What a step on a chunk costs, as a multiple of what it costs in an asynchronous generator.
MOST_STAGE = 1.2


@dataclass(frozen=True)
class PromiseVerdict:
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


def judge(results: Results) -> list[PromiseVerdict]:
    judges = {
        "throughput": _throughput,
        "latency": _latency,
        "local": _local,
        "stages": _stages,
        "ends": _ends,
        "spark": _spark,
        "stalled": _stopped,
        "channels": _idle,
        "resuming": _resuming,
        "lossy": _lossy,
    }
    return [verdict for part, judged in judges.items() for verdict in judged(results.get(part))]


def _resuming(rates: list[Row]) -> Iterator[PromiseVerdict]:
    for row in rates:
        yield PromiseVerdict(f"resumed ÷ not resumed: {row['chunks per second']}", row["ratio"], LEAST_RESUMED)


def _lossy(rates: list[Row]) -> Iterator[PromiseVerdict]:
    for row in rates:
        yield PromiseVerdict(f"UDP, 1 % lost ÷ nothing lost: {row['chunks per second']}", row["ratio"], LEAST_LOSSY)


def _most(promise: str, found: Series | float, target: float) -> PromiseVerdict:
    return PromiseVerdict(
        promise, Series.of([found]) if isinstance(found, float) else found, target, is_upper_limit=True
    )


def _throughput(cells: list[Row]) -> Iterator[PromiseVerdict]:
    rates = {(cell["_way"], cell["_payload"]): cell["chunks/s"] for cell in cells if cell["_is_tuned"]}
    (peer,) = ways_for("peer")
    for target, least in LEAST_MULTIPLES.items():
        for way in ways_for(target):
            for payload, multiple in least.items():
                mine, theirs = rates.get((way.name, payload)), rates.get((peer.name, payload))
                if mine is not None and theirs is not None:
                    yield PromiseVerdict(f"{way.name} ÷ {peer.name}, {payload}", mine.ratio_to(theirs), multiple)


def _latency(latencies: list[Row]) -> Iterator[PromiseVerdict]:
    medians = {row["µs, alone, every 2 ms"]: row["p50"] for row in latencies}
    for target, most in MOST_LATENCY.items():
        peer = LATENCY_PEERS[target]
        for way in ways_for(target):
            if way.name in medians and peer in medians:
                what = f"latency of a lone chunk: {way.name} ÷ {peer}"
                yield _most(what, medians[way.name].ratio_to(medians[peer]), most)


def _local(rates: list[Row]) -> Iterator[PromiseVerdict]:
    by_candidate = {row["million messages/s"]: row for row in rates}
    for size in (name for name in (rates[0] if rates else ()) if name.endswith(" rows")):
        for candidate in LOCAL_CANDIDATES:
            found = by_candidate[candidate][size].ratio_to(by_candidate[ANYIO][size])
            yield PromiseVerdict(f"in a process: {candidate} ÷ {ANYIO}, {size}", found, LEAST_LOCAL)


def _stages(costs: list[Row]) -> Iterator[PromiseVerdict]:
    for cost in costs:
        if promised := cost["_promised"]:
            yield _most(f"{promised} ÷ generators", cost["ratio"], MOST_STAGE)


def _ends(ends: list[Row]) -> Iterator[PromiseVerdict]:
    for end in ends:
        what = f"{end['way']}: failures in {end['streams']:,} ends of streams with permits on their way"
        yield _most(what, float(end["failed"]), 0.0)


def _spark(jobs: list[Row]) -> Iterator[PromiseVerdict]:
    for job in jobs:
        name, ours, peers = job["_job"], job["seconds with the exchange"], job["without"]
        if name in LEAST_SPARK:
            yield PromiseVerdict(f"Spark {name}, rows/s ÷ {job['_peer']}", peers.ratio_to(ours), LEAST_SPARK[name])
        else:
            yield _most(f"Spark, {name} through the exchange ÷ direct", ours.ratio_to(peers), MOST_SPARK[name])


def _stopped(stalled: list[Row]) -> Iterator[PromiseVerdict]:
    for way in dict.fromkeys(row["rows of 500 bytes"] for row in stalled):
        mine = sorted((row for row in stalled if row["rows of 500 bytes"] == way), key=lambda row: row["row_permits"])
        # The least of the rounds: a process does not always give back the memory of an earlier job.
        memory = mine[-1]["MiB of both processes"].low - mine[0]["MiB of both processes"].low
        if window := mine[-1]["_window_mebibytes"] - mine[0]["_window_mebibytes"]:
            what = f"{way}: bytes of memory for each byte of window, of a consumer that has stopped"
            yield _most(what, memory / window, MOST_BYTES_FOR_A_BYTE)


def _idle(found: list[Row]) -> Iterator[PromiseVerdict]:
    """A thousand more: what all channels share is in both numbers, and so in neither."""
    for kind in dict.fromkeys(row["idle channels"] for row in found):
        mine = [row for row in found if row["idle channels"] == kind]
        few, many = (pick(mine, key=lambda row: row["number"]) for pick in (min, max))
        if more := many["number"] - few["number"]:
            kibibytes, cores = (
                1_000 * (many["number"] * many[column].median - few["number"] * few[column].median) / more
                for column in ("KiB each", "of a core, each")
            )
            what = f"a thousand more idle channels, {kind}"
            yield _most(f"{what}: GiB", kibibytes / 2**20, MOST_IDLE_GIBIBYTES)
            yield _most(f"{what}: processors", cores, MOST_IDLE_CORES)
