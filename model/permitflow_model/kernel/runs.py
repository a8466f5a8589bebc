"""A run as a table of text: one line for each step, one column for each variable."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from permitflow_model.kernel.system import Step

__all__ = ["columns_of", "table_of"]

_WIDEST = 120


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
    changes += [
        ", ".join(f"{name} {before[name]} -> {value}" for name, value in after.items() if value != before[name])
        for before, after in pairwise(rows)
    ]
    parts = zip(names, changes, strict=True)
    return "\n".join(_aligned([["step", "action", ""], *([f"{n}", *part] for n, part in enumerate(parts))]))


def _shown(value: object) -> str:
    """A value in one line; of a queue or a family, what is in it."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({', '.join(map(_shown, value))})"
    return repr(value)


def _aligned(lines: Sequence[Iterable[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
