"""Back-pressure over time in one call, for notebooks."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from permitflow.pictures.plots import back_pressure_figure, read_looks
from permitflow.spark.listener import ExchangeListener

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_back_pressure"]


def plot_back_pressure(
    source: ExchangeListener | str | PathLike[str],
    channels: Sequence[str] | None = None,
    *,
    title: str = "Back-pressure",
) -> "Figure":
    """Plot who waited, how many rows were held, and how fast they came.  Needs ``permitflow[plots]``.

    Args:
        source: a listener; or a file: what ``permitflow top --json`` has printed, or a listener has written.
        channels: only these; by default all.
        title: above all.

    Returns:
        A figure of matplotlib: a notebook shows it as the result of a cell, ``savefig`` writes it.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        OSError: the file cannot be read.
        ValueError: the file is another one; there are fewer than two looks; a channel is in none of them.
    """
    if isinstance(source, ExchangeListener):
        looks = [record.as_json() for record in source.records if not record.error]
    else:
        looks = [dict(look) for look in read_looks(source)]
    return back_pressure_figure(looks, channels, title)
