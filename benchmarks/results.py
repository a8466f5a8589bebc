"""All measurements of a run as one file; series of values, Markdown tables, and facts about the machine."""

import json
import os
import platform
import statistics
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self, TypeVar

import psutil


@dataclass(frozen=True)
class Series:
    """One value for each round, in the order of the rounds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, values: Iterable[float]) -> "Series":
        return cls(tuple(values))

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    def ratio_to(self, other: "Series") -> "Series":
        """The ratio round by round, so that a disturbance affects both."""
        return Series(tuple(mine / theirs for mine, theirs in zip(self.values, other.values, strict=True)))

    def told(self) -> str:
        """Median and range, as in ``12.3k (11k to 13k)``."""
        return f"{compact(self.median)} ({compact(self.low)} to {compact(max(self.values))})"


def compact(value: float) -> str:
    """Three digits at most, and k or M."""
    for limit, divisor, unit in ((1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= limit:
            return f"{_three_digits(value / divisor)}{unit}"
    return _three_digits(value)


def _three_digits(value: float) -> str:
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


@dataclass(frozen=True)
class Record:
    """Figures that can be written as JSON, and read again."""

    @classmethod
    def read(cls, facts: dict[str, Any]) -> Self:
        """From a file, where a series is an object with its values."""
        return cls(
            **{name: Series.of(each["values"]) if isinstance(each, dict) else each for name, each in facts.items()}
        )


NOT_MEASURED = "-"
UNMEASURED = "Not measured in this run."
HEAD_LINES = 2


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers; a text if there are no rows."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) if len(lines) > HEAD_LINES else UNMEASURED


PACKAGES = ("pyarrow", "grpcio", "protobuf", "rsocket", "anyio")
_CPU_INFO = Path("/proc/cpuinfo")


def describe_machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "Python": platform.python_version(),
    } | {name: found for name in PACKAGES if (found := _version(name))}


def _processor() -> str:
    if not _CPU_INFO.exists():
        return platform.processor()
    facts = dict(line.split(":", 1) for line in _CPU_INFO.read_text().splitlines() if ":" in line)
    stripped = {name.strip(): value.strip() for name, value in facts.items()}
    return stripped.get("model name", platform.machine())


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


RESULTS_FILE = "results.json"


R = TypeVar("R", bound=Record)


@dataclass
class Results:
    machine: dict[str, str]
    settings: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    """Of each part."""

    def put(self, part: str, records: Sequence[Record]) -> None:
        self.parts[part] = [asdict(record) for record in records]
        self.rounds[part] = self.settings["rounds"]

    def keep(self, former: "Results") -> None:
        """Take over the parts that were not measured this time."""
        self.parts = former.parts | self.parts
        self.rounds = former.rounds | self.rounds

    def get(self, part: str, kind: type[R]) -> list[R]:
        """A part; empty if it was not measured, or by another version whose records this one does not understand."""
        try:
            return [kind.read(facts) for facts in self.parts.get(part, [])]
        except TypeError as error:
            warnings.warn(f"{part!r} was measured by another version, and is left out: {error}", stacklevel=2)
            return []

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / RESULTS_FILE
        path.write_text(json.dumps(self.__dict__, indent=1) + "\n")
        return path

    @classmethod
    def read(cls, folder: Path) -> "Results":
        """From a folder.

        Raises:
            FileNotFoundError: nothing was measured yet.
        """
        content = json.loads((folder / RESULTS_FILE).read_text())
        # Other versions have written more.
        return cls(**{each.name: content[each.name] for each in fields(cls) if each.name in content})
