"""A sweep as something to look at: which of the varied numbers is on the horizontal axis, and which are lines."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from permitflow.cli.outcomes import requires_extra, unusable
from permitflow.cli.output import require_folder, write_bytes
from permitflow.cli.simulate_once import in_words, limits_in_words
from permitflow.cli.sweep_rows import HEADS, Row, shown_value
from permitflow.parameters_file.read import Description

if TYPE_CHECKING:
    from permitflow.pictures.sweep_plot import Series

__all__ = ["draw", "require_drawable"]

_LABELS = {
    "row_count": "row count (ROW_COUNT), rows",
    "batch": "batch, rows",
    "max_chunk": "largest cost of a chunk, rows",
    "chunk_rows": "rows of a chunk",
    "rtt": "round-trip time, ms",
    "producer_rate": "rate of the producer, rows/s",
    "consumer_rate": "rate of the consumer, rows/s",
    "link_rate": "rate of the link, rows/s",
}
_MILLISECONDS = 1_000


def require_drawable(path: Path | None) -> None:
    """End the command early if the drawing could not be made."""
    from permitflow.pictures.plot_files import SUFFIXES, load_matplotlib

    if path is None:
        return
    if path.suffix.lower() not in SUFFIXES:
        unusable(f"--plot: the name must end in {', '.join(SUFFIXES)}, not {path.name!r}")
    require_folder("--plot", path)
    with requires_extra("plots"):
        load_matplotlib()


def draw(description: Description, rows: Sequence[Row], path: Path) -> None:
    """Write the drawing."""
    from permitflow.pictures.sweep_plot import SweepPicture, sweep_bytes

    names = [axis.name for axis in description.axes]
    x_name = "row_count" if "row_count" in names else names[0]
    others = [name for name in names if name != x_name]
    rates = {row.run.setting.bottleneck_rate for row in rows if row.run is not None}
    most = rates.pop() if len(rates) == 1 else float("inf")
    picture = SweepPicture(
        title="Throughput and back-pressure of a permit channel",
        sentence=f"Varied from {in_words(description.setting)}; {limits_in_words(description.setting)}.",
        x_label=_LABELS[x_name],
        series=[_series(group, x_name, others) for group in _groups(rows, others)],
        most=most if most < float("inf") else None,
        head=[*names, "verdict", *HEADS],
        rows=[(row.verdict == "flows", _cells(row, names)) for row in rows],
    )
    write_bytes(path, sweep_bytes(picture, path.suffix.lower()))


def _groups(rows: Sequence[Row], others: Sequence[str]) -> list[list[Row]]:
    groups: dict[tuple[float, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.point.values[name] for name in others), []).append(row)
    return list(groups.values())


def _series(group: Sequence[Row], x_name: str, others: Sequence[str]) -> "Series":
    from permitflow.pictures.sweep_plot import Series

    flowing = [(row.point.values[x_name], row.run.figures) for row in group if row.run and row.run.figures]
    products = {row.run.setting.bandwidth_delay_product for row in group if row.run is not None}
    product = products.pop() if x_name == "row_count" and len(products) == 1 else float("inf")
    values = group[0].point.values
    return Series(
        label=", ".join(f"{name} {shown_value(name, values[name])}" for name in others) or "simulated",
        xs=[_x(x_name, x) for x, _ in flowing],
        throughputs=[figures.throughput for _, figures in flowing],
        back_pressures=[figures.back_pressure for _, figures in flowing],
        failures=[_x(x_name, row.point.values[x_name]) for row in group if row.run and not row.run.figures],
        mark=product if 0 < product < float("inf") else None,
    )


def _x(name: str, value: float) -> float:
    return value * _MILLISECONDS if name == "rtt" else value


def _cells(row: Row, names: Sequence[str]) -> list[str]:
    return [*(shown_value(name, row.point.values[name]) for name in names), row.verdict, *row.shown()]
