"""The table of what flows keeps the channels' names, however narrow the terminal is."""

import io
from dataclasses import replace
from itertools import islice

import pytest
from rich.console import Console

from permitflow.stream.traffic import SILENT, ChannelTraffic, KeptRows, Rates, Statistics, lag_in_words, rates_between
from permitflow_tools.cli.traffic_table import gauges_in_words, traffic_table

NAMES = ("orders/0", "a-channel-with-a-long-name/17")


def flow_of(channel: str, kept: KeptRows | None = None) -> Rates:
    traffic = ChannelTraffic(
        channel=channel,
        state="open",
        reason="",
        window_rows=32_768,
        producers=1,
        consumers=1,
        rows_in=123_456_789,
        rows_out=123_450_000,
        rows_held=28_672,
        peak_rows_held=32_768,
        rows_with_consumers=0,
        waiting_seconds=1.0,
        consumer_waiting_seconds=1.0,
        kept=kept,
    )
    return Rates(
        traffic=traffic,
        seconds=1.0,
        rows_in_per_second=1_000_000.0,
        rows_out_per_second=1_000_000.0,
        blocked_share=0.4,
        consumer_blocked_share=0.1,
        consumer_stopped_share=0.0,
    )


def printed(width: int, *names: str, kept: KeptRows | None = None) -> list[str]:
    console = Console(width=width, file=io.StringIO(), markup=False)
    console.print(traffic_table([flow_of(name, kept) for name in names], width=width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_table_keeps_the_names_of_channels(width: int) -> None:
    heading, *rows = printed(width, *NAMES)
    assert tuple(row.split()[0] for row in rows[:2]) == NAMES
    assert heading.split()[-2:] == ["blocked", "in/out"]
    assert all("40%/10%" in row for row in rows[:2])


def test_a_channel_that_was_silent_has_no_rates_yet() -> None:
    now = flow_of("orders/0").traffic
    silent = replace(now, state=SILENT, rows_in=0, rows_out=0, waiting_seconds=0.0)
    (flow,) = rates_between(Statistics(1.0, (silent,)), Statistics(2.0, (now,)))
    assert (flow.rows_in_per_second, flow.rows_out_per_second, flow.blocked_share) == (0.0, 0.0, 0.0)


def test_what_a_narrow_table_leaves_out_is_said() -> None:
    *_, said, rest = printed(60, *NAMES)
    assert f"{said.strip()} {rest.strip()}" == "too narrow for put/get, rows in, room, in/s, state, bytes, out/s"
    assert len(printed(120, *NAMES)) == 1 + len(NAMES)


def test_a_name_wider_than_the_terminal_is_broken() -> None:
    lines = printed(60, "n" * 90)
    assert sum(line.split()[0].count("n") for line in lines[1:3]) == 90


def test_a_name_that_no_exchange_of_ours_has_is_cut() -> None:
    name = "n" * 1_000_000
    flow = flow_of(name, KeptRows(next_row=1, acknowledged={name: 0}))
    flow = replace(flow, traffic=replace(flow.traffic, state=name, gauges={name: 1}, compressed_streams={name: 1}))
    console = Console(width=2_000, file=io.StringIO(), markup=False)
    console.print(traffic_table([flow], width=2_000, shows_gauges=True))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count(" more characters)") == 5


def test_of_many_consumers_and_gauges_some_are_shown_and_counted() -> None:
    many = {f"c{number}": number for number in range(20_000)}
    kept = KeptRows(next_row=20_000, acknowledged=many)
    flow = flow_of("log/0", kept)
    assert lag_in_words(kept.lag_rows, "\n").split("\n")[::20] == ["c0 20,000", "and 19,980 more"]
    assert gauges_in_words(replace(flow.traffic, gauges=many)).endswith("c19 19, and 19,980 more")
    assert lag_in_words(dict(islice(kept.lag_rows.items(), 20))).endswith(", c19 19,981")


def test_a_channel_that_keeps_its_rows_shows_their_bytes() -> None:
    kept = KeptRows(next_row=10, acknowledged={"etl": 9}, kept_bytes=5 << 20)
    assert "5 MiB" in printed(120, "log/0", kept=kept)[1]


def test_rows_in_doubt_are_shown_where_there_are_some() -> None:
    kept = KeptRows(next_row=10, acknowledged={"etl": 9}, staged_rows=7, in_doubt_rows=5)
    assert "5 rows in doubt" in printed(140, "log/0", kept=kept)[1]
    assert "in doubt" not in "".join(printed(140, "log/0", kept=replace(kept, in_doubt_rows=0)))
