"""``permitflow check FILE --sweep``: a verdict for each combination of numbers; as a table, a file or a map."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from permitflow.errors import InvalidParametersError
from permitflow_tools.checking import Cell, Check, Finding, Grid, cells_of, check_cell
from permitflow_tools.checking.grid import NAMES
from permitflow_tools.cli.console import late_progress
from permitflow_tools.cli.options import distinct
from permitflow_tools.cli.outcomes import requires_extra, unusable
from permitflow_tools.cli.spark_session import require_master, spark_session
from permitflow_tools.cli.sweeps import Column, Outcome, report_sweep, require_sweep
from permitflow_tools.explain.plots import MOST_PANELS, MapCell, Panel, VerdictMap
from permitflow_tools.parameters.read import Description
from permitflow_tools.simulation.setting import Axis, varied

_MOST_CELLS = 2_000
_MOST_CELLS_ON_SPARK = 100_000
_FIGURES = ("largest_cost", "safe_max_chunk_cost", "safe_permit_batch", "states", "depth", "seconds", "reason")
_COLUMNS = {
    Check.DECIDE: {
        "largest_cost": Column("largest cost", "{:,}".format),
        "safe_max_chunk_cost": Column("live up to", "{:,}".format),
        "safe_permit_batch": Column("largest live permit batch", "{:,}".format),
    },
    Check.EXPLORE: {
        "states": Column("states", "{:,}".format),
        "depth": Column("depth", "{:,}".format),
        "seconds": Column("s", "{:.2f}".format),
    },
}
_LABELS = {"row_permits": "row permits", "permit_batch": "permit batch, rows"}
_MAPS = ({"permit_batch"}, {"row_permits"}, {"permit_batch", "row_permits"})


def check_sweep(
    path: Path,
    description: Description,
    axes: Sequence[Axis],
    how: Check,
    max_states: int,
    spark: str | None,
    csv: Path | None,
    plot: Path | None,
    *,
    as_json: bool,
) -> NoReturn:
    """Check all combinations of what a file describes, print a table and end the command."""
    grid = _grid(path, description, axes)
    cells = cells_of(grid)
    most, advice = (_MOST_CELLS, "; with --spark there may be more") if spark is None else (_MOST_CELLS_ON_SPARK, "")
    require_sweep(description.inputs, csv, plot, len(cells), most, advice)
    if spark is not None:
        require_master(spark)
    if plot is not None:
        _require_map(grid)
    findings = _here(cells, how, max_states) if spark is None else sweep_on(spark, how, grid, max_states=max_states)

    report_sweep(
        [_outcome(finding) for finding in findings],
        _COLUMNS[how],
        explained=("impossible", "overspend", "refused", "violation", "too large", "undecided"),
        csv=csv,
        plot=plot,
        picture=lambda suffix: _map(grid, findings, how, suffix),
        as_json=as_json,
        file=str(path),
        check=str(how),
    )


def _outcome(finding: Finding) -> Outcome:
    figures = {name: getattr(finding, name) for name in _FIGURES}
    known = {name: value for name, value in figures.items() if value is not None}
    common = {"verdict": finding.verdict, "holds": finding.holds, "run": list(finding.run)}
    document = {"varied": dict(finding.values), **known, **common}
    in_file = {**figures, "run": " ".join(finding.run)}
    return Outcome(finding.values, finding.verdict, finding.holds, finding.reason, in_file, document)


def _grid(path: Path, description: Description, axes: Sequence[Axis]) -> Grid:
    """What the options vary, or else what the file does, as far as it changes verdicts."""
    for axis in axes:
        if axis.name not in NAMES:
            unusable(f"--sweep: {axis.name} changes no verdict; vary {', '.join(NAMES)}")
    axes = distinct(axes) or [axis for axis in description.axes if axis.name in NAMES]
    if not axes:
        unusable(f"nothing varies: give --sweep, or a [sweep] of {', '.join(NAMES)} in {path}")
    return Grid(description.setting, axes)


def _require_map(grid: Grid) -> None:
    """Notice now what could not be drawn at the end."""
    beside = {*grid.names} - {"max_chunk_cost"}
    if beside not in _MAPS or len(beside) == len(grid.names):
        unusable(
            "--plot: the map shows max_chunk_cost over permit_batch, row_permits or both; varied are "
            f"{', '.join(grid.names)}"
        )
    panels = len(next(axis.values for axis in grid.axes if axis.name == "row_permits")) if len(beside) == 2 else 1
    if panels > MOST_PANELS:
        unusable(f"--plot: {panels} panels, one for each row_permits, are too many; the most is {MOST_PANELS}")


def _here(cells: Sequence[Cell], how: Check, max_states: int) -> list[Finding]:
    doing = "deciding" if how is Check.DECIDE else "exploring"
    efforts = [1 if how is Check.DECIDE else min(cell.states, max_states) + 1 for cell in cells]
    found: list[Finding] = []
    with late_progress(f"{doing} {len(cells):,} channels") as report:
        for cell in cells:
            found.append(check_cell(how, cell, max_states=max_states))
            report(sum(efforts[: len(found)]) / sum(efforts))
    return found


def sweep_on(master: str, check: Check, grid: Grid, *, max_states: int) -> list[Finding]:
    """Check the cells of a grid on Spark, or end the command and say why that is not possible."""
    with requires_extra("spark"):
        from permitflow_tools.checking.sweeping import sweep

    with spark_session(master, "permitflow check") as spark:
        return sweep(spark, check, grid, max_states=max_states).findings


def _map(grid: Grid, findings: Sequence[Finding], check: Check, suffix: str) -> bytes:
    """A map: the largest chunk upwards, the permit batch to the right, a panel for each number of row permits."""
    x = "permit_batch" if "permit_batch" in grid.names else "row_permits"
    how = "decided by the theorems" if check is Check.DECIDE else "explored: all states of the model were visited"
    counted = [finding.states for finding in findings if finding.states is not None]
    strength = f"; the stronger a colour, the more states, {min(counted):,} to {max(counted):,}" if counted else ""
    largest = "row permits" if grid.setting.flush_idle else "row permits \N{MINUS SIGN} permit batch + 1"
    picture = VerdictMap(
        title="Where a permit channel can get stuck",
        sentence=f"{len(findings):,} channels, {how}{strength}.",
        x_label=_LABELS[x],
        y_label="largest cost of a chunk, rows",
        line_label=f"the proved line: {largest}",
        panels=_panels(grid, findings, x),
        head=[*grid.names, "verdict", "states", "reason"],
        rows=[(finding.holds, _cells(grid, finding)) for finding in findings],
        origin=f"permitflow check, {how}",
    )
    return picture.as_file(suffix)


def _panels(grid: Grid, findings: Sequence[Finding], x: str) -> list[Panel]:
    groups: dict[int | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.values.get("row_permits") if x == "permit_batch" else None, []).append(finding)
    return [
        Panel(
            title="" if row_permits is None else f"{row_permits:,} row permits",
            cells=[MapCell(each.values[x], each.values["max_chunk_cost"], each.verdict, each.states) for each in group],
            line=_line(grid, group, x),
        )
        for row_permits, group in groups.items()
    ]


def _line(grid: Grid, group: Iterable[Finding], x: str) -> Mapping[int, int]:
    """The largest chunk that is proved to be live, for each value on the horizontal axis."""
    from permitflow_model.thresholds import safe_max_chunk_cost

    line: dict[int, int] = {}
    for finding in group:
        try:
            setting = varied(grid.setting, finding.values)
        except InvalidParametersError:
            continue
        row_permits, permit_batch = setting.sender.row_permits, setting.receiver.permit_batch
        line[finding.values[x]] = safe_max_chunk_cost(row_permits, permit_batch, flush_idle=setting.flush_idle)
    return line


def _cells(grid: Grid, finding: Finding) -> list[str]:
    values = [f"{finding.values[name]:,}" for name in grid.names]
    return [*values, finding.verdict, "" if finding.states is None else f"{finding.states:,}", finding.reason]
