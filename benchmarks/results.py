"""All measurements of a run as one file: of each part, rows whose values stand under the headings of its table."""

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import psutil

FORMAT = 2
"""The version of the file; another version's cannot be read."""
RESULTS_FILE = "results.json"
RANGE, COMPACT = "range", "compact"
"""How a series is shown: its median and range, or the median alone."""


@dataclass(frozen=True)
class Series:
    """One value for each round, in the order of the rounds."""

    values: tuple[float, ...]
    shown: str = RANGE
    """``RANGE``, ``COMPACT``, or the format of the median."""

    @classmethod
    def of(cls, values: Iterable[float], shown: str = RANGE) -> "Series":
        return cls(tuple(values), shown)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    def ratio_to(self, other: "Series") -> "Series":
        """The ratio round by round, so that a disturbance affects both."""
        return Series.of((mine / theirs for mine, theirs in zip(self.values, other.values, strict=True)))

    def __str__(self) -> str:
        if self.shown != RANGE:
            return compact(self.median) if self.shown == COMPACT else self.shown.format(self.median)
        return f"{compact(self.median)} ({compact(self.low)} to {compact(max(self.values))})"


def compact(value: float) -> str:
    """Three digits at most, and k or M."""
    unit = ""
    for limit, divisor, name in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= limit:
            value, unit = value / divisor, name
            break
    if value >= 100 or value == int(value):
        return f"{value:,.0f}{unit}"
    return f"{value:.1f}{unit}" if value >= 10 else f"{value:.2f}{unit}"


MEBIBYTES = "{:.0f}"

Row: TypeAlias = dict[str, Any]
"""Texts, whole numbers and series; what begins with an underscore stands in no column of its own."""
NOT_MEASURED = "-"
UNMEASURED = "Not measured in this run."


def table(rows: Sequence[Row], others: str = "---:") -> str:
    """A table in Markdown whose first column is text and whose others are numbers; a text if there are no rows."""
    if not rows:
        return UNMEASURED
    columns = [name for name in rows[0] if not name.startswith("_")]
    lines = [columns, ["---", *(others for _ in columns[1:])]]
    lines += [[_cell(row.get(name)) for name in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{value:,}" if isinstance(value, int) else compact(value) if isinstance(value, float) else str(value)


@dataclass
class Results:
    machine: dict[str, str]
    settings: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    parts: dict[str, list[Row]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    """The number of rounds of each part."""
    format: int = FORMAT

    def put(self, part: str, rows: Sequence[Row]) -> None:
        self.parts[part] = [*rows]
        self.rounds[part] = self.settings["rounds"]

    def keep(self, former: "Results") -> None:
        """Take over the parts that were not measured this time."""
        self.parts = former.parts | self.parts
        self.rounds = former.rounds | self.rounds

    def get(self, part: str) -> list[Row]:
        """A part; empty if it was not measured."""
        return self.parts.get(part, [])

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RESULTS_FILE).write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Results":
        """From a folder.

        Raises:
            FileNotFoundError: nothing was measured yet.
            ValueError: another version has written it.
        """
        content = json.loads((folder / RESULTS_FILE).read_text(), object_hook=_revived)
        if content.get("format") != FORMAT:
            raise ValueError("another version has written it")
        return cls(**content)


def _revived(facts: dict[str, Any]) -> Any:
    return Series(tuple(facts["values"]), facts["shown"]) if facts.keys() == {"values", "shown"} else facts


PACKAGES = ("pyarrow", "grpcio", "protobuf", "rsocket", "anyio")
_CPU_INFO = Path("/proc/cpuinfo")


def describe_machine() -> dict[str, str]:
    model = re.search(r"^model name\s*: (.*)$", _CPU_INFO.read_text() if _CPU_INFO.exists() else "", re.MULTILINE)
    return {
        "cores": str(os.cpu_count()),
        "processor": model[1] if model else platform.processor() or platform.machine(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
    } | {name: found for name in PACKAGES if (found := _version(name))}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
