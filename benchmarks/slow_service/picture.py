"""The memory curves of both ways."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.slow_service.experiment import Outcome
from benchmarks.slow_service.settings import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw"]


def draw(outcomes: Sequence[Outcome], settings: Settings, path: Path) -> None:
    """Write a picture in the format of the path's suffix."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "permitflow", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 4), layout="constrained")
        _curves(figure.subplots(), outcomes, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _curves(axes: "Axes", outcomes: Sequence[Outcome], settings: Settings) -> None:
    for number, outcome in enumerate(outcomes):
        memory = [size / 1e6 for size in outcome.growth_bytes]
        axes.plot(outcome.seconds, memory, color=f"C{number}", linewidth=2, label=outcome.name)
        axes.axvline(outcome.sent_seconds, color=f"C{number}", linestyle=":", linewidth=1)
    size = f"{settings.rows:,} rows, {settings.rows * settings.document_bytes / 1e6:,.0f} MB"
    axes.set_title(f"{size}, and a service of {settings.rows_per_second:,} rows/s; dotted: all was handed over")
    axes.set(
        xlabel="seconds since both jobs began", ylabel="memory between the jobs, MB more than at first", ylim=(0, None)
    )
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
