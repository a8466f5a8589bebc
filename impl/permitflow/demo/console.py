"""The demo as people see it: what it is doing while it works, and what it found at the end."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from permitflow.demo.query12 import ShippingMode
from permitflow.demo.report import PARTS, DemoReport, Hop

__all__ = [
    "ConsoleProgress",
    "SilentProgress",
    "answer_table",
    "number_table",
    "render",
    "section",
    "times_table",
]


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
        self._status.update(PARTS[part])
        self._console.print(Text(PARTS[part], style="bold"))

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
    same = "equal to the direct one" if report.answer == report.direct_answer else "DIFFERENT from the direct one"
    return Group(
        *section(f"Answer of query 12 at scale {report.scale:g}, {same}", answer_table(report.answer)),
        Text(),
        Text(f"The windows of {report.row_permits} rows are too small for speed: the senders are meant to wait."),
        *(part for hop in report.hops for part in _hop(hop)),
        *section("Checked", *map(Text, _verdicts(report))),
        *section("Seconds", times_table(report.seconds)),
        Text(),
        Text(f"Everything is as it should be, in {report.total_seconds:.0f} s.", style="bold green")
        if report.holds
        else Text("Not as it should be: " + "; ".join(report.problems()), style="bold red"),
    )


def section(title: str, *content: RenderableType) -> tuple[RenderableType, ...]:
    """A title, and what stands below it."""
    return Text(), Text(title, style="bold"), *content


def answer_table(answer: Sequence[ShippingMode]) -> Table:
    """The rows of query 12."""
    table = number_table("mode", "high priority", "other")
    for mode in answer:
        table.add_row(mode.mode, f"{mode.high_line_count:,}", f"{mode.low_line_count:,}")
    return table


def _hop(hop: Hop) -> tuple[RenderableType, ...]:
    table = number_table("stream", "rows", "chunks", "peak rows in flight", "permits (bound)", "sender waited")
    for stream in sorted(hop.streams, key=lambda stream: stream.stream):
        numbers = (stream.rows, stream.chunks, stream.peak_rows, stream.bound)
        table.add_row(stream.stream, *(f"{number:,}" for number in numbers), f"{stream.back_pressure_rate:.1%}")
    return section(f"{hop.name}: {hop.rows:,} rows in {hop.chunks:,} chunks", table)


def _verdicts(report: DemoReport) -> Iterator[str]:
    for item in report.evidence:
        yield f"{item.count} {item.name}: {'as they should be' if item.holds else 'NOT as they should be'}"
    trace = report.trace
    kept = "permits were conserved after every one" if trace.is_valid else "NOT as the specification says"
    yield f"{trace.events:,} steps on {trace.streams} streams, recorded and replayed by the model: {kept}"
    yield from trace.refused


def times_table(seconds_of: Mapping[str, float]) -> Table:
    """How long each part took."""
    table = number_table("", "")
    for part, seconds in seconds_of.items():
        table.add_row(PARTS[part], f"{seconds:.1f}")
    return table


def number_table(first: str, *numbers: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=bool(first))
    table.add_column(first)
    for number in numbers:
        table.add_column(number, justify="right")
    return table
