"""Where reports for people go: tables on standard output, progress on standard error."""

import errno
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from shutil import get_terminal_size
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment
from rich.table import Column, Table

from permitflow.errors import printable
from permitflow_tools.simulation.run import Progress as Report

if TYPE_CHECKING:
    from permitflow_model.kernel.system import Step

T = TypeVar("T")

# Where no terminal says how wide it is: logs and documents.
_WIDTH_WITHOUT_TERMINAL = 120
_BETWEEN_COLUMNS = 3
_PATIENCE_SECONDS = 1.0
# Of a long run.
_FIRST_STEPS = 16
_LAST_STEPS = 16


class _Console(Console):
    """A console on which rich's own control codes work, and those in texts do not."""

    @cached_property
    def is_terminal(self) -> bool:
        """Was it one at first?  On one that has gone, rich would draw nothing, without an error."""
        return super().is_terminal

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, keeps_lines=True), segment.style)

    def on_broken_pipe(self) -> None:
        """As any error of a write, which rich would turn into an exit."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def open_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in it is taken for markup, or commands the terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else _WIDTH_WITHOUT_TERMINAL
    if os.environ.get("COLUMNS") == "0":  # some programs say so where they do not know; rich would print nothing
        width = get_terminal_size((_WIDTH_WITHOUT_TERMINAL, 0)).columns
    return _Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def open_progress(*columns: ProgressColumn) -> Progress:
    """A progress bar on standard error; where that is not a terminal, nothing is drawn."""
    console = open_console(stderr=True)
    shown = columns or (MofNCompleteColumn(), TimeElapsedColumn())
    description = TextColumn("{task.description}", markup=False)
    return Progress(description, BarColumn(), *shown, console=console, transient=True, disable=not console.is_terminal)


def tracked(items: Generator[T, None, None], total: int, name_of: Callable[[T], str]) -> Iterator[T]:
    """Yield the items, and show their number and the last one's name in a progress bar; close them at the end.

    Says after Ctrl-C how many there were.
    """
    count = 0
    try:
        with open_progress() as progress, closing(items):
            task = progress.add_task("", total=total)
            for count, item in enumerate(items, 1):
                progress.update(task, completed=count, description=name_of(item))
                yield item
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{count} of {total} were done") from None


@contextmanager
def late_progress(what: str) -> Iterator[Report]:
    """A function that takes the share that is done, and draws a bar on standard error if it takes long."""
    began, bar = monotonic(), open_progress(TaskProgressColumn(), TimeRemainingColumn())
    task = bar.add_task(what, total=1.0)

    def report(share: float) -> None:
        bar.update(task, completed=share)
        if monotonic() - began > _PATIENCE_SECONDS:
            bar.start()

    try:
        yield report
    finally:
        bar.stop()


def open_table(*columns: str, right: tuple[str, ...] = (), wrap: tuple[str, ...] = ()) -> Table:
    """A table with these columns; those in ``right`` hold numbers, those in ``wrap`` long texts."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=column not in wrap)
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table of ``open_table`` with nothing left out: too wide a one gets narrower, or its lines are broken."""
    widest = [max(1, *map(cell_len, _texts(column))) for column in table.columns]
    least = [_least_width(column) for column in table.columns]
    kept = [most if column.no_wrap else few for column, most, few in zip(table.columns, widest, least, strict=True)]
    if sum(kept) + _BETWEEN_COLUMNS * (len(kept) - 1) > console.width:
        _narrow(table, widest, least, console.width)
    console.print(table, crop=False)


def print_lines(console: Console, *lines: str) -> None:
    """Print each as one line, however long; a terminal breaks it."""
    for line in lines:
        console.print(line, soft_wrap=True)


def _texts(column: Column) -> list[str]:
    return [str(column.header), *(str(cell) for cell in column.cells)]


def _least_width(column: Column) -> int:
    """The width of the longest word; numbers stay with their units."""
    heading, *cells = _texts(column)
    unbroken = [*heading.split(), *(cells if column.justify == "right" else " ".join(cells).split())]
    # An empty column takes a cell all the same.
    return max((1, *map(cell_len, unbroken)))


def _narrow(table: Table, widths: list[int], least: Sequence[int], most: int) -> None:
    """One blank between columns; headings and texts are broken between words, the widest first, numbers never."""
    blanks = len(widths) - 1
    spare = [width - few for width, few in zip(widths, least, strict=True)]
    while sum(widths) + blanks > most and any(spare):
        widest = spare.index(max(spare))
        spare[widest] -= 1
        widths[widest] -= 1
    for column, width in zip(table.columns, widths, strict=True):
        column.width, column.no_wrap = width, False
    table.padding = 0
    table.width = sum(widths) + blanks


def run_table(module: str, start: Any, steps: "Sequence[Step[Any]]") -> Table:
    """A run, one line per step; of a long one, the beginning and the end."""
    from permitflow_tools.explain.looks.table import look_of

    look = look_of(module)
    told = look.row(start)
    numbers = tuple(name for name, text in told.items() if text.replace(",", "").isdigit())
    actor = ["actor"] if look.has_actors else []
    table = open_table("step", "action", *actor, *told, right=("step", *numbers))
    table.add_row("0", "", *("" for _ in actor), *told.values())
    left_out = range(_FIRST_STEPS, len(steps) - _LAST_STEPS)
    for number, step in enumerate(steps, start=1):
        if number - 1 not in left_out:
            actor = [look.actor(step.action)] if look.has_actors else []
            table.add_row(str(number), step.call, *actor, *look.row(step.state).values())
        elif number - 1 == left_out.start:
            table.add_row("\u2026", f"{len(left_out):,} more steps")
    return table


def run_as_json(module: str, start: Any, steps: "Sequence[Step[Any]]") -> list[dict[str, object]]:
    """A run for programs; the first entry is the initial state."""
    from permitflow_tools.explain.looks.table import look_of

    look = look_of(module)
    first: dict[str, object] = {"action": None, "arguments": [], **look.as_json(start)}
    rest = ({"action": one.action, "arguments": list(one.arguments), **look.as_json(one.state)} for one in steps)
    return [first, *rest]
