"""Everything that a run has measured, as one file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.records import Record

__all__ = ["RESULTS_FILE", "Results", "StaleResultsError"]

RESULTS_FILE = "results.json"


class StaleResultsError(Exception):
    """Records that this version does not understand."""

    def __init__(self, part: str, reason: str) -> None:
        """Of a part."""
        super().__init__(f"{part!r} was measured by another version: {reason}")
        self.part = part


R = TypeVar("R", bound=Record)


@dataclass
class Results:
    """Records by part."""

    machine: dict[str, str]
    settings: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    """Of each part."""
    seconds: dict[str, float] = field(default_factory=dict)
    """That measuring each part took, its warming up and tuning included; parts that commands of their own measure have
    none."""

    def put(self, part: str, records: Sequence[Record], seconds: float | None = None) -> None:
        """Replace a part, which took so many seconds to measure."""
        self.parts[part] = [record.facts() for record in records]
        self.rounds[part] = self.settings["rounds"]
        self.seconds.pop(part, None)
        if seconds is not None:
            self.seconds[part] = seconds

    @classmethod
    def keep_in(cls, folder: Path, machine: dict[str, str], part: str, records: Sequence[Record], rounds: int) -> None:
        """Put a part that was measured by itself among what a run has left in a folder, or begin with it."""
        try:
            results = cls.read(folder)
        except FileNotFoundError:
            results = cls(machine=machine, settings={"rounds": 0, "seed": 1, "is_smoke": False})
        results.put(part, records)
        results.rounds[part] = rounds
        results.write(folder)

    def keep(self, former: "Results") -> None:
        """Take over the parts that were not measured this time."""
        self.parts = former.parts | self.parts
        self.rounds = former.rounds | self.rounds
        self.seconds = former.seconds | self.seconds

    def forget(self, part: str) -> None:
        """Drop a part."""
        for facts in (self.parts, self.rounds, self.seconds):
            facts.pop(part, None)

    def get(self, part: str, kind: type[R]) -> list[R]:
        """A part; empty if it was not measured.

        Raises:
            StaleResultsError: it was measured by another version.
        """
        try:
            return [kind.read(facts) for facts in self.parts.get(part, [])]
        except TypeError as error:
            raise StaleResultsError(part, str(error)) from None

    def write(self, folder: Path) -> Path:
        """Into a folder, which is made if need be."""
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
        return cls(**json.loads((folder / RESULTS_FILE).read_text()))
