"""The data of a run's page: the steps, the changes, the possible actions, and the reasons why others are impossible.

The data are columns with one entry for each state or step.  The system's look decides how a state is shown.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from html import escape
from itertools import pairwise
from typing import Any

from permitflow_model.kernel.system import Action
from permitflow_tools.explain.look import Document, Fact, Look, argument
from permitflow_tools.explain.run import ExplainedRun

NO_ARGUMENT = -1
POSSIBLE = -1

MOST_STATES_WITH_REASONS = 500
"""Longer runs get the guards of the last state only: the others would make up most of the page."""


def document_of(run: ExplainedRun) -> Document:
    """The data that the page embeds; numbers in columns, one for each state or step."""
    look, actions = run.look, run.look.system.actions
    states = [run.start, *(step.state for step in run.steps)]
    numbers = {action.name: number for number, action in enumerate(actions)}
    protocol = [(1 << number, action) for number, action in enumerate(actions) if not action.is_environment]
    texts, reasons = _reasons_of(look, states, run.parameters)
    return {
        "title": run.title,
        "verdict": run.verdict.value,
        "sentence": run.sentence,
        "remarks": list(run.remarks),
        "skipped": run.skipped,
        "textOf": look.text_of,
        "actions": _actions(look),
        # As indexes into the actions.
        "absent": sorted(numbers[name] for name in look.absent_actions(run.parameters)),
        "variables": _variables(look, run.start),
        "absentVariables": sorted(look.absent_variables(run.parameters)),
        "steps": {
            # As an index into the actions.
            "action": [numbers[step.action] for step in run.steps],
            "argument": [argument(step.arguments[0]) if step.arguments else NO_ARGUMENT for step in run.steps],
            # The variables: bit n stands for the n-th field of the state.
            "changed": [_changed(look.parts(before), look.parts(after)) for before, after in pairwise(states)],
        },
        # The protocol's actions that are possible in a state: bit n stands for the n-th action.
        "enabled": [
            sum(bit for bit, action in protocol if _is_enabled(look, action, state, run.parameters)) for state in states
        ],
        "reasonTexts": texts,
        "reasons": reasons,
        "conclusions": [asdict(section) for section in run.conclusions],
        **look.document(run.parameters, states, run.steps),
    }


def _is_enabled(look: Look, action: Action[Any, Any], state: Any, parameters: Any) -> bool:
    return any(look.system.is_enabled(action.name, state, parameters, *each) for each in action.arguments(parameters))


def _changed(before: Sequence[Any], after: Sequence[Any]) -> int:
    # A changed queue is another object of another size: contents need not be compared.
    return sum(
        1 << number
        for number, (old, new) in enumerate(zip(before, after, strict=True))
        if old is not new and (not isinstance(old, int | tuple | str | frozenset) or old != new)
    )


def _reasons_of(look: Look, states: Sequence[Any], parameters: Any) -> tuple[list[str], list[list[int]]]:
    """Texts that name the false guard, and for each of the last states and each action the index of its text."""
    numbers: dict[str, int] = {}
    reasons = []
    for state in states if len(states) <= MOST_STATES_WITH_REASONS else states[-1:]:
        sentences = _reasons(look, state, parameters)
        reasons.append([POSSIBLE if text is None else numbers.setdefault(text, len(numbers)) for text in sentences])
    return list(numbers), reasons


def _reasons(look: Look, state: Any, parameters: Any) -> Iterator[str | None]:
    for action in look.system.actions:
        guard = look.refusal(action, state, parameters)
        yield None if guard is None else guard.sentence


def facts_of(run: ExplainedRun) -> list[Fact]:
    """The relevant parameters of a run."""
    return run.look.facts(run.parameters, is_recorded=run.is_recorded, has_every_size=run.has_every_size)


def _actions(look: Look) -> list[Document]:
    passages = look.specification.operators()
    return [
        {
            "name": action.name,
            "actor": look.actor(action.name),
            "isEnvironment": action.is_environment,
            "does": (action.perform.__doc__ or "").strip(),
            "place": passages[action.name].place,
            "firstLine": passages[action.name].first_line,
            "text": passages[action.name].text,
        }
        for action in look.system.actions
    ]


def _variables(look: Look, state: Any) -> list[Document]:
    remarks = look.specification.remarks()
    return [{"name": name, "remark": remarks.get(name, "")} for name in look.variables(state)]


def facts_list(facts: Iterable[Fact]) -> str:
    """Parameters as the items of a list, with the specification's comment on each as a hint."""
    return "".join(
        f'<div title="{escape(fact.remark)}"><dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}</dd></div>'
        for fact in facts
    )
