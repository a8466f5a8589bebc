"""Results as files: a record is a dataclass of texts, numbers and series."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from benchmarks.series import Series

__all__ = ["Record"]


@dataclass(frozen=True)
class Record:
    """Can be written as JSON, and read again."""

    def facts(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @classmethod
    def read(cls, facts: dict[str, Any]) -> Self:
        """From a file."""
        return cls(**{name: _value(value) for name, value in facts.items()})


def _value(value: Any) -> Any:
    return Series.of(value["values"]) if isinstance(value, dict) and "values" in value else value
