"""Runs of a model: taken step by step, and as a table of text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from permitflow_model.kernel.system import Step, System, shown

S = TypeVar("S")
P = TypeVar("P")

Move = tuple[str, tuple[int, ...]]
"""An action's name and its arguments."""

_WIDEST = 120
_MOST_ITEMS = 100


@dataclass(frozen=True)
class Run(Generic[S, P]):
    """A behaviour of the model, step by step."""

    parameters: P
    start: S
    steps: tuple[Step[S], ...]

    @property
    def end(self) -> S:
        """The state that the last step leads to."""
        return self.steps[-1].state if self.steps else self.start


def replay(system: System[S, P], parameters: P, moves: Iterable[Move]) -> Run[S, P]:
    """Take these steps from the initial state.

    Raises:
        Disabled: the model does not allow one of them.
    """
    start = state = system.initial(parameters)
    steps = []
    for action, arguments in moves:
        state = system.perform(action, state, parameters, *arguments)
        steps.append(Step(action, arguments, state))
    return Run(parameters, start, tuple(steps))


def columns_of(state: Any) -> dict[str, str]:
    """The variables of a state with their values."""
    names = getattr(state, "_fields", None)
    return {"state": _shown(state)} if names is None else dict(zip(names, map(_shown, state), strict=True))


def table_of(start: Any, steps: Sequence[Step[Any]], loop: Sequence[Step[Any]] = ()) -> str:
    """A run, and a loop in which it ends; where a line would be too long, only the variables that change are told."""
    states = [start, *(step.state for step in (*steps, *loop))]
    rows = [columns_of(state) for state in states]
    names = ["the beginning", *(step.call for step in steps), *(f"{step.call} (loop)" for step in loop)]
    lines = [["step", "action", *rows[0]]]
    lines += [[f"{number}", name, *row.values()] for number, (name, row) in enumerate(zip(names, rows, strict=True))]
    text = _aligned(lines)
    if max(map(len, text)) <= _WIDEST:
        return "\n".join(text)
    changes = [", ".join(f"{name} {value}" for name, value in rows[0].items())]
    changes += [", ".join(_changes("", before, after)) for before, after in pairwise(states)]
    parts = zip(names, changes, strict=True)
    return "\n".join(_aligned([["step", "action", ""], *([f"{n}", *part] for n, part in enumerate(parts))]))


def _changes(name: str, before: Any, after: Any) -> Iterator[str]:
    """What a step changes, by its name; of a part that has names itself, what changes in it."""
    if hasattr(after, "_fields") and type(before) is type(after):
        for part, was, becomes in zip(after._fields, before, after, strict=True):
            yield from _changes(f"{name}.{part}" if name else part, was, becomes)
    elif (was := _shown(before)) != (becomes := _shown(after)):
        yield f"{name or 'state'} {was} -> {becomes}"


def _shown(value: object) -> str:
    """A value in one line, cut where it is long; of a queue or a family, what is in it."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        more = ["\u2026"] if len(value) > _MOST_ITEMS else []
        return f"({', '.join([*map(_shown, value[:_MOST_ITEMS]), *more])})"
    return shown(value)


def _aligned(lines: Sequence[Iterable[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
