"""What flows through channels, as a table and in words: the same in ``permitflow serve`` and ``permitflow top``."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from rich.cells import cell_len
from rich.table import Table

from permitflow.names import told
from permitflow.stream.traffic import ChannelTraffic, Rates, lag_in_words, some
from permitflow_tools.parameters.quantities import size_text


class _Column(NamedTuple):
    heading: str
    cells: Sequence[str]
    is_number: bool = True

    @property
    def width(self) -> int:
        """The width of its widest line."""
        return max(cell_len(line) for text in (self.heading, *self.cells) for line in text.split("\n"))


# What a narrow terminal can do without, the first first.
_DISPENSABLE = (
    "put/get",
    "rows in",
    "room",
    "compressed",
    "stopped",
    "exchange",
    "lag",
    "in/s",
    "state",
    "bytes",
    "out/s",
    "held",
)


def traffic_table(
    flows: Sequence[Rates], *, width: int, shows_gauges: bool = False, places: Mapping[str, str] | None = None
) -> Table:
    """All channels, one a row.  A narrow terminal shows fewer columns, and whole names.

    Args:
        flows: what each channel did.
        width: of the terminal, in columns.
        shows_gauges: the gauges of the channels' flows, too, one a line.
        places: of several exchanges, the address of the one that has a channel, by its name.
    """
    columns = _columns(flows)
    if places:
        columns.insert(1, _Column("exchange", [places.get(flow.traffic.channel, "") for flow in flows], False))
    if shows_gauges:
        columns.append(_Column("gauges", [gauges_in_words(flow.traffic, between="\n") for flow in flows], False))
    left_out = []
    for name in _DISPENSABLE:
        if sum(column.width + 1 for column in columns) <= width:
            break
        left_out += [column.heading for column in columns if column.heading == name]
        columns = [column for column in columns if column.heading != name]
    told = f"too narrow for {', '.join(left_out)}" if left_out else None
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), caption=told, caption_justify="left")
    for column in columns:
        is_name = column.heading == "channel"
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            # A name that is wider than the terminal is broken: it is never cut.
            no_wrap=not is_name,
            overflow="fold" if is_name else "ellipsis",
            min_width=min(column.width, max(1, width // 2)) if is_name else None,
        )
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _columns(flows: Sequence[Rates]) -> list[_Column]:
    traffics = [flow.traffic for flow in flows]
    columns = [
        _Column("channel", [told(traffic.channel) for traffic in traffics], False),
        _Column("state", [told(traffic.state) for traffic in traffics], False),
        _Column("put/get", [f"{traffic.producers}/{traffic.consumers}" for traffic in traffics], False),
        _Column("rows in", [f"{traffic.rows_in:,}" for traffic in traffics]),
        _Column("in/s", [f"{flow.rows_in_per_second:,.0f}" for flow in flows]),
        _Column("out/s", [f"{flow.rows_out_per_second:,.0f}" for flow in flows]),
        _Column("held", [f"{traffic.rows_held:,}" for traffic in traffics]),
        _Column("bytes", [size_text(bytes_here(traffic)) for traffic in traffics]),
        _Column("room", ["" if traffic.room_rows is None else f"{traffic.room_rows:,}" for traffic in traffics]),
        _Column("blocked in/out", [f"{flow.blocked_share:.0%}/{flow.consumer_blocked_share:.0%}" for flow in flows]),
    ]
    if any(traffic.kept is not None for traffic in traffics):
        lags = [traffic.kept.lag_rows if traffic.kept else {} for traffic in traffics]
        columns.append(_Column("lag", [lag_in_words(each, "\n") for each in lags], False))
    if any(traffic.expired_rows for traffic in traffics):
        columns.append(_Column("expired", [f"{traffic.expired_rows:,}" for traffic in traffics]))
    if any(map(in_doubt_in_words, traffics)):
        columns.append(_Column("in doubt", [in_doubt_in_words(traffic) for traffic in traffics], False))
    if any(traffic.compressed_streams for traffic in traffics):
        columns.append(_Column("compressed", [told(traffic.compression) for traffic in traffics], False))
    if any(traffic.consumer_stopped_seconds for traffic in traffics):
        columns.append(_Column("stopped", [f"{flow.consumer_stopped_share:.0%}" for flow in flows]))
    return columns


def bytes_here(traffic: ChannelTraffic) -> int:
    """Bytes of the rows that wait in a channel, or are kept."""
    return traffic.bytes_held if traffic.kept is None else traffic.kept.kept_bytes


def in_doubt_in_words(traffic: ChannelTraffic) -> str:
    """Rows that ``permitflow channel rollback`` would forget; empty: none."""
    return f"{traffic.kept.in_doubt_rows:,} rows in doubt" if traffic.kept and traffic.kept.in_doubt_rows else ""


def gauges_in_words(traffic: ChannelTraffic, between: str = ", ") -> str:
    """Each gauge of the channel's flow: its name and its number; out: of the streams to its consumers."""
    inside = (f"{told(name)} {number:,}" for name, number in traffic.gauges.items())
    outside = (f"{told(name)} out {number:,}" for name, number in traffic.consumer_gauges.items())
    return some(chain(inside, outside), len(traffic.gauges) + len(traffic.consumer_gauges), between)
