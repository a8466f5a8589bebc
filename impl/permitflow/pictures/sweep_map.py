"""Which numbers get stuck: a cell for each combination, and the proved line drawn over them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permitflow.pictures.plot_files import palette, plot_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MOST_PANELS", "MapCell", "Panel", "VerdictMap", "map_bytes"]

MOST_PANELS = 24
"""More would be too small to see anything."""

_MOST_COLUMNS = 4
_PANEL_INCHES = (2.9, 2.6)
_FRAME_INCHES = (0.9, 1.9)
_LEAST_WIDTH_INCHES = 8.0
_MOST_TICKS = 9
# A cell with few states is pale, but still a cell.
_PALEST, _STRONGEST = 0.3, 0.9
_GAP = 0.06

_COLOURS: Mapping[str, str] = {
    "live": "permits",
    "deadlock": "bad",
    "violation": "bad",
    "overspend": "unreturned",
    "too large": "line",
    "undecided": "line",
    "impossible": "track",
}
"""Of a verdict, its name in the palette."""


@dataclass(frozen=True)
class MapCell:
    """What became of one combination."""

    x: int
    y: int
    verdict: str
    states: int | None
    """That can be reached, if they were counted."""


@dataclass(frozen=True)
class Panel:
    """Combinations that differ in what is on the axes only."""

    title: str
    cells: Sequence[MapCell]
    line: Mapping[int, int]
    """For each value on the horizontal axis, the largest on the vertical one that is proved to be live."""


@dataclass(frozen=True)
class VerdictMap:
    """What is to be seen."""

    title: str
    sentence: str
    x_label: str
    y_label: str
    line_label: str
    panels: Sequence[Panel]
    head: Sequence[str]
    """Of the table on the page."""
    rows: Sequence[tuple[bool, Sequence[str]]]
    """Its lines; the first says whether it went well."""
    label: str = "Live and stuck combinations, and the proved line between them"
    """Of the drawing, for those who cannot see it."""
    origin: str = "permitflow check"


def map_bytes(picture: VerdictMap, suffix: str) -> bytes:
    """The file, by its kind: one of ``plot_files.SUFFIXES``.  Needs the package matplotlib."""
    return plot_bytes(picture, suffix, lambda with_title: _figure(picture, with_title=with_title))


def _figure(picture: VerdictMap, *, with_title: bool) -> "Figure":
    from matplotlib.figure import Figure

    columns = min(len(picture.panels), _MOST_COLUMNS)
    rows = math.ceil(len(picture.panels) / columns)
    width = max(_LEAST_WIDTH_INCHES, columns * _PANEL_INCHES[0] + _FRAME_INCHES[0])
    height = rows * _PANEL_INCHES[1] * (1 if columns > 1 else 1.6) + _FRAME_INCHES[1]
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(picture.panels) :]:
        axes.set_visible(False)
    xs = sorted({cell.x for panel in picture.panels for cell in panel.cells})
    ys = sorted({cell.y for panel in picture.panels for cell in panel.cells})
    for panel, axes in zip(picture.panels, grid.flat, strict=False):
        _draw_panel(picture, panel, axes, xs, ys)
    if with_title:
        figure.suptitle(picture.title, x=0.01, ha="left", fontweight="bold")
    for axes in grid[:, 0]:
        axes.set_ylabel(picture.y_label)
    for column in range(columns):
        lowest = (len(picture.panels) - 1 - column) // columns
        grid[lowest, column].set_xlabel(picture.x_label)
    figure.legend(handles=_legend(picture), loc="outside lower center", ncols=4, handlelength=1.6)
    return figure


def _draw_panel(picture: VerdictMap, panel: Panel, axes: "Axes", xs: Sequence[int], ys: Sequence[int]) -> None:
    axes.set_title(panel.title, loc="left", fontsize=11)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xlim(-0.5, len(xs) - 0.5)
    axes.set_ylim(-0.5, len(ys) - 0.5)
    _set_ticks(axes, xs, ys)
    _draw_cells(picture, panel, axes, xs, ys)
    _draw_line(panel, axes, xs, ys)


def _set_ticks(axes: "Axes", xs: Sequence[int], ys: Sequence[int]) -> None:
    for values, set_ticks in ((xs, axes.set_xticks), (ys, axes.set_yticks)):
        places = range(0, len(values), math.ceil(len(values) / _MOST_TICKS))
        set_ticks(list(places), [f"{values[place]:,}" for place in places])


def _draw_cells(picture: VerdictMap, panel: Panel, axes: "Axes", xs: Sequence[int], ys: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    most = max((cell.states or 1 for every in picture.panels for cell in every.cells), default=1)
    colours = palette()
    side = 1 - 2 * _GAP
    for cell in panel.cells:
        corner = (xs.index(cell.x) - side / 2, ys.index(cell.y) - side / 2)
        colour = colours[_COLOURS[cell.verdict]]
        axes.add_patch(Rectangle(corner, side, side, color=colour, alpha=_strength(cell.states, most), linewidth=0))


def _strength(states: int | None, most: int) -> float:
    """The more states, the stronger; all alike if they were not counted."""
    if states is None:
        return _STRONGEST
    return _PALEST + (_STRONGEST - _PALEST) * math.log(max(states, 1)) / max(math.log(most), 1.0)


def _draw_line(panel: Panel, axes: "Axes", xs: Sequence[int], ys: Sequence[int]) -> None:
    """Steps between the cells: below them is what is proved to be live."""
    from matplotlib.patheffects import Normal, withStroke

    heights = [sum(y <= panel.line[x] for y in ys) - 0.5 for x in xs if x in panel.line]
    places = [place for place, x in enumerate(xs) if x in panel.line]
    steps = [(place + side, height) for place, height in zip(places, heights, strict=True) for side in (-0.5, 0.5)]
    halo = [withStroke(linewidth=5, foreground=palette()["card"]), Normal()]
    axes.plot(*zip(*steps, strict=True), color=palette()["ink"], linewidth=2.4, clip_on=False, path_effects=halo)


def _legend(picture: VerdictMap) -> "list[object]":
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    colours = palette()
    there = {cell.verdict for panel in picture.panels for cell in panel.cells}
    patches = [Patch(color=colours[name], label=verdict) for verdict, name in _COLOURS.items() if verdict in there]
    return [*patches, Line2D([], [], color=colours["ink"], linewidth=2.4, label=picture.line_label)]
