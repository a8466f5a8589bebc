"""A run of a streaming query as a table: after each step, which rows are where."""

from collections.abc import Sequence

from rich.table import Table

from permitflow.cli.console import open_table
from permitflow_model.kernel.system import Step
from permitflow_model.spark_micro_batch import State

__all__ = ["query_table"]

_NUMBERS = ("step", "waiting", "kept", "acknowledged", "table")


def query_table(start: State, steps: Sequence[Step[State]]) -> Table:
    """The run, one line per step.

    kept: rows that the exchange keeps, each with a permit; batch: rows of the last batch in the offset log; table: rows
    in the published table.
    """
    table = open_table(
        "step", "action", "driver", "waiting", "kept", "acknowledged", "batch", "commit log", "table", right=_NUMBERS
    )
    table.add_row("0", "", *_cells(start))
    for number, step in enumerate(steps, start=1):
        arguments = f"({', '.join(map(str, step.arguments))})" if step.arguments else ""
        table.add_row(str(number), f"{step.action}{arguments}", *_cells(step.state))
    return table


def _cells(state: State) -> tuple[str, ...]:
    return (
        state.phase,
        f"{state.waiting:,}" if state.waiting else "",
        f"{state.produced - state.acknowledged:,}",
        f"{state.acknowledged:,}",
        f"[{state.start:,}, {state.end:,})" if state.end else "",
        ("has it" if state.committed else "not yet") if state.end else "",
        f"{state.output:,}",
    )
