"""The traffic of an exchange's channels: counts, and the rates between two of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from heapq import nlargest
from itertools import islice
from operator import itemgetter

from permitflow.names import told

SILENT = "silent"
"""The state of a channel whose process does not answer; its counts are not known, and told as 0."""

_MOST_PARTS = 20
"""Consumers or gauges of a channel that are told in words."""

FIGURES: Mapping[str, str] = {
    "state": "The channel's state: waiting, open, ended, spent or broken; silent: its process does not answer.",
    "producers": "Streams that are putting now.",
    "consumers": "Streams that are getting now.",
    "window_rows": "The most rows that may be in the channel at once; none if its flow has no such bound.",
    "rows_held": "Rows that take room in the channel now; never above window_rows.",
    "peak_rows_held": "The most rows that ever took room at once.",
    "room_rows": "Rows that may still come in: window_rows less rows_held.",
    "rows_in": "Rows from producers.",
    "rows_out": "Rows that have left for consumers; if rows are kept: that all consumers have acknowledged.",
    "byte_window": "The most bytes that may be in the channel at once, unless a chunk is larger; and in each stream.",
    "bytes_held": "Bytes of chunks that take room in the channel now; of a channel that keeps its rows 0: kept_bytes.",
    "peak_bytes_held": "The most bytes that ever took room at once.",
    "bytes_with_consumers": "Bytes that have left for connected consumers and, as far as is known, are not consumed.",
    "rows_in_per_second": "The rate of rows_in since the look before.",
    "rows_out_per_second": "The rate of rows_out since the look before.",
    "rows_with_consumers": "Rows that have left for connected consumers and, as far as is known, are not consumed.",
    "waiting_seconds": "Time in which some row on its way in waited for room.",
    "consumer_waiting_seconds": "Time in which some row on its way out waited for a consumer.",
    "consumer_stopped_seconds": "Time in which a gate had stopped rows on their way out behind a barrier.",
    "blocked_share": "The share of the time in which rows on their way in waited for room: 0 for never, 1 for always.",
    "consumer_blocked_share": "The share of the time in which rows on their way out waited for a consumer.",
    "consumer_stopped_share": "The share of the time in which a gate had stopped rows on their way out.",
    "next_row": "The number of the next row that will come, of a channel that keeps its rows.",
    "acknowledged": "By consumer: the first row that it still needs.",
    "lag_rows": "By consumer: the rows that it has still to acknowledge.",
    "staged_rows": "Rows that are staged, and not published: no consumer sees them.",
    "in_doubt_rows": "Staged rows that may be published elsewhere, and wait for an order of a query that is silent.",
    "published_rows": "Published rows that exceed the window of the channel.",
    "resumes": "How often its streams have gone on over another connection.",
    "suspended_streams": "Streams that have lost their connection, and wait for another one.",
    "purged_rows": "Rows that an administrator has dropped; they are among rows_out.",
    "expired_rows": "Rows that have expired before all consumers had acknowledged them; they are among rows_out.",
    "expired_row": "All rows before it are gone, though a consumer may need them; 0: none has expired.",
    "log_id": "The log in which its rows are counted: another one once the channel was removed and added anew.",
    "kept_bytes": "Bytes of kept rows in memory, whole batches: above expire_bytes the oldest expire.",
    "compressed_streams": "By codec: streams that are open and may compress chunks.",
}
"""What each number of a channel in an exchange means, wherever it is shown: as JSON, as a metric, in a table.

Counts and times are since the exchange was started, rates and shares since the look before.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptRows:
    """The rows that a channel keeps; ``FIGURES`` says what each number means."""

    next_row: int
    acknowledged: Mapping[str, int]
    staged_rows: int = 0
    published_rows: int = 0
    expired_row: int = 0
    kept_bytes: int = 0
    in_doubt_rows: int = 0
    log_id: str = ""

    @property
    def first_kept_row(self) -> int:
        """The first row that a consumer has not acknowledged, and that has not expired."""
        return max(self.expired_row, min(self.acknowledged.values()))

    @property
    def kept_rows(self) -> int:
        """The rows kept now."""
        return self.next_row - self.first_kept_row

    @property
    def lag_rows(self) -> dict[str, int]:
        """Each consumer's, as ``FIGURES`` says."""
        return {consumer: self.next_row - row for consumer, row in self.acknowledged.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelTraffic:
    """One channel at one moment; ``FIGURES`` says what each number means."""

    channel: str
    state: str
    reason: str
    """Why it is over; else empty."""
    window_rows: int | None
    producers: int
    consumers: int
    rows_in: int
    rows_out: int
    rows_held: int
    peak_rows_held: int
    rows_with_consumers: int
    waiting_seconds: float
    consumer_waiting_seconds: float
    consumer_stopped_seconds: float = 0.0
    byte_window: int = 0
    bytes_held: int = 0
    peak_bytes_held: int = 0
    bytes_with_consumers: int = 0
    resumes: int = 0
    suspended_streams: int = 0
    purged_rows: int = 0
    expired_rows: int = 0
    compressed_streams: Mapping[str, int] = field(default_factory=dict)
    kept: KeptRows | None = None
    """None: rows are gone once they were read."""
    gauges: Mapping[str, int] = field(default_factory=dict)
    """What only the channel's flow counts, by the flow's own names."""
    consumer_gauges: Mapping[str, int] = field(default_factory=dict)
    """The same of the streams to connected consumers, added up: what the exchange's ends know."""

    @property
    def room_rows(self) -> int | None:
        """As ``FIGURES`` says; None: its flow has no such bound."""
        return None if self.window_rows is None else max(0, self.window_rows - self.rows_held)

    @property
    def compression(self) -> str:
        """The streams that are compressed, in words, as in ``lz4 1, zstd 2``; empty: none is."""
        return ", ".join(f"{codec} {streams}" for codec, streams in self.compressed_streams.items())


@dataclass(frozen=True, slots=True)
class Statistics:
    """All channels that were asked for: at one moment, or one after the other from then on."""

    at_seconds: float
    """Read from a clock of the exchange that does not go backwards."""
    channels: tuple[ChannelTraffic, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What one channel did between two moments; ``FIGURES`` says what each number means."""

    traffic: ChannelTraffic
    """The traffic at the later one."""
    seconds: float
    """Seconds between them; 0: there was no earlier one, and rates are 0."""
    rows_in_per_second: float
    rows_out_per_second: float
    blocked_share: float
    consumer_blocked_share: float
    consumer_stopped_share: float

    def as_json(self) -> dict[str, object]:
        """All numbers, ready for JSON."""
        kept = self.traffic.kept
        # Not ``asdict``: it copies deeply, of thousands of channels.
        found = {name: getattr(self.traffic, name) for name in (*ChannelTraffic.__slots__, "room_rows")}
        found["kept"] = None if kept is None else asdict(kept) | {"lag_rows": kept.lag_rows}
        shares = ("blocked_share", "consumer_blocked_share", "consumer_stopped_share")
        rates = ("rows_in_per_second", "rows_out_per_second", *shares)
        return found | {name: getattr(self, name) for name in rates}


def rates_between(before: Statistics | None, now: Statistics) -> list[Rates]:
    """What every channel of ``now`` did since ``before``; without that, its counts and no rates."""
    return [*each_rates_between(before, now)]


def each_rates_between(before: Statistics | None, now: Statistics) -> Iterator[Rates]:
    """As ``rates_between``, one by one."""
    earlier = {} if before is None else {traffic.channel: traffic for traffic in before.channels}
    seconds = 0.0 if before is None else now.at_seconds - before.at_seconds
    return (_flow(earlier.get(traffic.channel), traffic, seconds) for traffic in now.channels)


def _flow(before: ChannelTraffic | None, now: ChannelTraffic, seconds: float) -> Rates:
    # An exchange that was started again counts from 0, and so does its clock.
    if before is None or seconds <= 0 or now.rows_in < before.rows_in or before.state == SILENT:
        before, seconds = now, 0.0
    per_second = 1 / seconds if seconds > 0 else 0.0
    waited = now.waiting_seconds - before.waiting_seconds
    waited_for_consumer = now.consumer_waiting_seconds - before.consumer_waiting_seconds
    stopped = now.consumer_stopped_seconds - before.consumer_stopped_seconds
    return Rates(
        traffic=now,
        seconds=seconds,
        rows_in_per_second=(now.rows_in - before.rows_in) * per_second,
        rows_out_per_second=(now.rows_out - before.rows_out) * per_second,
        blocked_share=_share(waited * per_second),
        consumer_blocked_share=_share(waited_for_consumer * per_second),
        consumer_stopped_share=_share(stopped * per_second),
    )


def _share(of_time: float) -> float:
    # Clocks are read one after the other; and streams that are over are forgotten after a while.
    return min(1.0, max(0.0, of_time))


def lag_in_words(lag_rows: Mapping[str, int], between: str = ", ") -> str:
    """Each consumer, and the rows that it has still to acknowledge; of many consumers those with most rows."""
    lags = lag_rows.items()
    shown = lags if len(lags) <= _MOST_PARTS else nlargest(_MOST_PARTS, lags, key=itemgetter(1))
    return some((f"{told(name)} {rows:,}" for name, rows in shown), len(lags), between)


def some(parts: Iterable[str], number: int, between: str = ", ", most: int = _MOST_PARTS) -> str:
    """The first ``most`` of ``number`` parts, and how many more there are."""
    shown = [*islice(parts, most)]
    return between.join(shown if number <= most else [*shown, f"and {number - most:,} more"])
