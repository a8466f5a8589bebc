"""Where reports for people go: tables on standard output, progress on standard error."""

import os
import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

__all__ = ["open_console", "open_progress", "open_table"]

# Where no terminal says how wide it is: logs and documents.
WIDTH_WITHOUT_TERMINAL = 120


def open_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in it is taken for markup."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def open_progress() -> Progress:
    """A progress bar on standard error; where that is no terminal, nothing is drawn."""
    console = open_console(stderr=True)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def open_table(*columns: str, right: tuple[str, ...] = (), wrap: tuple[str, ...] = ()) -> Table:
    """A table with these columns; those in ``right`` hold numbers, those in ``wrap`` long texts."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", no_wrap=column not in wrap)
    return table
