"""Puts results into documents, as tables between marks and as pictures; without matplotlib there are no pictures.

<!-- measured: throughput -->
...
<!-- end -->
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import CHECKOUT
from benchmarks.jobs import PAYLOADS
from benchmarks.results import Results, Row, table
from benchmarks.tables import TABLES
from tools.marks import pasted

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Drawing = Callable[["Axes", Results], bool]


def throughput(axes: "Axes", results: Results) -> bool:
    cells = results.get("throughput")
    tuned = {cell["_way"] for cell in cells if cell["_is_tuned"]}
    cells = [cell for cell in cells if cell["_is_tuned"] or cell["_way"] not in tuned]
    sizes = list(PAYLOADS)
    for number, name in enumerate(dict.fromkeys(cell["_way"] for cell in cells)):
        is_ours = name.startswith("permitflow")
        # Wide rows are another kind of chunk, not a larger one: no line leads there.
        for is_wide in (False, True):
            mine = [cell for cell in cells if cell["_way"] == name and PAYLOADS[cell["_payload"]].is_wide is is_wide]
            axes.plot(
                [sizes.index(cell["_payload"]) for cell in mine],
                [cell["chunks/s"].median for cell in mine],
                marker="o" if is_ours else ".",
                linewidth=2.5 if is_ours else 1,
                color=f"C{number}",
                label=None if is_wide else name,
            )
    axes.set_xticks(range(len(sizes)), sizes)
    axes.set(yscale="log", xlabel="rows per chunk (wide: 1,024 of 500 bytes)", ylabel="chunks per second")
    return bool(cells)


def curve(part: str, number: str, label: str, axes: "Axes", results: Results) -> bool:
    points = results.get(part)
    for name in dict.fromkeys(point[""] for point in points):
        mine = [point for point in points if point[""] == name]
        rates = [point["chunks/s"].median * point["_chunk_rows"] for point in mine]
        axes.plot([point[number] for point in mine], rates, marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel=label, ylabel="rows per second")
    return bool(points)


def delays(axes: "Axes", results: Results) -> bool:
    """Rows per second against the window, near and far; dashed, what the simulation says."""
    points = results.get("delays")
    for number, rtt in enumerate(dict.fromkeys(point["round trip"] for point in points)):
        mine = [point for point in points if point["round trip"] == rtt]
        windows = [point["row_permits"] for point in mine]
        rates, simulated = [point["rows/s"].median for point in mine], [point["simulated"] for point in mine]
        axes.plot(windows, rates, marker="o", color=f"C{number}", label=f"round trip {rtt}")
        axes.plot(windows, simulated, "--", color=f"C{number}", label=f"round trip {rtt}, simulated")
    axes.set_xscale("log", base=2)
    axes.set(yscale="log", xlabel="row permits", ylabel="rows per second")
    return bool(points)


DRAWINGS: dict[str, Drawing] = {
    "throughput": throughput,
    "windows": partial(curve, "windows", "row_permits", "row permits, returned by the default batch"),
    "batches": partial(curve, "batches", "permit_batch", "permit batch, of a window of 32,768 rows"),
    "delays": delays,
}


def draw_all(results: Results, folder: Path, prefix: str = "") -> Iterator[Path]:
    """All plots of the measurements, as SVG; none without matplotlib."""
    if find_spec("matplotlib") is None:
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


DOCUMENTS = CHECKOUT / "docs"


def paste(page: str, mark: str, rows: Iterable[Row]) -> None:
    """Paste a table of simulated figures into a page."""
    path = DOCUMENTS / page
    path.write_text(pasted(path.read_text("utf-8"), f"simulated: {mark}", f"{table([*rows])}\n"), "utf-8")
    print(f"wrote {mark} into {path}")


MARKED = re.compile(r"(?<=<!-- measured: )\w+(?= -->)")
PICTURES = "pictures"


def tables_asked_for(document: Path) -> list[str]:
    """The names in its marks, in order."""
    return MARKED.findall(document.read_text(encoding="utf-8"))


def update_documents(folder: Path, results: Results) -> list[Path]:
    """Paste all tables into the pages of a folder, and draw all plots; returns the files that were written.

    Raises:
        KeyError: a page asks for a table that does not exist.
    """
    pages = [page for page in sorted(folder.rglob("*.md")) if tables_asked_for(page)]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for name in tables_asked_for(page):
            text = pasted(text, f"measured: {name}", f"{TABLES[name](results)}\n")
        page.write_text(text, encoding="utf-8")
    return [*pages, *draw_all(results, folder / PICTURES, prefix="performance-")]
