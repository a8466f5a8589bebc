"""What a demo shows: its parts as they run, with their times; and at the end a report, for people and for programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from time import monotonic
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .tables import ShippingMode


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
        """Time the block."""
        began = monotonic()
        self._status.update(name)
        self._console.print(Text(name, style="bold"))
        yield
        self.seconds[name] = monotonic() - began
        self._console.print(Text(f"  done in {self.seconds[name]:.1f} s", style="dim"))

    def note(self, text: str) -> None:
        """Something happened in the current part."""
        self._console.print(Text(f"  {text}"))


class Check(NamedTuple):
    """Something that was checked."""

    holds: bool
    text: str
    """What was found."""


@dataclass(frozen=True, kw_only=True)
class StreamNumbers:
    """One stream over one hop, or one channel of the exchange over all its lives."""

    hop: str
    stream: str
    rows: int
    peak_rows_held: int
    """The most rows that ever took room: sent, and not yet consumed and returned, or not yet acknowledged."""
    window_rows: int
    """``row_permits``: ``peak_rows_held`` may never be above it."""
    chunks: int | None = None
    blocked_share: float | None = None
    """The share of the time in which the sender waited for permits: of a sender in Spark, of its stream's time."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a demo came to."""

    scale: float
    answer: tuple[ShippingMode, ...]
    """The answer of query 12, through the exchange."""
    direct_answer: tuple[ShippingMode, ...]
    """The same query by Spark alone."""
    streams: Sequence[StreamNumbers]
    """Those of a hop stand together."""
    checks: Sequence[Check]
    figures: Mapping[str, str] = field(default_factory=dict)
    """Other numbers, by what they count."""
    seconds: Mapping[str, float]
    """How long each part took, in the order in which they began."""
    total_seconds: float

    def problems(self) -> Sequence[str]:
        """The failed checks."""
        found = [check.text for check in self.checks if not check.holds]
        if self.answer != self.direct_answer:
            found.append(f"the answer through the exchange is {self.answer}, the direct one {self.direct_answer}")
        if not self.answer:
            found.append("the query found nothing")
        for each in self.streams:
            if each.peak_rows_held > each.window_rows:
                found.append(
                    f"{each.hop}, {each.stream}: {each.peak_rows_held} rows at once, {each.window_rows} may be"
                )
        return found

    @property
    def holds(self) -> bool:
        """Did all checks pass?"""
        return not self.problems()

    def as_json(self) -> dict[str, object]:
        """All of it, ready for JSON."""
        modes = {name: [mode._asdict() for mode in getattr(self, name)] for name in ("answer", "direct_answer")}
        checks = [check._asdict() for check in self.checks]
        return {"holds": self.holds, "problems": list(self.problems()), **asdict(self), **modes, "checks": checks}

    def render(self) -> Group:
        """The report for a console."""
        same = "equal to the direct one" if self.answer == self.direct_answer else "DIFFERENT from the direct one"
        numbers = ("mode", "high priority", "other")
        problems = self.problems()
        conclusion = (
            Text("Failed checks: " + "; ".join(problems), style="bold red")
            if problems
            else Text(f"All checks passed, in {self.total_seconds:.0f} s.", style="bold green")
        )
        return Group(
            *_section(f"Answer of query 12 at scale {self.scale:g}, {same}", _table(numbers, self.answer)),
            *(part for hop, streams in groupby(self.streams, lambda each: each.hop) for part in _hop(hop, [*streams])),
            *(_section("Counted", _table(("", ""), self.figures.items())) if self.figures else ()),
            *_section("Checked", *(Text(check.text, style="" if check.holds else "red") for check in self.checks)),
            *_section("Seconds", _table(("", ""), ((part, f"{took:.1f}") for part, took in self.seconds.items()))),
            Text(),
            conclusion,
        )


def _hop(hop: str, streams: Sequence[StreamNumbers]) -> tuple[RenderableType, ...]:
    rows = [
        (
            *(each.stream, each.rows, "" if each.chunks is None else each.chunks, each.peak_rows_held),
            *(each.window_rows, "" if each.blocked_share is None else f"{each.blocked_share:.1%}"),
        )
        for each in sorted(streams, key=lambda each: each.stream)
    ]
    columns = ("stream", "rows", "chunks", "peak rows in flight", "permits (bound)", "sender waited")
    return _section(f"{hop}: {sum(each.rows for each in streams):,} rows", _table(columns, rows))


def _section(title: str, *content: RenderableType) -> tuple[RenderableType, ...]:
    return Text(), Text(title, style="bold"), *content


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table whose first column is text and whose others are numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=bool(columns[0]))
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
    return table
