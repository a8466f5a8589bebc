"""States of ``InputGate`` of which numbers are known, and what one of its actions does this many times.

The model moves one row at a time, the code a chunk.  So the model itself runs here on queues that only count, and what
a number of equal steps leads to is said at once.  Claims show that both are right: counts follow the items of any
queue, and one step more leads to what is said of one more.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from permitflow.flows import byte_window, seam
from permitflow.flows.gate import core
from permitflow.flows.messages import Kind, Message
from permitflow_model.input_gate import SYSTEM
from permitflow_model.input_gate_alignment import freed, is_pending
from permitflow_model.input_gate_credit import (
    RESUME,
    REVOKE,
    Channel,
    Content,
    Item,
    Parameters,
    State,
    content_in,
    opened,
)
from permitflow_model.input_gate_queues import effect_in
from permitflow_model.input_gate_runs import RUNS, Many
from permitflow_model.input_gate_trace import GateExplanation, TraceEvent
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.replay import World
from permitflow_model.kernel.system import Disabled, System, require
from permitflow_proofs.input_gate import SUBJECT, any_parameters
from permitflow_proofs.kernel.arbitrary import arbitrary
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.frame import is_same_state
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    choice,
    equal,
    function,
    implies,
    limit,
    merged,
    natural,
    truth,
)

MODULES = (seam, core, byte_window)


class Contents(NamedTuple):
    """A queue of items: data before its first barrier, barriers, the first one's number, and data behind it."""

    ahead: int
    barriers: int = 0
    number: int = 0
    behind: int = 0

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return self.ahead + self.barriers <= 0

    def head(self) -> Item:
        """The oldest item."""
        return Item("data", 0, 0) if self.ahead > 0 else Item("barrier", self.number, 0)

    def without_head(self) -> "Contents":
        """The others."""
        return self.without(1) if self.ahead > 0 else self._behind_barrier()

    def last(self) -> Item:
        """The newest item, of which is asked only which epoch is due behind it: data of that one says as much."""
        due = function("due")(self.barriers)
        limit(due >= 0)
        return Item("data", due, 0)

    def _behind_barrier(self) -> "Contents":
        """Some is before the next barrier: the same for all queues of as many barriers, of which one is left behind."""
        if self.barriers <= 1:
            return Contents(self.behind)
        ahead, number = (function(f"next_{name}")(self.barriers) for name in ("ahead", "number"))
        limit(ahead >= 0)
        limit(ahead <= self.behind)
        return Contents(ahead, self.barriers - 1, number, self.behind - ahead)

    def push(self, item: Item) -> "Contents":
        """One item more."""
        if item.kind == "data":
            return self.more(1)
        return self._replace(barriers=self.barriers + 1, number=self.number if self.barriers > 0 else item.epoch)

    def leads(self, count: int) -> bool:
        """Are its first items this many data?"""
        return self.ahead >= count

    def grown(self, _item: Item, count: int) -> "Contents":
        """With this many data more."""
        return self.more(count)

    def joined(self, _other: object, count: int) -> "Contents":
        """With this many data of another queue."""
        return self.more(count)

    def more(self, count: int) -> "Contents":
        """So much more data at its end; less, if the number is negative."""
        late = (self.barriers > 0) * count
        return self._replace(ahead=self.ahead + count - late, behind=self.behind + late)

    def without(self, count: int) -> "Contents":
        """So much less data at its head."""
        return self._replace(ahead=self.ahead - count)

    def sum_of(self, _measure: object, _plus: object, _nothing: object) -> Content:
        """What is counted; nothing else is ever asked."""
        data = self.ahead + self.behind
        return Content(data + self.barriers, data, self.barriers, self.behind + self.barriers - (self.barriers > 0) * 1)


class Wire(NamedTuple):
    """Data on its way, a barrier behind it or none, and the backlog that each item tells, told by its number."""

    ahead: int
    barriers: int = 0
    number: int = 0
    gone: int = 0

    @property
    def told(self) -> int:
        """By the item that has left last."""
        return function("told")(self.gone - 1)

    def is_empty(self) -> bool:
        """Is there nothing on it?"""
        return self.ahead + self.barriers <= 0

    def head(self) -> Item:
        """The oldest item."""
        if self.ahead > 0:
            return Item("data", 0, self.without(1).told)
        return Item("barrier", self.number, 0)

    def leads(self, count: int) -> bool:
        """Are its first items this many data?"""
        return self.ahead >= count

    def without_head(self) -> "Wire":
        """The others."""
        return self.without(1) if self.ahead > 0 else self._replace(barriers=0)

    def without(self, count: int) -> "Wire":
        """So much less data at its head."""
        return self._replace(ahead=self.ahead - count, gone=self.gone + count)

    def sum_of(self, _measure: object, _plus: object, _nothing: object) -> Content:
        """What is counted."""
        return Content(self.ahead + self.barriers, self.ahead, self.barriers, 0)


class Sink(NamedTuple):
    """A wire into which messages go, and of which nobody asks."""

    def push(self, _item: Item) -> "Sink":
        """One item more."""
        return self

    def filled(self, _waiting: object, _count: int, _told: int) -> "Sink":
        """With data that waited."""
        return self

    def sum_of(self, _measure: object, _plus: object, nothing: Content) -> Content:
        """None: the room for offers is chosen with it."""
        return nothing


def any_contents(name: str) -> Contents:
    """Any number of items."""
    barriers, behind = natural(f"{name}.barriers"), natural(f"{name}.behind")
    limit(implies(barriers <= 0, equal(behind, 0)))
    return Contents(natural(f"{name}.ahead"), barriers, natural(f"{name}.number"), behind)


def counted(queue: Any) -> tuple[int, int, int]:
    """Count a queue: data ahead of its first barrier, barriers, and data behind."""
    content = content_in(queue)
    late = content.behind + (content.barriers > 0) * 1 - content.barriers
    return content.data - late, content.barriers, late


class Chunks:
    """The line: the credit that its chunks need, how many messages it has, and the rows of the oldest chunk."""

    __hash__ = None  # type: ignore[assignment]  # compared by symbols

    def __init__(self, contents: Contents, count: int, rows: int, earlier: "Chunks | None" = None) -> None:
        """``rows``: of the oldest chunk, if there is one; ``earlier``: it was without its newest message, if known."""
        self.contents = contents
        self._earlier = earlier
        self._count = count
        self._rows = rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Chunks):
            return NotImplemented
        ours, theirs = self.contents, other.contents
        is_same = [
            equal(ours.ahead + ours.behind, theirs.ahead + theirs.behind),
            equal(ours.barriers, theirs.barriers),
            any_of([equal(ours.barriers, 0), equal(ours.ahead, theirs.ahead)]),
        ]
        return bool(all_of(is_same))

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return self.contents.is_empty()

    def size(self) -> int:
        """How many there are."""
        return self._count

    def credit(self) -> int:
        """All that its chunks need."""
        return self.contents.ahead + self.contents.behind

    def has_chunks(self) -> bool:
        """Is there one?"""
        return bool(self.credit() > 0)

    def oldest(self) -> Message[Any]:
        """The oldest chunk."""
        return Message(Kind.CHUNK, "oldest", self._rows)

    def without_oldest(self) -> "Chunks":
        """The others, if it was all that is before the next barrier, or is the head."""
        return Chunks(self.contents.without(cost_of(self._rows)), self._count - 1, self._rows)

    def head(self) -> Message[Any]:
        """The oldest."""
        return self.oldest() if self.contents.ahead > 0 else Message(Kind.BARRIER, self.contents.number)

    def without_head(self) -> "Chunks":
        """The others."""
        if self.contents.ahead > 0:
            return self.without_oldest()
        return Chunks(self.contents.without_head(), self._count - 1, self._rows)

    def push(self, message: Message[Any]) -> "Chunks":
        """One more."""
        if message.kind is Kind.CHUNK:
            grown = self.contents.more(cost_of(message.rows))
        else:
            grown = self.contents._replace(barriers=self.contents.barriers + 1)
        return Chunks(grown, self._count + 1, self._rows, self)

    def without_last(self) -> "Chunks":
        """Without the message that was pushed last."""
        assert self._earlier is not None
        return self._earlier


# Any number of inputs.

OTHERS = 2
"""The name of all inputs that are not looked at."""


class Inputs(Members[Channel]):
    """Two inputs that are looked at, and how many others are blocked, are over, or are neither.

    All others of a kind are alike in what is asked of them.  What they have borrowed nobody may ask: it is no number.
    """

    others: tuple[tuple[Channel, int], ...]

    def __new__(cls, looked_at: Iterable[Channel], others: tuple[tuple[Channel, int], ...]) -> "Inputs":
        """``others``: one of each kind, and how many there are."""
        made = super().__new__(cls, looked_at)
        made.others = others
        return made

    def size(self) -> int:
        """How many there are in all."""
        return sum([number for _, number in self.others], len(self))

    def put(self, name: int, member: Channel) -> "Inputs":
        """With another one of this name, which is looked at."""
        return Inputs(super().put(name, member), self.others)

    def map(self, change: Callable[..., Channel], *context: object) -> "Inputs":
        """All of them changed."""
        others = tuple((change(kind, *context), number) for kind, number in self.others)
        return Inputs(super().map(change, *context), others)

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        """The measures of all of them."""
        others = [number * measure(kind, *context) for kind, number in self.others]
        return sum(others, super().sum_of(measure, *context))

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for each?"""
        others = [any_of([number <= 0, holds(kind, *context)]) for kind, number in self.others]
        return super().every(holds, *context) and all_of(others)


def any_others(failed: bool) -> tuple[tuple[Channel, int], ...]:
    """Any number of each kind; none stays behind a barrier of a gate that has failed."""
    numbers = {name: natural(f"others_{name}") for name in ("blocked", "over", "neither")}
    if failed:
        limit(equal(numbers["blocked"], 0))
    nothing: dict[str, Any] = {"borrowed": None}
    kind = opened(0)._replace(**nothing)
    kinds = (kind._replace(blocked=True), kind._replace(over=True, closed=True), kind)
    return tuple(zip(kinds, numbers.values(), strict=True))


# Numbers, as the code accepts them.


def any_numbers(**fixed: object) -> tuple[Parameters, int]:
    """Any parameters, as of real gates, and the most rows of a chunk."""
    ours = {"revoke": False, "epochs": 0, "ends": True, "losses": True}
    made = any_parameters(**ours, **fixed)
    assume(made.skip >= 1)
    return made, natural("max_chunk_cost", 1)


def as_code(made: Parameters, max_chunk_cost: int) -> core.GateParameters:
    """The same numbers as the code keeps them."""
    kept = object.__new__(core.GateParameters)
    values = {"inputs": made.inputs, "exclusive": made.exclusive, "floating": made.floating}
    for name, value in {**values, "max_chunk_cost": max_chunk_cost}.items():
        object.__setattr__(kept, name, value)
    return kept


def cost_of(rows: int) -> int:
    """A row takes a credit; an empty chunk takes one, too."""
    return max(rows, 1)


# This many steps at once.


def _delivered(state: State, made: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    if isinstance(channel.wire, Wire) and isinstance(channel.inbox, Contents) and channel.wire.ahead > 0:
        return RUNS["Deliver"](state, made, name, count)
    require(count <= 1)
    return SYSTEM.perform("Deliver", state, made, name)


MANY: Many = {**RUNS, "Deliver": _delivered}
"""The first n steps of each of these actions, as replays make them; what is no data arrives one by one."""


def times(action: str, state: State, made: Parameters, name: int, count: int, many: Many = MANY) -> State:
    """The state behind this many steps; of what ``OTHERS`` do, only loans, which leave the pool.

    Raises:
        Disabled: they are not possible.
    """
    if name == OTHERS:
        require(action == "Borrow" and state.pool >= count)
        return state._replace(pool=state.pool - count)
    if not count > 0:
        return state
    if action not in many:
        return SYSTEM.perform(action, state, made, name)
    return many[action](state, made, name, count)


def attempted(action: str, state: State, made: Parameters, name: int, count: int, many: Many = MANY) -> State | None:
    """Likewise; None if they are not possible."""
    try:
        return times(action, state, made, name, count, many)
    except Disabled:
        return None


class Explanation(GateExplanation):
    """Explains events of any size."""

    many: Many = MANY

    def __init__(self, made: Parameters) -> None:
        """Inputs are named by their numbers."""
        super().__init__(made, {"0": 0, "1": 1})

    def after(self, action: str, state: State, arguments: tuple[int, ...], count: int) -> State:
        """Also if it is a symbol how many."""
        if action not in self.many:
            self.system.action(action)  # it has it: for another one, any number of times cannot be tried
            return super().after(action, state, arguments, count)
        return times(action, state, self.parameters, arguments[0], count, self.many)

    def perform(self, world: World[State], event: TraceEvent) -> list[World[State]]:
        """As of recorded runs; that others go on is a step if it is the first that is told of it."""
        state = world.state
        if event.channel != str(OTHERS):
            return list(super().perform(world, event))
        if event.action == "Align" and is_pending(state):
            return [World(SYSTEM.perform("Align", state, self.parameters))]
        if event.action == "Borrow":
            return [World(times("Borrow", state, self.parameters, OTHERS, event.arguments[0]))]
        return [world]


def recorder(record: Callable[..., None] | None, name: str, end: str) -> Callable[..., None] | None:
    """One that also tells which end of which input records."""
    return None if record is None else lambda *event: record(*event, name, end)


# What the inductive invariant says of these numbers.


def any_channel(name: str) -> Channel:
    """An input with any counts at its sender."""
    queues: dict[str, Any] = {"waiting": any_contents(f"{name}.waiting"), "wire": Sink(), "inbox": Contents(0)}
    return opened(0)._replace(
        **queues,
        epoch=natural(f"{name}.epoch"),
        stopped=bool(truth(f"{name}.stopped")),
        announced=natural(f"{name}.announced"),
        credit=natural(f"{name}.credit"),
    )


def sender_facts(channel: Channel, made: Parameters) -> bool:
    """No more is announced than waits, and who is not stopped has no credit that it does not need."""
    waiting = content_in(channel.waiting).data
    needed = made.exclusive + waiting
    return all_of(
        [
            channel.credit >= 0,
            channel.announced >= 0,
            channel.announced <= waiting,
            any_of([channel.stopped, channel.closed, channel.credit <= needed]),
        ]
    )


def _facts_follow(wrong: int) -> bool:
    state, made = SUBJECT.any_case()
    channel = state.channels.get(0)
    return sender_facts(channel._replace(announced=channel.announced + wrong), made)


def _grants_fit(wrong: int) -> bool:
    """What comes is no more than the code accepts, unless a barrier has taken back all of it."""
    state, made = SUBJECT.any_case()
    channel = state.channels.get(0)
    if channel.grants.is_empty() or channel.released or channel.over:
        return True
    grant, rest = channel.grants.head(), channel.grants.without_head()
    credit = channel.credit
    if grant <= RESUME:
        if rest.is_empty():
            return True
        credit, grant = 0 if grant == REVOKE else credit, rest.head()
    elif effect_in(rest).keeps < 1:
        return True
    return bool(credit + grant + wrong * (made.floating + 1) <= made.exclusive + made.floating)


def _next_follows(action: str, wrong: int) -> bool:
    """Of the gate without withdrawals."""
    made, _ = any_numbers()
    changes: dict[str, Any] = {name: natural(f"input.{name}") for name in ("required", "free", "borrowed")}
    changes.update({name: truth(f"input.{name}") for name in ("blocked", "released", "over", "closed")})
    if SYSTEM.action(action).end == "receiver":
        changes.update({"inbox": Contents(natural("input.inbox")), "wire": Wire(natural("input.wire"))})
    channel = any_channel("input")._replace(**changes)
    return next_follows(SYSTEM, MANY, action, channel, made, wrong, natural("count"))


def next_follows(
    system: System[State, Parameters],
    many: Many,
    action: str,
    channel: Channel,
    made: Parameters,
    wrong: int,
    count: int,
) -> bool:
    """One step more, behind any number of them."""
    state = State(Members((channel,)), natural("pool"), 0, failed=truth("failed"))
    before, after = (attempted(action, state, made, 0, number, many) for number in (count, count + 1 + wrong))
    following = None if before is None else take(system, made, before, [(action, (0,))])
    return following is after if following is None or after is None else bool(is_same_state(following, after))


def _any_item(name: str) -> Item:
    return arbitrary(Item, f"{name}.", special={"kind": choice(f"{name}.kind", options=("data", "barrier"))})


def _law(items: Sums) -> tuple[int, ...]:
    """Nothing is counted below 0, nothing is behind a barrier where none is, and all is data or a barrier."""
    content, (ahead, barriers, behind) = content_in(items), counted(items)
    rest = content.items - content.data - content.barriers
    return ahead, barriers, behind, (barriers > 0) * behind - behind, rest, -rest


def _queue_is_counted(wrong: int) -> bool:
    """What counts say of a queue is so of its items."""
    items = SymbolicQueue.any_queue("items", _any_item, (_law,))
    ahead, barriers, behind = counted(items)
    ours = Contents(ahead, barriers, 0, behind + wrong)
    pushed = _any_item("pushed")
    grown = ours.push(pushed)
    if not all_of(map(equal, counted(items.push(pushed)), (grown.ahead, grown.barriers, grown.behind))):
        return False
    if items.is_empty():
        return ours.is_empty()
    rest = counted(items.without_head())
    if items.head().kind == "data":
        return ahead > 0 and all_of(map(equal, rest, (ahead - 1, barriers, ours.behind)))
    return all_of([equal(ahead, 0), equal(rest[1], barriers - 1), equal(rest[0] + rest[2], ours.behind)])


def _is_quiet(more: int, channel: Channel) -> bool:
    """While the word to go on is on its way, nothing else is on its way to the gate, or here."""
    items = content_in(channel.wire).items + content_in(channel.inbox).items
    return any_of([equal(effect_in(channel.grants).words + more, 0), equal(items + more, 0)])


def _stays_quiet(wrong: int, before: State, after: State, _made: Parameters) -> bool:
    one, other = before.channels.get(0), after.channels.get(0)
    return implies(_is_quiet(0, one), merged(partial(_is_quiet, wrong, other)))


def _is_quiet_when_freed(wrong: int) -> bool:
    state, _ = SUBJECT.any_case()
    channel = state.channels.get(0)
    assume(_is_quiet(0, channel))
    return bool(_is_quiet(wrong, freed(channel)))


def _tells_no_less(wrong: int) -> bool:
    """With a row: one less than was told before at most."""
    made, _ = any_numbers()
    channel = any_channel("input")
    limit(sender_facts(channel, made))
    state = State(Members((channel,)), 0, 0, failed=False)
    after = SYSTEM.perform("SendData", state, made, 0)
    return bool(after.channels.get(0).announced + 1 >= channel.announced + wrong)


_MOVES = (
    *("SendData", "SendBarrier", "AnnounceBacklog", "Deliver", "ResumeConsumption", "Grant"),
    *("ConsumeNewerBarrier", "ConsumeOlderBarrier", "Align", "LoseInput"),
)
"""The actions that put something on one of the wires, or let go on."""

COUNTS: tuple[SymbolicObligation, ...] = (
    *law_obligations("a queue's counts", _law, lambda: _any_item("item")),
    claim("a queue has what is counted of it", _queue_is_counted, "one more behind a barrier"),
    claim("what is granted fits", _grants_fit, "it is more by the pool and one"),
    *SUBJECT.step_obligations(_MOVES, partial(_stays_quiet, 0), partial(_stays_quiet, 1), "a word and an item more"),
    claim("an input is quiet when it is freed", _is_quiet_when_freed, "a word and an item more"),
    claim("data tells one less than was told", _tells_no_less, "none less"),
    claim("the invariant says as much of a sender", _facts_follow, "it has announced one more"),
    *(claim(f"{action}, one more", partial(_next_follows, action), "two more") for action in MANY),
)
