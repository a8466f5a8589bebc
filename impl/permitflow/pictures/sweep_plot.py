"""Throughput and back-pressure over what was varied, as a drawing or a page; matplotlib lays it out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from permitflow.pictures.plot_files import palette, plot_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Series", "SweepPicture", "sweep_bytes"]

_INCHES = (9.6, 7.2)
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
    label: str = "Throughput and back-pressure"
    """Of the drawing, for those who cannot see it."""
    origin: str = "permitflow simulate: the real sender and receiver in simulated time"


def sweep_bytes(picture: SweepPicture, suffix: str) -> bytes:
    """The file, by its kind: one of ``SUFFIXES``.  Needs the package matplotlib."""
    return plot_bytes(picture, suffix, lambda with_title: _figure(picture, with_title=with_title))


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
        above.plot([], [], "X", color=palette()["muted"], markersize=8, label="deadlock, or refused")


def _draw_limits(picture: SweepPicture, above: "Axes", below: "Axes") -> None:
    muted = palette()["muted"]
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
    return palette()[f"series-{number % _COLOURS + 1}"]
