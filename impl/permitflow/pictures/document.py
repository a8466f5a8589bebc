"""A run as the numbers that its page shows: where each permit and each message is after each step.

A run is told in columns, one entry for each state or step; a message by the steps at which it moved, which takes a few
numbers however long the run is.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from typing import NamedTuple, TypeAlias, TypeVar

from permitflow.pictures.assets import asset
from permitflow.pictures.run import Run
from permitflow.pictures.specification import ACTORS, Specification, camel_case, false_guard
from permitflow_model.kernel.queue import Queue
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
    "Columns",
    "Document",
    "Fact",
    "Ledger",
    "Lifelines",
    "Messages",
    "Returns",
    "classes_used",
    "columns_of",
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


NEVER = -1
T = TypeVar("T")


@dataclass
class Messages:
    """A table: one entry in each column for each message, in the order in which they were offered.

    A step's number is that of the state it leads to; 0 is what the run begins with.
    """

    kind: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    offered: list[int] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    delivered: list[int] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)

    def add(self, message: Message, offered: int, *, sent: int = NEVER, delivered: int = NEVER) -> int:
        """Enter a message and tell its index."""
        self.kind.append(message.kind)
        self.rows.append(message.rows)
        self.cost.append(message.cost)
        self.offered.append(offered)
        self.sent.append(sent)
        self.delivered.append(delivered)
        self.consumed.append(NEVER)
        self.withdrawn.append(NEVER)
        return len(self.kind) - 1


@dataclass
class Returns:
    """A table: one entry in each column for each return of permits, in the order in which the receiver sent them."""

    rows: list[int] = field(default_factory=list)
    barriers: list[int] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    arrived: list[int] = field(default_factory=list)

    def add(self, permits: Permits, returned: int) -> int:
        """Enter a return and tell its index."""
        self.rows.append(permits.rows)
        self.barriers.append(permits.barriers)
        self.watermarks.append(permits.watermarks)
        self.returned.append(returned)
        self.arrived.append(NEVER)
        return len(self.rows) - 1


class Lifelines:
    """Watches states and notes who moved.  It knows the places, not the rules by which one moves between them."""

    def __init__(self, start: State) -> None:
        """Begin with what is in the channel already."""
        self.messages = Messages()
        self.returns = Returns()
        add = self.messages.add
        self._inbox = deque(add(message, 0, sent=0, delivered=0) for message in start.inbox)
        self._wire = deque(add(message, 0, sent=0) for message in start.wire)
        self._waiting = deque(add(message, 0) for message in start.waiting)
        self._grants = deque(self.returns.add(grant, 0) for grant in start.grants)
        self._watermark = self._pending_watermark(0) if start.watermark_pending != NO_WATERMARK else NEVER

    def take(self, number: int, before: State, step: Step[State]) -> None:
        """Note what moved from the state ``before`` to the one after it, which is number ``number``."""
        after = step.state
        newest = after.wire.last() if after.wire.size() > before.wire.size() else None
        self._offer_or_withdraw(number, before, after, leaves=newest is not None and newest.kind != "watermark")
        self._announce(number, before, step)
        if newest is not None:
            self._send(number, newest)
        if after.inbox.size() > before.inbox.size():
            self._inbox.append(self._moves(number, self._wire.popleft(), self.messages.delivered))
        elif after.inbox.size() < before.inbox.size():
            self._moves(number, self._inbox.popleft(), self.messages.consumed)
        if after.grants.size() > before.grants.size():
            self._grants.append(self.returns.add(after.grants.last(), number))
        elif after.grants.size() < before.grants.size():
            self._moves(number, self._grants.popleft(), self.returns.arrived)
        self._agree(number, after)

    def _offer_or_withdraw(self, number: int, before: State, after: State, *, leaves: bool) -> None:
        if after.waiting.size() > before.waiting.size():
            self._waiting.append(self.messages.add(after.waiting.last(), number))
        elif after.waiting.size() < before.waiting.size() and not leaves:
            self._moves(number, self._waiting.pop(), self.messages.withdrawn)

    def _announce(self, number: int, before: State, step: Step[State]) -> None:
        if step.action == "OfferWatermark":  # a newer one may take the very place of the one it replaces
            if before.watermark_pending != NO_WATERMARK:
                self._moves(number, self._watermark, self.messages.withdrawn)
            self._watermark = self._pending_watermark(number)

    def _send(self, number: int, message: Message) -> None:
        index = self._watermark if message.kind == "watermark" else self._waiting.popleft()
        self._wire.append(self._moves(number, index, self.messages.sent))

    def _pending_watermark(self, number: int) -> int:
        return self.messages.add(Message("watermark", 0, 0, 1), number)

    @staticmethod
    def _moves(number: int, index: int, column: list[int]) -> int:
        column[index] = number
        return index

    def _agree(self, number: int, state: State) -> None:
        """The places must hold what the model says; a wrong picture is worse than none."""
        cost = self.messages.cost
        agree = (
            _agree(self._waiting, state.waiting, lambda index, message: cost[index] == message.cost)
            and _agree(self._wire, state.wire, lambda index, message: cost[index] == message.cost)
            and _agree(self._inbox, state.inbox, lambda index, message: cost[index] == message.cost)
            and _agree(self._grants, state.grants, lambda index, grant: self.returns.rows[index] == grant.rows)
        )
        if not agree:
            raise AssertionError(f"at state {number} the picture has lost track of what is where in {state}")


def _agree(places: deque[int], queue: Queue[T], same: Callable[[int, T], bool]) -> bool:
    if len(places) != queue.size():
        return False
    return queue.is_empty() or same(places[0], queue.head())


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
    """Everything that the page shows, as it is embedded in it."""
    specification = Specification(SYSTEM.module)
    columns = columns_of(run)
    buf = total(run.parameters)._asdict()
    return {
        "title": run.title,
        "verdict": run.verdict.value,
        "sentence": run.sentence,
        "remarks": list(run.remarks),
        "batch": run.parameters.batch,
        "buf": {name: buf[name] for name in columns.classes},
        "places": PLACES,
        "skipped": run.skipped,
        "actions": _actions(specification),
        "variables": _variables(specification),
        "steps": {"action": columns.action, "argument": columns.argument, "changed": columns.changed},
        "enabled": columns.enabled,
        "pending": columns.pending,
        "ledger": columns.ledger,
        "messages": columns.messages,
        "returns": columns.returns,
        "reasonTexts": columns.reason_texts,
        "reasons": columns.reasons,
        "conclusions": [asdict(section) for section in run.conclusions],
    }


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
