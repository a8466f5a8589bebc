"""``permitflow check FILE --sweep``: a verdict for each combination of numbers."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from permitflow.checking import Cell, Check, Finding, Grid, cells_of, check_cell
from permitflow.checking.grid import NAMES
from permitflow.cli.check_file import described
from permitflow.cli.console import open_console, open_table, print_table
from permitflow.cli.options import distinct
from permitflow.cli.outcomes import print_json, requires_extra, stop, unusable
from permitflow.cli.output import require_apart, require_folder, write_files
from permitflow.cli.progress import late_progress
from permitflow.cli.sweep_drawing import require_drawable
from permitflow.simulation.sweep import Axis

__all__ = ["SweepOptions", "check_sweep"]

_MOST_CELLS = 2_000
_MOST_CELLS_ON_SPARK = 100_000
_MASTERS = ("local", "spark://", "yarn", "k8s://", "sc://")
_EXAMPLES = "local[*], spark://host:7077, yarn, k8s://host or sc://host:15002"
_FIGURES = ("verdict", "max_cost", "safe_max_cost", "safe_batch", "states", "depth", "seconds", "reason")


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How the combinations are checked, and where the results go besides the terminal."""

    check: Check
    max_states: int
    spark: str | None
    """Spark's master, or the URL of a remote session; None: in this process."""
    plot: Path | None
    csv: Path | None
    as_json: bool


def check_sweep(path: Path, axes: Sequence[Axis], options: SweepOptions) -> None:
    """Check all combinations, print a table and end the command."""
    require_apart({"--csv": options.csv, "--plot": options.plot}, [path])
    grid = _grid(path, axes)
    cells = cells_of(grid)
    most = _MOST_CELLS if options.spark is None else _MOST_CELLS_ON_SPARK
    if len(cells) > most:
        advice = "; with --spark there may be more" if options.spark is None else ""
        unusable(f"--sweep: {len(cells):,} combinations are too many; the most is {most:,}{advice}")
    _require(grid, options)
    findings = _here(cells, options) if options.spark is None else _on_spark(grid, options)
    written: list[str] = []
    try:
        for file in _written(grid, findings, options):
            written.append(str(file))
    finally:  # what took so long is shown, whatever the disk says
        if options.as_json:
            points = [_as_json(finding) for finding in findings]
            print_json({"file": str(path), "check": str(options.check), "points": points, "files": written})
        else:
            _print(grid, findings, options.check, written)
    stop(holds=all(finding.holds for finding in findings))


def _grid(path: Path, axes: Sequence[Axis]) -> Grid:
    """What the options vary, or else what the file does, as far as it matters here."""
    description = described(path)
    for axis in axes:
        if axis.name not in NAMES:
            unusable(f"--sweep: {axis.name} changes no verdict; vary {', '.join(NAMES)}")
    axes = distinct(axes) or [axis for axis in description.axes if axis.name in NAMES]
    if not axes:
        unusable(f"nothing varies: give --sweep, or a [sweep] of {', '.join(NAMES)} in {path}")
    return Grid(description.setting, axes)


def _require(grid: Grid, options: SweepOptions) -> None:
    """Notice now what would be missing at the end."""
    require_folder("--csv", options.csv)
    if options.spark is not None and not options.spark.startswith(_MASTERS):
        unusable(f"--spark: must be a master or a remote session, as in {_EXAMPLES}, not {options.spark!r}")
    if options.check is Check.DECIDE or options.plot is not None:
        with requires_extra("proofs"):
            import permitflow_proofs  # noqa: F401  # that it is there
    if options.plot is not None:
        from permitflow.cli.check_drawing import require_mappable

        require_drawable(options.plot)
        require_mappable(grid)


def _here(cells: Sequence[Cell], options: SweepOptions) -> list[Finding]:
    doing = "deciding" if options.check is Check.DECIDE else "exploring"
    efforts = [1 if options.check is Check.DECIDE else min(cell.states, options.max_states) + 1 for cell in cells]
    found: list[Finding] = []
    with late_progress(f"{doing} {len(cells):,} channels") as report:
        for cell in cells:
            found.append(check_cell(options.check, cell, max_states=options.max_states))
            report(sum(efforts[: len(found)]) / sum(efforts))
    return found


def _on_spark(grid: Grid, options: SweepOptions) -> list[Finding]:
    with requires_extra("spark"):
        from permitflow.cli.check_spark import sweep_on
    assert options.spark is not None  # it was asked for
    return sweep_on(options.spark, options.check, grid, max_states=options.max_states)


def _written(grid: Grid, findings: Sequence[Finding], options: SweepOptions) -> Iterator[Path]:
    """Write the files that were asked for; each, once it is there."""
    if options.csv is not None:
        write_files({options.csv: _as_csv(grid, findings)})
        yield options.csv
    if options.plot is not None:
        from permitflow.cli.check_drawing import draw_map

        draw_map(grid, findings, options.check, options.plot)
        yield options.plot


def _print(grid: Grid, findings: Sequence[Finding], check: Check, written: Sequence[str]) -> None:
    console = open_console()
    heads = ("largest cost", "live up to", "largest live batch") if check is Check.DECIDE else ("states", "depth", "s")
    table = open_table(*grid.names, "verdict", *heads, right=(*grid.names, *heads))
    for finding in findings:
        numbers = [f"{finding.values[name]:,}" for name in grid.names]
        is_there = finding.verdict != "impossible"
        verdict = finding.verdict if is_there else "impossible: no room for any chunk"
        table.add_row(*numbers, verdict, *(_shown(finding, check) if is_there else ()))
    print_table(console, table)
    for verdict in ("overspend", "violation", "too large", "undecided"):
        for finding in [each for each in findings if each.verdict == verdict][:1]:
            values = ", ".join(f"{name} {finding.values[name]:,}" for name in grid.names)
            console.print(f"{verdict}, for example with {values}: {finding.reason}", soft_wrap=True)
    for name in written:
        console.print(f"written: {name}", soft_wrap=True)


def _shown(finding: Finding, check: Check) -> list[str]:
    if check is Check.DECIDE:
        numbers = (finding.max_cost, finding.safe_max_cost, finding.safe_batch)
        return ["" if number is None else f"{number:,}" for number in numbers]
    if finding.states is None or finding.depth is None:
        return []
    return [f"{finding.states:,}", f"{finding.depth:,}", f"{finding.seconds:.2f}"]


def _as_csv(grid: Grid, findings: Sequence[Finding]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*grid.names, *_FIGURES, "run"])
    for finding in findings:
        values = [finding.values[name] for name in grid.names]
        writer.writerow([*values, *(getattr(finding, name) for name in _FIGURES), " ".join(finding.run)])
    return file.getvalue()


def _as_json(finding: Finding) -> dict[str, object]:
    known = {name: value for name in _FIGURES if (value := getattr(finding, name)) is not None}
    return {"varied": dict(finding.values), **known, "holds": finding.holds, "run": list(finding.run)}
