"""Puts results into documents, as tables between marks and as pictures; without matplotlib there are no pictures.

<!-- measured: throughput -->
...
<!-- end -->
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.curves import DelayPoint, Point
from benchmarks.gate import SETTINGS, GateRun
from benchmarks.jobs import PAYLOADS
from benchmarks.results import Results, Series
from benchmarks.tables import TABLES
from benchmarks.throughput import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Drawing = Callable[["Axes", Results], bool]


def throughput(axes: "Axes", results: Results) -> bool:
    cells = results.get("throughput", Cell)
    tuned = {cell.way for cell in cells if cell.is_tuned}
    cells = [cell for cell in cells if cell.is_tuned or cell.way not in tuned]
    sizes = list(PAYLOADS)
    for number, name in enumerate(dict.fromkeys(cell.way for cell in cells)):
        is_ours = name.startswith("permitflow")
        # Wide rows are another kind of chunk, not a larger one: no line leads there.
        for is_wide in (False, True):
            mine = [cell for cell in cells if cell.way == name and PAYLOADS[cell.payload].is_wide is is_wide]
            rates = [cell.chunks_per_second.median for cell in mine]
            axes.plot(
                [sizes.index(cell.payload) for cell in mine],
                rates,
                marker="o" if is_ours else ".",
                linewidth=2.5 if is_ours else 1,
                color=f"C{number}",
                label=None if is_wide else name,
            )
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(yscale="log", xlabel="rows per chunk (wide: 1,024 of 500 bytes)", ylabel="chunks per second")
    return bool(cells)


def curve(part: str, number: str, label: str, axes: "Axes", results: Results) -> bool:
    points = results.get(part, Point)
    for way, payload in dict.fromkeys((point.way, point.payload) for point in points):
        mine = [point for point in points if (point.way, point.payload) == (way, payload)]
        rows = PAYLOADS[payload].rows
        axes.plot(
            [getattr(point, number) for point in mine],
            [point.chunks_per_second.median * rows for point in mine],
            marker="o",
            label=f"{way}, chunks of {payload}",
        )
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel=label, ylabel="rows per second")
    return bool(points)


def delays(axes: "Axes", results: Results) -> bool:
    """Rows per second against the window, near and far; dashed, what the simulation says."""
    points = results.get("delays", DelayPoint)
    for number, rtt in enumerate(dict.fromkeys(point.rtt_milliseconds for point in points)):
        mine = [point for point in points if point.rtt_milliseconds == rtt]
        numbers = [point.row_permits for point in mine]
        rates = [point.rows_per_second.median for point in mine]
        axes.plot(numbers, rates, marker="o", color=f"C{number}", label=f"round trip {rtt:g} ms")
        predicted = [point.predicted_rows_per_second for point in mine]
        axes.plot(numbers, predicted, "--", color=f"C{number}", label=f"round trip {rtt:g} ms, simulated")
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="row permits", ylabel="rows per second")
    return bool(points)


def gate(read: Callable[[GateRun], Series], label: str, axes: "Axes", results: Results) -> bool:
    """Bars: the settings beside each other, by carrier and ratio of rates; lines from the least to the most."""
    runs = {(run.carrier, run.rates, run.setting): read(run) for run in results.get("gate", GateRun)}
    places = list(dict.fromkeys((carrier, rates) for carrier, rates, _ in runs))
    width = 0.8 / len(SETTINGS)
    for number, setting in enumerate(SETTINGS):
        mine = [runs[(*place, setting)] for place in places]
        axes.bar(
            [place + (number - (len(SETTINGS) - 1) / 2) * width for place in range(len(places))],
            [each.median for each in mine],
            width,
            yerr=[[each.median - each.low for each in mine], [max(each.values) - each.median for each in mine]],
            label=setting,
        )
    axes.margins(y=0.3)  # for the legend
    told = [f"{rates}\n{carrier}".replace(", ", "\n") for carrier, rates in places]
    axes.set_xticks(range(len(places)), told)
    axes.set(xlabel="rates of the two inputs, and how they come", ylabel=label)
    return bool(runs)


DRAWINGS: dict[str, Drawing] = {
    "throughput": throughput,
    "windows": partial(curve, "windows", "row_permits", "row permits, returned by the default batch"),
    "batches": partial(curve, "batches", "permit_batch", "permit batch, of a window of 32,768 rows"),
    "delays": delays,
    "gate-alignment": partial(gate, lambda run: run.alignment_milliseconds, "ms from injection to alignment"),
    "gate-start": partial(gate, lambda run: run.first_rows, "rows received within 20 ms after the alignment"),
}


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def draw_all(results: Results, folder: Path, prefix: str = "") -> Iterator[Path]:
    """All plots of the measurements, as SVG; none without matplotlib."""
    if not can_draw():
        return
    import matplotlib
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    # The same results give the same file.
    with matplotlib.rc_context({"svg.hashsalt": "permitflow", "svg.fonttype": "none", "font.size": 9}):
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


MARKED = re.compile(r"(?<=<!-- measured: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
PICTURES = "pictures"


def tables_asked_for(document: Path) -> list[str]:
    """The names in its marks, in order."""
    return [found[1] for found in MARKED.finditer(document.read_text(encoding="utf-8"))]


def update_documents(folder: Path, results: Results) -> list[Path]:
    """Paste all tables into the pages of a folder, and draw all plots; returns the files that were written.

    Raises:
        KeyError: a page asks for a table that does not exist.
    """
    pages = [page for page in sorted(folder.rglob("*.md")) if tables_asked_for(page)]
    for page in pages:
        update_document(page, results)
    return [*pages, *draw_all(results, folder / PICTURES, prefix="performance-")]


def update_document(document: Path, results: Results) -> None:
    """Paste the tables that a page asks for.

    Raises:
        KeyError: it asks for one that does not exist.
    """
    text = document.read_text(encoding="utf-8")
    text = MARKED.sub(lambda found: f"{found[1]}{found[2]}{TABLES[found[1]](results)}\n", text)
    document.write_text(text, encoding="utf-8")
