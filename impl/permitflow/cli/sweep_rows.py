"""One combination of a sweep, and what became of it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from permitflow.parameters_file.quantities import duration_text
from permitflow.simulation.run import Figures, SimulatedRun
from permitflow.simulation.sweep import Point

__all__ = ["FIGURES", "HEADS", "Row", "shown_value"]


class Row(NamedTuple):
    """One combination, and what became of it."""

    point: Point
    run: SimulatedRun | None
    """None where the combination cannot be."""
    reason: str = ""
    """Why it cannot be."""

    @property
    def verdict(self) -> str:
        """In a word."""
        return "impossible" if self.run is None else self.run.verdict

    @property
    def figures(self) -> Figures | None:
        """What was measured, if it flowed."""
        return None if self.run is None else self.run.figures

    def shown(self) -> list[str]:
        """The figures for people, in the order of ``HEADS``; empty texts if there are none."""
        return [""] * len(FIGURES) if self.figures is None else [read(self.figures)[1] for read in FIGURES.values()]

    def numbers(self) -> list[float | str]:
        """The figures for programs, in the order of ``FIGURES``; empty texts if there are none."""
        return [""] * len(FIGURES) if self.figures is None else [read(self.figures)[0] for read in FIGURES.values()]


FIGURES: Mapping[str, Callable[[Figures], tuple[float, str]]] = {
    "throughput": lambda f: (f.throughput, f"{f.throughput:,.0f}"),
    "utilisation": lambda f: (f.utilisation, f"{f.utilisation:.1%}"),
    "back_pressure": lambda f: (f.back_pressure, f"{f.back_pressure:.1%}"),
    "latency_p50_seconds": lambda f: (f.latency_p50_seconds, duration_text(f.latency_p50_seconds)),
    "latency_p99_seconds": lambda f: (f.latency_p99_seconds, duration_text(f.latency_p99_seconds)),
    "grants_per_row": lambda f: (f.grants_per_row, f"{f.grants_per_row:.2g}"),
}
HEADS = ("rows/s", "utilisation", "back-pressure", "latency p50", "latency p99", "permit messages/row")


def shown_value(name: str, value: float) -> str:
    """A value of an axis for people."""
    return duration_text(value) if name == "rtt" else f"{value:,.0f}"
