"""``GateSender``: offering, sending, announcements, and credit that comes.

The line of chunks holds credit, as the model's queue; how much each chunk but the oldest has is asked nowhere.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from permitflow.flows.gate import core
from permitflow.flows.messages import Kind, Message, Offered
from permitflow_model.input_gate_credit import RESUME, REVOKE, Channel, Parameters, State, content_in, opened
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo
from permitflow_proofs.code.batches import Batch, Invariant, InvariantBroken
from permitflow_proofs.code.input_gate.counts import (
    MODULES,
    Chunks,
    Contents,
    Explanation,
    any_channel,
    any_numbers,
    as_code,
    attempted,
    cost_of,
    recorder,
    sender_facts,
)
from permitflow_proofs.code.refinement import (
    EMPTY,
    Call,
    Case,
    Is,
    Outcome,
    attempt,
    begins,
    is_larger,
    is_possible,
    put,
)
from permitflow_proofs.code.stand_ins import Line, standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    implies,
    integer,
    limit,
    natural,
    negated,
    truth,
)


class _Summed(Line[Message[Any], Offered[Any]]):
    """A line over which the code goes only to add up: the oldest message, the oldest chunk, then the rest as one."""

    def __iter__(self) -> Iterator[Offered[Any]]:
        if not self:
            return
        yield self[0]
        chunks = self.queue.without_head()
        if self[0].message.kind is Kind.BARRIER and chunks.has_chunks():
            yield Offered(chunks.oldest())
            chunks = chunks.without_oldest()
        if chunks.has_chunks():
            yield Offered(Message(Kind.CHUNK, "rest", chunks.credit()))


class SenderCase(Case[State, Parameters]):
    """Any state of the sender."""

    modules = MODULES
    off_by_one = "credit"
    has_watermark = False
    """Is one pending?"""

    channel: Channel
    """The input at the beginning."""
    history: Mapping[str, int]
    """Fields of which no state tells."""
    count: int
    """Messages that wait."""
    oldest: int
    """Rows of the oldest chunk, if one does."""
    expected: int
    """Credit that is expected to be offered."""
    told: int
    """What the code believes to have announced: less than the model where data tells the rest."""
    has_sent: bool
    """Has data left that tells it?"""
    offered: tuple[Offered[Any], ...] = ()
    """The newest messages that wait, as far as they are known."""

    def __init__(self) -> None:
        """Any state at all."""
        made, self.most = any_numbers()
        channel = any_channel("input")
        line, self.expected = channel.waiting, natural("expected")
        assert isinstance(line, Contents)
        self.channel = channel = channel._replace(waiting=line.more(self.expected))
        self.oldest, self.count = natural("oldest_rows"), natural("messages")
        limit(self.oldest <= self.most)
        limit(implies(line.ahead > 0, self.oldest <= line.ahead))
        limit(implies(line.ahead <= 0, any_of([equal(line.behind, 0), self.oldest <= line.behind])))
        limit(equal(self.count, 0) == all_of([line.ahead <= 0, line.barriers <= 0]))
        self.has_sent, self.told = truth("has_sent"), natural("told")
        limit(self.told <= channel.announced)
        limit(implies(channel.stopped, negated(self.has_sent)))
        self.watermark: Message[Any] | None = Message(Kind.WATERMARK, None) if self.has_watermark else None
        self.history = {name: natural(name.strip("_")) for name in _TOLD_OF_NO_STATE}
        for consumed, sent in (("_consumed", "_sent"), ("_consumed_barriers", "_sent_barriers")):
            limit(self.history[consumed] <= self.history[sent])
        limit(self.history["_watermark_permits"] <= 1)
        limit(channel.epoch <= self.history["_last_number"] + 1)
        self.know(channel, made)
        super().__init__(self.begin(State(Members((channel,)), 0, 0, failed=False), made), made)

    def know(self, channel: Channel, made: Parameters) -> None:
        """What holds besides, where nothing is ever taken back."""
        assume(sender_facts(channel, made))
        limit(any_of([self.has_sent, equal(self.told, channel.announced)]))
        limit(any_of([equal(channel.epoch, self.history["_last_number"] + 1), equal(channel.epoch, 0)]))

    def begin(self, state: State, _made: Parameters) -> State:
        """The state at the beginning of the call."""
        return state

    def data_sent(self, state: State, count: int) -> State | None:
        """The state once so much data has left; None if it may not."""
        return attempted("SendData", state, self.parameters, 0, count)

    def line(self, state: State, expected: int) -> Chunks:
        """What waits in a state, but for what is only expected."""
        waiting = state.channels.get(0).waiting
        assert isinstance(waiting, Contents)
        return Chunks(waiting.more(-expected), self.count, self.oldest)

    def stands_for(self, state: State) -> Mapping[str, Any]:
        """The counts of this state."""
        channel = state.channels.get(0)
        told: Any = self.told
        if channel.announced is not self.channel.announced:
            told = Is(lambda found: all_of([found >= 0, found <= channel.announced]))
        return {
            "credit": channel.credit,
            "_is_stopped": channel.stopped,
            "announced": told,
            "_waiting": self.line(state, self.expected),
        }

    def make(self, record: Callable[..., None] | None) -> Any:
        """An end with these counts."""
        end: Any = core.GateSender(as_code(self.parameters, self.most), record=recorder(record, "0", "sender"))
        line = _Summed(self.line(self.state, self.expected), Offered, lambda offered: offered.message, self.offered)
        fields = {"_waiting": line, "_expected": self.expected, "_has_sent": self.has_sent}
        return put(end, {**self.history, **self.stands_for(self.state), **fields, "_watermark": self.watermark})

    def replay(self) -> Explanation:
        """As recorded runs are explained."""
        return Explanation(self.parameters)


_TOLD_OF_NO_STATE = (
    *("_sent", "_consumed", "_consumed_barriers", "_peak_held", "_sent_chunks", "_sent_rows", "_sent_barriers"),
    *("_last_number", "_known", "_watermark_permits", "_watermark_after"),
)


class Offering(SenderCase):
    """The application has a chunk; there is room."""

    rows: int

    def begin(self, state: State, made: Parameters) -> State:
        """What is offered."""
        self.rows = integer("rows")
        waiting = content_in(self.channel.waiting)
        limit(made.backlog > waiting.data + waiting.barriers)
        limit(made.backlog >= waiting.data + waiting.barriers + self.most_offered())
        return state

    def most_offered(self) -> int:
        """So much may be offered."""
        return self.rows


class OfferingBarrier(Offering):
    """... a barrier with a number, or without one: chunks that are expected are offered before it."""

    is_numbered = True
    number: int

    def begin(self, state: State, made: Parameters) -> State:
        """What is offered; the application's numbers grow."""
        assume(equal(self.expected, 0))
        self.number = natural("number") if self.is_numbered else self.history["_last_number"] + 1
        limit(self.number >= self.channel.epoch)
        limit(self.number <= self.channel.epoch + made.skip)
        return super().begin(state, made)


class OfferingUnnumbered(OfferingBarrier):
    """It has none."""

    is_numbered = False


def _offered(case: Offering, after: State, outcome: Outcome) -> Mapping[str, Any]:
    noted = {"_known": Is(lambda _: True)}  # of the last offer, for the recorder
    if outcome.refusal is not None:
        return noted
    expected = case.expected - min(cost_of(case.rows), case.expected)
    return {**noted, "_expected": expected, "_waiting": case.line(after, expected)}


def _barrier_offered(case: OfferingBarrier, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    """The number is for the recorder."""
    return {"_known": 0, **({"_last_number": case.number} if outcome.core is case.core else {})}


class Expecting(Offering):
    """It will offer any number of chunks next."""

    batch: Batch

    def begin(self, state: State, made: Parameters) -> State:
        """What will be offered."""
        self.batch = Batch("batch", cost_of, self.most)
        limit(self.batch.least >= 0)
        return super().begin(state, made)

    def most_offered(self) -> int:
        """All of them."""
        return self.batch.costs(self.batch.count)


def _expected(case: Expecting, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    return {"_expected": max(case.expected, case.most_offered()), "_waiting": case.line(case.state, case.expected)}


def _may_send(case: SenderCase) -> bool:
    line = case.line(case.state, case.expected)
    if line.is_empty():
        return False
    message = line.head()
    if message.kind is Kind.BARRIER:
        return is_possible(case, ("SendBarrier", (0,)))
    return case.data_sent(case.state, cost_of(message.rows)) is not None


def _sent(case: SenderCase, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    message, before = outcome.result, case.history
    if message is None:
        return {}
    after = before["_watermark_after"]
    passed = {"_watermark_after": after - (after > 0) * 1}
    if message.kind is Kind.BARRIER:
        return {**passed, "_has_sent": False, "_sent_barriers": before["_sent_barriers"] + 1}
    return {**passed, **counted_out(case, cost_of(message.rows), 1, message.rows)}


def counted_out(case: SenderCase, cost: int, chunks: int, rows: int) -> Mapping[str, Any]:
    """The totals once so much has left."""
    before = case.history
    sent = before["_sent"] + cost
    return {
        "_has_sent": True,
        "_sent": sent,
        "_peak_held": is_larger(before["_peak_held"], sent - before["_consumed"]),
        "_sent_chunks": before["_sent_chunks"] + chunks,
        "_sent_rows": before["_sent_rows"] + rows,
    }


class WithWatermark(SenderCase):
    """A watermark is pending."""

    has_watermark = True


def _may_send_watermark(case: SenderCase) -> bool:
    """Like a barrier, in its turn, and one at a time."""
    history = case.history
    return bool(history["_watermark_after"] <= 0 and not case.channel.stopped and history["_watermark_permits"] > 0)


def _watermark_sent(case: SenderCase, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.refusal is not None:
        return {}
    return {"_watermark": None, "_watermark_permits": case.history["_watermark_permits"] - 1}


def _announced(case: SenderCase, after: State, outcome: Outcome) -> Mapping[str, Any]:
    told = case.told if outcome.result is None else after.channels.get(0).announced
    return {"_has_sent": False, "announced": told}


def _is_news(case: SenderCase, after: State, outcome: Outcome) -> bool:
    """All that waits is told, if the model says so, or data has just left; where nothing is told, it is known."""
    backlog = content_in(case.channel.waiting).data
    if outcome.result is not None:
        return bool(all_of([equal(outcome.result.backlog, backlog), equal(outcome.result.returned, 0)]))
    may = is_possible(case, ("AnnounceBacklog", (0,)))
    return not may and bool(equal(case.told, case.channel.announced))


class Granted(SenderCase):
    """Any feedback comes; what it grants is on its way in the model."""

    def begin(self, state: State, _made: Parameters) -> State:
        """What comes."""
        self.resume, self.revoke = bool(truth("resume")), bool(truth("revoke"))
        self.feedback = core.Grant(
            integer("given"), self.resume, self.revoke, *map(integer, ("watermarks", "consumed_now", "barriers"))
        )
        words = (REVOKE if self.revoke else RESUME,) if self.resume else ()
        credit = (self.feedback.credit,) if self.feedback.credit > 0 else ()
        channel = self.channel._replace(grants=Fifo((*words, *credit)))
        return state._replace(channels=Members((channel,)))

    def is_lawful(self) -> bool:
        """May the gate say so?"""
        credit, resume, revoke, watermarks, consumed, barriers = self.feedback
        history, here = self.history, 0 if revoke else self.channel.credit
        says = bool(credit != 0) or resume or any(bool(each != 0) for each in (watermarks, consumed, barriers))
        is_heard = (self.channel.stopped or not resume) and (resume or not revoke)
        limits = (
            (credit, self.parameters.exclusive + self.parameters.floating - here),
            (watermarks, 1 - history["_watermark_permits"]),
            (consumed, history["_sent"] - history["_consumed"]),
            (barriers, history["_sent_barriers"] - history["_consumed_barriers"]),
        )
        return says and is_heard and bool(all_of([all_of([each >= 0, each <= most]) for each, most in limits]))


def _taken_in(case: Granted, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.refusal is not None:
        return {}
    before, feedback = case.history, case.feedback
    return {
        "_watermark_permits": before["_watermark_permits"] + feedback.watermarks,
        "_consumed": before["_consumed"] + feedback.consumed,
        "_consumed_barriers": before["_consumed_barriers"] + feedback.barriers,
    }


def _is_refused_rightly(case: Granted, _after: State, outcome: Outcome) -> bool:
    return (outcome.refusal is None) == case.is_lawful()


def _asked(end: Any, _case: SenderCase) -> Mapping[str, Any]:
    names = ("is_stopped", "room_rows", "rows_held", "peak_rows_held", "sent_mark", "acknowledged_mark", "may_end")
    return {**{name: getattr(end, name) for name in names}, "unsettled": end.unsettled(), "gauges": end.gauges()}


def _are_answers(case: SenderCase, _after: State, outcome: Outcome) -> bool:
    told, before, channel = outcome.result, case.history, case.channel
    sent, consumed = (before["_sent"], before["_sent_barriers"]), (before["_consumed"], before["_consumed_barriers"])
    out = sent[0] - consumed[0] + sent[1] - consumed[1]
    waits = bool(case.count > 0) or case.has_watermark
    return (
        told["is_stopped"] == channel.stopped
        and told["may_end"] == (not waits and not channel.stopped)
        and (bool(equal(out, 0)) if told["unsettled"] is None else bool(out > 0 and equal(told["unsettled"][1], out)))
        and bool(
            all_of(
                [
                    equal(told["room_rows"], 0 if channel.stopped else channel.credit),
                    equal(told["rows_held"], sent[0] - consumed[0]),
                    equal(told["peak_rows_held"], before["_peak_held"]),
                    equal(told["sent_mark"], sent),
                    equal(told["acknowledged_mark"], consumed),
                    equal(told["gauges"]["backlog"], content_in(channel.waiting).data),
                ]
            )
        )
    )


class Short(SenderCase):
    """Two messages wait, and no chunk is expected."""

    def begin(self, state: State, made: Parameters) -> State:
        """Each is a chunk or a barrier."""
        assume(equal(self.count, 0))
        assume(equal(self.expected, 0))
        self.messages = [
            Message(Kind.CHUNK, None, natural(f"{name}_rows"))
            if truth(f"{name}_is_chunk")
            else Message(Kind.BARRIER, None)
            for name in ("first", "second")
        ]
        limit(made.backlog >= 2 + sum(message.rows for message in self.messages))
        return state

    def make(self, record: Callable[..., None] | None) -> Any:
        """They are known."""
        return put(super().make(record), {"_waiting": deque(Offered(message) for message in self.messages)})

    def stands_for(self, state: State) -> Mapping[str, Any]:
        """They stay."""
        return {**super().stands_for(state), "_waiting": Is(lambda found: len(found) == len(self.messages))}

    def in_turn(self) -> int:
        """How many may leave, one after the other."""
        state: State | None = self.state
        for count, message in enumerate(self.messages):
            kind, most = ("Data", cost_of(message.rows)) if message.kind is Kind.CHUNK else ("Barrier", 1)
            for verb in ("Offer", "Send"):
                state = None if state is None else attempted(f"{verb}{kind}", state, self.parameters, 0, most)
            if state is None:
                return count
        return len(self.messages)


SENDER: tuple[Call[Any], ...] = (
    Call(
        "a chunk is offered",
        Offering,
        lambda end, case: end.offer(Kind.CHUNK, None, case.rows),
        lambda case: bool(case.rows >= 0) and bool(case.rows <= case.most) and bool(cost_of(case.rows) > case.expected),
        _offered,
        lambda case, _after, outcome: (outcome.refusal is None) == bool(0 <= case.rows <= case.most),
    ),
    *(
        Call(
            f"a barrier is offered, {words} a number",
            kind,
            lambda end, case: end.offer(Kind.BARRIER, case.number if case.is_numbered else None),
            lambda _: True,
            _barrier_offered,
        )
        for kind, words in ((OfferingBarrier, "with"), (OfferingUnnumbered, "without"))
    ),
    Call(
        "any number of chunks are expected",
        Expecting,
        lambda end, case: end.expect(case.batch),
        lambda case: bool(case.most_offered() > case.expected),
        _expected,
    ),
    Call("the oldest leaves", SenderCase, lambda end, _: end.try_send(), _may_send, _sent),
    Call(
        "the watermark leaves",
        WithWatermark,
        lambda end, _: end.send_watermark(),
        lambda _: False,
        _watermark_sent,
        lambda case, _after, outcome: (outcome.refusal is None) == _may_send_watermark(case),
    ),
    Call(
        "the backlog is announced",
        SenderCase,
        lambda end, _: end.take_announcement(),
        lambda case: bool(case.events),
        _announced,
        _is_news,
    ),
    Call(
        "how many of two may leave",
        Short,
        lambda end, _: end.sendable(),
        lambda _: False,
        returns=lambda case, _after, outcome: bool(equal(outcome.result, case.in_turn())),
    ),
    Call("what a sender says of itself", SenderCase, _asked, lambda _: False, returns=_are_answers),
    Call(
        "feedback comes, or what must not",
        Granted,
        lambda end, case: end.on_feedback(case.feedback),
        lambda case: case.is_lawful() and bool(case.resume or case.feedback.credit > 0),
        _taken_in,
        _is_refused_rightly,
    ),
)


def _nothing_offered(made: Parameters) -> State:
    nothing: Any = Contents(0)
    return State(Members((opened(made.exclusive)._replace(waiting=nothing),)), made.floating, 0, failed=False)


SENDER_BEGINS = begins(
    SenderCase,
    lambda case: core.GateSender(as_code(case.parameters, case.most)),
    _nothing_offered,
    lambda case: {
        **dict.fromkeys((*case.history, "_expected"), 0),
        **{"_watermark_permits": 1, "_has_sent": False, "_waiting": EMPTY},
    },
)


# Any number of chunks: by the invariant of the loop over them.


class Sending(SenderCase):
    """The application has any number of chunks, and nothing waits."""

    batch: Batch
    room: int

    def begin(self, state: State, made: Parameters) -> State:
        """What it has."""
        assume(equal(self.count, 0))
        credit = 0 if self.channel.stopped else self.channel.credit
        invariant = Invariant(
            lambda turns: {"left": credit - self.batch.costs(turns), "count": turns},
            lambda turns: all_of([self.batch.costs(turns) <= credit, self.batch.fit(turns)]),
        )
        self.room = credit
        self.batch = Batch("batch", cost_of, self.most, invariant=invariant)
        limit(equal(made.backlog, self.expected + self.batch.costs(self.batch.count)))
        return state

    def is_right(self, count: int) -> bool:
        """May exactly the first ``count`` leave, one after the other?"""
        batch = self.batch
        if not count >= 0 or count > batch.count or batch.costs(batch.look(count)) > self.room or not batch.fit(count):
            return False
        return not count < batch.count or bool(batch.at(count) > self.most) or bool(batch.costs(count + 1) > self.room)

    def sent(self, count: int) -> State | None:
        """The state once this many have left."""
        cost = self.batch.costs(count)
        offered = attempted("OfferData", self.state, self.parameters, 0, cost - min(cost, self.expected))
        return None if offered is None else self.data_sent(offered, cost)


def leave(make: Callable[[], Sending], wrong: int) -> bool:
    """As many leave at once as may."""
    case = make()
    batch = case.batch
    with standing_in(case.modules):
        try:
            outcome = attempt(case.silent, lambda end: end.send_now(batch))
        except InvariantBroken:
            return False
        if outcome.refusal is not None:
            return bool(batch.least < 0) and case.holds(case.silent, case.state, {}, wrong)
        count = outcome.result
        after = case.sent(count)
        if after is None or not batch.least >= 0 or not case.is_right(count):
            return False
        cost = batch.costs(count)
        expected = case.expected - min(cost, case.expected)
        left = counted_out(case, cost, count, batch.sums(count)) if count > 0 else {}
        return case.holds(
            case.silent, after, {**left, "_expected": expected, "_waiting": case.line(after, expected)}, wrong
        )


def _are_admitted(wrong: int) -> bool:
    case = Sending()
    limit(case.batch.least >= 0)
    with standing_in(case.modules):
        try:
            return case.is_right(case.silent.admits(case.batch) + wrong)
        except InvariantBroken:
            return False


ANY_LENGTH: tuple[SymbolicObligation, ...] = (
    claim("as many are admitted as may leave", _are_admitted, "one more"),
    claim("any number leave at once", partial(leave, Sending), "it has one credit more"),
)
