"""The console output of a demo, and the times of its parts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Self

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from permitflow.demo.tpch import ShippingMode

PARTS = {
    "checks": "model checks and proofs",
    "tables": "TPC-H tables",
    "jobs": "an exchange and two Spark jobs, with their start",
    "direct": "the same queries by Spark alone, from the files",
    "pipeline": "producer, exchange, Spark and consumer, with their start",
    "query_through_exchange": "  of these, query 12 through the exchange",
    "query_directly": "  of these, query 12 directly",
    "replay": "replay of the recorded run",
}
"""The timed parts, with their names for the reader."""


class Progress:
    """Times the parts of a demo; prints a line for each event, and shows a spinner for the current part."""

    def __init__(self, console: Console) -> None:
        """Print to this console; without a terminal there is no spinner, and a quiet one prints nothing."""
        self.seconds: dict[str, float] = {}
        """How long each part took."""
        self._console = console
        self._status = console.status("")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the block; see ``PARTS``."""
        began = monotonic()
        self._status.update(PARTS[name])
        self._console.print(Text(PARTS[name], style="bold"))
        yield
        self.seconds[name] = monotonic() - began
        self._console.print(Text(f"  done in {self.seconds[name]:.1f} s", style="dim"))

    def note(self, text: str) -> None:
        """Something happened in the current part."""
        self._console.print(Text(f"  {text}"))


def section(title: str, *content: RenderableType) -> tuple[RenderableType, ...]:
    """A title with its content below."""
    return Text(), Text(title, style="bold"), *content


def answer_section(
    scale: float, answer: Sequence[ShippingMode], direct: Sequence[ShippingMode]
) -> tuple[RenderableType, ...]:
    """The rows of query 12, beside those that Spark alone computes."""
    same = "equal to the direct one" if answer == direct else "DIFFERENT from the direct one"
    table = number_table("mode", "high priority", "other")
    for mode in answer:
        table.add_row(mode.mode, f"{mode.high_line_count:,}", f"{mode.low_line_count:,}")
    return section(f"Answer of query 12 at scale {scale:g}, {same}", table)


def times_section(seconds_of: Mapping[str, float]) -> tuple[RenderableType, ...]:
    """How long each part took."""
    table = number_table("", "")
    for part, seconds in seconds_of.items():
        table.add_row(PARTS[part], f"{seconds:.1f}")
    return section("Seconds", table)


def conclusion(problems: Sequence[str], total_seconds: float) -> tuple[RenderableType, ...]:
    """The last line of a report."""
    if problems:
        return Text(), Text("Failed checks: " + "; ".join(problems), style="bold red")
    return Text(), Text(f"All checks passed, in {total_seconds:.0f} s.", style="bold green")


def number_table(first: str, *numbers: str) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=bool(first))
    table.add_column(first)
    for number in numbers:
        table.add_column(number, justify="right")
    return table
