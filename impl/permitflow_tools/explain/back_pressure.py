"""Back-pressure as a picture: which side of each channel waited, and how many rows it held."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from permitflow.spark.listener import ExchangeListener
from permitflow_tools.explain.plots import back_pressure_figure, read_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_back_pressure"]


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
    if isinstance(source, ExchangeListener):
        looks = [record.as_json() for record in source.records if not record.error]
    else:
        looks = [dict(look) for look in read_looks(source)]
    return back_pressure_figure(looks, channels, title)
