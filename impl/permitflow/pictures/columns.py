"""A run as columns of numbers: one entry for each state or step, whatever its length."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from permitflow.pictures.guards import false_guard
from permitflow.pictures.ledger import CLASSES, PLACES, Ledger, classes_used, ledger_of
from permitflow.pictures.lifelines import Lifelines
from permitflow.pictures.run import Run
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Parameters, State

__all__ = ["NO_ARGUMENT", "POSSIBLE", "Columns", "columns_of"]

NO_ARGUMENT = -1
POSSIBLE = -1

# For longer runs only the last state's guards are told: the others would make up most of the page.
MOST_STATES_WITH_REASONS = 500

ACTION_NUMBER = {action.name: number for number, action in enumerate(SYSTEM.actions)}
_PROTOCOL = [(1 << ACTION_NUMBER[action.name], action) for action in SYSTEM.actions if not action.is_environment]


@dataclass
class Columns:
    """Everything about a run that is a number."""

    classes: list[str]
    """Permit classes that the run uses."""

    action: list[int] = field(default_factory=list)
    """Of each step, as an index into ``SYSTEM.actions``."""

    argument: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    """Of each step, the variables that it changed: bit n stands for the n-th field of ``State``."""

    enabled: list[int] = field(default_factory=list)
    """Of each state, the protocol's actions that are possible in it: bit n stands for ``SYSTEM.actions[n]``."""

    pending: list[int] = field(default_factory=list)
    """Of each state, how many waiting chunks the watermark stands behind."""

    ledger: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    """By class and place, a number for each state."""

    messages: dict[str, list[int | str]] = field(default_factory=dict)
    returns: dict[str, list[int]] = field(default_factory=dict)
    reason_texts: list[str] = field(default_factory=list)
    reasons: list[list[int]] = field(default_factory=list)
    """Of each of the last states and for each action, the text that says which guard is false."""


def columns_of(run: Run) -> Columns:
    """Go through the run once."""
    states = [run.start, *(step.state for step in run.steps)]
    ledgers = [ledger_of(state) for state in states]
    columns = Columns(classes_used(run.parameters, ledgers))
    columns.ledger = {name: _by_place(name, ledgers) for name in columns.classes}
    lifelines = Lifelines(run.start)
    for number, step in enumerate(run.steps, start=1):
        before = states[number - 1]
        lifelines.take(number, before, step)
        columns.action.append(ACTION_NUMBER[step.action])
        columns.argument.append(step.arguments[0] if step.arguments else NO_ARGUMENT)
        columns.changed.append(_changed(before, step.state))
    columns.messages = asdict(lifelines.messages)
    columns.returns = asdict(lifelines.returns)
    columns.enabled = [_enabled(state, run.parameters) for state in states]
    if any(state.watermark_pending != NO_WATERMARK for state in states):
        columns.pending = [state.watermark_pending for state in states]
    _tell_reasons(columns, states, run.parameters)
    return columns


def _by_place(class_name: str, ledgers: list[Ledger]) -> dict[str, list[int]]:
    position = CLASSES.index(class_name)
    return {place: [ledger[index][position] for ledger in ledgers] for index, place in enumerate(PLACES)}


def _changed(before: State, after: State) -> int:
    # A queue that was changed is another object and of another size: contents need not be compared.
    return sum(
        1 << number
        for number, (old, new) in enumerate(zip(before, after, strict=True))
        if old is not new and (not isinstance(old, int | tuple) or old != new)
    )


def _enabled(state: State, parameters: Parameters) -> int:
    return sum(bit for bit, action in _PROTOCOL if SYSTEM.is_enabled(action.name, state, parameters))


def _tell_reasons(columns: Columns, states: list[State], parameters: Parameters) -> None:
    numbers: dict[str, int] = {}
    told = states if len(states) <= MOST_STATES_WITH_REASONS else states[-1:]
    for state in told:
        row: list[int] = []
        for sentence in _reasons(state, parameters):
            row.append(POSSIBLE if sentence is None else numbers.setdefault(sentence, len(numbers)))
        columns.reasons.append(row)
    columns.reason_texts = list(numbers)


def _reasons(state: State, parameters: Parameters) -> Iterator[str | None]:
    for action in SYSTEM.actions:
        arguments = next(iter(action.arguments(parameters)), None)
        if arguments is None:
            yield "no chunk size may be offered"
            continue
        guard = false_guard(action.name, state, parameters, *arguments)
        yield None if guard is None else guard.sentence
