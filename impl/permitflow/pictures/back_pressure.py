"""Back-pressure over time: who waited, how full channels were, how fast rows came; matplotlib lays it out."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permitflow.pictures.plot_files import palette

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ChannelLine", "back_pressure_figure", "lines_of", "read_looks"]

_INCHES = (9.6, 7.8)
_COLOURS = 6

Look = Mapping[str, Any]
"""What ``permitflow top --json`` prints in a line."""


@dataclass(frozen=True, kw_only=True)
class ChannelLine:
    """What one channel did, look by look."""

    channel: str
    seconds: Sequence[float]
    """Since the first look."""
    blocked_shares: Sequence[float]
    """Of the time since the look before: rows from producers waited for room."""
    consumer_blocked_shares: Sequence[float]
    """Of the time since the look before: rows on their way out waited for a consumer's permits."""
    held_rows: Sequence[int]
    row_permits: int
    rows_in_per_second: Sequence[float]


def read_looks(path: str | PathLike[str]) -> list[Look]:
    """The lines that ``permitflow top --json`` has printed; those that say why nothing was seen are left out.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is something else.
    """
    looks: list[Look] = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            look = json.loads(line)
        except ValueError:
            look = None
        if not isinstance(look, dict) or not ("error" in look or {"at_seconds", "channels"} <= look.keys()):
            raise ValueError(f"{path}, line {number}: this is no line of permitflow top --json")
        if "error" not in look:
            looks.append(look)
    return looks


def lines_of(looks: Iterable[Look], channels: Sequence[str] | None = None) -> list[ChannelLine]:
    """A line for each channel, or for these.

    Raises:
        ValueError: there are fewer than two looks, or a channel is in none of them.
    """
    taken = list(looks)
    if len(taken) < 2:
        raise ValueError(f"back-pressure over time needs two looks at least, and here are {len(taken)}: watch longer")
    known = {flow["channel"]: None for look in taken for flow in look["channels"]}
    if unknown := [channel for channel in channels or () if channel not in known]:
        raise ValueError(f"channel {unknown[0]!r} is in none of the looks, which have {', '.join(known)}")
    began = taken[0]["at_seconds"]
    return [_line(channel, taken, began) for channel in channels or known]


def _line(channel: str, looks: Sequence[Look], began: float) -> ChannelLine:
    # The first look has nothing to compare with, and so no rates.
    found = [
        (look["at_seconds"] - began, flow)
        for look in looks[1:]
        for flow in look["channels"]
        if flow["channel"] == channel
    ]
    flows = [flow for _, flow in found]
    return ChannelLine(
        channel=channel,
        seconds=[seconds for seconds, _ in found],
        blocked_shares=[flow["blocked_share"] for flow in flows],
        consumer_blocked_shares=[flow["consumer_blocked_share"] for flow in flows],
        held_rows=[flow["rows_held"] for flow in flows],
        row_permits=max((flow["row_permits"] for flow in flows), default=0),
        rows_in_per_second=[flow["rows_in_per_second"] for flow in flows],
    )


def back_pressure_figure(lines: Sequence[ChannelLine], title: str = "Back-pressure") -> "Figure":
    """Three drawings, one above the other, over the same time.  Needs the package matplotlib.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    figure = _notebook_figure()
    above, middle, below = figure.subplots(3, 1, sharex=True)
    _draw(above, lines, lambda line: line.blocked_shares, "share of the time that producers waited for room")
    for number, line in enumerate(lines):
        above.plot(line.seconds, line.consumer_blocked_shares, color=_colour(number), linewidth=1.2, linestyle=":")
    above.plot(
        [], [], color=palette()["muted"], linewidth=1.2, linestyle=":", label="rows for a consumer waited for it"
    )
    above.set_ylim(-0.02, 1.02)
    above.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    _draw(middle, lines, lambda line: line.held_rows, "rows held by the channel")
    for bound in sorted({line.row_permits for line in lines}):
        middle.axhline(bound, color=palette()["muted"], linewidth=1.2, linestyle=(0, (6, 3)), label=f"bound, {bound:,}")
    _draw(below, lines, lambda line: line.rows_in_per_second, "rows in a second")
    for axes in (middle, below):
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    below.set_xlabel("seconds")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    _explain(figure, above, middle)
    return figure


def _explain(figure: "Figure", above: "Axes", middle: "Axes") -> None:
    handles, labels = above.get_legend_handles_labels()
    bounds = [
        (handle, label) for handle, label in zip(*middle.get_legend_handles_labels(), strict=True) if "," in label
    ]
    figure.legend(
        [*handles, *(handle for handle, _ in bounds)],
        [*labels, *(label for _, label in bounds)],
        loc="outside lower center",
        ncols=3,
        frameon=False,
    )


def _draw(
    axes: "Axes", lines: Sequence[ChannelLine], values: Callable[[ChannelLine], Sequence[float]], title: str
) -> None:
    axes.set_title(title, loc="left", fontsize=11)
    axes.grid(visible=True, linewidth=0.8, color=palette()["track"])
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)
    for number, line in enumerate(lines):
        axes.plot(line.seconds, values(line), color=_colour(number), linewidth=2.0, label=line.channel)


def _notebook_figure() -> "Figure":
    """A figure that shows itself as the result of a notebook's cell, also where pyplot was never loaded."""
    import io

    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return NotebookFigure(figsize=_INCHES, layout="constrained")


def _colour(number: int) -> str:
    return palette()[f"series-{number % _COLOURS + 1}"]
