"""A run as the numbers that its page shows: where each permit and each message is after each step.

A run is told in columns, one entry for each state or step; a message by the steps at which it moved, which takes a few
numbers however long the run is.
"""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from html import escape
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from permitflow.pictures.assets import asset
from permitflow.pictures.run import Run
from permitflow.pictures.specification import ACTORS, Specification, camel_case, false_guard
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import (
    NO_WATERMARK,
    NOTHING,
    SYSTEM,
    Message,
    Parameters,
    Permits,
    State,
    carried_by,
    held_by,
    total,
)

__all__ = [
    "CLASSES",
    "NEVER",
    "NO_ARGUMENT",
    "PLACES",
    "POSSIBLE",
    "Document",
    "Fact",
    "Ledger",
    "Lifelines",
    "classes_used",
    "document_of",
    "embedded",
    "facts_list",
    "facts_of",
    "ledger_of",
    "parameter_facts",
    "ranges",
    "script_of",
]

CLASSES = Permits._fields

PLACES = {
    "permits": "permits at the sender",
    "wire": "data in flight",
    "inbox": "inbox",
    "unreturned": "unreturned",
    "grants": "permits in flight",
}
"""The five terms of ``Conservation``, by the names of the variables that hold them, in the order of their circuit."""


NEVER = -1
NO_ARGUMENT = -1
POSSIBLE = -1

MOST_STATES_WITH_REASONS = 500
"""For longer runs only the last state's guards are told: the others would make up most of the page."""

_WATERMARK = Message("watermark", 0, 0, 1)
_ACTION_NUMBER = {action.name: number for number, action in enumerate(SYSTEM.actions)}
_PROTOCOL = [(1 << _ACTION_NUMBER[action.name], action) for action in SYSTEM.actions if not action.is_environment]


class Ledger(NamedTuple):
    """Permits by place, each by class."""

    permits: Permits
    wire: Permits
    inbox: Permits
    unreturned: Permits
    grants: Permits

    def of_class(self, name: str) -> tuple[int, ...]:
        """The five numbers of one class."""
        return tuple(getattr(place, name) for place in self)


def ledger_of(state: State) -> Ledger:
    """Count the permits of a state with the terms of ``Conservation``."""
    return Ledger(
        permits=state.permits,
        wire=held_by(state.wire),
        inbox=held_by(state.inbox),
        unreturned=NOTHING._replace(rows=state.unreturned),
        grants=carried_by(state.grants),
    )


def classes_used(parameters: Parameters, ledgers: Iterable[Ledger]) -> list[str]:
    """Rows, and those other classes of which a permit ever left the sender."""
    whole = total(parameters)
    used = {"rows"}
    for ledger in ledgers:
        used.update(name for name in CLASSES if getattr(ledger.permits, name) != getattr(whole, name))
        if len(used) == len(CLASSES):
            break
    return [name for name in CLASSES if name in used]


@dataclass(slots=True)
class _MessageLine:
    """The way of one message: the steps at which it moved, each by the number of the state that it leads to."""

    kind: str
    rows: int
    cost: int
    offered: int
    """0: the run begins with it."""
    sent: int = NEVER
    delivered: int = NEVER
    consumed: int = NEVER
    withdrawn: int = NEVER


@dataclass(slots=True)
class _ReturnLine:
    """The way of one return of permits."""

    rows: int
    barriers: int
    watermarks: int
    returned: int
    arrived: int = NEVER


class Lifelines:
    """Watches states and notes what moved.  It knows the places, not the rules by which one moves between them."""

    def __init__(self, start: State) -> None:
        """Begin with what is in the channel already."""
        self.messages: list[_MessageLine] = []
        """In the order in which they were offered."""
        self.returns: list[_ReturnLine] = []
        """In the order in which the receiver sent them."""
        self._inbox = deque(self._offered(message, 0) for message in start.inbox)
        self._wire = deque(self._offered(message, 0) for message in start.wire)
        self._waiting = deque(self._offered(message, 0) for message in start.waiting)
        self._grants = deque(self._returned(grant, 0) for grant in start.grants)
        for line in self._inbox:
            line.sent = line.delivered = 0
        for line in self._wire:
            line.sent = 0
        if start.watermark_pending != NO_WATERMARK:
            self._watermark = self._offered(_WATERMARK, 0)

    def take(self, number: int, before: State, step: Step[State]) -> None:
        """Note what moved from the state ``before`` to the one after it, which is number ``number``."""
        after = step.state
        newest = after.wire.last() if after.wire.size() > before.wire.size() else None
        if after.waiting.size() > before.waiting.size():
            self._waiting.append(self._offered(after.waiting.last(), number))
        elif after.waiting.size() < before.waiting.size() and (newest is None or newest.kind == "watermark"):
            self._waiting.pop().withdrawn = number
        if step.action == "OfferWatermark":  # a newer one may take the very place of the one it replaces
            if before.watermark_pending != NO_WATERMARK:
                self._watermark.withdrawn = number
            self._watermark = self._offered(_WATERMARK, number)
        if newest is not None:
            line = self._watermark if newest.kind == "watermark" else self._waiting.popleft()
            line.sent = number
            self._wire.append(line)
        if after.inbox.size() > before.inbox.size():
            self._inbox.append(self._wire.popleft())
            self._inbox[-1].delivered = number
        elif after.inbox.size() < before.inbox.size():
            self._inbox.popleft().consumed = number
        if after.grants.size() > before.grants.size():
            self._grants.append(self._returned(after.grants.last(), number))
        elif after.grants.size() < before.grants.size():
            self._grants.popleft().arrived = number
        self._require_agreement(number, after)

    def _offered(self, message: Message, number: int) -> _MessageLine:
        self.messages.append(_MessageLine(message.kind, message.rows, message.cost, number))
        return self.messages[-1]

    def _returned(self, permits: Permits, number: int) -> _ReturnLine:
        self.returns.append(_ReturnLine(*permits, number))
        return self.returns[-1]

    def _require_agreement(self, number: int, state: State) -> None:
        """The places must hold what the model says; a wrong picture is worse than none."""
        pairs = ((self._waiting, state.waiting), (self._wire, state.wire), (self._inbox, state.inbox))
        agree = all(
            len(places) == queue.size() and (queue.is_empty() or places[0].cost == queue.head().cost)
            for places, queue in pairs
        )
        grants = state.grants
        if not agree or len(self._grants) != grants.size():
            raise AssertionError(f"at state {number} the picture has lost track of what is where in {state}")
        if not grants.is_empty() and self._grants[0].rows != grants.head().rows:
            raise AssertionError(f"at state {number} the picture has lost track of returned permits in {state}")


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


def _reasons_of(states: Sequence[State], parameters: Parameters) -> tuple[list[str], list[list[int]]]:
    """Texts that say which guard is false, and for each of the last states and each action the number of its text."""
    numbers: dict[str, int] = {}
    reasons = []
    for state in states if len(states) <= MOST_STATES_WITH_REASONS else states[-1:]:
        sentences = _reasons(state, parameters)
        reasons.append([POSSIBLE if text is None else numbers.setdefault(text, len(numbers)) for text in sentences])
    return list(numbers), reasons


def _reasons(state: State, parameters: Parameters) -> Iterator[str | None]:
    for action in SYSTEM.actions:
        arguments = next(iter(action.arguments(parameters)), None)
        if arguments is None:
            yield "no chunk size may be offered"
            continue
        guard = false_guard(action.name, state, parameters, *arguments)
        yield None if guard is None else guard.sentence


class Fact(NamedTuple):
    """A parameter as it is shown."""

    name: str
    """Of the constant in the specification."""

    value: str
    remark: str
    """The specification's own words about it."""


Document: TypeAlias = dict[str, object]
"""What ``json`` can write."""


def document_of(run: Run) -> Document:
    """Everything that the page shows, as it is embedded in it; numbers in columns, one for each state or step."""
    specification = Specification(SYSTEM.module)
    buf = total(run.parameters)._asdict()
    states = [run.start, *(step.state for step in run.steps)]
    ledgers = [ledger_of(state) for state in states]
    classes = classes_used(run.parameters, ledgers)
    lifelines = Lifelines(run.start)
    for number, step in enumerate(run.steps, start=1):
        lifelines.take(number, states[number - 1], step)
    is_watermark_pending = any(state.watermark_pending != NO_WATERMARK for state in states)
    texts, reasons = _reasons_of(states, run.parameters)
    return {
        "title": run.title,
        "verdict": run.verdict.value,
        "sentence": run.sentence,
        "remarks": list(run.remarks),
        "batch": run.parameters.batch,
        "buf": {name: buf[name] for name in classes},
        "places": PLACES,
        "skipped": run.skipped,
        "actions": _actions(specification),
        "variables": _variables(specification),
        "steps": {
            # As an index into the actions.
            "action": [_ACTION_NUMBER[step.action] for step in run.steps],
            "argument": [step.arguments[0] if step.arguments else NO_ARGUMENT for step in run.steps],
            # The variables: bit n stands for the n-th field of the state.
            "changed": [_changed(before, after) for before, after in pairwise(states)],
        },
        # The protocol's actions that are possible in a state: bit n stands for the n-th action.
        "enabled": [_enabled(state, run.parameters) for state in states],
        # How many waiting chunks the watermark stands behind.
        "pending": [state.watermark_pending for state in states] if is_watermark_pending else [],
        # By class and place.
        "ledger": {name: _by_place(name, ledgers) for name in classes},
        "messages": _columns(lifelines.messages, _MessageLine),
        "returns": _columns(lifelines.returns, _ReturnLine),
        "reasonTexts": texts,
        "reasons": reasons,
        "conclusions": [asdict(section) for section in run.conclusions],
    }


def _columns(lines: Sequence[object], kind: type) -> dict[str, list[object]]:
    return {field.name: [getattr(line, field.name) for line in lines] for field in fields(kind)}


def embedded(document: Document) -> str:
    """The document as text that can stand inside a ``script`` element."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def facts_of(run: Run) -> list[Fact]:
    """The parameters of a run that are worth knowing."""
    if run.is_recorded:  # no user chose its bounds
        return parameter_facts(run.parameters, sizes="", waiters="")
    if run.has_every_size:
        return parameter_facts(run.parameters, sizes=f"1\u2013{run.parameters.clamp:,}")
    return parameter_facts(run.parameters)


def parameter_facts(parameters: Parameters, *, sizes: str | None = None, waiters: str | None = None) -> list[Fact]:
    """The parameters that are worth knowing; texts given here are shown instead of their own."""
    chosen_waiters = f"{parameters.waiters:,}" if parameters.waiters > 1 else ""
    remarks = Specification(SYSTEM.module).remarks()
    shown = {
        "row_count": f"{parameters.row_count:,}",
        "batch": f"{parameters.batch:,}",
        "clamp": f"{parameters.clamp:,}",
        "sizes": ranges(parameters.sizes) if sizes is None else sizes,
        "barrier_permits": f"{parameters.barrier_permits:,}" if parameters.barrier_permits else "",
        "watermarks": "yes" if parameters.watermarks else "",
        "flush_idle": "yes" if parameters.flush_idle else "no",
        "withdrawals": "yes" if parameters.withdrawals else "",
        "waiters": chosen_waiters if waiters is None else waiters,
    }
    return [Fact(_constant(name), value, remarks[_constant(name)]) for name, value in shown.items() if value]


def ranges(numbers: tuple[int, ...]) -> str:
    """Numbers in few words: 1 to 7 as a range."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(f"{part[0]:,}" if len(part) == 1 else f"{part[0]:,}\u2013{part[-1]:,}" for part in parts)


def _constant(name: str) -> str:
    assert name in Parameters.__dataclass_fields__
    spelt = camel_case(name)
    return spelt[0].upper() + spelt[1:]


def _actions(specification: Specification) -> list[Document]:
    passages = specification.operators()
    return [
        {
            "name": action.name,
            "actor": ACTORS[action.name],
            "isEnvironment": action.is_environment,
            "does": (action.perform.__doc__ or "").strip(),
            "place": passages[action.name].place,
            "firstLine": passages[action.name].first_line,
            "text": passages[action.name].text,
        }
        for action in SYSTEM.actions
    ]


def _variables(specification: Specification) -> list[Document]:
    remarks = specification.remarks()
    names = [camel_case(field) for field in State._fields]
    return [{"name": name, "remark": remarks[name]} for name in names]


def script_of(names: tuple[str, ...]) -> str:
    """Scripts as one, with names of their own."""
    return '(() => {\n"use strict";\n' + "\n".join(map(asset, names)) + "})();"


def facts_list(facts: Iterable[Fact]) -> str:
    """Parameters as the items of a list; the specification's words on each as a hint."""
    return "".join(
        f'<div title="{escape(fact.remark)}"><dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}</dd></div>'
        for fact in facts
    )
