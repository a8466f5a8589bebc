"""A sweep of checks as a map: the largest chunk upwards, the batch to the right, a panel for each row count."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from permitflow.checking import Check, Finding, Grid
from permitflow.cli.outcomes import unusable
from permitflow.cli.output import write_bytes
from permitflow.errors import InvalidParametersError
from permitflow.simulation.sweep import Point

if TYPE_CHECKING:
    from permitflow.pictures.sweep_map import Panel

__all__ = ["draw_map", "require_mappable"]

_LABELS = {"row_count": "ROW_COUNT, rows", "batch": "BATCH, rows"}
_Y = "max_chunk"


def require_mappable(grid: Grid) -> None:
    """End the command early if there is no map of such a grid."""
    from permitflow.pictures.sweep_map import MOST_PANELS

    names = sorted(grid.names)
    if names not in (["batch", "max_chunk"], ["max_chunk", "row_count"], ["batch", "max_chunk", "row_count"]):
        unusable(f"--plot: the map shows max_chunk over batch, row_count or both; varied are {', '.join(grid.names)}")
    panels = len(_values(grid, "row_count")) if "batch" in names else 1
    if panels > MOST_PANELS:
        unusable(f"--plot: {panels} row counts are too many panels to see anything; the most is {MOST_PANELS}")


def draw_map(grid: Grid, findings: Sequence[Finding], check: Check, path: Path) -> None:
    """Write the map."""
    from permitflow.pictures.sweep_map import VerdictMap, map_bytes

    x = "batch" if "batch" in grid.names else "row_count"
    how = "decided by the theorems" if check is Check.DECIDE else "explored: all states of the model were visited"
    counted = [finding.states for finding in findings if finding.states is not None]
    strength = f"; the stronger a colour, the more states, {min(counted):,} to {max(counted):,}" if counted else ""
    largest = "ROW_COUNT" if grid.setting.flush_idle else "ROW_COUNT \N{MINUS SIGN} BATCH + 1"
    picture = VerdictMap(
        title="Where a permit channel can get stuck",
        sentence=f"{len(findings):,} channels, {how}{strength}.",
        x_label=_LABELS[x],
        y_label="max chunk, rows",
        line_label=f"the proved line: max chunk = {largest}",
        panels=_panels(grid, findings, x),
        head=[*grid.names, "verdict", "states", "reason"],
        rows=[(finding.holds, _cells(grid, finding)) for finding in findings],
        origin=f"permitflow check, {how}",
    )
    write_bytes(path, map_bytes(picture, path.suffix.lower()))


def _panels(grid: Grid, findings: Sequence[Finding], x: str) -> "list[Panel]":
    from permitflow.pictures.sweep_map import MapCell, Panel

    groups: dict[int | None, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.values.get("row_count") if x == "batch" else None, []).append(finding)
    return [
        Panel(
            title="" if row_count is None else f"ROW_COUNT {row_count:,}",
            cells=[MapCell(each.values[x], each.values[_Y], each.verdict, each.states) for each in group],
            line=_line(grid, group, x),
        )
        for row_count, group in groups.items()
    ]


def _line(grid: Grid, group: Iterable[Finding], x: str) -> Mapping[int, int]:
    """The largest chunk that is proved to be live, for each value on the horizontal axis."""
    from permitflow_proofs import safe_max_cost

    line: dict[int, int] = {}
    for finding in group:
        try:
            setting = Point(finding.values).applied_to(grid.setting)
        except InvalidParametersError:
            continue
        row_count, batch = setting.sender.row_permits, setting.receiver.permit_batch
        line[finding.values[x]] = safe_max_cost(row_count, batch, flush_idle=setting.flush_idle)
    return line


def _values(grid: Grid, name: str) -> Sequence[float]:
    return next((axis.values for axis in grid.axes if axis.name == name), (0,))


def _cells(grid: Grid, finding: Finding) -> list[str]:
    values = [f"{finding.values[name]:,}" for name in grid.names]
    return [*values, finding.verdict, "" if finding.states is None else f"{finding.states:,}", finding.reason]
