"""What the specification says, for people: its text, and why an action is not possible.

Nothing here knows a guard.  The action is tried; where it refuses, the ``require`` that refused is read from the
model's own source, and its operands are evaluated where it stood.  Only the words for people are written, in a
protocol's look, and a test holds them against the guards that the model has.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
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
        guard = _guard(condition)
        values = tuple(eval(side, frame.f_globals, frame.f_locals) for side in guard.sides)
        worded = words.get(guard.text)
        compared = f" ({guard.template.format(*map(shown, values))})" if values else ""
        sentence = worded(*values) if worded else f"{guard.text} is false{compared}"
        return FalseGuard(action, guard.text, sentence)
    return None


def guards_of(perform: Callable[..., Any]) -> Iterator[str]:
    """All guards of an action, as the model writes them; also those of functions of its module that it calls."""
    called = (perform.__globals__.get(name) for name in perform.__code__.co_names)
    helpers = (each for each in called if inspect.isfunction(each) and each.__module__ == perform.__module__)
    for code in (perform.__code__, *(helper.__code__ for helper in helpers)):
        for guard in _required(code):
            yield guard.text


@dataclass(frozen=True)
class _Guard:
    """A condition that ``require`` is given."""

    text: str
    template: str
    """A comparison with room for the values of its sides, as in ``{} < {}``."""
    sides: tuple[CodeType, ...]


def _guard(condition: ast.expr) -> _Guard:
    template, operands = "", list[ast.expr]()
    if isinstance(condition, ast.Compare):
        operands = [condition.left, *condition.comparators]
        room: list[ast.expr] = [ast.Name("{}") for _ in condition.comparators]
        template = ast.unparse(ast.Compare(ast.Name("{}"), condition.ops, room))
    sides = tuple(compile(ast.Expression(operand), "<guard>", "eval") for operand in operands)
    return _Guard(ast.unparse(condition), template, sides)


def _required(code: CodeType) -> Iterator[_Guard]:
    """The guards of a function, in their order."""
    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code))))
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require"
    ]
    return (_guard(call.args[0]) for call in sorted(calls, key=lambda call: call.lineno))
