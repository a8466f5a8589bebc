"""Back-pressure as a picture: which side of each channel waited, and how many rows it held."""

import io
import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from permitflow.spark.listener import ExchangeListener
from permitflow_tools.explain.plots import frame, line_colour, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Look = Mapping[str, Any]
"""A line of ``permitflow top --json``."""

_INCHES = (9.6, 7.8)


def plot_back_pressure(
    source: ExchangeListener | str | PathLike[str],
    channels: Sequence[str] | None = None,
    *,
    title: str = "Back-pressure",
) -> "Figure":
    """Plot which side waited, how many rows were held, and their rates.  Needs ``permitflow[plots]``.

    Args:
        source: a listener; or a file with the output of ``permitflow top --json``, or written by a listener.
        channels: only these; by default all.
        title: of the figure.

    Returns:
        A figure of matplotlib: a notebook shows it as the result of a cell, ``savefig`` writes it.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        OSError: the file cannot be read.
        ValueError: the file has other content; it has fewer than two records; a channel is in none of them.
    """
    from matplotlib.ticker import FuncFormatter, PercentFormatter

    looks = _looks_of(source)
    if len(looks) < 2:
        raise ValueError(f"back-pressure over time needs two looks at least, and here are {len(looks)}: watch longer")
    first, *others = looks
    known = {flow["channel"]: None for look in (first, *others) for flow in look["channels"]}
    if unknown := [channel for channel in channels or () if channel not in known]:
        raise ValueError(f"channel {unknown[0]!r} is in none of the looks, which have {', '.join(known)}")
    figure = _notebook_figure()
    above, middle, below = figure.subplots(3, 1, sharex=True)
    bounds = set()
    for number, channel in enumerate(channels or known):
        # The first look has nothing to compare with, and so no rates.
        flows = [
            (look["at_seconds"], flow) for look in others for flow in look["channels"] if flow["channel"] == channel
        ]
        seconds = [at_seconds - first["at_seconds"] for at_seconds, _ in flows]
        colour = line_colour(number)
        for axes, key in ((above, "blocked_share"), (middle, "rows_held"), (below, "rows_in_per_second")):
            axes.plot(seconds, [flow[key] for _, flow in flows], color=colour, linewidth=2.0, label=channel)
        waited = [flow["consumer_blocked_share"] for _, flow in flows]
        above.plot(seconds, waited, color=colour, linewidth=1.2, linestyle=":")
        bounds |= {flow["window_rows"] for _, flow in flows} - {None}
    muted = palette()["muted"]
    above.plot([], [], color=muted, linewidth=1.2, linestyle=":", label="rows for a consumer waited for it")
    for axes, words in (
        (above, "share of the time that producers waited for room"),
        (middle, "rows held by the channel"),
        (below, "rows in a second"),
    ):
        axes.set_title(words, loc="left", fontsize=11)
        axes.grid(visible=True, linewidth=0.8, color=palette()["track"])
        frame(axes)
    above.set_ylim(-0.02, 1.02)
    above.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    bound_lines = [
        middle.axhline(bound, color=muted, linewidth=1.2, linestyle=(0, (6, 3)), label=f"bound, {bound:,}")
        for bound in sorted(bounds)
    ]
    for axes in (middle, below):
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    below.set_xlabel("seconds")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    handles = [*above.get_legend_handles_labels()[0], *bound_lines]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _looks_of(source: ExchangeListener | str | PathLike[str]) -> list[Look]:
    """What was seen, in order; why nothing was seen is left out."""
    if isinstance(source, ExchangeListener):
        return [record.as_json() for record in source.records if not record.error]
    looks: list[Look] = []
    for number, line in enumerate(Path(source).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            look = json.loads(line)
        except ValueError:
            look = None
        if not isinstance(look, dict) or not ("error" in look or {"at_seconds", "channels"} <= look.keys()):
            raise ValueError(f"{source}, line {number}: this is not a line of permitflow top --json")
        if "error" not in look:
            looks.append(look)
    return looks


def _notebook_figure() -> "Figure":
    """A figure that shows itself as the result of a notebook's cell, also where pyplot was never loaded."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return NotebookFigure(figsize=_INCHES, layout="constrained")
