"""How the permit channel is shown: where its permits are."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from permitflow.errors import counted
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
    held,
    held_by,
    total,
)
from permitflow_tools.checking.permits import spans
from permitflow_tools.explain import svg
from permitflow_tools.explain.look import BAR_AT, BAR_HEIGHT, BAR_WIDTH, DRAWING_WIDTH, MARGIN, Document, Fact, Look

CLASSES = Permits._fields

PLACES = {
    "permits": "permits at the sender",
    "wire": "data in flight",
    "inbox": "inbox",
    "unreturned": "unreturned",
    "grants": "permits in flight",
}
"""The five terms of ``Conservation``, by the names of the variables that hold them, in the order of their circuit."""

ACTORS = {
    "OfferChunk": "producer",
    "OfferBarrier": "producer",
    "OfferWatermark": "producer",
    "WithdrawChunk": "producer",
    "WithdrawBarrier": "producer",
    "SendChunk": "sender",
    "SendBarrier": "sender",
    "SendWatermark": "sender",
    "AddPermits": "sender",
    "Deliver": "network",
    "Consume": "consumer",
    "Flush": "receiver",
}
"""Whose move an action is.  The network's follow by themselves; the others are where the specification has them."""


def _at_sender(needed: int, there: int, *, thing: str, what: str) -> str:
    verb = "is" if there == 1 else "are"
    return f"the {thing} needs {counted(needed, what)}, {there:,} {verb} at the sender"


def _before_watermark(pending: int, _due: int) -> str:
    if pending == NO_WATERMARK:
        return "no watermark is pending"
    return f"{counted(pending, 'message')} offered before the watermark still wait"


WORDS: Mapping[str, Callable[..., str]] = {
    "state.waiting.size() < parameters.waiters": lambda size, most: (
        f"{size:,} message{'s wait' if size != 1 else ' waits'} already, and no more than {most:,} may"
    ),
    "parameters.barrier_permits > 0": lambda _permits, _none: "the channel has no barrier permits",
    "parameters.watermarks": lambda: "no watermarks are offered in this channel",
    "state.waiting.last().kind == 'chunk'": lambda kind, _chunk: f"the newest message that waits is a {kind}",
    "state.waiting.last().kind == 'barrier'": lambda kind, _barrier: f"the newest message that waits is a {kind}",
    "chunk.kind == 'chunk'": lambda kind, _chunk: f"it is the turn of a {kind}",
    "state.waiting.head().kind == 'barrier'": lambda kind, _barrier: f"it is the turn of a {kind}",
    "chunk.cost <= state.permits.rows": lambda cost, rows: _at_sender(cost, rows, thing="chunk", what="permit"),
    "state.permits.barriers >= 1": lambda barriers, one: _at_sender(
        one, barriers, thing="barrier", what="barrier permit"
    ),
    "state.watermark_pending == 0": _before_watermark,
    "state.permits.watermarks >= 1": lambda _watermarks, _one: "the permit of the last watermark is not back yet",
    "parameters.flush_idle": lambda: "an idle receiver keeps its residue in this protocol (FlushIdle is FALSE)",
    "state.inbox.is_empty()": lambda: "the inbox is not empty, so the consumer is not idle",
    "state.unreturned > 0": lambda _unreturned, _none: "the receiver keeps no permits",
    "not state.grants.is_empty()": lambda: "no permits are on their way back",
}
"""Words for each guard; comparisons are told their two sides."""

NEVER = -1

_WATERMARK = Message("watermark", 0, 0, 1)


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
    """Notes for each message and each return when it moved."""

    def __init__(self, start: State) -> None:
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
        self._watermark = None if start.watermark_pending == NO_WATERMARK else self._offered(_WATERMARK, 0)

    def take(self, number: int, before: State, step: Step[State]) -> None:
        """Note what moved from the state ``before`` to the one after it, which is number ``number``."""
        after = step.state
        match step.action:
            case "OfferChunk" | "OfferBarrier":
                self._waiting.append(self._offered(after.waiting.last(), number))
            case "WithdrawChunk" | "WithdrawBarrier":
                self._waiting.pop().withdrawn = number
            case "OfferWatermark":
                if self._watermark is not None:
                    self._watermark.withdrawn = number
                self._watermark = self._offered(_WATERMARK, number)
            case "SendChunk" | "SendBarrier":
                self._send(self._waiting.popleft(), number)
            case "SendWatermark" if self._watermark is not None:
                self._send(self._watermark, number)
                self._watermark = None
            case "Deliver":
                self._inbox.append(self._wire.popleft())
                self._inbox[-1].delivered = number
            case "Consume":
                self._inbox.popleft().consumed = number
            case "AddPermits":
                self._grants.popleft().arrived = number
        if after.grants.size() > before.grants.size():
            self._grants.append(self._returned(after.grants.last(), number))

    def _send(self, line: _MessageLine, number: int) -> None:
        line.sent = number
        self._wire.append(line)

    def _offered(self, message: Message, number: int) -> _MessageLine:
        self.messages.append(_MessageLine(message.kind, message.rows, message.cost, number))
        return self.messages[-1]

    def _returned(self, permits: Permits, number: int) -> _ReturnLine:
        self.returns.append(_ReturnLine(*permits, number))
        return self.returns[-1]


def _by_place(class_name: str, ledgers: list[Ledger]) -> dict[str, list[int]]:
    position = CLASSES.index(class_name)
    return {place: [ledger[index][position] for ledger in ledgers] for index, place in enumerate(PLACES)}


def _columns(lines: Sequence[object], kind: type) -> dict[str, list[object]]:
    return {field.name: [getattr(line, field.name) for line in lines] for field in fields(kind)}


def ranges(numbers: tuple[int, ...]) -> str:
    """Numbers in few words: 1 to 7 as a range."""
    parts = spans(sorted(set(numbers)))
    return ", ".join(f"{first:,}" if first == last else f"{first:,}\u2013{last:,}" for first, last in parts)


_LEAST_WIDTH = 1.5  # so that a single permit of thousands is seen


class PermitLook(Look):
    """Where every permit is."""

    has_actors = True
    footnote = "A box is as wide as the permits it holds: one lane is all permits of the channel."
    of_a_node = "The number in a circle is how many row permits are at the sender"
    strange_steps = (
        "Permits came back in portions that are not the specification's: the steps from there on are not shown."
    )

    def actor(self, action: str) -> str:
        """Whose move an action is."""
        return ACTORS[action]

    def event(self, action: str, arguments: Sequence[int]) -> str:
        """The action, with rows and permits."""
        rows, *permits = arguments
        names = ("row permits", "barrier permits", "watermark permits")
        told = [f"{count:,} {name}" for count, name in zip(permits, names, strict=True) if count]
        of_rows = f"{rows:,} rows, " if rows else ""
        return f"{action} ({of_rows}{', '.join(told) or 'no permits'})"

    def absent_actions(self, parameters: Parameters) -> frozenset[str]:
        """The actions of barriers, watermarks, withdrawals and the idle flush, where the channel has none."""
        kinds = {
            "OfferBarrier SendBarrier WithdrawBarrier": parameters.barrier_permits > 0,
            "OfferWatermark SendWatermark": parameters.watermarks,
            "WithdrawChunk WithdrawBarrier": parameters.withdrawals,
            "Flush": parameters.flush_idle,
        }
        return frozenset(name for names, is_there in kinds.items() if not is_there for name in names.split())

    def absent_variables(self, parameters: Parameters) -> frozenset[str]:
        """The variables of watermarks, where the channel has none."""
        return frozenset() if parameters.watermarks else frozenset({"watermarkPending", "newestWatermark"})

    def value(self, value: Any) -> str:
        """A chunk as its cost."""
        if isinstance(value, Message):
            return f"{value.cost:,}" if value.kind == "chunk" else value.kind
        return super().value(value)

    def row(self, state: State) -> dict[str, str]:
        """Row permits by place and their sum, and the waiting messages."""
        counts = [place.rows for place in ledger_of(state)]
        names = ("permits", "in flight", "inbox", "unreturned", "grants", "sum")
        waiting = (f"a chunk of {each.cost:,}" if each.kind == "chunk" else f"a {each.kind}" for each in state.waiting)
        told = {name: f"{count:,}" for name, count in zip(names, (*counts, sum(counts)), strict=True)}
        return {**told, "waiting": ", ".join(waiting)}

    def as_json(self, state: State) -> dict[str, object]:
        """For programs."""
        names = ("permits", "in_flight", "inbox", "unreturned", "grants")
        counts = {name: place.rows for name, place in zip(names, ledger_of(state), strict=True)}
        return {**counts, "waiting": [message.cost for message in state.waiting if message.kind == "chunk"]}

    def is_explorable(self, parameters: Parameters) -> bool:
        """Chunks leave each place in the order in which they came; watermarks and withdrawals would not."""
        return not (parameters.barrier_permits or parameters.watermarks or parameters.withdrawals)

    def in_places(self, state: State) -> list[object]:
        """Row permits by place; rows and cost of each chunk that waits, is in flight, is in the inbox; and grants."""
        chunks = ([[each.rows, each.cost] for each in queue] for queue in (state.waiting, state.wire, state.inbox))
        return [[place.rows for place in ledger_of(state)], *chunks, [grant.rows for grant in state.grants]]

    def facts(self, parameters: Parameters, *, is_recorded: bool = False, has_every_size: bool = False) -> list[Fact]:
        """All parameters except those that are switched off."""
        sizes = "" if is_recorded else ranges(parameters.sizes)
        shown = {
            "row_permits": f"{parameters.row_permits:,}",
            "permit_batch": f"{parameters.permit_batch:,}",
            "max_chunk_cost": f"{parameters.max_chunk_cost:,}",
            "sizes": f"1\u2013{parameters.max_chunk_cost:,}" if has_every_size else sizes,
            "barrier_permits": f"{parameters.barrier_permits:,}" if parameters.barrier_permits else "",
            "watermarks": "yes" if parameters.watermarks else "",
            "flush_idle": "yes" if parameters.flush_idle else "no",
            "withdrawals": "yes" if parameters.withdrawals else "",
            "waiters": f"{parameters.waiters:,}" if parameters.waiters > 1 and not is_recorded else "",
        }
        return [self.fact(name, value) for name, value in shown.items() if value]

    def in_numbers(self, parameters: Parameters) -> str:
        """What matters most."""
        largest = max(parameters.sizes, default=0)
        return (
            f"a channel with row permits {parameters.row_permits:,}, permit batch {parameters.permit_batch:,}, "
            f"chunks of up to {largest:,} rows"
        )

    def document(self, parameters: Parameters, states: Sequence[State], steps: Sequence[Step[State]]) -> Document:
        """The ledger of each state, and the way of each message; numbers in columns, one for each state."""
        buf = total(parameters)._asdict()
        ledgers = [ledger_of(state) for state in states]
        classes = classes_used(parameters, ledgers)
        lifelines = Lifelines(states[0])
        for number, (step, before) in enumerate(zip(steps, states, strict=False), start=1):
            lifelines.take(number, before, step)
        is_watermark_pending = any(state.watermark_pending != NO_WATERMARK for state in states)
        return {
            "beginning": self.beginning,
            "permit_batch": parameters.permit_batch,
            "buf": {name: buf[name] for name in classes},
            "places": PLACES,
            # How many waiting chunks the watermark stands behind.
            "pending": [state.watermark_pending for state in states] if is_watermark_pending else [],
            # By class and place.
            "ledger": {name: _by_place(name, ledgers) for name in classes},
            "messages": _columns(lifelines.messages, _MessageLine),
            "returns": _columns(lifelines.returns, _ReturnLine),
        }

    # The drawing of a run.

    def legend(self, parameters: Parameters, y: float) -> list[str]:
        """The places."""
        parts = [svg.element("line", class_="rule", x1=MARGIN, x2=DRAWING_WIDTH - MARGIN, y1=y - 14, y2=y - 14)]
        x: float = BAR_AT
        for place, label in PLACES.items():
            parts.append(svg.element("rect", class_=f"place {place}", x=x, y=y + 1, width=12, height=12, rx=3))
            parts.append(svg.text(x + 18, y + 12, label, class_="muted"))
            x += 34 + svg.length(label, 13) * 0.9
        title = f"All {parameters.row_permits:,} row permits, step by step"
        return [*parts, svg.text(MARGIN, y + 12, title, class_="strong")]

    notes_at = BAR_AT + BAR_WIDTH + 22

    def drawn(self, parameters: Parameters, state: State, y: float) -> Iterator[str]:
        """A bar of all permits, and how much of it the next chunk needs."""
        yield from _bar(parameters, state, y)
        need, is_short = _need(parameters, state)
        if need:
            # As wide as what the next chunk needs: if it reaches beyond the sender's permits, the chunk waits.
            end = BAR_AT + min(state.waiting.head().cost * BAR_WIDTH / parameters.row_permits, BAR_WIDTH)
            kind = "need short" if is_short else "need"
            yield svg.element("path", class_=kind, d=f"M{BAR_AT + 1} {y + BAR_HEIGHT + 2}v4H{end:.2f}v-4")

    def notes(self, parameters: Parameters, before: State, state: State) -> list[tuple[str, str]]:
        """What moved, and what the next chunk needs."""
        need, is_short = _need(parameters, state)
        notes = [(_moves(before, state), "muted"), (need, "bad-text" if is_short else "muted")]
        return [note for note in notes if note[0]]

    # A state graph.

    def node(self, number: int, state: State, parameters: Parameters) -> tuple[str, float]:
        """The permits at the sender."""
        return f"{state.permits.rows}", state.permits.rows / parameters.row_permits

    def node_kinds(self, parameters: Parameters) -> list[tuple[str, str, float]]:
        """From all permits at the sender to none."""
        return [(f"all {parameters.row_permits:,} permits at the sender", "node", 1.0), ("none", "node", 0.0)]

    def graph_document(self, parameters: Parameters, states: Sequence[State]) -> Document:
        """The ledger of each state."""
        rows = [ledger_of(state).of_class("rows") for state in states]
        return {"buf": parameters.row_permits, "places": PLACES, "ledger": rows}


LOOK = PermitLook(
    SYSTEM,
    words=WORDS,
    beginning="The beginning: nothing has been offered, all permits are at the sender.",
    at_rest="everything has been consumed and all permits are back",
)


def _moves(old: State, new: State) -> str:
    """Where permits came from and went to; where none moved, nothing."""
    before, after = ledger_of(old), ledger_of(new)
    moved = [
        f"{place} {_signed(now.rows - then.rows)}"
        for place, then, now in zip(PLACES, before, after, strict=True)
        if then.rows != now.rows
    ]
    for name in CLASSES[1:]:
        counts = dict(zip(PLACES, zip(before.of_class(name), after.of_class(name), strict=True), strict=True))
        left = [place for place, (then, now) in counts.items() if now < then]
        reached = [place for place, (then, now) in counts.items() if now > then]
        moved += [f"{name.removesuffix('s')} permit: {' '.join(left)} \u2192 {' '.join(reached)}"] if reached else []
    return ", ".join(moved)


def _signed(change: int) -> str:
    return f"+{change:,}" if change > 0 else f"\u2212{-change:,}"


def _bar(parameters: Parameters, state: State, y: float) -> Iterator[str]:
    scale = BAR_WIDTH / parameters.row_permits
    yield svg.element("rect", class_="track", x=BAR_AT, y=y, width=BAR_WIDTH, height=BAR_HEIGHT, rx=3)
    x: float = BAR_AT
    flags: dict[float, str] = {}
    for place, parts in _pieces(state):
        for count, kind in parts:
            if kind != "chunk":
                flags[x] = kind[0].upper() + flags.get(x, "")
                continue
            yield from _segment(x, y, count, count * scale, place)
            x += count * scale
    for at, names in flags.items():
        yield svg.element("line", class_="flag", x1=at, x2=at, y1=y - 2, y2=y + BAR_HEIGHT)
        yield svg.text(at, y - 4, names, class_="flag-name")


def _segment(x: float, y: float, count: int, width: float, place: str) -> Iterator[str]:
    width = max(width, _LEAST_WIDTH)
    x = min(x, BAR_AT + BAR_WIDTH - width)
    yield svg.element("rect", class_=f"place {place}", x=x, y=y, width=width, height=BAR_HEIGHT)
    label = f"{count:,}"
    if width > svg.length(label, 13) + 4:
        yield svg.text(x + width / 2, y + 17, label, class_="count")


def _pieces(state: State) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """What stands in each place of the bar, the last to leave first: the bar reads in the direction of the data."""
    yield "permits", [(state.permits.rows, "chunk")] if state.permits.rows else []
    yield "wire", _messages(state.wire)
    yield "inbox", _messages(state.inbox)
    yield "unreturned", [(state.unreturned, "chunk")] if state.unreturned else []
    yield "grants", [(grant.rows, _kind_of(grant)) for grant in reversed(tuple(state.grants))]


def _messages(queue: Queue[Message]) -> list[tuple[int, str]]:
    return [(held(message).rows, message.kind) for message in reversed(tuple(queue))]


def _kind_of(grant: Permits) -> str:
    return "chunk" if grant.rows else "barrier" if grant.barriers else "watermark"


def _need(parameters: Parameters, state: State) -> tuple[str, bool]:
    """What the next chunk needs, and whether it is more than there is."""
    if state.waiting.is_empty() or state.waiting.head().kind != "chunk":
        return "", False
    is_short = not SYSTEM.is_enabled("SendChunk", state, parameters)
    return f"the next chunk needs {state.waiting.head().cost:,}", is_short
