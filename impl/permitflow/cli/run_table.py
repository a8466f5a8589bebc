"""A run of the permit channel as a table: after each step, where every row permit is."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.table import Table

from permitflow.cli.console import open_table
from permitflow.pictures.actors import actor_of
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import State, carried_by, held_by

__all__ = ["Ledger", "ledger_of", "run_as_json", "run_table"]

_FIRST_STEPS = 16
_LAST_STEPS = 16
_NUMBERS = ("step", "permits", "in flight", "inbox", "unreturned", "grants", "sum")


@dataclass(frozen=True)
class Ledger:
    """Where the row permits are in one state."""

    permits: int
    """At the sender."""

    in_flight: int
    """With chunks on the wire."""

    inbox: int
    """With chunks that were received and are not consumed."""

    unreturned: int
    """Of consumed chunks, kept by the receiver until they make a batch."""

    grants: int
    """On their way back."""

    @property
    def sum(self) -> int:
        """All of them: ROW_COUNT in every state, or the protocol has lost or made permits."""
        return self.permits + self.in_flight + self.inbox + self.unreturned + self.grants


def ledger_of(state: State) -> Ledger:
    """Count the row permits of a state."""
    return Ledger(
        permits=state.permits.rows,
        in_flight=held_by(state.wire).rows,
        inbox=held_by(state.inbox).rows,
        unreturned=state.unreturned,
        grants=carried_by(state.grants).rows,
    )


def run_table(start: State, steps: Sequence[Step[State]]) -> Table:
    """The run, one line per step; of a long one, the beginning and the end."""
    table = open_table(
        "step",
        "action",
        "who",
        "permits",
        "in flight",
        "inbox",
        "unreturned",
        "grants",
        "sum",
        "waiting",
        right=_NUMBERS,
    )
    table.add_row("0", "", "", *_numbers(start), _waiting(start))
    left_out = range(_FIRST_STEPS, len(steps) - _LAST_STEPS)
    for number, step in enumerate(steps, start=1):
        if number - 1 not in left_out:
            table.add_row(
                str(number), _action(step), actor_of(step.action), *_numbers(step.state), _waiting(step.state)
            )
        elif number - 1 == left_out.start:
            table.add_row("…", f"{len(left_out):,} more steps")
    return table


def run_as_json(start: State, steps: Sequence[Step[State]]) -> list[dict[str, object]]:
    """The run for programs; the first entry is the initial state."""
    states: list[tuple[str | None, Sequence[int], State]] = [(None, (), start)]
    states += [(step.action, step.arguments, step.state) for step in steps]
    return [
        {
            "action": action,
            "arguments": list(arguments),
            **asdict(ledger_of(state)),
            "waiting": [chunk.cost for chunk in state.waiting],
        }
        for action, arguments, state in states
    ]


def _action(step: Step[State]) -> str:
    return f"{step.action}({', '.join(map(str, step.arguments))})" if step.arguments else step.action


def _numbers(state: State) -> list[str]:
    ledger = ledger_of(state)
    return [*(f"{count:,}" for count in asdict(ledger).values()), f"{ledger.sum:,}"]


def _waiting(state: State) -> str:
    return ", ".join(f"a chunk of {chunk.cost:,}" for chunk in state.waiting)
