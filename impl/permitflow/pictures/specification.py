"""What the specification says, for people: its text, its variables, whose move an action is, why one is not possible.

Nothing here knows a guard.  The action is tried; where it refuses, the ``require`` that refused is read from the
model's own source, and its operands are evaluated where it stood.  Only the words for people are written here, and a
test holds them against the guards that the model has.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, TracebackType

from permitflow_model.kernel.system import Disabled
from permitflow_model.manifest import find_spec_directory, module_paths
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Message, Parameters, Permits, State

__all__ = [
    "ACTORS",
    "WORDS",
    "FalseGuard",
    "Passage",
    "Specification",
    "camel_case",
    "false_guard",
    "guards_of",
    "in_brief",
    "variables_of",
]

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
        """As editors understand it: ``spec/permit_channel/PermitChannel.tla:141``."""
        return f"{self.file}:{self.line}"


class Specification:
    """One TLA+ module, as text."""

    def __init__(self, module: str) -> None:
        """Read the module from the specification's folder.

        Raises:
            ManifestError: there is no specification beside this package.
            KeyError: it has no such module.
            OSError: the module cannot be read.
        """
        path = module_paths()[module]
        self.file = f"spec/{path.relative_to(find_spec_directory()).as_posix()}"
        self._lines = path.read_text(encoding="utf-8").splitlines()

    def operators(self) -> dict[str, Passage]:
        """All operators that begin at the left margin, by name."""
        found = {}
        for index, line in enumerate(self._lines):
            if match := _OPERATOR.match(line):
                first = index
                while first > 0 and self._lines[first - 1].startswith(r"\*"):
                    first -= 1
                last = index + 1
                while last < len(self._lines) and self._lines[last].startswith(" "):
                    last += 1
                text = "\n".join(self._lines[first:last])
                found[match[1]] = Passage(match[1], self.file, index + 1, text, first + 1)
        return found

    def remarks(self) -> Mapping[str, str]:
        """What the module says about each of its constants and variables."""
        found = (_DECLARED.match(line) for line in self._lines)
        return {match[1]: match[2].strip() for match in found if match}


def camel_case(name: str) -> str:
    """The specification's spelling of a Python name: ``watermark_pending`` is watermarkPending."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def variables_of(state: State) -> dict[str, str]:
    """Each variable by its name in the specification."""
    return {camel_case(name): _value(value) for name, value in zip(State._fields, state, strict=True)}


def in_brief(state: State) -> str:
    """Only the variables that hold something."""
    shown = {
        name: text
        for name, text in variables_of(state).items()
        if text not in ("0", "-1", "FALSE", '"heard"', "\u27e8\u27e9")
    }
    return "\n".join(f"{name} = {text}" for name, text in shown.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Permits):
        return ", ".join(f"{name} {count:,}" for name, count in value._asdict().items() if count) or "none"
    if isinstance(value, Message):
        return f"{value.cost:,}" if value.kind == "chunk" else value.kind
    assert isinstance(value, tuple)  # a queue
    return f"\u27e8{', '.join(map(_value, value))}\u27e9"


ACTORS = {
    "OfferChunk": "producer",
    "OfferBarrier": "producer",
    "OfferWatermark": "producer",
    "WithdrawChunk": "producer",
    "WithdrawBarrier": "producer",
    "SendChunk": "sender",
    "SendBarrier": "sender",
    "SendWatermark": "sender",
    "AddPermits": "sender",
    "Deliver": "network",
    "Consume": "consumer",
    "Flush": "receiver",
}
"""Whose move an action is.  The network's follow by themselves; the others are where the specification has them."""


@dataclass(frozen=True)
class FalseGuard:
    """What stands in an action's way."""

    action: str
    expression: str
    """As the model writes it."""

    sentence: str
    """The same in words, with the numbers of this state."""


def _permits(count: int, what: str = "permit") -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _at_sender(needed: int, there: int, *, thing: str, what: str) -> str:
    verb = "is" if there == 1 else "are"
    return f"the {thing} needs {_permits(needed, what)}, {there:,} {verb} at the sender"


def _before_watermark(pending: int, _due: int) -> str:
    if pending == NO_WATERMARK:
        return "no watermark is pending"
    return f"{pending:,} message{'s' if pending != 1 else ''} offered before the watermark still wait"


WORDS: Mapping[str, Callable[..., str]] = {
    "state.waiting.size() < parameters.waiters": lambda size, most: (
        f"{size:,} message{'s wait' if size != 1 else ' waits'} already, and no more than {most:,} may"
    ),
    "parameters.barrier_permits > 0": lambda _permits, _none: "the channel has no barrier permits",
    "parameters.watermarks": lambda: "no watermarks are offered in this channel",
    "parameters.withdrawals": lambda: "whoever waits here never gives up",
    "not state.waiting.is_empty()": lambda: "nothing waits",
    "state.waiting.last().kind == 'chunk'": lambda kind, _chunk: f"the newest message that waits is a {kind}",
    "state.waiting.last().kind == 'barrier'": lambda kind, _barrier: f"the newest message that waits is a {kind}",
    "chunk.kind == 'chunk'": lambda kind, _chunk: f"it is the turn of a {kind}",
    "state.waiting.head().kind == 'barrier'": lambda kind, _barrier: f"it is the turn of a {kind}",
    "chunk.cost <= state.permits.rows": lambda cost, rows: _at_sender(cost, rows, thing="chunk", what="permit"),
    "state.permits.barriers >= 1": lambda barriers, one: _at_sender(
        one, barriers, thing="barrier", what="barrier permit"
    ),
    "state.watermark_pending == 0": _before_watermark,
    "state.permits.watermarks >= 1": lambda _watermarks, _one: "the permit of the last watermark is not back yet",
    "not state.wire.is_empty()": lambda: "nothing is on the wire",
    "not state.inbox.is_empty()": lambda: "the inbox is empty",
    "parameters.flush_idle": lambda: "an idle receiver keeps its residue in this protocol (FlushIdle is FALSE)",
    "state.inbox.is_empty()": lambda: "the inbox is not empty, so the consumer is not idle",
    "state.unreturned > 0": lambda _unreturned, _none: "the receiver keeps no permits",
    "not state.grants.is_empty()": lambda: "no permits are on their way back",
}
"""Words for each guard; comparisons are told their two sides."""


def false_guard(action: str, state: State, parameters: Parameters, *arguments: int) -> FalseGuard | None:
    """The first guard of an action that is false in this state, or None if the action is possible."""
    try:
        SYSTEM.perform(action, state, parameters, *arguments)
    except Disabled as refusal:
        guard, values = _refused(refusal.__traceback__)
        expression = ast.unparse(guard)
        words = WORDS.get(expression)
        shown = " ".join(f"{value}" for value in values)
        sentence = words(*values) if words else f"{expression} is false" + (f" ({shown})" if shown else "")
        return FalseGuard(action, expression, sentence)
    return None


def guards_of(perform: Callable[..., State]) -> Iterator[str]:
    """All guards of an action, as the model writes them."""
    for call in _required(perform.__code__):
        yield ast.unparse(call.args[0])


def _refused(traceback: TracebackType | None) -> tuple[ast.expr, tuple[int, ...]]:
    """The condition that ``require`` was given, and the values of its two sides if it compares."""
    places: list[TracebackType] = []
    while traceback is not None:
        places.append(traceback)
        traceback = traceback.tb_next
    # The innermost place is in `require` itself; before it stands the action.
    place = places[-2]
    frame = place.tb_frame
    line = place.tb_lineno - frame.f_code.co_firstlineno + 1
    calls = _required(frame.f_code)
    condition = next(call for call in calls if call.lineno <= line <= (call.end_lineno or call.lineno)).args[0]
    if not isinstance(condition, ast.Compare):
        return condition, ()
    sides = (compile(ast.Expression(side), "<guard>", "eval") for side in (condition.left, *condition.comparators))
    return condition, tuple(eval(side, frame.f_globals, frame.f_locals) for side in sides)


@cache
def _required(code: CodeType) -> tuple[ast.Call, ...]:
    """The calls of ``require`` in a function, in their order; lines count from the function's first."""
    nodes = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code))))
    calls = [
        node
        for node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require"
    ]
    return tuple(sorted(calls, key=lambda call: call.lineno))
