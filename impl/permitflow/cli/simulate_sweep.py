"""``permitflow simulate`` with something to vary: a table, a file or a drawing of many runs."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from permitflow.cli.console import open_console, open_table, print_table
from permitflow.cli.outcomes import print_json, stop, unusable
from permitflow.cli.output import require_folder, write_files
from permitflow.cli.progress import late_progress
from permitflow.cli.simulate_once import in_words, run_as_json
from permitflow.cli.sweep_drawing import draw, require_drawable
from permitflow.cli.sweep_rows import FIGURES, HEADS, Row, shown_value
from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.read import KEYS, Description
from permitflow.simulation.run import LEAST_CHUNKS, Progress, run_length, simulate
from permitflow.simulation.sweep import Point, points

__all__ = ["Outputs", "simulate_sweep"]

_MOST_POINTS = 10_000


@dataclass(frozen=True)
class Outputs:
    """Where the results go, besides the terminal."""

    plot: Path | None
    csv: Path | None
    as_json: bool


def simulate_sweep(description: Description, outputs: Outputs) -> None:
    """Run all combinations, report and end the command."""
    require_folder("--csv", outputs.csv)
    require_drawable(outputs.plot)
    combinations = list(points(description.axes))
    if len(combinations) > _MOST_POINTS:
        unusable(f"--sweep: {len(combinations):,} combinations are too many; the most is {_MOST_POINTS:,}")
    with late_progress(f"simulating {len(combinations):,} channels") as report:
        rows = [
            _row(description, point, lambda share, done=done: report((done + share) / len(combinations)))  # type: ignore[misc]
            for done, point in enumerate(combinations)
        ]
    written: list[str] = []
    try:
        for path in _written(description, rows, outputs):
            written.append(str(path))
    finally:  # what took so long is shown, whatever the disk says
        if outputs.as_json:
            print_json({"points": [_as_json(row) for row in rows], "files": written})
        else:
            _print(description, rows, written)
    stop(holds=all(row.verdict == "flows" for row in rows))


def _written(description: Description, rows: Sequence[Row], outputs: Outputs) -> Iterator[Path]:
    """Write the files that were asked for; each, once it is there."""
    if outputs.csv is not None:
        write_files({outputs.csv: _as_csv(description, rows)})
        yield outputs.csv
    if outputs.plot is not None:
        draw(description, rows, outputs.plot)
        yield outputs.plot


def _row(description: Description, point: Point, report: Progress) -> Row:
    try:
        setting = point.applied_to(description.setting)
        length = run_length(setting, least_chunks=description.least_chunks or LEAST_CHUNKS)
        return Row(point, simulate(setting, seed=description.seed, length=length, on_progress=report))
    except InvalidParametersError as error:
        return Row(point, None, f"{KEYS.get(error.name, error.name)} {error.rule.replace('row_permits', 'row_count')}")


def _print(description: Description, rows: Sequence[Row], written: Sequence[str]) -> None:
    console = open_console()
    names = [axis.name for axis in description.axes]
    console.print(f"varied from: {in_words(description.setting)}", soft_wrap=True)
    table = open_table(*names, "verdict", *HEADS, right=(*names, *HEADS), wrap=HEADS)
    for row in rows:
        table.add_row(*(shown_value(name, row.point.values[name]) for name in names), row.verdict, *row.shown())
    print_table(console, table)
    for row in rows:
        if row.run is None:
            console.print(f"impossible, for example with {_values(row.point)}: {row.reason}", soft_wrap=True)
            break
    for path in written:
        console.print(f"written: {path}", soft_wrap=True)


def _values(point: Point) -> str:
    return ", ".join(f"{name} {shown_value(name, value)}" for name, value in point.values.items())


def _as_csv(description: Description, rows: Sequence[Row]) -> str:
    file = io.StringIO()
    names = [axis.name for axis in description.axes]
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*names, "verdict", *FIGURES])
    for row in rows:
        writer.writerow([*(row.point.values[name] for name in names), row.verdict, *row.numbers()])
    return file.getvalue()


def _as_json(row: Row) -> dict[str, object]:
    if row.run is None:
        return {"varied": dict(row.point.values), "verdict": row.verdict, "holds": False, "reason": row.reason}
    return {"varied": dict(row.point.values), **run_as_json(row.run)}
