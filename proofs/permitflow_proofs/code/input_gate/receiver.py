"""``GateReceiver`` and ``Gate``: arriving, consuming, lending, alignment, and credit to grant.

Any number of inputs.  Two are looked at: one that is called, and, if there are more, any other one.  Of the rest it is
known how many are blocked, or over, and what all of them are lent together.  What the gate lends to whom is told
by a contract, in place of the loop that lends in turn; a claim of its own shows that the loop keeps it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from permitflow.flows import seam
from permitflow.flows.gate import core
from permitflow.flows.messages import Kind, Message
from permitflow.flows.seam import Urgency
from permitflow_model.input_gate import CHANNEL_CLAUSES
from permitflow_model.input_gate_alignment import is_pending
from permitflow_model.input_gate_credit import RESUME, REVOKE, Channel, Item, Parameters, State, content_in, opened
from permitflow_model.input_gate_queues import Effect
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.replay import World
from permitflow_model.kernel.system import Disabled
from permitflow_proofs.code.batches import Batch, InvariantBroken, Rest, set_variables
from permitflow_proofs.code.input_gate.counts import (
    MODULES,
    OTHERS,
    Chunks,
    Contents,
    Explanation,
    Inputs,
    Wire,
    any_numbers,
    any_others,
    as_code,
    attempted,
    cost_of,
    recorder,
)
from permitflow_proofs.code.refinement import Call, Case, Event, Is, Outcome, attempt, field, fields_of, is_larger, put
from permitflow_proofs.code.stand_ins import Inbox, standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    equal,
    implies,
    integer,
    limit,
    merged,
    natural,
    negated,
    truth,
)
from permitflow_proofs.kernel.trail import Contradiction

_CLAUSES = ("Conservation", "NothingBehind", "NothingAfterEnd", "ReleasedByBarrier", "LossFrees")
"""The clauses of the inductive invariant that the claims need."""


def _own_input(made: Parameters, failed: bool) -> Channel:
    """An input that goes on, has its barrier here, is blocked, is due to be told to go on, or is over.

    Grants that have left for the sender count as credit there.
    """
    if truth("own.over"):
        return _input("own")._replace(over=True, closed=True)
    blocked = not failed and bool(truth("own.blocked"))
    here = not blocked and bool(truth("own.barrier_here"))
    due = not blocked and not here and bool(truth("own.word_due"))
    if not (blocked or here or due):
        return _input("own")
    is_lent_only = bool(made.exclusive <= 0)
    words: Any = Fifo((REVOKE if is_lent_only else RESUME,) if due else ())
    changes: dict[str, Any] = {
        "stopped": True,
        "blocked": blocked,
        "released": is_lent_only and not due,
        "grants": words,
    }
    return _input("own", int(here))._replace(**changes)


def _other_input(made: Parameters, failed: bool) -> Channel:
    """Likewise, but what it is decides itself only where it is asked."""
    over, here, due = (truth(f"other.{name}") for name in ("over", "barrier_here", "word_due"))
    blocked = not failed and bool(truth("other.blocked"))
    for flag in (over, here, due):
        limit(implies(blocked, negated(flag)))
    limit(implies(over, all_of([negated(here), negated(due)])))
    limit(implies(here, negated(due)))
    released = all_of([made.exclusive <= 0, any_of([blocked, here])])
    words: Any = _Words(due, all_of([due, made.exclusive <= 0]))
    is_stopped = any_of([blocked, here, due])
    other = _input("other", here * 1)._replace(stopped=is_stopped, over=over, closed=over)
    return other._replace(blocked=blocked, released=released, grants=words)


def _input(name: str, barriers: int = 0) -> Channel:
    parts: dict[str, Any] = {
        "inbox": Contents(natural(f"{name}.data"), barriers, natural(f"{name}.number")),
        "wire": Wire(natural(f"{name}.wire")),
        "waiting": Contents(0),
    }
    parts.update({each: natural(f"{name}.{each}") for each in ("credit", "required", "free", "borrowed")})
    return opened(0)._replace(**parts)


_INPUTS = (_own_input, _other_input)


class _Words(NamedTuple):
    """Grants of which only the word that is due is known."""

    due: bool
    revoke: bool

    def push(self, word: int) -> "_Words":
        """It is told to go on."""
        return _Words(True, word < RESUME)

    def sum_of(self, _measure: object, _plus: object, _nothing: object) -> Effect:
        """No grant counts twice: those that have left are at the sender."""
        return Effect(1, 0, self.due * 1)


class _InLine:
    """The line for loans: who is in it."""

    def __init__(self, gate: core.Gate, are_in: Sequence[bool]) -> None:
        self._gate = gate
        self.are_in = list(are_in)

    def __contains__(self, member: object) -> bool:
        return bool(self.are_in[self._place(member)])

    def append(self, member: object) -> None:
        """As a deque's."""
        self.are_in[self._place(member)] = True

    def remove(self, member: object) -> None:
        """As a deque's."""
        self.are_in[self._place(member)] = False

    def _place(self, member: object) -> int:
        return next(place for place, one in enumerate(looked_at(self._gate)) if one is member)


class _Others:
    """All inputs of a kind that are not looked at, and those that have not joined; as a gate asks them.

    What becomes of one of them is told of the one that is looked at.
    """

    def __init__(self, record: Callable[..., None] | None, blocked: int, over: int) -> None:
        """How many are blocked, or over: all of them or none."""
        self.is_blocked, self.is_over = blocked, over
        self._record = recorder(record, str(OTHERS), "receiver")

    def resume(self, action: str) -> None:
        """They go on."""
        self.is_blocked = 0
        self._note(action)

    def lend(self, credit: int) -> None:
        """To all of them together."""
        self._note("Borrow", credit)

    def _note(self, action: str, *arguments: int) -> None:
        if self._record is not None:
            self._record(action, arguments, ())


class GateCase(Case[State, Parameters]):
    """Any state of a gate with two inputs or more, or with one; the first one is called."""

    modules = MODULES
    off_by_one = "pool"
    runs_the_loop = False
    """Does the loop run that lends in turn, or what stands in for it?"""
    names: Sequence[str] = ("own", "other")
    """The inputs that are looked at; if it is one, there are no others."""

    history: Mapping[str, int]
    """Fields of which no state tells."""
    own: Channel
    """The input that is called, at the beginning."""

    def __init__(self) -> None:
        """Any state at all."""
        made, self.most = any_numbers()
        failed = bool(truth("failed"))
        members, has_others = [make(made, failed) for make in _INPUTS[: len(self.names)]], len(self.names) > 1
        channels = Inputs(members, any_others(failed) if has_others else ())
        limit(equal(channels.size(), made.inputs))
        state = State(channels, natural("pool"), natural("epoch"), failed)
        for channel in channels:
            for name in _CLAUSES:
                limit(merged(partial(CHANNEL_CLAUSES[name], channel, made, state.epoch, failed)))
            told_to_go_on = any_of([channel.stopped == False, channel.blocked])  # noqa: E712
            limit(any_of([told_to_go_on, equal(content_in(channel.wire).data, 0)]))
        limit(sum([channel.borrowed for channel in channels], state.pool) <= made.floating)  # the rest is the others'
        self.batch, self.surplus = natural("batch", 1), natural("surplus")
        self.required = [natural(f"{name}_known") for name in self.names]
        self.oldest = natural("oldest_rows")
        lent = (*self.names, "others") if has_others else self.names
        self.loans = [natural(f"{name}_loan") for name in lent]
        """To the inputs that are looked at, and to all others together."""
        self.in_line = [truth(f"{name}_in_line") for name in self.names]
        limit(self.oldest <= self.most)
        limit(implies(content_in(channels[0].inbox).data > 0, self.oldest <= content_in(channels[0].inbox).data))
        for channel, known in zip(channels, self.required, strict=True):
            limit(known <= channel.required)
            limit(implies(channel.stopped, equal(known, 0)))
        self.history = {name: natural(name.strip("_")) for name in _TOLD_OF_NO_STATE}
        here = content_in(channels[0].inbox).items
        limit(equal(self.history["_here"], 0) == (here <= 0))
        self.shapes = [(False, False)]
        state = self.begin(state, made)
        self.own = state.channels.get(0)
        super().__init__(state, made)

    def begin(self, state: State, _made: Parameters) -> State:
        """The state at the beginning of the call."""
        return state

    def pending(self, _state: State) -> Any:
        """The number of the barrier that is pending, or None; here: whatever it is, nobody asks for it."""
        return _ANY_BARRIER

    def stands_for(self, state: State) -> Mapping[str, Any]:
        """The fields of the gate and of its inputs."""
        pending = self.pending(state)
        told: dict[str, Any] = {
            "pool": state.pool,
            "pending": pending,
            # Not looked at while one is pending.
            "last": Is(lambda found: pending is not None or equal(found, state.epoch - 1)),
            "has_failed": state.failed,
            "_over": state.channels.sum_of(_one_if_over),
            "others_blocked": _others_blocked(state),
        }
        for name in state.channels.names():
            channel, before = state.channels.get(name), self.state.channels.get(name)
            told.update({f"{name}.{field}": value for field, value in _fields_of(channel).items()})
            told[f"{name}._runs"] = self.line(channel)
            is_told = name > 0 and channel.grants is not before.grants
            if told[f"{name}._is_behind_barrier"] is True or is_told:
                told[f"{name}._required"] = 0  # behind a barrier no more is wanted
            elif channel.required is not before.required:
                told[f"{name}._required"] = _at_most(channel.required)
        return told

    def make(self, record: Callable[..., None] | None) -> Any:
        """A gate with these inputs."""
        gate: Any = core.Gate(as_code(self.parameters, self.most))
        state, line = self.state, _InLine(gate, self.in_line)
        told = {
            "pool": state.pool,
            "has_failed": state.failed,
            "pending": self.pending(state),
            "last": state.epoch - 1,
            "_surplus": self.surplus,
            "_over": state.channels.sum_of(_one_if_over),
            "_line": line,
        }
        put(gate, told if self.runs_the_loop else {**told, "_serve": partial(self.lend, gate, line)})
        for name in state.channels.names():
            channel = state.channels.get(name)
            member = core.GateReceiver.__new__(core.GateReceiver)
            seam.Inbound.__init__(member, gate.parameters, record=recorder(record, str(name), "receiver"))
            own = {
                **self.history,
                "untaken": self.history["_here"],
                **_fields_of(channel),
                "_required": self.required[name],
                "gate": gate,
            }
            numbers = {"_exclusive": self.parameters.exclusive, "_max_chunk_cost": self.most, "_batch": self.batch}
            own["_runs"] = Inbox(self.line(channel), lambda message: message, lambda message: message, self.shapes)
            gate.members.append(put(member, {**own, **numbers, "is_admitted": True}))
        # Between the two, so that what does not reach all of them misses one that is looked at.
        gate.members[1:1] = [
            _Others(record, number if kind.blocked else 0, number if kind.over else 0)
            for kind, number in _others_in(state)
        ]
        return gate

    def line(self, channel: Channel) -> Chunks:
        """What is here of an input."""
        inbox = channel.inbox if isinstance(channel.inbox, Contents) else Contents(0)
        return Chunks(inbox, self.history["_here"], self.oldest)

    def credit_out(self) -> int:
        """Credit at the sender, or on its way."""
        own = self.own
        return self.parameters.exclusive + own.borrowed - content_in(own.inbox).data - own.free

    def can(self, action: str) -> bool:
        """Is this possible?"""
        return self.replay().system.is_enabled(action, self.state, self.parameters)

    def explained_from(self, state: State, events: Sequence[Event]) -> State:
        """Where these events lead."""
        world = World(state)
        for event in events:
            (world,) = self.replay().perform(world, event)
        return world.state

    def fields(self, core: Any) -> Mapping[str, Any]:
        """The fields of the gate, and of each input by its number."""
        own = {name: value for name, value in vars(core).items() if name not in _NOT_COMPARED}
        own["others_blocked"] = sum([each.is_blocked for each in _others_of(core)])
        members = [(str(name), dict(fields_of(member))) for name, member in enumerate(looked_at(core))]
        return {**own, **{f"{name}.{field}": value for name, fields in members for field, value in fields.items()}}

    def lend(self, gate: core.Gate, line: "_InLine") -> None:
        """In place of the loop: each in line gets no more than it lacks, and all of it unless there is no more."""
        lendable = lendable_in(gate)
        if not lendable > 0:
            return
        loans = list(zip(looked_at(gate), self.loans, line.are_in, strict=False))
        given = sum(self.loans)
        limit(all_of([loan <= member.lacks * is_in for member, loan, is_in in loans]))
        limit(given <= lendable)
        served = [equal(loan, member.lacks * is_in) for member, loan, is_in in loans]
        limit(any_of([equal(given, lendable), all_of(served)]))
        for member, loan, _ in loans:
            if loan > 0:
                gate.pool -= loan
                put(member, {"_is_behind_barrier": bool(field(member, "_is_behind_barrier"))})
                member.lend(loan)
                gate.touch(member)
        for loan, others in zip(self.loans[OTHERS:], _others_of(gate), strict=False):
            gate.pool -= loan
            others.lend(loan)

    def replay(self) -> Explanation:
        """As recorded runs are explained."""
        return Explanation(self.parameters)


_ANY_BARRIER = object()


class Aligning(GateCase):
    """Barriers matter: it is known whether one is pending."""

    def pending(self, state: State) -> Any:
        """Its number, if one is."""
        return state.epoch if is_pending(state) else None


def looked_at(gate: Any) -> Sequence[Any]:
    """The input that is called, and another one, if there is one."""
    return [each for each in gate.members if not isinstance(each, _Others)]


def _others_of(gate: Any) -> Sequence[_Others]:
    return [each for each in gate.members if isinstance(each, _Others)]


def _others_in(state: State) -> Sequence[tuple[Channel, int]]:
    assert isinstance(state.channels, Inputs)
    return state.channels.others


def _others_blocked(state: State) -> int:
    return sum([number for kind, number in _others_in(state) if kind.blocked])


def lendable_in(gate: core.Gate) -> int:
    """What is in the pool, without what is not lent."""
    surplus: int = field(gate, "_surplus")
    return gate.pool - surplus


_NOT_COMPARED = ("members", "parameters", "wake", "touched", "_line", "_serve")

_TOLD_OF_NO_STATE = (
    *("_here", "inbox_rows", "peak_inbox_rows", "_came_chunks", "_came_rows", "_came_barriers"),
    *("consumed_chunks", "consumed_rows", "_consumed_untold", "_barriers_untold", "_last_number"),
    *("_watermarks_out", "_watermarks_due"),
)


def _fields_of(channel: Channel) -> dict[str, Any]:
    """What an input's fields hold of it."""
    here, grants = content_in(channel.inbox), channel.grants
    if isinstance(grants, _Words):
        due, word = grants.due, core.Grant(resume=grants.due, revoke=grants.revoke)
        is_behind = any_of([channel.blocked, here.barriers > 0, due])
    else:
        words = [grant for grant in grants if isinstance(grant, int) and grant <= RESUME]
        due, word = bool(words), core.Grant(resume=bool(words), revoke=words[-1:] == [REVOKE])
        is_behind = channel.blocked or here.barriers > 0 or due
    return {
        "stored": here.data,
        "free": channel.free,
        "borrowed": channel.borrowed,
        "is_blocked": channel.blocked,
        "is_released": channel.released,
        "_is_over": channel.over,
        "_is_behind_barrier": is_behind,
        "_resumption": word,
    }


def _one_if_over(channel: Channel) -> int:
    return channel.over * 1


def _at_most(most: int) -> Is:
    return Is(lambda found: all_of([found >= 0, found <= most]))


def _require(is_so: bool) -> None:
    """The claim is about such states only."""
    if not is_so:
        raise Disabled


def _of_own(counts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {f"0.{name}": value for name, value in counts.items()}


# Arriving: nothing comes behind the end of an input.


class Arriving(GateCase):
    """The next chunk arrives, which may be a part of the data on its way."""

    rows: int

    def begin(self, state: State, _made: Parameters) -> State:
        """Each item tells at most one less than was told before it."""
        self.rows = natural("rows")
        channel, cost = state.channels.get(0), cost_of(self.rows)
        wire = channel.wire
        assert isinstance(wire, Wire)
        _require(channel.over is False)
        limit(self.rows <= self.most)
        limit(wire.ahead >= cost)
        limit(all_of([wire.without(cost).told >= 0, wire.without(cost).told >= channel.required - cost]))
        return state


def _came(case: GateCase, rows: Sequence[int], barriers: int = 0, watermarks: int = 0) -> Mapping[str, Any]:
    before, total, count = case.history, sum(rows), len(rows) + barriers + watermarks
    here = before["inbox_rows"] + total
    counts = {
        "_here": before["_here"] + count,
        "untaken": before["_here"] + count,
        "_came_chunks": before["_came_chunks"] + len(rows),
        "_came_rows": before["_came_rows"] + total,
        "_came_barriers": before["_came_barriers"] + barriers,
        "inbox_rows": here,
    }
    return _of_own({**counts, **({"peak_inbox_rows": is_larger(before["peak_inbox_rows"], here)} if rows else {})})


class AnyChunk(GateCase):
    """Any chunk arrives, or what must not."""

    rows: int

    def begin(self, state: State, _made: Parameters) -> State:
        """Bring a chunk of any size."""
        self.rows = integer("rows")
        _require(state.channels.get(0).over is False)
        return state

    def may_arrive(self) -> bool:
        """Has the sender got so much credit, and no barrier stops it?"""
        fits = self.rows >= 0 and self.rows <= self.most and cost_of(self.rows) <= self.credit_out()
        return bool(fits) and not self.own.stopped

    def arrived(self) -> State:
        """Once it is here."""
        assert isinstance(self.own.inbox, Contents)
        inbox: Any = self.own.inbox.more(cost_of(self.rows))
        own = self.own._replace(inbox=inbox, required=self.own.required + 0)
        return self.state._replace(channels=self.state.channels.put(0, own))


class ArrivingMarker(GateCase):
    """A barrier arrives, or a watermark; or what must not."""

    kind = Kind.BARRIER
    number: int

    def begin(self, state: State, _made: Parameters) -> State:
        """Nothing is on the way before it."""
        own = state.channels.get(0)
        _require(own.over is False)
        self.number = natural("number")
        if self.kind is Kind.WATERMARK:
            return state
        limit(equal(content_in(own.wire).data, 0))
        wire: Any = Wire(0, 1, self.number)
        return state._replace(channels=state.channels.put(0, own._replace(wire=wire)))

    def may_arrive(self) -> bool:
        """Does no barrier stop the sender, and is the last watermark consumed?"""
        return not self.own.stopped and (self.kind is Kind.BARRIER or bool(self.history["_watermarks_out"] <= 0))


class ArrivingWatermark(ArrivingMarker):
    """A watermark: the model knows none."""

    kind = Kind.WATERMARK


def _marker_came(case: ArrivingMarker, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.refusal is not None:
        return {}
    if case.kind is Kind.BARRIER:
        return _came(case, (), barriers=1)
    line = case.line(case.own).push(Message(Kind.BARRIER, None))
    return {**_came(case, (), watermarks=1), "0._watermarks_out": 1, "0._runs": line}


class Announced(GateCase):
    """The next announcement arrives, by itself, or of what data has told."""

    backlog: int

    def begin(self, state: State, _made: Parameters) -> State:
        """No sender announces anything behind its barrier."""
        own = state.channels.get(0)
        _require(own.over is False and own.stopped is False)
        self.backlog = natural("backlog_told")
        if truth("is_told_by_data"):
            limit(equal(self.backlog, own.required))
            return state
        limit(equal(content_in(own.wire).data, 0))
        own = own._replace(wire=Fifo((Item("backlog", 0, self.backlog),)))
        return state._replace(channels=state.channels.put(0, own))


class AnyAnnouncement(GateCase):
    """Any announcement, or what must not come; credit that is returned is that of chunks that were withdrawn."""

    told: core.Backlog

    def begin(self, state: State, _made: Parameters) -> State:
        """Bring an announcement with any numbers."""
        self.told = core.Backlog(integer("backlog_told"), integer("returned"))
        return state

    def is_taken_in(self) -> bool:
        """Does no barrier stop the sender, which has so much borrowed credit?"""
        backlog, returned = self.told
        most = min(self.own.borrowed, self.credit_out())
        return not (self.own.stopped or self.own.over) and bool(backlog >= 0 and 0 <= returned <= most)

    def told_and_lent(self) -> State:
        """What is returned is in the pool; then what the events say is lent."""
        backlog, returned = self.told
        own = self.own._replace(required=backlog + 0, borrowed=self.own.borrowed - returned)
        state = self.state._replace(channels=self.state.channels.put(0, own), pool=self.state.pool + returned)
        return self.explained_from(state, self.events[1:])


class OnlyAnnouncement(AnyAnnouncement):
    """Of the only input."""

    names = ("own",)


# Consuming: nothing is consumed of a gate that has failed.


class ConsumingChunk(GateCase):
    """The oldest message is consumed, a chunk."""

    def begin(self, state: State, _made: Parameters) -> State:
        """The gate has not failed."""
        _require(state.failed is False)
        limit(content_in(state.channels.get(0).inbox).data > 0)
        return state


class OnlyChunk(ConsumingChunk):
    """Of the only input."""

    names = ("own",)


class Consuming(Aligning):
    """The gate has not failed."""

    def begin(self, state: State, _made: Parameters) -> State:
        """Ask who is over."""
        _require(state.failed is False)
        channels = state.channels
        for name in channels.names():
            channel = channels.get(name)
            channels = channels.put(name, channel._replace(over=bool(channel.over)))
        return state._replace(channels=channels)


class ConsumingBarrier(Consuming):
    """The oldest message is consumed, a barrier, or there is none."""

    def begin(self, state: State, made: Parameters) -> State:
        """No chunk is here."""
        limit(equal(content_in(state.channels.get(0).inbox).data, 0))
        return super().begin(state, made)


class OnlyBarrier(ConsumingBarrier):
    """Of the only input of a gate."""

    names: Sequence[str] = ("own",)

    def make(self, record: Callable[..., None] | None) -> Any:
        """It aligns itself: nobody takes a snapshot before."""
        return put(super().make(record), {"aligns_itself": True})


class _BehindWatermark(Chunks):
    """A line before which a watermark is, which the model does not know."""

    def is_empty(self) -> bool:
        """It is not."""
        return False

    def head(self) -> Message[Any]:
        """The watermark."""
        return Message(Kind.WATERMARK, None)

    def without_head(self) -> Chunks:
        """The line."""
        return Chunks(self.contents, self.size() - 1, 0)


class ConsumingWatermark(GateCase):
    """The oldest message is consumed, a watermark."""

    def begin(self, state: State, _made: Parameters) -> State:
        """It is here, beside all else."""
        self.history = {**self.history, "_here": self.history["_here"] + 1}
        return state

    def line(self, channel: Channel) -> Chunks:
        """What is here of an input."""
        return _BehindWatermark(super().line(channel).contents, self.history["_here"], 0)


class ConsumingItself(OnlyBarrier):
    """A barrier, in a gate of several inputs that aligns itself."""

    names = Consuming.names

    def begin(self, state: State, made: Parameters) -> State:
        """It is the oldest."""
        _require(content_in(state.channels.get(0).inbox).barriers == 1)
        return super().begin(state, made)


def _consumed(case: GateCase, after: State, outcome: Outcome) -> Mapping[str, Any]:
    message, before = outcome.result, case.history
    if message is None:
        return {}
    counts = {"_here": before["_here"] - 1, "untaken": before["_here"] - 1}
    if message.kind is Kind.WATERMARK:
        return _of_own({**counts, "_watermarks_due": before["_watermarks_due"] + 1})
    if message.kind is Kind.CHUNK:
        rows = message.rows
        more = {
            "consumed_chunks": before["consumed_chunks"] + 1,
            "consumed_rows": before["consumed_rows"] + rows,
            "inbox_rows": before["inbox_rows"] - rows,
            "_consumed_untold": before["_consumed_untold"] + cost_of(rows),
        }
        return _of_own({**counts, **more})
    actions = [event.action for event in case.events]
    gate = {"alignments": int("Align" in actions), "given_up": int("AbortAlignment" in actions)}
    barrier = {"_barriers_untold": before["_barriers_untold"] + 1, "_last_number": message.payload}
    return {**_of_own({**counts, **barrier}), **gate}


def _is_served(case: GateCase, _after: State, outcome: Outcome) -> bool:
    """Where there is something to lend, no input that was in the line lacks any, nor does the one that was called."""
    gate = outcome.core
    if outcome.refusal is not None or not lendable_in(gate) > 0:
        return True
    return outcome.result is None or bool(merged(lambda: gate.members[0].lacks <= 0))


# Alignment.


def _aligned(case: Consuming, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    return {} if outcome.refusal is not None else {"alignments": 1}


class Ending(Consuming):
    """The end of an input is consumed: nothing is here or on the way, and its sender is not stopped."""

    def begin(self, state: State, made: Parameters) -> State:
        """It may have been consumed before."""
        state = super().begin(state, made)
        own = state.channels.get(0)
        if own.over:
            return state
        _require(own.stopped is False)
        limit(equal(content_in(own.inbox).items + content_in(own.wire).items, 0))
        return state._replace(channels=state.channels.put(0, own._replace(closed=True)))


class Losing(Aligning):
    """An input is lost."""


class LosingAll(Losing):
    """The only one is."""

    names = ("own",)


def _lost(case: Losing, _after: State, _outcome: Outcome) -> Mapping[str, Any]:
    given_up = not case.own.over and is_pending(case.state)
    names = ("_here", "untaken", "inbox_rows", "_consumed_untold", "_barriers_untold")
    return {**_of_own(dict.fromkeys(names, 0)), "0._runs": Fifo(), "given_up": int(given_up)}


# Credit to grant.


class Owing(GateCase):
    """An input that may owe feedback."""

    @property
    def is_due(self) -> bool:
        """Is the word to go on?"""
        return bool(_fields_of(self.own)["_resumption"].resume)


class Feeding(Owing):
    """Feedback is taken, with the residue or without it."""

    residue: bool

    def begin(self, state: State, _made: Parameters) -> State:
        """Either."""
        self.residue = bool(truth("residue"))
        return state


def _is_needed(case: Owing, _after: State, outcome: Outcome) -> bool:
    """It is urgent if, and only if, something would be told; and at once if the sender may wait for it."""
    before, (urgency, is_unsettled) = case.history, outcome.result
    owes = before["_consumed_untold"] + before["_barriers_untold"] > 0
    is_batch, is_empty = case.own.free >= case.batch, before["_here"] <= 0
    must = any_of([case.is_due, before["_watermarks_due"] > 0])
    now = any_of([must, all_of([is_batch, any_of([is_empty, case.credit_out() <= 0])])])
    is_any = any_of([must, is_batch, all_of([is_empty, any_of([owes, case.own.free > 0])])])
    told = (urgency == Urgency.NOW, urgency > Urgency.NONE, is_unsettled)
    return all_of([each if is_so else negated(each) for is_so, each in zip(told, (now, is_any, owes), strict=True)])


def _fed_back(case: Feeding, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.result is None:
        return {}
    before = case.history
    untold = {"_consumed_untold": 0, "_barriers_untold": 0, "_watermarks_due": 0}
    told: dict[str, Any] = {**untold, "_watermarks_out": before["_watermarks_out"] - before["_watermarks_due"]}
    if case.is_due:
        told |= {"_resumption": core.Grant(), "_is_behind_barrier": False}
    return _of_own(told)


def _is_right_feedback(case: Feeding, _after: State, outcome: Outcome) -> bool:
    """All that is free or nothing, and all of it with the word, or where nothing is here; all else is told with it."""
    own, before, told = case.own, case.history, outcome.result
    is_idle = case.residue and bool(before["_here"] <= 0)
    may = bool(own.free > 0) and not own.released
    counts = (before["_consumed_untold"], before["_barriers_untold"])
    must = (may and (case.is_due or is_idle or bool(own.free >= case.batch))) or case.is_due
    owes = bool(before["_watermarks_due"] > 0) or (is_idle and bool(counts[0] + counts[1] > 0))
    if told is None:
        return not must and not owes
    is_all = told.credit == own.free if must and may else told.credit == 0
    same = [equal(told.watermarks, before["_watermarks_due"]), equal(told.consumed, counts[0])]
    word = _fields_of(own)["_resumption"]
    flags = bool(told.resume) == case.is_due and bool(told.revoke) == bool(word.revoke)
    return (must or owes) and flags and bool(is_all) and bool(all_of([*same, equal(told.barriers, counts[1])]))


RECEIVER: tuple[Call[Any], ...] = (
    Call(
        "the next chunk arrives",
        Arriving,
        lambda gate, case: gate.members[0].deliver(Message(Kind.CHUNK, "new", case.rows)),
        lambda _: True,
        lambda case, _after, _outcome: _came(case, [case.rows]),
    ),
    Call(
        "any chunk arrives, or what must not",
        AnyChunk,
        lambda gate, case: gate.members[0].deliver(Message(Kind.CHUNK, "new", case.rows)),
        AnyChunk.may_arrive,
        lambda case, _after, outcome: {} if outcome.refusal else _came(case, [case.rows]),
        leads_to=AnyChunk.arrived,
    ),
    Call(
        "a barrier arrives, or one that must not",
        ArrivingMarker,
        lambda gate, case: gate.members[0].deliver(Message(Kind.BARRIER, case.number)),
        ArrivingMarker.may_arrive,
        _marker_came,
    ),
    Call(
        "a watermark arrives, or one that must not",
        ArrivingWatermark,
        lambda gate, _: gate.members[0].deliver(Message(Kind.WATERMARK, None)),
        lambda _: False,
        _marker_came,
        lambda case, _after, outcome: (outcome.refusal is None) == case.may_arrive(),
    ),
    Call(
        "all go on, or not yet",
        Consuming,
        lambda gate, _: gate.align(),
        lambda case: case.can("Align"),
        _aligned,
    ),
    Call(
        "an input ends",
        Ending,
        lambda gate, _: gate.end_input(gate.members[0]),
        lambda case: not case.own.over,
        lambda case, _after, _outcome: {} if case.own.over else {"0._required": 0},
    ),
    Call(
        "how soon feedback leaves",
        Owing,
        lambda gate, _: (gate.members[0].urgency, gate.members[0].unsettled()),
        lambda _: False,
        returns=_is_needed,
    ),
    *(
        Call(
            name,
            case,
            lambda gate, _: gate.members[0].drop(),
            lambda case: not case.own.over,
            _lost,
        )
        for name, case in (("an input is lost", Losing), ("the only input is lost", LosingAll))
    ),
    Call(
        "feedback is taken",
        Feeding,
        lambda gate, case: gate.members[0].take_feedback(residue=case.residue),
        lambda case: bool(case.events),
        _fed_back,
        _is_right_feedback,
    ),
    Call(
        "the next announcement arrives",
        Announced,
        lambda gate, case: gate.members[0].on_announcement(core.Backlog(case.backlog)),
        lambda _: True,
        lambda case, _after, _outcome: {"0._required": case.backlog},
        _is_served,
    ),
    *(
        Call(
            f"any announcement arrives{of}, or what must not",
            case,
            lambda gate, case: gate.members[0].on_announcement(case.told),
            AnyAnnouncement.is_taken_in,
            leads_to=AnyAnnouncement.told_and_lent,
        )
        for case, of in ((AnyAnnouncement, ""), (OnlyAnnouncement, " of the only input"))
    ),
    Call(
        "the oldest is a watermark, and consumed",
        ConsumingWatermark,
        lambda gate, _: gate.members[0].try_receive(),
        lambda case: bool(case.events),
        _consumed,
        _is_served,
    ),
    *(
        Call(
            f"the oldest {words}",
            case,
            lambda gate, _: gate.members[0].try_receive(),
            lambda case: bool(content_in(case.own.inbox).items > 0),
            _consumed,
            _is_served,
        )
        for case, words in (
            (ConsumingChunk, "is a chunk, and consumed"),
            (OnlyChunk, "of the only input is a chunk, and consumed"),
            (ConsumingBarrier, "is a barrier, or there is none"),
            (ConsumingItself, "is a barrier, and the gate aligns itself"),
            (OnlyBarrier, "of the only input is a barrier, or there is none"),
        )
    ),
)


# The loop that lends in turn keeps the contract.


class _Turns:
    """The line while the loop runs: one turn, for the input that is looked at or for another one, stands for all."""

    def __init__(self, case: "Lending", is_in: bool, others: int) -> None:
        """Is the input in line that is looked at, and how many others are?"""
        self._case, self.is_in, self._others = case, is_in, others
        self._rest: Rest | None = None
        self._rank = self._rank_now()

    def _rank_now(self) -> tuple[int, int]:
        """Each turn lowers the pool, or leaves it as it is and shortens the line: so the loop ends."""
        return self._case.silent.pool, self.size()

    def _has_fallen(self) -> bool:
        (pool, size), (left, shorter) = self._rank, self._rank_now()
        return any_of([left < pool, all_of([equal(left, pool), shorter < size])])

    def __bool__(self) -> bool:
        frame = sys._getframe(1)
        share, left = (frame.f_locals[name] for name in ("share", "left"))
        has_share = all_of([left >= 0, any_of([equal(left, 0), share > 0])])
        if self._rest is None:
            if not has_share:
                raise InvariantBroken
            set_variables(frame, {"share": natural("share", 1), "left": natural("left_of_round")})
        else:
            if self._rest.is_changed(frame) or not has_share:
                raise InvariantBroken
            if not self._case.is_kept(self.is_in) or not self._has_fallen():
                raise InvariantBroken
            raise Contradiction
        self._rank = self._rank_now()
        # Computed anew before each turn, or told by the invariant.
        self._rest = Rest(frame, ("lendable", "share", "left", "self.pool"))
        return bool(self.size() > 0)

    def size(self) -> int:
        """How many are in it."""
        return self.is_in + self._others

    def popleft(self) -> Any:
        """As a deque's: whose turn it is."""
        own, other = looked_at(self._case.silent)
        if self.is_in and truth("is_its_turn"):
            self.is_in = False
            return own
        limit(self._others > 0)
        self._others -= 1
        return other

    def append(self, member: Any) -> None:
        """As a deque's."""
        if member is self._case.silent.members[0]:
            self.is_in = True
        else:
            self._others += 1


class Lending(GateCase):
    """The real loop; the input that is looked at is in the line, or not, and any number of others are."""

    def begin(self, state: State, _made: Parameters) -> State:
        """Both go on: behind a barrier or its end an input would lack nothing, either."""
        own, other = (state.channels.get(name) for name in (0, 1))
        _require(own.over is False and own.stopped is False and other.blocked is False)
        limit(negated(any_of([other.over, other.stopped])))
        return state._replace(channels=state.channels.put(1, other._replace(over=False, released=False)))

    runs_the_loop = True

    def __init__(self) -> None:
        super().__init__()
        put(self.silent, {"_largest_cost": natural("largest_cost", 1)})
        self.lacking = self.silent.members[0].lacks
        self.was_in = bool(self.in_line[0])
        self.to_others = 0

    def after_any_turns(self) -> None:
        """Let the loop begin after any number of its turns, as far as its invariant tells them."""
        gate = self.silent
        self.turns = _Turns(self, self.was_in and bool(truth("stays")), natural("others_in_line"))
        put(gate, {"_line": self.turns})
        *shares, self.to_others = self.loans
        for member, loan in zip(looked_at(gate), shares, strict=True):
            member.borrowed += loan
            member.free += loan
        gate.pool -= sum(self.loans)
        limit(self.is_kept(self.turns.is_in))

    def is_kept(self, is_in: bool, wrong: int = 0) -> bool:
        """No input has been lent more than it lacks, and if it is in the line no more, it has got all of it."""
        own, other = looked_at(self.silent)
        channel, pool = self.state.channels.get(0), self.silent.pool
        lent = own.borrowed - channel.borrowed
        elsewhere = other.borrowed - self.state.channels.get(1).borrowed + self.to_others
        parts = [
            equal(self.state.pool - pool, lent + elsewhere),
            any_of([pool >= self.surplus, equal(lent + elsewhere, 0)]),
            *(lent >= 0, elsewhere >= 0, lent + wrong <= self.lacking, equal(own.free - channel.free, lent)),
        ]
        if not self.was_in:
            parts.append(equal(lent, 0))
        elif not is_in:
            parts.append(equal(lent, self.lacking))
        return all_of(parts)


def _lends_in_turn(wrong: int) -> bool:
    case = Lending()
    if not case.is_kept(case.was_in):
        return False
    case.after_any_turns()
    with standing_in(case.modules):
        try:
            case.silent.take_home(0)
        except InvariantBroken:
            return False
    is_all_lent = bool(case.silent.pool <= case.surplus)
    return bool(case.is_kept(is_all_lent and case.turns.is_in, wrong))


def _lent(case: GateCase, state: State | None, names: Sequence[int]) -> State | None:
    """After loans to these inputs, if there is something to lend; None: the model cannot do it."""
    if state is None or not state.pool > case.surplus:
        return state
    for name in names:
        state = None if state is None else attempted("Borrow", state, case.parameters, name, case.loans[name])
    return state


# An input joins.


class _Joined(NamedTuple):
    """Inputs of which only the number is known, and those that join them."""

    before: int
    joining: list[Any]

    def size(self) -> int:
        """How many have joined."""
        return self.before + len(self.joining)

    def append(self, member: Any) -> None:
        """As a list's."""
        self.joining.append(member)


def _joins(wrong: int) -> bool:
    """It begins as the model's does, unless all are there, or its largest chunk may wait for ever.

    With credit of its own it needs as much as that chunk; without, what others can keep leaves it one at least.
    """
    made, most = any_numbers()
    is_alone, joined = bool(truth("is_alone")), natural("joined")
    limit(joined <= made.inputs)
    gate: Any = core.Gate(as_code(made, most), admits_later=bool(truth("admits_later")))
    put(gate, {"members": _Joined(joined, [])})
    with standing_in(MODULES):
        outcome = attempt(None, lambda _: core.GateReceiver(as_code(made, most), gate=None if is_alone else gate))
    inputs = 1 if is_alone else made.inputs
    is_live = most <= made.exclusive if made.exclusive > 0 else (most - 1) * inputs < made.floating
    may = (is_alone or bool(joined < inputs)) and bool(is_live)
    if outcome.refusal is not None or not may:
        return outcome.refusal is not None and not may and not gate.members.joining
    member = outcome.result
    begun: dict[str, Any] = {"inbox": Contents(0), "wire": Wire(0)}
    told = {
        **_fields_of(opened(made.exclusive)._replace(**begun)),
        **dict.fromkeys((*_TOLD_OF_NO_STATE, "_required"), wrong),
        "is_admitted": is_alone or not gate.admits_later,
    }
    found = dict(fields_of(member))
    return (
        (member.gate.members if is_alone else gate.members.joining) == [member]
        and bool(equal(member.gate.pool, made.floating))
        and member.gate.aligns_itself == is_alone
        and all_of([equal(found[name], value) for name, value in told.items()])
    )


# An input that was not admitted.


def _leaves_no_trace(wrong: int) -> bool:
    """It is lost, and what it borrowed is home; nobody waits for it, and the gate goes on with all others."""
    case = Aligning()
    gate, lost = case.silent, case.silent.members[0]
    _require(case.own.over is False and case.own.blocked is False)
    put(lost, {"is_admitted": False})
    others = gate.members[1:]
    with standing_in(case.modules):
        gate.lose_input(lost)
    if gate.members != others:
        return False
    gate.members.insert(0, lost)
    after = _lent(case, case.state._replace(pool=case.state.pool + case.own.borrowed), (1, OTHERS))
    if after is None:
        return False
    nothing: dict[str, Any] = dict.fromkeys(("waiting", "wire", "inbox"), Contents(0))
    after = after._replace(channels=after.channels.put(0, opened(0)._replace(closed=True, over=True, **nothing)))
    changes = {"_over": case.before["_over"], "0.is_admitted": False, "0._runs": case.line(case.own)}
    return case.holds(gate, after, changes, wrong)


# Any number of chunks.


def _arrive(wrong: int) -> bool:
    case = GateCase()
    _require(case.own.over is False)
    batch = Batch("batch", cost_of, case.most)
    limit(batch.least >= 0)
    cost, out = batch.costs(batch.look(batch.count)), case.credit_out()
    with standing_in(case.modules):
        rows = batch.sums(batch.count)
        outcome = attempt(case.silent, lambda gate: field(gate.members[0], "_accept_chunks")(batch, rows, batch.least))
    may = not case.own.stopped and bool(batch.most <= case.most) and bool(cost <= out)
    if outcome.refusal is not None:
        return not may and case.holds(case.silent, case.state, {}, wrong)
    stored = content_in(case.own.inbox).data + cost
    changes = {"0.stored": stored, "0._required": max(0, case.required[0] - cost)}
    return may and case.holds(case.silent, case.state, changes, wrong)


def _are_consumed(wrong: int) -> bool:
    case = ConsumingChunk()
    batch = Batch("batch", cost_of, case.most)
    limit(all_of([batch.least >= 0, batch.most <= case.most]))
    cost = batch.costs(batch.look(batch.count))
    limit(cost <= content_in(case.own.inbox).data)
    with standing_in(case.modules):
        rows = batch.sums(batch.count)
        outcome = attempt(case.silent, lambda gate: field(gate.members[0], "_consume")(batch, rows, (), ()))
    after = _lent(case, attempted("ConsumeData", case.state, case.parameters, 0, cost), range(len(case.loans)))
    if after is None or outcome.refusal is not None:
        return False
    changes = {"0._consumed_untold": case.history["_consumed_untold"] + cost, "0._runs": case.line(case.own)}
    return case.holds(case.silent, after, changes, wrong)


TOGETHER: tuple[SymbolicObligation, ...] = (
    claim("an input joins, or must not", _joins, "with one of each count"),
    claim("what is free is lent in turn", _lends_in_turn, "one less than is lacking"),
    claim("an input that was not admitted leaves no trace", _leaves_no_trace, "one more is in the pool"),
    claim("any number arrive at once", _arrive, "one more is in the pool"),
    claim("any number are consumed at once", _are_consumed, "one more is in the pool"),
)
