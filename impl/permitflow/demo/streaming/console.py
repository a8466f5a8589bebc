"""What came of the pipeline, as people see it."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from permitflow.demo.console import answer_table, number_table, section, times_table
from permitflow.demo.streaming.report import PipelineReport

__all__ = ["render_pipeline"]


def render_pipeline(report: PipelineReport) -> Group:
    """The report for a console."""
    same = "equal to the direct one" if report.answer == report.direct_answer else "DIFFERENT from the direct one"
    return Group(
        *section(f"Answer of query 12 at scale {report.scale:g}, {same}", answer_table(report.answer)),
        *section("Kept by the exchange", _channels(report)),
        *section(f"Killed (seed {report.seed})", _lives(report)),
        *section("Checked", *map(Text, _findings(report))),
        *section("Seconds", times_table(report.seconds)),
        Text(),
        Text(f"Everything is as it should be, in {report.total_seconds:.0f} s.", style="bold green")
        if report.holds
        else Text("Not as it should be: " + "; ".join(report.problems()), style="bold red"),
    )


def _channels(report: PipelineReport) -> RenderableType:
    table = number_table("channel", "rows", "peak rows kept", "permits (bound)")
    for channel in report.channels:
        table.add_row(channel.channel, *(f"{n:,}" for n in (channel.rows, channel.peak_kept_rows, channel.bound)))
    return table


def _lives(report: PipelineReport) -> RenderableType:
    table = number_table("part", "killed", "started", "failed without its neighbour")
    for name in sorted({*report.starts, *report.kills}):
        table.add_row(name, *(str(of.get(name, "")) for of in (report.kills, report.starts, report.failures)))
    return table


def _findings(report: PipelineReport) -> Iterator[str]:
    counted, recorded = report.counted, report.recorded
    yield (
        f"{report.line_items:,} line items, of which {counted.expected:,} were late: "
        f"{counted.lost} lost, {counted.duplicated} duplicated"
    )
    yield f"{report.looks:,} times all channels were looked at: {len(report.seen_problems)} times something was wrong"
    yield (
        f"{recorded.events:,} steps on {recorded.streams:,} streams of {recorded.lives} lives of the exchange, "
        f"replayed by the model; {recorded.cut_streams} of the streams are of lives that were killed"
    )
    if recorded.silent_lives:
        yield f"{recorded.silent_lives} more lives of the exchange were killed before they had recorded anything"
    refused = f"{len(recorded.refused)} runs refused"
    yield f"{recorded.query_events:,} steps of the streaming query, replayed by its model; {refused}"
    yield from recorded.refused
