"""Results as pictures; without matplotlib there are none, and nothing else is missing."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.imbalance.experiment import Imbalance
from benchmarks.payloads import PAYLOADS
from benchmarks.results import Results
from benchmarks.throughput import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_all"]

Drawing = Callable[["Axes", Results], bool]


def throughput(axes: "Axes", results: Results) -> bool:
    """Chunks per second of all ways."""
    cells = [cell for cell in results.get("throughput", Cell) if cell.touch == "ends"]
    sizes = list(PAYLOADS)
    for number, name in enumerate(dict.fromkeys(cell.way for cell in cells)):
        mine = [cell for cell in cells if cell.way == name]
        axes.plot(
            [sizes.index(cell.payload) for cell in mine],
            [cell.chunks_per_second.median for cell in mine],
            marker="o" if name.startswith("permitflow") else ".",
            linewidth=2.5 if name.startswith("permitflow") else 1,
            label=name,
            color=f"C{number}",
        )
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(yscale="log", xlabel="rows per chunk (wide: 1,024 of 500 bytes)", ylabel="chunks per second")
    return bool(cells)


def imbalance(axes: "Axes", results: Results) -> bool:
    """Rows per second of both upstreams of the join."""
    found = results.get("imbalance", Imbalance)
    places = range(len(found))
    bars = [
        ("local", -0.2, [each.local_rows_per_second for each in found]),
        ("remote", 0.2, [each.remote_rows_per_second for each in found]),
    ]
    for name, shift, rates in bars:
        axes.barh([place + shift for place in places], [rate.median for rate in rates], height=0.38, label=name)
    axes.set_yticks(places, [each.setup for each in found])
    axes.invert_yaxis()
    axes.set(xlabel="rows per second that a join takes from each of two upstreams")
    return bool(found)


DRAWINGS: dict[str, Drawing] = {"throughput": throughput, "imbalance": imbalance}


def draw_all(results: Results, folder: Path, prefix: str = "") -> Iterator[Path]:
    """All pictures of what was measured, as SVG."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # The same results give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "permitflow", "font.size": 9}):
        for name, draw in DRAWINGS.items():
            figure = Figure(figsize=(9, 5.5), layout="constrained")
            axes = figure.add_subplot()
            if not draw(axes, results):
                continue
            axes.grid(visible=True, alpha=0.3)
            axes.legend(fontsize=7)
            path = folder / f"{prefix}{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            yield path
