"""``GateSender`` where messages are taken back: less may wait than it has told, and than it has credit for.

Nothing is known of its counts but that none is below 0.  What it does is what ``WithdrawingGate`` does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, cast

from permitflow.flows.messages import Kind, Message, Offered
from permitflow_model.input_gate_credit import Channel, Content, Item, Parameters, State, content_in, with_changes
from permitflow_model.input_gate_runs import RUNS_AFTER_WITHDRAWALS, Many
from permitflow_model.input_gate_trace import Moves, TraceEvent
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.system import require
from permitflow_model.withdrawing_gate import SYSTEM
from permitflow_proofs.code.input_gate.counts import (
    MANY,
    Chunks,
    Contents,
    Explanation,
    Wire,
    any_channel,
    any_numbers,
    attempted,
    cost_of,
    next_follows,
)
from permitflow_proofs.code.input_gate.sender import SENDER, SenderCase, Sending, leave
from permitflow_proofs.code.refinement import Call, Outcome, is_possible, obligation
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import all_of, assume, equal, implies, limit, natural, truth
from permitflow_proofs.withdrawing_gate import SUBJECT


class Tail(NamedTuple):
    """A queue of which the newest items are known: a barrier, or so much data."""

    earlier: "Contents | Tail"
    newest: Item
    known: int
    """How many."""

    def is_empty(self) -> bool:
        """It is not."""
        return False

    def last(self) -> Item:
        """The newest item."""
        return self.newest

    def ends(self, count: int) -> bool:
        """Are the newest items this many data?  So many of them are known."""
        return self.newest.kind == "data" and self.known >= count

    def without_last(self) -> "Contents | Tail":
        """Without the newest."""
        return self.without_newest(1)

    def without_newest(self, count: int) -> "Contents | Tail":
        """Without this many of the known ones."""
        return self.earlier if equal(count, self.known) else self._replace(known=self.known - count)

    def sum_of(self, measure: Any, plus: Any, nothing: Content) -> Content:
        """What is counted."""
        return self.counts().sum_of(measure, plus, nothing)

    def counts(self) -> Contents:
        """The same, without what is known of the newest."""
        earlier = self.earlier.counts() if isinstance(self.earlier, Tail) else self.earlier
        return earlier.more(self.known) if self.newest.kind == "data" else earlier.push(self.newest)


class _Returns(Wire):
    """Credit on its way back; each tells a backlog."""

    def head(self) -> Item:
        """The oldest."""
        return Item("return", 0, self.without(1).told)


# This many steps at once.


def _returned(state: State, made: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    backlog = content_in(channel.waiting).data
    require(not channel.stopped)
    require(not channel.over)
    require(channel.credit >= made.exclusive + backlog + count)
    return with_changes(state, name, credit=channel.credit - count, announced=backlog)


def _came_back(state: State, _made: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    wire = channel.wire
    assert isinstance(wire, _Returns)
    require(wire.ahead >= count)
    left, borrowed = wire.without(count), channel.borrowed - count
    home = with_changes(state, name, wire=left, required=left.told, borrowed=borrowed)
    return home._replace(pool=state.pool + count)


_OWN: Many = {
    **{action: RUNS_AFTER_WITHDRAWALS[action] for action in ("WithdrawData", "SendAndTell")},
    "ReturnCredit": _returned,
    "DeliverOrReturn": _came_back,
}
_ALL: Many = {**MANY, **_OWN}


class Withdrawals(Explanation):
    """Explains the events of one that takes back what waits: the message that has so many known parts behind it."""

    many = _ALL

    def __init__(self, made: Parameters, behind: int = 0) -> None:
        """From the beginning."""
        super().__init__(made)
        self.system = SYSTEM
        self._parts_behind = behind

    def _withdrawals(self, channel: Channel, event: TraceEvent) -> Iterator[Moves]:
        queue, behind = channel.waiting, list[Tail]()
        for _ in range(self._parts_behind):
            assert isinstance(queue, Tail)
            behind.append(queue)
            queue = queue.earlier
        assert isinstance(queue, Tail)
        taken = [(f"Withdraw{part.newest.kind.title()}", (), part.known) for part in behind]
        due, offered = queue.earlier.last().epoch, list[tuple[str, tuple[int, ...], int]]()
        for part in reversed(behind):
            newer = part.newest.epoch - due
            if part.newest.kind == "data":
                offered.append(("OfferData", (), part.known))
                continue
            offered.append(("OfferNewerBarrier", (newer,), 1) if newer > 0 else ("OfferBarrier", (), 1))
            due = part.newest.epoch + 1
        yield [*taken, (event.action, (), event.arguments[0] if event.arguments else 1), *offered]


class Withdrawing(SenderCase):
    """Any state of a sender that has taken back what it told of, or has credit for."""

    def know(self, channel: Channel, made: Parameters) -> None:
        """Nothing more."""

    def data_sent(self, state: State, count: int) -> State | None:
        """As the model of withdrawals says."""
        return attempted("SendAndTell", state, self.parameters, 0, count, _ALL)

    def replay(self) -> Explanation:
        """As recorded runs are explained."""
        return Withdrawals(self.parameters)


class Taken(Withdrawing):
    """A message that waits is known."""

    known = 1
    """So many of the newest are."""
    base: Contents
    """What is before them."""
    behind: int
    """Known parts behind the oldest of them."""

    def begin(self, state: State, made: Parameters) -> State:
        """Each is a chunk or a barrier; what is expected is behind them."""
        channel = state.channels.get(0)
        assert isinstance(channel.waiting, Contents)
        self.base = channel.waiting.more(-self.expected)
        waiting: Contents | Tail = self.base
        first = due = waiting.last().epoch
        sent = natural("sent")
        limit(sent <= due)
        limit(implies(waiting.is_empty(), equal(sent, due)))
        parts = list[Offered[Any]]()
        for name in ("taken", "behind")[: self.known]:
            if truth(f"{name}_is_chunk"):
                rows = natural(f"{name}_rows")
                limit(rows <= self.most)
                parts.append(Offered(Message(Kind.CHUNK, None, rows)))
                waiting = Tail(waiting, Item("data", due, 0), cost_of(rows))
            else:
                number = natural(f"{name}_number")
                limit(all_of([due <= number, number <= first + made.skip]))
                parts.append(Offered(Message(Kind.BARRIER, number)))
                waiting, due = Tail(waiting, Item("barrier", number, 0), 1), number + 1
        self.offered, self.behind = tuple(parts), self.known - 1
        if self.expected > 0:
            waiting, self.behind = Tail(waiting, Item("data", due, 0), self.expected), self.known
        content = content_in(waiting)
        limit(made.backlog >= content.data + content.barriers)
        channel = channel._replace(epoch=due, sent=sent, waiting=waiting)
        return state._replace(channels=Members((channel,)))

    def line(self, state: State, expected: int) -> Chunks:
        """What waits, the known messages included."""
        if not isinstance(state.channels.get(0).waiting, Tail):
            return super().line(state, expected)
        line = Chunks(self.base, self.count, self.oldest)
        for offered in self.offered:
            line = line.push(offered.message)
        return line

    def replay(self) -> Explanation:
        """The oldest of them is taken back."""
        return Withdrawals(self.parameters, self.behind)


class TwoKnown(Taken):
    """... and the one behind it, too."""

    known = 2


class NoneKnown(Taken):
    """Only what is expected is."""

    known = 0


class OnlyKnown(TwoKnown):
    """Nothing else waits, but a watermark."""

    has_watermark = True

    def begin(self, state: State, made: Parameters) -> State:
        """No chunk is expected."""
        assume(equal(self.count, 0))
        assume(equal(self.expected, 0))
        state = super().begin(state, made)
        self.behind = 0
        return state


def _position_passed(case: Taken, _after: State, _outcome: Outcome) -> Mapping[str, Any]:
    """One fewer before the watermark, if it was before it."""
    before = case.history["_watermark_after"]
    return {"_watermark_after": before - (before > case.count) * 1}


def _expected_no_more(case: NoneKnown, _after: State, _outcome: Outcome) -> Mapping[str, Any]:
    return {"_expected": 0, "_waiting": case.line(case.state, case.expected)}


def _is_told(case: SenderCase, _after: State, outcome: Outcome) -> bool:
    """What is not needed returns, with all that waits; where nothing is told, the gate knows it, or need not."""
    backlog = content_in(case.channel.waiting).data
    if outcome.result is None:
        may = is_possible(case, ("AnnounceBacklog", (0,)), ("ReturnCredit", (0,)))
        return not may and bool(implies(case.has_sent, equal(case.told, backlog)))
    unneeded = case.channel.credit - case.parameters.exclusive - backlog
    return not case.channel.stopped and bool(
        all_of([equal(outcome.result.backlog, backlog), equal(outcome.result.returned, (unneeded > 0) * unneeded)])
    )


def _in_any_state(call: Call[Any]) -> Call[Any]:
    """As where nothing is ever taken back; only what is announced is another matter."""
    of_gate = cast("type[SenderCase]", call.make)
    made = type(of_gate.__name__, (Withdrawing, of_gate), {})
    return replace(call, make=made, returns=_is_told if call.name == "the backlog is announced" else call.returns)


WITHDRAWALS: tuple[Call[Any], ...] = (
    *map(_in_any_state, SENDER),
    *(
        Call(
            f"a message is taken back, with {case.known - 1} behind it",
            case,
            lambda end, case: end.withdraw(case.offered[0]),
            lambda _: True,
            _position_passed,
            lambda _case, _after, outcome: outcome.result is True,
        )
        for case in (Taken, TwoKnown)
    ),
    Call(
        "what does not wait is not taken back",
        TwoKnown,
        lambda end, _: end.withdraw(Offered(Message(Kind.CHUNK, None, 1))),
        lambda _: False,
        returns=lambda _case, _after, outcome: outcome.result is False,
    ),
    Call(
        "all are taken back",
        OnlyKnown,
        lambda end, _: end.withdraw_all(),
        lambda _: True,
        lambda _case, _after, _outcome: {"_watermark": None},
    ),
    Call(
        "no chunk is expected any more",
        NoneKnown,
        lambda end, _: end.expect([]),
        lambda case: bool(case.expected > 0),
        _expected_no_more,
    ),
)


class _SendingInAnyState(Withdrawing, Sending):
    """The application has any number of chunks, and nothing waits."""


def _next_follows(action: str, wrong: int) -> bool:
    """As long as what is taken back is known."""
    made, _ = any_numbers()
    channel, count = any_channel("input"), natural("count")
    if action == "DeliverOrReturn":
        returns: Any = _Returns(natural("returns"))
        channel = channel._replace(wire=returns, required=natural("required"), borrowed=natural("borrowed"))
    if action == "WithdrawData":
        assert isinstance(channel.waiting, Contents)
        known = natural("known")  # one more, at least; in the twin three
        limit(count < known - 2 * wrong)
        channel = channel._replace(waiting=Tail(channel.waiting, Item("data", natural("due"), 0), known))
    return next_follows(SYSTEM, _ALL, action, channel, made, wrong, count)


def _data_follow(wrong: int) -> bool:
    """What arrives and is no credit."""
    made, _ = any_numbers()
    queues: dict[str, Any] = {"inbox": Contents(natural("inbox")), "wire": Wire(natural("wire"))}
    channel = any_channel("input")._replace(**queues, required=natural("required"))
    return next_follows(SYSTEM, RUNS_AFTER_WITHDRAWALS, "DeliverOrReturn", channel, made, wrong, natural("count"))


def _none_is_below(wrong: int) -> bool:
    state, _ = SUBJECT.any_case()
    channel = state.channels.get(0)
    return all_of([channel.credit >= 0, channel.announced >= wrong])


OBLIGATIONS: tuple[SymbolicObligation, ...] = (
    *map(obligation, WITHDRAWALS),
    claim("any number leave at once", partial(leave, _SendingInAnyState), "it has one credit more"),
    claim("the invariant says as much of a sender", _none_is_below, "it has always announced something"),
    *(claim(f"{action}, one more", partial(_next_follows, action), "two more") for action in _OWN),
    claim("data arrive, one more", _data_follow, "two more"),
)
