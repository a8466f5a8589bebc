"""Plots of sweeps by matplotlib: throughput, and verdicts; as files of any kind, or as pages with their figures."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from permitflow_tools.explain.assets import asset, page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".html", ".svg", ".png", ".pdf")
MOST_PANELS = 24
"""The most panels of a map; more would be too small to read."""

_DOTS_PER_INCH = 150
_COLOURS = 6

_SWEEP_INCHES = (9.6, 7.2)
# An axis is logarithmic if the largest value is this many times the smallest.
_RATIO_FOR_LOGARITHMS = 20
_MOST_MARKERS = 24
# As a share of the height.
_CROSSES_APART = 0.045

_MOST_COLUMNS = 4
_PANEL_INCHES = (2.9, 2.6)
_FRAME_INCHES = (0.9, 1.9)
_LEAST_WIDTH_INCHES = 6.7
_MOST_TICKS = 9
# A cell with few states is pale, but still a cell.
_PALEST, _STRONGEST = 0.3, 0.9
_GAP = 0.06
# Of a verdict, its name in the palette.
_COLOURS_OF_VERDICTS: Mapping[str, str] = {
    "live": "permits",
    "deadlock": "bad",
    "violation": "bad",
    "overspend": "unreturned",
    "refused": "unreturned",
    "too large": "line",
    "undecided": "line",
    "impossible": "track",
}


def load_matplotlib() -> None:
    """Load matplotlib first, so that its absence shows before any work.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    import_module("matplotlib.figure")


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """A plot, with the text and the table of its page."""

    title: str
    sentence: str
    head: Sequence[str]
    """The head of the table on the page."""
    rows: Sequence[tuple[bool, Sequence[str]]]
    """Its lines; the flag says whether the run went well."""
    label: str
    """The drawing's description for screen readers."""
    origin: str
    """The command that has made the plot, and its input."""

    def as_file(self, suffix: str) -> bytes:
        """The file, by its kind: one of ``SUFFIXES``.  Needs the package matplotlib."""
        if suffix == ".html":
            return self._page().encode()
        if suffix == ".svg":
            return self._svg(with_title=True).encode()
        return self._rendered(suffix.removeprefix("."), with_title=True)

    def _figure(self) -> "Figure":
        raise NotImplementedError

    def _page(self) -> str:
        fails = ' class="fails"'
        head = "".join(f"<th>{escape(cell)}</th>" for cell in self.head)
        lines = [
            f"<tr{'' if is_well else fails}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
            for is_well, cells in self.rows
        ]
        body = "\n".join(lines)
        return page(
            "sweep",
            ("palette.css", "page.css", "sweep.css"),
            {"title": self.title, "label": self.label, "origin": self.origin, "sentence": self.sentence},
            {
                "drawing": re.sub(r"<style>.*?</style>", "", self._svg(with_title=False), count=1, flags=re.DOTALL),
                "table": f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>",
            },
        )

    def _svg(self, *, with_title: bool) -> str:
        """The drawing with the palette's names in place of its colours, so that it follows the reader's scheme."""
        drawing = self._rendered("svg", with_title=with_title).decode()
        drawing = drawing[drawing.index("<svg") :]
        for name, colour in palette().items():
            drawing = drawing.replace(colour, f"var(--{name})")
        opening = f'<svg class="sweep-drawing" role="img" aria-label="{escape(self.title)}"'
        drawing = drawing.replace("<svg", opening, 1)
        end_of_opening = drawing.index(">") + 1
        return f"{drawing[:end_of_opening]}<style>{asset('palette.css')}</style>{drawing[end_of_opening:]}"

    def _rendered(self, kind: str, *, with_title: bool) -> bytes:
        from matplotlib import rc_context

        colours = palette()
        style = {
            "svg.fonttype": "none",
            "svg.hashsalt": "permitflow",  # equal pictures are equal files
            "font.size": 11,
            "text.color": colours["ink"],
            "axes.labelcolor": colours["ink"],
            "axes.edgecolor": colours["line"],
            "axes.facecolor": colours["card"],
            "figure.facecolor": colours["card"],
            "savefig.facecolor": colours["card"],
            "xtick.color": colours["muted"],
            "ytick.color": colours["muted"],
            "grid.color": colours["track"],
            "legend.frameon": False,
        }
        file = io.BytesIO()
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        with rc_context(style):  # type: ignore[arg-type]  # its type lists every setting
            figure = self._figure()
            if with_title:
                figure.suptitle(self.title, x=0.01, ha="left", fontweight="bold")
            figure.savefig(file, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
        return file.getvalue()


@cache
def palette() -> dict[str, str]:
    """The light scheme's colours; the first name of a colour that has several."""
    light = asset("palette.css").partition("@media")[0]
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light):
        if colour not in colours.values():
            colours[name] = colour
    return colours


def line_colour(number: int) -> str:
    """The colour of this line of a plot."""
    return palette()[f"series-{number % _COLOURS + 1}"]


@dataclass(frozen=True)
class Series:
    """One line: runs that differ only in the quantity on the horizontal axis."""

    label: str
    xs: Sequence[float]
    throughputs: Sequence[float]
    """Rows a second."""
    back_pressures: Sequence[float]
    """Shares of the time."""
    failures: Sequence[float]
    """Positions on the horizontal axis at which the channel got stuck or was refused."""
    mark: float | None
    """Position of the bandwidth-delay product on the horizontal axis."""


@dataclass(frozen=True, kw_only=True)
class SweepPicture(_Picture):
    """Throughput and back-pressure over the varied quantity."""

    x_label: str
    series: Sequence[Series]
    most: float | None
    """The bottleneck's rows a second, if it is the same for all runs."""
    label: str = "Throughput and back-pressure"
    origin: str = "permitflow simulate: the real sender and receiver in simulated time"

    def _figure(self) -> "Figure":
        from matplotlib.figure import Figure
        from matplotlib.ticker import FuncFormatter, PercentFormatter

        figure = Figure(figsize=_SWEEP_INCHES, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for axes in (above, below):
            axes.grid(visible=True, linewidth=0.8)
            frame(axes)
        self._draw_series(above, below)
        self._draw_limits(above, below)
        thousands = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        above.set_title("throughput, rows a second", loc="left", fontsize=11)
        below.set_title("back-pressure: share of the time that the producer waits for permits", loc="left", fontsize=11)
        above.set_ylim(bottom=0)
        above.yaxis.set_major_formatter(thousands)
        below.set_ylim(-0.02, 1.02)
        below.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        below.set_xlabel(self.x_label)
        xs = sorted({x for series in self.series for x in (*series.xs, *series.failures)})
        if xs and xs[0] > 0 and xs[-1] >= _RATIO_FOR_LOGARITHMS * xs[0]:
            below.set_xscale("log", base=2)
            below.set_xticks(xs[:: -(-len(xs) // 10)])
            below.minorticks_off()
        below.xaxis.set_major_formatter(thousands)
        figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        return figure

    def _draw_series(self, above: "Axes", below: "Axes") -> None:
        for number, series in enumerate(self.series):
            marker = "o" if len(series.xs) <= _MOST_MARKERS else ""
            look = {"color": line_colour(number), "linewidth": 2.2, "marker": marker, "markersize": 5}
            above.plot(series.xs, series.throughputs, label=series.label, **look)  # type: ignore[arg-type]
            below.plot(series.xs, series.back_pressures, **look)  # type: ignore[arg-type]
        # Crosses at the bottom, in the colours of their lines; those of several lines one above the other.
        failing = [(number, series) for number, series in enumerate(self.series) if series.failures]
        step = above.get_ylim()[1] * _CROSSES_APART
        for height, (number, series) in enumerate(failing):
            ys = [height * step] * len(series.failures)
            above.plot(series.failures, ys, "X", color=line_colour(number), markersize=8, clip_on=False, zorder=5)
        if failing:
            above.plot([], [], "X", color=palette()["muted"], markersize=8, label="deadlock, or refused")

    def _draw_limits(self, above: "Axes", below: "Axes") -> None:
        muted = palette()["muted"]
        if self.most is not None:
            above.axhline(self.most, color=muted, linewidth=1.2, linestyle=(0, (2, 2)), label="what the slowest can do")
        marks = [series.mark for series in self.series]
        is_one = len(set(marks)) == 1
        for number, mark in enumerate(marks[:1] if is_one else marks):
            if mark is None:
                continue
            colour = muted if is_one else line_colour(number)
            label = f"bandwidth-delay product, {mark:,.0f}" if is_one or number == 0 else None
            above.axvline(mark, color=colour, linewidth=1.4, linestyle=(0, (6, 3)), label=label)
            below.axvline(mark, color=colour, linewidth=1.4, linestyle=(0, (6, 3)))


@dataclass(frozen=True)
class MapCell:
    """The result of one combination."""

    x: int
    y: int
    verdict: str
    states: int | None
    """Number of reachable states, if counted."""


@dataclass(frozen=True)
class Panel:
    """Combinations that differ only in the quantities on the axes."""

    title: str
    cells: Sequence[MapCell]
    line: Mapping[int, int]
    """The largest value on the vertical axis that is proved to be live, for each on the horizontal one."""


@dataclass(frozen=True, kw_only=True)
class VerdictMap(_Picture):
    """Which numbers get stuck: a cell for each combination, and the proved line drawn over them."""

    x_label: str
    y_label: str
    line_label: str
    panels: Sequence[Panel]
    label: str = "Live and stuck combinations, and the proved line between them"
    origin: str = "permitflow check"

    def _figure(self) -> "Figure":
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        columns = min(math.ceil(math.sqrt(len(self.panels))), _MOST_COLUMNS)
        rows = math.ceil(len(self.panels) / columns)
        width = max(_LEAST_WIDTH_INCHES, columns * _PANEL_INCHES[0] + _FRAME_INCHES[0])
        height = rows * _PANEL_INCHES[1] * (1 if columns > 1 else 1.6) + _FRAME_INCHES[1]
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(self.panels) :]:
            axes.set_visible(False)
        cells = [cell for panel in self.panels for cell in panel.cells]
        xs, ys = sorted({cell.x for cell in cells}), sorted({cell.y for cell in cells})
        most = max((cell.states or 1 for cell in cells), default=1)
        for panel, axes in zip(self.panels, grid.flat, strict=False):
            axes.set_title(panel.title, loc="left", fontsize=11)
            axes.spines[:].set_visible(False)
            axes.tick_params(length=0)
            axes.set_xlim(-0.5, len(xs) - 0.5)
            axes.set_ylim(-0.5, len(ys) - 0.5)
            for values, set_ticks in ((xs, axes.set_xticks), (ys, axes.set_yticks)):
                places = range(0, len(values), math.ceil(len(values) / _MOST_TICKS))
                set_ticks(list(places), [f"{values[place]:,}" for place in places])
            _draw_cells(panel, axes, xs, ys, most)
            _draw_line(panel, axes, xs, ys)
        for axes in grid[:, 0]:
            axes.set_ylabel(self.y_label)
        for column in range(columns):
            lowest = (len(self.panels) - 1 - column) // columns
            grid[lowest, column].set_xlabel(self.x_label)
        there = {cell.verdict for cell in cells}
        colours = palette()
        patches = [Patch(color=colours[name], label=it) for it, name in _COLOURS_OF_VERDICTS.items() if it in there]
        line = Line2D([], [], color=colours["ink"], linewidth=2.4, label=self.line_label)
        figure.legend(handles=[*patches, line], loc="outside lower center", ncols=columns + 1, handlelength=1.6)
        return figure


def _draw_cells(panel: Panel, axes: "Axes", xs: Sequence[int], ys: Sequence[int], most_states: int) -> None:
    """The more states, the stronger the colour; all alike if they were not counted."""
    from matplotlib.patches import Rectangle

    side = 1 - 2 * _GAP
    for cell in panel.cells:
        corner = (xs.index(cell.x) - side / 2, ys.index(cell.y) - side / 2)
        strength = _STRONGEST
        if cell.states is not None:
            share = math.log(max(cell.states, 1)) / max(math.log(most_states), 1.0)
            strength = _PALEST + (_STRONGEST - _PALEST) * share
        colour = palette()[_COLOURS_OF_VERDICTS[cell.verdict]]
        axes.add_patch(Rectangle(corner, side, side, color=colour, alpha=strength, linewidth=0))


def _draw_line(panel: Panel, axes: "Axes", xs: Sequence[int], ys: Sequence[int]) -> None:
    """Steps between the cells: everything below is proved to be live."""
    from matplotlib.patheffects import Normal, withStroke

    heights = [sum(y <= panel.line[x] for y in ys) - 0.5 for x in xs if x in panel.line]
    places = [place for place, x in enumerate(xs) if x in panel.line]
    steps = [(place + side, height) for place, height in zip(places, heights, strict=True) for side in (-0.5, 0.5)]
    halo = [withStroke(linewidth=5, foreground=palette()["card"]), Normal()]
    axes.plot(*zip(*steps, strict=True), color=palette()["ink"], linewidth=2.4, clip_on=False, path_effects=halo)


def frame(axes: "Axes") -> None:
    """Only the left and the lower line of a frame, without ticks, behind what is drawn."""
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)
