"""``permitflow check FILE --sweep``: a verdict for each combination of numbers; as a table, a file or a map."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from permitflow.checking import Cell, Check, Finding, Grid, cells_of, check_cell
from permitflow.checking.grid import NAMES
from permitflow.cli.console import late_progress, open_console, open_table, print_table
from permitflow.cli.options import distinct
from permitflow.cli.outcomes import ExitCode, complain, print_json, requires_extra, stop, unusable
from permitflow.cli.output import csv_text, require_apart, require_drawable, require_folder, write_bytes, write_files
from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.read import Description
from permitflow.pictures.plots import MOST_PANELS, MapCell, Panel, VerdictMap
from permitflow.simulation.setting import Axis, Point

_MOST_CELLS = 2_000
_MOST_CELLS_ON_SPARK = 100_000
_MASTERS = ("local", "spark://", "yarn", "k8s://", "sc://")
_EXAMPLES = "local[*], spark://host:7077, yarn, k8s://host or sc://host:15002"
_FIGURES = (
    "verdict",
    "largest_cost",
    "safe_max_chunk_cost",
    "safe_permit_batch",
    "states",
    "depth",
    "seconds",
    "reason",
)
_LABELS = {"row_permits": "row permits", "permit_batch": "permit batch, rows"}
_MOST_LETTERS = 200


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


def check_sweep(path: Path, description: Description, axes: Sequence[Axis], options: SweepOptions) -> None:
    """Check all combinations of what a file describes, print a table and end the command."""
    require_apart({"--csv": options.csv, "--plot": options.plot}, [path])
    grid = _grid(path, description, axes)
    cells = cells_of(grid)
    most = _MOST_CELLS if options.spark is None else _MOST_CELLS_ON_SPARK
    if len(cells) > most:
        advice = "; with --spark there may be more" if options.spark is None else ""
        unusable(f"--sweep: {len(cells):,} combinations are too many; the most is {most:,}{advice}")
    _require(grid, options)
    if options.spark is None:
        findings = _here(cells, options)
    else:
        findings = sweep_on(options.spark, options.check, grid, max_states=options.max_states)
    written: list[str] = []
    try:
        if options.csv is not None:
            write_files({options.csv: _as_csv(grid, findings)})
            written.append(str(options.csv))
        if options.plot is not None:
            _draw_map(grid, findings, options.check, options.plot)
            written.append(str(options.plot))
    finally:  # what took so long is shown, even if the disk is full
        if options.as_json:
            points = [_as_json(finding) for finding in findings]
            print_json({"file": str(path), "check": str(options.check), "points": points, "files": written})
        else:
            _print(grid, findings, options.check, written)
    stop(holds=all(finding.holds for finding in findings))


def _grid(path: Path, description: Description, axes: Sequence[Axis]) -> Grid:
    """What the options vary, or else what the file does, as far as it changes verdicts."""
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
    if options.plot is None:
        return
    require_drawable(options.plot)
    names = sorted(grid.names)
    if names not in (
        ["max_chunk_cost", "permit_batch"],
        ["max_chunk_cost", "row_permits"],
        ["max_chunk_cost", "permit_batch", "row_permits"],
    ):
        unusable(
            "--plot: the map shows max_chunk_cost over permit_batch, row_permits or both; varied are "
            f"{', '.join(grid.names)}"
        )
    panels = len(next(axis.values for axis in grid.axes if axis.name == "row_permits")) if len(names) == 3 else 1
    if panels > MOST_PANELS:
        unusable(f"--plot: {panels} panels, one for each row_permits, are too many; the most is {MOST_PANELS}")


def _here(cells: Sequence[Cell], options: SweepOptions) -> list[Finding]:
    doing = "deciding" if options.check is Check.DECIDE else "exploring"
    efforts = [1 if options.check is Check.DECIDE else min(cell.states, options.max_states) + 1 for cell in cells]
    found: list[Finding] = []
    with late_progress(f"{doing} {len(cells):,} channels") as report:
        for cell in cells:
            found.append(check_cell(options.check, cell, max_states=options.max_states))
            report(sum(efforts[: len(found)]) / sum(efforts))
    return found


def sweep_on(master: str, check: Check, grid: Grid, *, max_states: int) -> list[Finding]:
    """Check the cells of a grid on Spark, or end the command and say why that is not possible."""
    with requires_extra("spark"):
        from permitflow.demo.spark_session import local_session
        from permitflow.spark import sessions
        from permitflow.spark.sweeping import sweep

    name = "permitflow check"
    with TemporaryDirectory(prefix="permitflow-check-") as work_dir:
        folder = Path(work_dir)
        log = folder / "spark.log"
        try:
            with sessions.unlogged(), ExitStack() as stack:
                with sessions.starting_quietly(log), sessions.heeding_as_before():
                    if master.startswith("local"):
                        spark = stack.enter_context(local_session(name, master=master, work_dir=folder))
                    else:
                        spark = stack.enter_context(sessions.session_at(master, name))
                with sessions.ended_by_interrupts():
                    return sweep(spark, check, grid, max_states=max_states).findings
        except (Exception, KeyboardInterrupt) as error:
            if sessions.was_interrupted(error):
                complain("interrupted, and Spark was stopped")
                raise typer.Exit(ExitCode.INTERRUPTED) from None
            if not isinstance(error, sessions.FAILURES):
                raise
            unusable(f"--spark {master}: {_reason(error, log)}")


def _reason(error: BaseException, log: Path) -> str:
    """The first line of what Spark says; where no JVM has started, the last of what it said itself."""
    reason = str(error).strip().partition("\n")[0][:_MOST_LETTERS] or type(error).__name__
    if "JAVA_GATEWAY_EXITED" not in reason:
        return reason
    said = [line for line in log.read_text(errors="replace").splitlines() if line.strip() and not line[0].isspace()]
    return f"{reason} It said: {said[-1][:_MOST_LETTERS]}" if said else reason


def _print(grid: Grid, findings: Sequence[Finding], check: Check, written: Sequence[str]) -> None:
    console = open_console()
    heads = (
        ("largest cost", "live up to", "largest live permit batch")
        if check is Check.DECIDE
        else ("states", "depth", "s")
    )
    table = open_table(*grid.names, "verdict", *heads, right=(*grid.names, *heads))
    for finding in findings:
        numbers = [f"{finding.values[name]:,}" for name in grid.names]
        figures: list[str] = []
        if check is Check.DECIDE:
            decided = (finding.largest_cost, finding.safe_max_chunk_cost, finding.safe_permit_batch)
            figures = ["" if number is None else f"{number:,}" for number in decided]
        elif finding.states is not None:
            figures = [f"{finding.states:,}", f"{finding.depth:,}", f"{finding.seconds:.2f}"]
        verdict = "impossible: no room for any chunk" if finding.verdict == "impossible" else finding.verdict
        table.add_row(*numbers, verdict, *figures)
    print_table(console, table)
    for verdict in ("overspend", "violation", "too large", "undecided"):
        if example := next((each for each in findings if each.verdict == verdict), None):
            values = ", ".join(f"{name} {example.values[name]:,}" for name in grid.names)
            console.print(f"{verdict}, for example with {values}: {example.reason}", soft_wrap=True)
    for name in written:
        console.print(f"written: {name}", soft_wrap=True)


def _as_csv(grid: Grid, findings: Sequence[Finding]) -> str:
    values = ([finding.values[name] for name in grid.names] for finding in findings)
    figures = ([*(getattr(finding, name) for name in _FIGURES), " ".join(finding.run)] for finding in findings)
    return csv_text([*grid.names, *_FIGURES, "run"], map(chain, values, figures))


def _as_json(finding: Finding) -> dict[str, object]:
    known = {name: value for name in _FIGURES if (value := getattr(finding, name)) is not None}
    return {"varied": dict(finding.values), **known, "holds": finding.holds, "run": list(finding.run)}


def _draw_map(grid: Grid, findings: Sequence[Finding], check: Check, path: Path) -> None:
    """Write a map: the largest chunk upwards, the permit batch to the right, a panel for each number of row permits."""
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
    write_bytes(path, picture.as_file(path.suffix.lower()))


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
    from permitflow_proofs import safe_max_chunk_cost

    line: dict[int, int] = {}
    for finding in group:
        try:
            setting = Point(finding.values).applied_to(grid.setting)
        except InvalidParametersError:
            continue
        row_permits, permit_batch = setting.sender.row_permits, setting.receiver.permit_batch
        line[finding.values[x]] = safe_max_chunk_cost(row_permits, permit_batch, flush_idle=setting.flush_idle)
    return line


def _cells(grid: Grid, finding: Finding) -> list[str]:
    values = [f"{finding.values[name]:,}" for name in grid.names]
    return [*values, finding.verdict, "" if finding.states is None else f"{finding.states:,}", finding.reason]
