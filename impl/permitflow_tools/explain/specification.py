"""What the specification says, for people: its text, and why an action is not possible.

Nothing here knows a guard.  The action is tried; where it refuses, the ``require`` that refused is read from the
model's own source, and its operands are evaluated where it stood.  Only the words for people are written, in a
protocol's look, and a test holds them against the guards that the model has.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from permitflow_model.kernel.guards import false_condition
from permitflow_model.kernel.system import Disabled, System, shown
from permitflow_model.manifest import find_spec_directory, parts_of

_OPERATOR = re.compile(r"^(\w+)(?:\([^)]*\))?\s*==")
_DECLARED = re.compile(r"^\s+(\w+),?\s*\\\*\s*(.*)$")


@dataclass(frozen=True)
class Passage:
    """A piece of the specification's text."""

    name: str
    file: str
    """As seen from the root of the repository."""
    line: int
    """The line of the name, counted from 1."""
    text: str
    first_line: int
    """The first line of the text: a comment may stand before the name."""

    @property
    def place(self) -> str:
        """As editors understand it: ``spec/some_protocol/SomeProtocol.tla:141``."""
        return f"{self.file}:{self.line}"


class Specification:
    """A TLA+ module with those that it extends, as text."""

    def __init__(self, module: str) -> None:
        """Read the modules from the specification's folder.

        Raises:
            ManifestError: there is no specification beside this package.
            KeyError: it has no such module.
            OSError: the module cannot be read.
        """
        self._lines = {
            f"spec/{path.relative_to(find_spec_directory()).as_posix()}": path.read_text(encoding="utf-8").splitlines()
            for path in parts_of(module).values()
        }

    @property
    def file(self) -> str:
        """The file of the module itself, as seen from the root of the repository."""
        return next(iter(self._lines))

    def operators(self) -> dict[str, Passage]:
        """All operators that begin at the left margin, by name."""
        return {passage.name: passage for file, lines in self._lines.items() for passage in _passages(file, lines)}

    def remarks(self) -> Mapping[str, str]:
        """What the module says about each of its constants and variables."""
        found = (_DECLARED.match(line) for lines in self._lines.values() for line in lines)
        return {match[1]: match[2].strip() for match in found if match}


def _passages(file: str, lines: Sequence[str]) -> Iterator[Passage]:
    for index, line in enumerate(lines):
        if match := _OPERATOR.match(line):
            first = index
            while first > 0 and lines[first - 1].startswith(r"\*"):
                first -= 1
            last = index + 1
            while last < len(lines) and lines[last].startswith(" "):
                last += 1
            yield Passage(match[1], file, index + 1, "\n".join(lines[first:last]), first + 1)


@dataclass(frozen=True)
class FalseGuard:
    """What stands in an action's way."""

    action: str
    expression: str
    """As the model writes it."""
    sentence: str
    """The same in words, with the numbers of this state."""


def false_guard(
    system: System[Any, Any],
    words: Mapping[str, Callable[..., str]],
    action: str,
    state: Any,
    parameters: Any,
    *arguments: int,
) -> FalseGuard | None:
    """The first guard of an action that is false in this state, or None if the action is possible.

    ``words`` are those for guards, by the model's own text; comparisons are told their two sides.
    """
    try:
        system.perform(action, state, parameters, *arguments)
    except Disabled as refusal:
        found = false_condition(refusal)
        if found is None:
            raise LookupError(f"the text of {action} is not at hand") from refusal
        condition, frame = found
        text, compared, values = ast.unparse(condition), "", list[object]()
        if isinstance(condition, ast.Compare):
            sides = [ast.Expression(side) for side in (condition.left, *condition.comparators)]
            values = [eval(compile(side, "<guard>", "eval"), frame.f_globals, frame.f_locals) for side in sides]
            room: list[ast.expr] = [ast.Name("{}") for _ in condition.comparators]
            template = ast.unparse(ast.Compare(ast.Name("{}"), condition.ops, room))
            compared = f" ({template.format(*map(shown, values))})"
        worded = words.get(text)
        return FalseGuard(action, text, worded(*values) if worded else f"{text} is false{compared}")
    return None
