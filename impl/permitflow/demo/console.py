"""The demo as people see it: what it is doing while it works, and what it found at the end."""

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from permitflow.demo.report import DemoReport, Hop

__all__ = ["ConsoleProgress", "SilentProgress", "render"]


class ConsoleProgress:
    """Prints a line for each thing that happens, and keeps a spinner for the part that is under way."""

    def __init__(self, console: Console) -> None:
        """Print to this console; without a terminal there is no spinner."""
        self._console = console
        self._status = console.status("")

    def __enter__(self) -> "ConsoleProgress":
        """Show the spinner."""
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the spinner."""
        self._status.stop()

    def begin(self, part: str) -> None:
        """A part has begun."""
        self._status.update(part)
        self._console.print(Text(part, style="bold"))

    def note(self, text: str) -> None:
        """Something happened in the current part."""
        self._console.print(Text(f"  {text}"))

    def end(self, part: str, seconds: float) -> None:
        """A part is done."""
        self._console.print(Text(f"  done in {seconds:.1f} s", style="dim"))


class SilentProgress:
    """Says nothing: for programs that want the report alone."""

    def begin(self, part: str) -> None:
        """A part has begun."""

    def note(self, text: str) -> None:
        """Something happened in the current part."""

    def end(self, part: str, seconds: float) -> None:
        """A part is done."""


def render(report: DemoReport) -> Group:
    """The report for a console."""
    return Group(
        Text(),
        _answer(report),
        *(_hop(hop) for hop in report.hops),
        _verdicts(report),
        Text(),
        Text(f"Everything is as it should be, in {report.total_seconds:.0f} s.", style="bold green")
        if report.holds
        else Text("Not as it should be: " + "; ".join(report.problems()), style="bold red"),
    )


def _answer(report: DemoReport) -> Table:
    same = "equal to the direct one" if report.answer == report.direct_answer else "DIFFERENT from the direct one"
    table = _table(f"Answer of query 12 at scale {report.scale:g}, {same}", "mode", "high priority", "other")
    for mode in report.answer:
        table.add_row(mode.mode, f"{mode.high_line_count:,}", f"{mode.low_line_count:,}")
    return table


def _hop(hop: Hop) -> Table:
    title = f"{hop.name}: {hop.rows:,} rows in {hop.chunks:,} chunks"
    table = _table(title, "stream", "rows", "chunks", "peak rows in flight", "permits (bound)", "sender waited")
    for stream in hop.streams:
        numbers = (stream.rows, stream.chunks, stream.peak_rows, stream.bound)
        table.add_row(stream.stream, *(f"{number:,}" for number in numbers), f"{stream.back_pressure_rate:.1%}")
    return table


def _verdicts(report: DemoReport) -> Group:
    trace = report.trace
    lines = [
        f"Recorded run: {trace.events:,} steps on {trace.streams} streams, replayed by the model; permits were "
        f"{'conserved after every step' if trace.is_valid else 'NOT as the specification says'}.",
        *trace.refused,
        *(
            f"{item.name}: {item.count}, {'as expected' if item.holds else 'NOT as expected'}"
            for item in report.evidence
        ),
    ]
    times = _table("Time", "part", "seconds")
    for part, seconds in report.seconds.items():
        times.add_row(part, f"{seconds:.1f}")
    return Group(Text(), *map(Text, lines), times)


def _table(title: str, first: str, *numbers: str) -> Table:
    table = Table(title=Text(title, style="bold"), title_justify="left", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(first)
    for number in numbers:
        table.add_column(number, justify="right")
    return table
