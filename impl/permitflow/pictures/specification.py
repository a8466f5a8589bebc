"""Where the specification says it: operators, constants and variables with their lines and their text."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from permitflow_model.manifest import find_spec_directory

__all__ = ["Passage", "Specification", "camel_case"]

_OPERATOR = re.compile(r"^(\w+)(?:\([^)]*\))?\s*==")
_DECLARED = re.compile(r"^\s+(\w+),?\s*\\\*\s*(.*)$")


@dataclass(frozen=True)
class Passage:
    """A piece of the specification's text."""

    name: str
    file: str
    """As seen from the root of the repository."""

    line: int
    """Of the name, counted from 1."""

    text: str
    first_line: int
    """Of the text: a comment may stand before the name."""

    @property
    def place(self) -> str:
        """As editors understand it: ``spec/PermitChannel.tla:141``."""
        return f"{self.file}:{self.line}"


class Specification:
    """One TLA+ module, as text."""

    def __init__(self, module: str, spec_directory: Path | None = None) -> None:
        """Read the module from the specification's folder.

        Raises:
            ManifestError: there is no specification beside this package.
            OSError: the module cannot be read.
        """
        self.file = f"spec/{module}.tla"
        path = (spec_directory or find_spec_directory()) / f"{module}.tla"
        self._lines = path.read_text(encoding="utf-8").splitlines()

    def operators(self) -> dict[str, Passage]:
        """All operators that begin at the left margin, by name."""
        return {passage.name: passage for passage in self._operators()}

    def operator(self, name: str) -> Passage:
        """Look one up.

        Raises:
            KeyError: the module defines no such operator.
        """
        return self.operators()[name]

    def remarks(self) -> Mapping[str, str]:
        """What the module says about each of its constants and variables."""
        found = (_DECLARED.match(line) for line in self._lines)
        return {match[1]: match[2].strip() for match in found if match}

    def _operators(self) -> Iterator[Passage]:
        for index, line in enumerate(self._lines):
            if match := _OPERATOR.match(line):
                first = index
                while first > 0 and self._lines[first - 1].startswith(r"\*"):
                    first -= 1
                last = index + 1
                while last < len(self._lines) and self._lines[last].startswith(" "):
                    last += 1
                text = "\n".join(self._lines[first:last])
                yield Passage(match[1], self.file, index + 1, text, first + 1)


def camel_case(name: str) -> str:
    """The specification's spelling of a Python name: ``barrier_waiting`` is barrierWaiting."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
