"""What a sweep comes to, as a table, a file, a drawing, or for programs: the same for ``check`` and ``simulate``."""

import csv as comma_separated
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from permitflow_tools.cli.console import open_console, open_table, print_lines, print_table
from permitflow_tools.cli.outcomes import print_json, requires_extra, stop, unusable
from permitflow_tools.cli.output import require_apart, require_folder, write_bytes
from permitflow_tools.explain.plots import SUFFIXES, load_matplotlib
from permitflow_tools.parameters.quantities import duration_text


class Column(NamedTuple):
    """A figure in the table."""

    heading: str
    shown: Callable[[float], str]


class Outcome(NamedTuple):
    """What one combination of values came to."""

    values: Mapping[str, float]
    verdict: str
    holds: bool
    reason: str
    figures: Mapping[str, object]
    """For the file; None: there is no such figure."""
    document: Mapping[str, object]
    """For programs."""

    def shown_values(self) -> list[str]:
        """The values, for people."""
        return [
            duration_text(value) if name in ("rtt", "target_latency") else f"{value:,.0f}"
            for name, value in self.values.items()
        ]

    def row(self, columns: Mapping[str, Column]) -> list[str]:
        """Values, verdict and figures, for people."""
        figures = [(self.figures.get(name), column) for name, column in columns.items()]
        shown = ["" if not isinstance(figure, int | float) else column.shown(figure) for figure, column in figures]
        return [*self.shown_values(), self.verdict, *shown]


def require_sweep(
    inputs: Iterable[Path], csv: Path | None, plot: Path | None, combinations: int, most: int, advice: str = ""
) -> None:
    """End the command early if a sweep of what a file says is too large, or could not be written."""
    require_apart({"--csv": csv, "--plot": plot}, inputs)
    require_folder("--csv", csv)
    if plot is not None:
        if plot.suffix.lower() not in SUFFIXES:
            unusable(f"--plot: the name must end in {', '.join(SUFFIXES)}, not {plot.name!r}")
        require_folder("--plot", plot)
        with requires_extra("plots"):
            load_matplotlib()
    if combinations > most:
        unusable(f"--sweep: {combinations:,} combinations are too many; the most is {most:,}{advice}")


def report_sweep(
    outcomes: Sequence[Outcome],
    columns: Mapping[str, Column],
    *,
    title: str = "",
    explained: Sequence[str],
    csv: Path | None,
    plot: Path | None,
    picture: Callable[[str], bytes],
    warnings: Sequence[str] = (),
    as_json: bool,
    **facts: object,
) -> NoReturn:
    """Write the files, then print; what took so long is shown even if the disk is full.  Ends the command.

    Args:
        outcomes: of all combinations.
        columns: of the table, by the names of the figures.
        title: a line before the table.
        explained: verdicts of which an example is told, with its reason.
        csv: a file of all figures.
        plot: a drawing to write.
        picture: makes it, as a file with this suffix.
        warnings: lines behind the table.
        as_json: print for programs.
        facts: what else programs are told.
    """
    names, written = list(outcomes[0].values), list[str]()
    try:
        if csv is not None:
            write_bytes(csv, _csv_text(outcomes).encode())
            written.append(str(csv))
        if plot is not None:
            write_bytes(plot, picture(plot.suffix.lower()))
            written.append(str(plot))
    finally:
        if as_json:
            print_json({**facts, "points": [outcome.document for outcome in outcomes], "files": written})
        else:
            console = open_console()
            print_lines(console, *filter(None, [title]))
            heads = [column.heading for column in columns.values()]
            table = open_table(*names, "verdict", *heads, right=(*names, *heads), wrap=tuple(heads))
            for outcome in outcomes:
                table.add_row(*outcome.row(columns))
            print_table(console, table)
            for verdict in explained:
                if example := next((each for each in outcomes if each.verdict == verdict), None):
                    values = ", ".join(map(" ".join, zip(names, example.shown_values(), strict=True)))
                    print_lines(console, f"{verdict}, for example with {values}: {example.reason}")
            print_lines(console, *warnings, *(f"written: {name}" for name in written))
    stop(holds=all(outcome.holds for outcome in outcomes))


def _csv_text(outcomes: Sequence[Outcome]) -> str:
    figures = list(dict.fromkeys(name for outcome in outcomes for name in outcome.figures))
    file = io.StringIO()
    writer = comma_separated.writer(file, lineterminator="\n")
    writer.writerow([*outcomes[0].values, "verdict", *figures])
    for outcome in outcomes:
        writer.writerow([*outcome.values.values(), outcome.verdict, *(outcome.figures.get(name) for name in figures)])
    return file.getvalue()
