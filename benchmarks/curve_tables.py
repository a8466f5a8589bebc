"""Tables of how our own figures depend on the numbers of a channel, and on how many channels there are."""

from collections.abc import Callable, Iterator

from benchmarks.curves import DelayPoint, Point, full_pipes
from benchmarks.idle_channels import IdleChannels
from benchmarks.markdown_table import table
from benchmarks.results import Results
from benchmarks.series import compact
from benchmarks.stalled import Stalled
from benchmarks.stores import STORES, StoreRate
from permitflow.protocol.parameters import ChannelParameters

__all__ = ["batches", "channels", "defaults", "delays", "full_pipe", "stalled", "stores", "windows"]


def windows(results: Results) -> str:
    """By window."""
    return _points(results.get("windows", Point), "ROW_COUNT", lambda point: point.row_permits)


def batches(results: Results) -> str:
    """By batch."""
    return _points(results.get("batches", Point), "BATCH", lambda point: point.permit_batch)


def _points(points: list[Point], what: str, number: Callable[[Point], int]) -> str:
    rows = [
        [
            f"{point.way}, {point.payload} rows",
            f"{number(point):,}",
            point.chunks_per_second.told(),
            compact(point.median_milliseconds.median),
            compact(point.percentile_99_milliseconds.median),
            f"{point.peak_memory_bytes.median / 2**20:.0f}",
        ]
        for point in points
    ]
    return table(["", what, "chunks/s", "p50 ms, full", "p99 ms, full", "MiB"], rows)


def defaults(results: Results) -> str:
    """What the default window and batch reach of what the fastest of the curve does, and what that one costs."""
    standard = ChannelParameters()
    rows = [
        *_default_rows(results.get("windows", Point), "ROW_COUNT", "row_permits", standard.row_permits),
        *_default_rows(results.get("batches", Point), "BATCH", "permit_batch", standard.permit_batch),
    ]
    return table(["", "default", "of the fastest", "time on the way", "the fastest has", "time on the way"], rows)


def _default_rows(points: list[Point], what: str, number: str, default: int) -> Iterator[list[str]]:
    for way, payload in dict.fromkeys((point.way, point.payload) for point in points):
        curve = [point for point in points if (point.way, point.payload) == (way, payload)]
        fastest = max(curve, key=lambda point: point.chunks_per_second.median)
        for point in (point for point in curve if getattr(point, number) == default):
            yield [
                f"{what}, {way}, {payload} rows",
                f"{default:,}",
                f"{point.chunks_per_second.median / fastest.chunks_per_second.median:.0%}",
                f"{compact(point.median_milliseconds.median)} ms",
                f"{getattr(fastest, number):,}",
                f"{compact(fastest.median_milliseconds.median)} ms",
            ]


def delays(results: Results) -> str:
    """By distance and window."""
    rows = [
        [
            f"{point.rtt_milliseconds:g} ms",
            f"{point.row_permits:,}",
            point.rows_per_second.told(),
            compact(point.predicted_rows_per_second),
            f"{point.turn_around_milliseconds:.1f} ms" if point.is_bound_by_window else "the pipe is full",
        ]
        for point in results.get("delays", DelayPoint)
    ]
    return table(["round trip", "ROW_COUNT", "rows/s", "simulated", "turn-around of both processes"], rows)


def full_pipe(results: Results) -> str:
    """By distance: from which window on the pipe is full."""
    largest = max((point.row_permits for point in results.get("delays", DelayPoint)), default=0)
    rows = [
        [
            f"{pipe.rtt_milliseconds:g} ms",
            f"{pipe.turn_around_milliseconds:.1f} ms",
            f"{pipe.by_network:,}",
            f"{pipe.by_both:,}",
            f"more than {largest:,}" if pipe.measured is None else f"{pipe.measured:,}",
        ]
        for pipe in full_pipes(results.get("delays", DelayPoint))
    ]
    heads = ("turn-around", "by the rule", "by the rule, turn-around included", "measured")
    return table(["round trip", *heads], rows)


def stalled(results: Results) -> str:
    """With a consumer that has stopped."""
    rows = [
        [
            each.way,
            f"{each.row_permits:,}",
            f"{each.window_bytes / 2**20:.0f}",
            f"{each.peak_memory_bytes.median / 2**20:.0f}",
        ]
        for each in results.get("stalled", Stalled)
    ]
    return table(["rows of 500 bytes", "ROW_COUNT", "MiB in a window", "MiB of both processes"], rows)


def channels(results: Results) -> str:
    """Idle ones."""
    rows = [
        [
            each.kind,
            f"{each.channels:,}",
            f"{each.bytes_per_channel / 1024:,.0f}",
            f"{each.cpu_share_per_channel:.3%}",
        ]
        for each in results.get("channels", IdleChannels)
    ]
    return table(["idle channels", "number", "KiB each", "of a core, each"], rows)


def stores(results: Results) -> str:
    """Rows that are kept: on disk, beside in memory."""
    rates = {(rate.payload, rate.channels, rate.store): rate for rate in results.get("stores", StoreRate)}
    setups = dict.fromkeys((payload, channels) for payload, channels, _ in rates)
    rows = []
    for payload, channels in setups:
        memory, disk = (rates[payload, channels, store].chunks_per_second for store in STORES)
        ratio = disk.ratio_to(memory)
        where = f"{payload} rows, {channels} channel{'s' * (channels > 1)}"
        rows.append([where, memory.told(), disk.told(), ratio.told()])
    return table(["chunks per second", *(f"kept {place}" for place in ("in memory", "on disk")), "ratio"], rows)
