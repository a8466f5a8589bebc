"""What flows through channels, as a table and in words: the same in ``permitflow serve`` and ``permitflow top``."""

from collections.abc import Sequence

from rich.table import Table

from permitflow.errors import printable
from permitflow.protocol.traffic import ChannelTraffic, KeptRows, Rates


def traffic_table(flows: Sequence[Rates], *, shows_gauges: bool = False) -> Table:
    """All channels, one a row; narrow enough for a small terminal.

    Args:
        flows: what each channel did.
        shows_gauges: the gauges of the channels' flows, too, one a line.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("channel", "state", "put/get"):
        table.add_column(heading)
    for heading in ("rows in", "in/s", "out/s", "held", "room", "blocked in/out"):
        table.add_column(heading, justify="right", no_wrap=True)
    keeps_rows = any(flow.traffic.kept is not None for flow in flows)
    if keeps_rows:
        table.add_column("lag", no_wrap=True)
    compresses = any(flow.traffic.compressed_streams for flow in flows)
    if compresses:
        table.add_column("compressed", no_wrap=True)
    stops = any(flow.traffic.consumer_stopped_seconds for flow in flows)
    if stops:
        table.add_column("stopped", justify="right", no_wrap=True)
    if shows_gauges:
        table.add_column("gauges", no_wrap=True)
    for flow in flows:
        traffic = flow.traffic
        table.add_row(
            *_cells(flow),
            *([lag_in_words(traffic.kept, between="\n")] if keeps_rows else []),
            *([printable(traffic.compression)] if compresses else []),
            *([f"{flow.consumer_stopped_share:.0%}"] if stops else []),
            *([gauges_in_words(traffic, between="\n")] if shows_gauges else []),
        )
    return table


def _cells(flow: Rates) -> tuple[str, ...]:
    traffic = flow.traffic
    return (
        *(printable(traffic.channel), printable(traffic.state)),
        *(f"{traffic.producers}/{traffic.consumers}", f"{traffic.rows_in:,}"),
        *(f"{flow.rows_in_per_second:,.0f}", f"{flow.rows_out_per_second:,.0f}"),
        *(f"{traffic.rows_held:,}", "" if traffic.room_rows is None else f"{traffic.room_rows:,}"),
        f"{flow.blocked_share:.0%}/{flow.consumer_blocked_share:.0%}",
    )


def lag_in_words(kept: KeptRows | None, between: str = ", ") -> str:
    """Each consumer, and the rows that it has still to acknowledge."""
    return "" if kept is None else between.join(f"{printable(name)} {rows:,}" for name, rows in kept.lag_rows.items())


def gauges_in_words(traffic: ChannelTraffic, between: str = ", ") -> str:
    """Each gauge of the channel's flow: its name and its number; out: of the streams to its consumers."""
    inside = (f"{printable(name)} {number:,}" for name, number in traffic.gauges.items())
    outside = (f"{printable(name)} out {number:,}" for name, number in traffic.consumer_gauges.items())
    return between.join((*inside, *outside))
