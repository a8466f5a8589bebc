"""Throughput and back-pressure over what was varied, as a drawing or a page; matplotlib lays it out."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import import_module
from string import Template
from typing import TYPE_CHECKING

from permitflow.pictures.assets import asset

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SUFFIXES", "Series", "SweepPicture", "load_matplotlib", "sweep_bytes"]

SUFFIXES = (".html", ".svg", ".png", ".pdf")
_INCHES = (9.6, 7.2)
_DOTS_PER_INCH = 150
# Where the largest value is so many times the smallest, equal factors get equal room.
_RATIO_FOR_LOGARITHMS = 20
_COLOURS = 6
_MOST_MARKERS = 24
# As a share of the height.
_CROSSES_APART = 0.045


@dataclass(frozen=True)
class Series:
    """One line: runs that differ in what is on the horizontal axis only."""

    label: str
    xs: Sequence[float]
    throughputs: Sequence[float]
    """Rows a second."""
    back_pressures: Sequence[float]
    """Shares of the time."""
    failures: Sequence[float]
    """Where on the horizontal axis it got stuck or was refused."""
    mark: float | None
    """Where on the horizontal axis the bandwidth-delay product is."""


@dataclass(frozen=True)
class SweepPicture:
    """What is to be seen."""

    title: str
    sentence: str
    x_label: str
    series: Sequence[Series]
    most: float | None
    """Rows a second that the slowest can do, if that is the same everywhere."""
    head: Sequence[str]
    """Of the table on the page."""
    rows: Sequence[tuple[bool, Sequence[str]]]
    """Its lines; the first says whether it went well."""


def load_matplotlib() -> None:
    """Load it now, so that its absence is noticed before anything else is done.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    import_module("matplotlib.figure")


def sweep_bytes(picture: SweepPicture, suffix: str) -> bytes:
    """The file, by its kind: one of ``SUFFIXES``.  Needs the package matplotlib."""
    if suffix == ".html":
        return _page(picture).encode()
    if suffix == ".svg":
        return _svg(picture).encode()
    return _rendered(picture, suffix.removeprefix("."))


def _page(picture: SweepPicture) -> str:
    return Template(asset("sweep.html")).substitute(
        title=escape(picture.title),
        sentence=escape(picture.sentence),
        style="".join(map(asset, ("palette.css", "page.css", "sweep.css"))),
        drawing=re.sub(r"<style>.*?</style>", "", _svg(picture, with_title=False), count=1, flags=re.DOTALL),
        table=_table(picture),
    )


def _table(picture: SweepPicture) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in picture.head)
    body = "\n".join(_line(is_well, cells) for is_well, cells in picture.rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _line(is_well: bool, cells: Sequence[str]) -> str:
    kind = "" if is_well else ' class="fails"'
    return f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _svg(picture: SweepPicture, *, with_title: bool = True) -> str:
    """The drawing with the palette's names in place of its colours, so that it follows the reader's scheme."""
    drawing = _rendered(picture, "svg", with_title=with_title).decode()
    drawing = drawing[drawing.index("<svg") :]
    for name, colour in _palette().items():
        drawing = drawing.replace(colour, f"var(--{name})")
    opening = f'<svg class="sweep-drawing" role="img" aria-label="{escape(picture.title)}"'
    drawing = drawing.replace("<svg", opening, 1)
    end_of_opening = drawing.index(">") + 1
    return f"{drawing[:end_of_opening]}<style>{asset('palette.css')}</style>{drawing[end_of_opening:]}"


@cache
def _palette() -> dict[str, str]:
    """The light scheme's colours; the first name of a colour that has several."""
    light = asset("palette.css").partition("@media")[0]
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light):
        if colour not in colours.values():
            colours[name] = colour
    return colours


def _rendered(picture: SweepPicture, kind: str, *, with_title: bool = True) -> bytes:
    from matplotlib import rc_context

    colours = _palette()
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
        _figure(picture, with_title=with_title).savefig(file, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()


def _figure(picture: SweepPicture, *, with_title: bool) -> "Figure":
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    figure = Figure(figsize=_INCHES, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for axes in (above, below):
        axes.grid(visible=True, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0)
    _draw_series(picture, above, below)
    _draw_limits(picture, above, below)
    thousands = FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    if with_title:
        figure.suptitle(picture.title, x=0.01, ha="left", fontweight="bold")
    above.set_title("throughput, rows a second", loc="left", fontsize=11)
    below.set_title("back-pressure: share of the time that the producer waits for permits", loc="left", fontsize=11)
    above.set_ylim(bottom=0)
    above.yaxis.set_major_formatter(thousands)
    below.set_ylim(-0.02, 1.02)
    below.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    below.set_xlabel(picture.x_label)
    _scale(picture, below)
    below.xaxis.set_major_formatter(thousands)
    figure.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_series(picture: SweepPicture, above: "Axes", below: "Axes") -> None:
    for number, series in enumerate(picture.series):
        colour = _colour(number)
        marker = "o" if len(series.xs) <= _MOST_MARKERS else ""
        look = {"color": colour, "linewidth": 2.2, "marker": marker, "markersize": 5}
        above.plot(series.xs, series.throughputs, label=series.label, **look)  # type: ignore[arg-type]
        below.plot(series.xs, series.back_pressures, **look)  # type: ignore[arg-type]
    _draw_failures(picture, above)


def _draw_failures(picture: SweepPicture, above: "Axes") -> None:
    """Crosses at the bottom, in the colours of their lines; those of several lines one above the other."""
    failing = [(number, series) for number, series in enumerate(picture.series) if series.failures]
    step = above.get_ylim()[1] * _CROSSES_APART
    for height, (number, series) in enumerate(failing):
        ys = [height * step] * len(series.failures)
        above.plot(series.failures, ys, "X", color=_colour(number), markersize=8, clip_on=False, zorder=5)
    if failing:
        above.plot([], [], "X", color=_palette()["muted"], markersize=8, label="deadlock, or refused")


def _draw_limits(picture: SweepPicture, above: "Axes", below: "Axes") -> None:
    muted = _palette()["muted"]
    if picture.most is not None:
        above.axhline(picture.most, color=muted, linewidth=1.2, linestyle=(0, (2, 2)), label="what the slowest can do")
    marks = [series.mark for series in picture.series]
    is_one = len(set(marks)) == 1
    for number, mark in enumerate(marks[:1] if is_one else marks):
        if mark is None:
            continue
        colour = muted if is_one else _colour(number)
        label = f"bandwidth-delay product, {mark:,.0f}" if is_one or number == 0 else None
        for axes in (above, below):
            axes.axvline(
                mark, color=colour, linewidth=1.4, linestyle=(0, (6, 3)), label=label if axes is above else None
            )


def _scale(picture: SweepPicture, axes: "Axes") -> None:
    xs = sorted({x for series in picture.series for x in (*series.xs, *series.failures)})
    if not xs or xs[0] <= 0 or xs[-1] < _RATIO_FOR_LOGARITHMS * xs[0]:
        return
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(_thinned(xs)))
    axes.minorticks_off()


def _thinned(xs: Sequence[float]) -> Iterator[float]:
    every = -(-len(xs) // 10)
    yield from xs[::every]


def _colour(number: int) -> str:
    return _palette()[f"series-{number % _COLOURS + 1}"]
