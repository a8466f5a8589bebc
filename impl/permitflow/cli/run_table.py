"""Runs of the model as tables: after each step, where every row permit is, or which rows are where."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from permitflow.checking.deciding import spelt
from permitflow.cli.console import open_table

if TYPE_CHECKING:
    from permitflow_model.kernel.system import Step
    from permitflow_model.permit_channel import State
    from permitflow_model.spark_micro_batch import State as QueryState

__all__ = ["TABLES", "run_as_json", "run_table", "state_table"]

_FIRST_STEPS = 16
_LAST_STEPS = 16


def _shown_permits(state: "State") -> list[str]:
    """The same and their sum, for a table."""
    from permitflow.testing.subjects.permits import row_permits

    counts = row_permits(state).values()
    return [f"{count:,}" for count in (*counts, sum(counts))]


def run_table(start: "State", steps: "Sequence[Step[State]]") -> Table:
    """A run of the permit channel, one line per step; of a long one, the beginning and the end."""
    from permitflow.pictures.specification import ACTORS

    numbers = ("permits", "in flight", "inbox", "unreturned", "grants", "sum")
    table = open_table("step", "action", "who", *numbers, "waiting", right=("step", *numbers))
    table.add_row("0", "", "", *_shown_permits(start), _waiting(start))
    left_out = range(_FIRST_STEPS, len(steps) - _LAST_STEPS)
    for number, step in enumerate(steps, start=1):
        if number - 1 not in left_out:
            permits = _shown_permits(step.state)
            table.add_row(str(number), spelt(step), ACTORS[step.action], *permits, _waiting(step.state))
        elif number - 1 == left_out.start:
            table.add_row("…", f"{len(left_out):,} more steps")
    return table


def run_as_json(start: "State", steps: "Sequence[Step[State]]") -> list[dict[str, object]]:
    """A run of the permit channel for programs; the first entry is the initial state."""
    from permitflow.testing.subjects.permits import row_permits

    states: list[tuple[str | None, Sequence[int], State]] = [(None, (), start)]
    states += [(step.action, step.arguments, step.state) for step in steps]
    return [
        {
            "action": action,
            "arguments": list(arguments),
            **row_permits(state),
            "waiting": [message.cost for message in state.waiting if message.kind == "chunk"],
        }
        for action, arguments, state in states
    ]


def _waiting(state: "State") -> str:
    waiting = (f"a chunk of {each.cost:,}" if each.kind == "chunk" else f"a {each.kind}" for each in state.waiting)
    return ", ".join(waiting)


def _query_table(start: "QueryState", steps: "Sequence[Step[QueryState]]") -> Table:
    """A run of a streaming query, one line per step.

    kept: rows that the exchange keeps, each with a permit; batch: rows of the last batch in the offset log; table: rows
    in the published table.
    """
    numbers = ("step", "waiting", "kept", "acknowledged", "table")
    table = open_table(
        "step", "action", "driver", "waiting", "kept", "acknowledged", "batch", "commit log", "table", right=numbers
    )
    table.add_row("0", "", *_cells(start))
    for number, step in enumerate(steps, start=1):
        table.add_row(str(number), spelt(step), *_cells(step.state))
    return table


def state_table(start: Any, steps: "Sequence[Step[Any]]") -> Table:
    """A run of any system, one line per step: all variables, by their names in the specification."""
    from permitflow_model.tla_values import format_value, state_to_tla

    table = open_table("step", "action", *state_to_tla(start), right=("step",))
    table.add_row("0", "", *map(format_value, state_to_tla(start).values()))
    for number, step in enumerate(steps, start=1):
        table.add_row(str(number), spelt(step), *map(format_value, state_to_tla(step.state).values()))
    return table


TABLES: "Mapping[str, Callable[[Any, Sequence[Step[Any]]], Table]]" = {
    "PermitChannel": run_table,
    "SparkMicroBatch": _query_table,
}
"""The systems whose runs have a table of their own."""


def _cells(state: "QueryState") -> tuple[str, ...]:
    return (
        state.phase,
        f"{state.waiting:,}" if state.waiting else "",
        f"{state.produced - state.acknowledged:,}",
        f"{state.acknowledged:,}",
        f"[{state.start:,}, {state.end:,})" if state.end else "",
        ("has it" if state.committed else "not yet") if state.end else "",
        f"{state.output:,}",
    )
