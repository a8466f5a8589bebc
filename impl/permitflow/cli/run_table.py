"""Runs of a model as tables and for programs: after each step, what its look tells of the state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from permitflow.checking.deciding import spelt
from permitflow.cli.console import open_table

if TYPE_CHECKING:
    from permitflow_model.kernel.system import Step

_FIRST_STEPS = 16
_LAST_STEPS = 16


def run_table(module: str, start: Any, steps: "Sequence[Step[Any]]") -> Table:
    """A run, one line per step; of a long one, the beginning and the end."""
    from permitflow.pictures.look import look_of

    look = look_of(module)
    told = look.row(start)
    numbers = tuple(name for name, text in told.items() if text.replace(",", "").isdigit())
    actor = ["actor"] if look.has_actors else []
    table = open_table("step", "action", *actor, *told, right=("step", *numbers))
    table.add_row("0", "", *("" for _ in actor), *told.values())
    left_out = range(_FIRST_STEPS, len(steps) - _LAST_STEPS)
    for number, step in enumerate(steps, start=1):
        if number - 1 not in left_out:
            actor = [look.actor(step.action)] if look.has_actors else []
            table.add_row(str(number), spelt(step), *actor, *look.row(step.state).values())
        elif number - 1 == left_out.start:
            table.add_row("\u2026", f"{len(left_out):,} more steps")
    return table


def run_as_json(module: str, start: Any, steps: "Sequence[Step[Any]]") -> list[dict[str, object]]:
    """A run for programs; the first entry is the initial state."""
    from permitflow.pictures.look import look_of

    look = look_of(module)
    first: dict[str, object] = {"action": None, "arguments": [], **look.as_json(start)}
    rest = ({"action": one.action, "arguments": list(one.arguments), **look.as_json(one.state)} for one in steps)
    return [first, *rest]
