"""Values of TLA+: read from TLC's text, made from the states of the model, written canonically or as a configuration.

Compare values by their canonical text: Python holds ``True == 1``, TLA+ does not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, Union


class TlaSyntaxError(ValueError):
    """A text is not a TLA+ value as TLC prints it."""

    def __init__(self, *, expected: str, text: str, position: int) -> None:
        """State the expected token, and the place."""
        super().__init__(f"expected {expected} at offset {position} of {text!r}, found {text[position:][:20]!r}")
        self.position = position


@dataclass(frozen=True)
class ModelValue:
    """A value that is equal only to itself: an identifier."""

    name: str


@dataclass(frozen=True)
class Record:
    """``[a |-> 1, b |-> 2]``."""

    fields: tuple[tuple[str, "TlaValue"], ...]
    """Sorted by name: the order of fields means nothing."""

    @classmethod
    def of(cls, fields: Mapping[str, "TlaValue"]) -> "Record":
        """A record with these fields."""
        return cls(tuple(sorted(fields.items(), key=lambda field: field[0])))

    def __getitem__(self, name: str) -> "TlaValue":
        """The value of one field.

        Raises:
            KeyError: there is no such field.
        """
        return dict(self.fields)[name]


@dataclass(frozen=True)
class Function:
    """``(1 :> "a" @@ 3 :> "b")``: a function that is neither a sequence nor a record."""

    pairs: tuple[tuple["TlaValue", "TlaValue"], ...]
    """Sorted by the canonical text of the argument."""

    @classmethod
    def of(cls, pairs: Iterable[tuple["TlaValue", "TlaValue"]]) -> "Function":
        """A function with these arguments and results."""
        return cls(tuple(sorted(pairs, key=lambda pair: format_value(pair[0]))))


TlaValue: TypeAlias = Union[  # noqa: UP007  strings in a union with | fail at run time
    bool, int, str, ModelValue, Record, Function, tuple["TlaValue", ...], frozenset["TlaValue"]
]
"""Sequences are tuples, sets are frozen sets."""


# Reading.

_TOKEN = re.compile(r'\s*(?:(<<|>>|\|->|:>|@@|[\[\](){},])|(-?\d+)|"((?:[^"\\]|\\.)*)"|(\w+)|(\S))')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse_value(text: str) -> TlaValue:
    """Read one value as TLC prints it.

    Raises:
        TlaSyntaxError: the text is not such a value.
    """
    reader = _Reader(text)
    value = reader.value()
    reader.expect_end()
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: Iterator[re.Match[str]] = _TOKEN.finditer(text.rstrip())
        self._next: re.Match[str] | None = None
        self._advance()

    def value(self) -> TlaValue:
        token = self._take("a value")
        if (number := token.group(2)) is not None:
            return int(number)
        if (string := token.group(3)) is not None:
            return _ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), string)
        if (name := token.group(4)) is not None:
            return {"TRUE": True, "FALSE": False}.get(name, ModelValue(name))
        match token.group(1):
            case "<<":
                return tuple(self._values_until(">>"))
            case "{":
                return frozenset(self._values_until("}"))
            case "[":
                return self._record()
            case "(":
                return self._function()
        raise self._error("a value", token)

    def expect_end(self) -> None:
        if self._next is not None:
            raise self._error("the end", self._next)

    def _values_until(self, end: str) -> Iterator[TlaValue]:
        if self._accept(end):
            return
        while True:
            yield self.value()
            if self._accept(end):
                return
            self._expect(",")

    def _record(self) -> Record:
        fields: dict[str, TlaValue] = {}
        while True:
            token = self._take("a field name")
            if (name := token.group(4)) is None:
                raise self._error("a field name", token)
            self._expect("|->")
            fields[name] = self.value()
            if self._accept("]"):
                return Record.of(fields)
            self._expect(",")

    def _function(self) -> Function:
        pairs: list[tuple[TlaValue, TlaValue]] = []
        while True:
            argument = self.value()
            self._expect(":>")
            pairs.append((argument, self.value()))
            if self._accept(")"):
                return Function.of(pairs)
            self._expect("@@")

    def _advance(self) -> None:
        self._next = next(self._tokens, None)

    def _take(self, expected: str) -> re.Match[str]:
        token = self._next
        if token is None:
            raise TlaSyntaxError(expected=expected, text=self._text, position=len(self._text))
        self._advance()
        return token

    def _accept(self, symbol: str) -> bool:
        if self._next is None or self._next.group(1) != symbol:
            return False
        self._advance()
        return True

    def _expect(self, symbol: str) -> None:
        token = self._take(repr(symbol))
        if token.group(1) != symbol:
            raise self._error(repr(symbol), token)

    def _error(self, expected: str, token: re.Match[str]) -> TlaSyntaxError:
        return TlaSyntaxError(expected=expected, text=self._text, position=token.end() - len(token[0].lstrip()))


_CONJUNCT = re.compile(r"^/\\ ([A-Za-z_]\w*) = ", re.MULTILINE)

# Few values, many states: a graph of 10,000 states has some hundred different wires.
_parse_cached = lru_cache(maxsize=100_000)(parse_value)


def parse_state(text: str) -> dict[str, TlaValue]:
    r"""Read a state as TLC prints it: one conjunct ``/\ variable = value`` per variable, or one bare equation.

    Raises:
        TlaSyntaxError: the text is not a state.
    """
    text = text.strip()
    if not text.startswith("/\\"):
        text = f"/\\ {text}"
    parts = _CONJUNCT.split(text)
    if parts[0].strip() or len(parts) < 3:
        raise TlaSyntaxError(expected=r"/\ variable = value", text=text, position=0)
    return {name: _parse_cached(value) for name, value in zip(parts[1::2], parts[2::2], strict=True)}


# Writing.


def format_value(value: TlaValue) -> str:
    """The canonical text: equal values, and only they, have the same one."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case ModelValue():
            return value.name
        case Record():
            return "[" + ", ".join(f"{name} |-> {format_value(item)}" for name, item in value.fields) + "]"
        case Function():
            pairs = (f"{format_value(argument)} :> {format_value(result)}" for argument, result in value.pairs)
            return "(" + " @@ ".join(pairs) + ")"
        case frozenset():
            return "{" + ", ".join(sorted(map(format_value, value))) + "}"
        case tuple():
            return "<<" + ", ".join(map(format_value, value)) + ">>"


def format_state(state: Mapping[str, TlaValue]) -> str:
    """The canonical text of a state, one variable per line, sorted by name."""
    return "\n".join(f"/\\ {name} = {format_value(state[name])}" for name in sorted(state))


# From the model.


def camel_case(name: str) -> str:
    """The name of a variable in TLA+: ``barrier_waiting`` is ``barrierWaiting`` there."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def snake_case(name: str) -> str:
    """The name of a module or a constant in Python: ``RowPermits`` is ``row_permits`` there."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def to_tla(value: object) -> TlaValue:
    """What a value of the model is in TLA+: named tuples are records; queues, families and tuples are sequences.

    Raises:
        TypeError: the value has no counterpart.
    """
    match value:
        case bool() | int() | str():
            return value
        case tuple() if hasattr(value, "_fields"):
            return Record.of(state_to_tla(value))
        case Iterable() if isinstance(value, tuple) or hasattr(value, "is_empty"):
            return tuple(map(to_tla, value))
        case frozenset():
            return frozenset(map(to_tla, value))
    raise TypeError(f"{type(value).__name__} has no counterpart in TLA+: {value!r}")


def state_to_tla(state: object) -> dict[str, TlaValue]:
    """The variables of a model's state, by their names in TLA+.

    Raises:
        TypeError: the state is not a named tuple, or a value in it has no counterpart.
    """
    names: tuple[str, ...] | None = getattr(state, "_fields", None)
    if names is None:
        raise TypeError(f"a state of a model is a named tuple, not {type(state).__name__}")
    return {camel_case(name): to_tla(getattr(state, name)) for name in names}


def config_text(
    constants: Mapping[str, TlaValue],
    *,
    specification: str = "Spec",
    actions: Mapping[str, str] | None = None,
    invariants: Sequence[str] = (),
    properties: Sequence[str] = (),
) -> str:
    """What a .cfg file must say to check these formulas; deadlocks are always looked for.

    ``actions`` names actions, and those that take their places.
    """
    lines = ["CONSTANTS"]
    lines += [f"    {name} = {format_value(value)}" for name, value in constants.items()]
    lines += [f"    {right} <- {wrong}" for right, wrong in (actions or {}).items()]
    lines += [f"SPECIFICATION {specification}"]
    for keyword, names in (("INVARIANTS", invariants), ("PROPERTIES", properties)):
        if names:
            lines += [keyword, *(f"    {name}" for name in names)]
    return "\n".join(lines) + "\n"
