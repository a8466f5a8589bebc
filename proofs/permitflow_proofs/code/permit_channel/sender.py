"""``PermitSender``: offering, withdrawing, sending, and permits that come back."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from permitflow.errors import PermitOverrunError, UnexpectedFrameError
from permitflow.flows.messages import Kind, Offered
from permitflow.flows.messages import Message as CoreMessage
from permitflow.flows.permits import core
from permitflow.flows.permits.parameters import Permits as CorePermits
from permitflow_model.permit_channel import (
    NO_WATERMARK,
    SYSTEM,
    Message,
    Parameters,
    State,
    may_wait,
    plus,
    total,
)
from permitflow_model.permit_channel_trace import PermitChannelReplay, TraceEvent, World, withdrawal
from permitflow_proofs.code.permit_channel.common import (
    ANY,
    MODULES,
    any_numbers,
    are_split,
    as_code,
    largest,
    shown,
    told,
)
from permitflow_proofs.code.refinement import EMPTY, Call, Case, Is, Outcome, begins, is_larger, is_possible, put
from permitflow_proofs.code.stand_ins import Line, listed_queue, pushed
from permitflow_proofs.kernel.obligation import take
from permitflow_proofs.kernel.paths import Beginning
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, equal, implies, integer, natural
from permitflow_proofs.permit_channel.arbitrary import (
    any_message,
    any_permits,
    any_state,
    is_offered_size,
)


class SenderCase(Case[State, Parameters]):
    """Any state of the sender."""

    modules = MODULES
    off_by_one = "_row_permits"
    offered: tuple[Offered[Any], ...] = ()
    """The newest in the line, if they are known."""
    offers = False
    """Does the application have chunks to offer?"""

    def any_case(self) -> tuple[State, Parameters]:
        """The state and the parameters."""
        return ANY.any_case()

    def __init__(self) -> None:
        """Any state at all."""
        state, made = self.any_case()
        splits = are_split(made)
        assume(state.waiting.size() < made.waiters)
        self.splits, self._largest = bool(splits) if self.offers else splits, largest(made)
        self.rows = self.any_rows("rows") if self.offers else 0
        self.watermark: CoreMessage[Any] = CoreMessage(Kind.WATERMARK, None)
        self.stale = natural("stale")
        withheld, returned = natural("withheld"), natural("returned_rows")
        assume(withheld <= made.row_permits - made.initial_permits)
        assume(state.permits.rows + withheld <= made.row_permits)
        assume(any_of((equal(withheld, 0), equal(returned, 0))))
        self.history = {
            "_returned_rows": returned - withheld,
            "_returned_barriers": natural("returned_barriers"),
            "_most_rows_held": natural("most_rows_held"),
            "_sent_chunks": natural("sent_chunks"),
            "_sent_rows": natural("sent_rows"),
            "_sent_barriers": natural("sent_barriers"),
        }
        self.withheld = withheld
        super().__init__(state, made)

    def any_rows(self, name: str) -> int:
        """The rows of a chunk that the application has; it may be too large, if such chunks are split."""
        rows = integer(name)
        if not self.splits:
            assume(rows <= self._largest)
        return rows

    def stands_for(self, state: State) -> Mapping[str, Any]:
        """The counts of this state."""
        pending = state.watermark_pending != NO_WATERMARK
        return {
            "_row_permits": state.permits.rows,
            "_barrier_permits": state.permits.barriers,
            "_watermark_permits": state.permits.watermarks,
            "_waiting": state.waiting,
            "_watermark": Is(lambda found: pending == (found is not None)),
            "_watermark_after": Is(lambda found: implies(pending, equal(found, state.watermark_pending))),
        }

    def make(self, record: Callable[..., None] | None) -> Any:
        """An end with these counts."""
        made: Any = core.PermitSender(as_code(self.parameters, self.offers and self.splits), record=record)
        state, is_pending = self.state, self.state.watermark_pending != NO_WATERMARK
        return put(
            made,
            {
                **self.history,
                "_splits": self.splits,
                "_row_permits": state.permits.rows,
                "_barrier_permits": state.permits.barriers,
                "_watermark_permits": state.permits.watermarks,
                "_waiting": Line(state.waiting, self._offered, self._told, self.offered),
                "_watermark": self.watermark if is_pending else None,
                "_watermark_after": state.watermark_pending if is_pending else self.stale,
            },
        )

    def _offered(self, message: Message) -> Offered[Any]:
        return Offered(shown(message))

    def _told(self, offered: Offered[Any]) -> Message:
        return told(offered.message, self.parameters)

    def replay(self) -> PermitChannelReplay:
        """As recorded runs are explained."""
        return PermitChannelReplay(self.parameters)


class Offering(SenderCase):
    """The application has a chunk."""

    offers = True


class KnownLine(SenderCase):
    """The newest messages in the line are known: this many of them."""

    known = 1

    def any_case(self) -> tuple[State, Parameters]:
        """The state and the parameters."""
        state, made = _with_known(self.known)()
        messages = pushed(state.waiting)[-self.known :]
        self.offered = tuple(Offered(shown(message)) for message in messages)
        return state, made

    def withdrawn(self, count: int) -> State:
        """The oldest of the last ``count`` messages in the line is withdrawn."""
        state = self.state
        messages = pushed(state.waiting)[-count:]
        position = state.waiting.size() - count
        for action, arguments in withdrawal(messages, position, state.watermark_pending):
            state = SYSTEM.perform(action, state, self.parameters, *arguments)
        return state


class TwoKnown(KnownLine):
    """The newest two."""

    known = 2


class OnlyKnown(TwoKnown):
    """There are no others."""

    def __init__(self) -> None:
        super().__init__()
        assume(equal(self.state.waiting.size(), self.known))

    def all_withdrawn(self) -> State:
        """None waits, and no watermark does."""
        state = self.state._replace(watermark_pending=NO_WATERMARK)
        for offered in reversed(self.offered):
            action = "WithdrawChunk" if offered.message.kind is Kind.CHUNK else "WithdrawBarrier"
            state = SYSTEM.perform(action, state, self.parameters)
        return state


@cache
def _with_known(count: int) -> Beginning[tuple[State, Parameters]]:
    def make() -> tuple[State, Parameters]:
        """An end with these counts."""
        made = any_numbers()
        messages = tuple(any_message(f"known.{number}") for number in range(count))
        return any_state(made, known={"waiting": messages}), made

    return Beginning(make)


class Returned(SenderCase):
    """Some permits come back: the next grant, or anything."""

    is_next = True

    def __init__(self) -> None:
        super().__init__()
        grants = self.state.grants
        if self.is_next:
            assume(grants.size() > 0)
        self.permits = grants.head() if self.is_next else any_permits("feedback")

    @property
    def feedback(self) -> CorePermits:
        """As the code gets it."""
        return CorePermits(*self.permits)

    def is_due(self) -> bool:
        """Does the receiver hold so much, or has it at least been granted?"""
        out = [most - here for most, here in zip(total(self.parameters), self.state.permits, strict=True)]
        return any(self.permits) and all(0 <= given <= most for given, most in zip(self.permits, out, strict=True))

    def added(self) -> State:
        """Once they are here."""
        return self.state._replace(permits=plus(self.state.permits, self.permits))

    def replay(self) -> PermitChannelReplay:
        """As recorded runs are explained."""
        return _Listing(self.parameters)


class AnythingReturned(Returned):
    """It may be a peer's mistake."""

    is_next = False


class _Listing(PermitChannelReplay):
    """Looks at the grants one after the other, as long as there may be another one."""

    def _add_permits(self, world: World, event: TraceEvent) -> Sequence[World]:
        listed = world.state._replace(grants=listed_queue(world.state.grants))
        return super()._add_permits(world._replace(state=listed), event)


def _counted_back(case: Returned, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    if outcome.refusal is not None:
        return {}
    history = case.history
    return {
        "_returned_rows": history["_returned_rows"] + case.permits.rows,
        "_returned_barriers": history["_returned_barriers"] + case.permits.barriers,
        "_most_rows_held": _at_least_so_many(case),
    }


def _at_least_so_many(case: Returned) -> Is:
    """The most that were ever held: as before, or those that were held until now."""
    before = case.history["_most_rows_held"]
    now = case.parameters.row_permits - case.state.permits.rows - case.withheld
    return is_larger(before, now)


def _tells_each(case: Returned, _after: State, outcome: Outcome) -> bool:
    """The peer's mistake is told as what it is."""
    if outcome.refusal is None:
        return True
    is_empty = not any(case.permits)
    return isinstance(outcome.refusal, UnexpectedFrameError if is_empty else PermitOverrunError)


class EmptySender(Offering):
    """Nothing waits, and the application has some chunks."""

    chunks = 1

    def __init__(self) -> None:
        super().__init__()
        assume(equal(self.state.waiting.size(), 0))
        assume(self.parameters.waiters >= 1)
        self.batch = [self.any_rows(f"rows.{number}") for number in range(self.chunks)]


class WaitingSender(Offering):
    """Something waits, and the application has a chunk."""

    def __init__(self) -> None:
        super().__init__()
        assume(self.state.waiting.size() > 0)


class TwoChunks(EmptySender):
    """The application has two."""

    chunks = 2


def _may_offer(case: Offering) -> bool:
    return 0 <= case.rows <= largest(case.parameters)


def _sent(case: SenderCase, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    message, before = outcome.result, case.history
    if message is None:
        return {}
    if message.kind is Kind.CHUNK:
        return {"_sent_chunks": before["_sent_chunks"] + 1, "_sent_rows": before["_sent_rows"] + message.rows}
    return {"_sent_barriers": before["_sent_barriers"] + 1} if message.kind is Kind.BARRIER else {}


def _is_oldest(case: SenderCase, _after: State, outcome: Outcome) -> bool:
    return outcome.result is None or outcome.result.payload is case.state.waiting.head()


def _is_watermark(case: SenderCase, _after: State, outcome: Outcome) -> bool:
    return outcome.result is None or outcome.result is case.watermark


def _may_send(case: SenderCase) -> bool:
    return is_possible(case, "SendChunk", "SendBarrier")


def _may_send_batch(case: EmptySender) -> bool:
    return all(rows >= 0 for rows in case.batch) and _may_follow(case, case.state, 0)


def _may_follow(case: EmptySender, state: State, count: int) -> bool:
    """May another chunk leave, after this many?"""
    if count == len(case.batch):
        return False
    rows = case.batch[count]
    if case.splits and rows > case.parameters.max_chunk_cost:
        return False
    return take(SYSTEM, case.parameters, state, [("OfferChunk", (rows,)), ("SendChunk", ())]) is not None


def _batch_sent(case: EmptySender, _after: State, outcome: Outcome) -> Mapping[str, Any]:
    count, before = outcome.result or 0, case.history
    return {
        "_sent_chunks": before["_sent_chunks"] + count,
        "_sent_rows": before["_sent_rows"] + sum(case.batch[:count]),
    }


def _as_many_as_may(case: EmptySender, after: State, outcome: Outcome) -> bool:
    if outcome.refusal is not None:
        return any(rows < 0 for rows in case.batch)
    return len(case.events) == 2 * outcome.result and not _may_follow(case, after, outcome.result)


class _Short(SenderCase):
    """At most this many wait."""

    most = 2

    def __init__(self) -> None:
        super().__init__()
        assume(self.state.waiting.size() <= self.most)
        rest = self.state.waiting.without_head()
        rest.every(may_wait, self.parameters)
        rest.every(is_offered_size, self.parameters)


class _Shorter(_Short):
    most = 1


def _asked(core: Any, _case: SenderCase) -> dict[str, Any]:
    names = ("permits", "outstanding", "rows_held", "peak_rows_held", "withheld", "sent_mark", "acknowledged_mark")
    may = {name: bool(getattr(core, name)()) for name in ("can_send", "can_send_watermark", "admits_barrier")}
    return {**may, "may_end": bool(core.may_end), **{name: getattr(core, name) for name in names}}


def _are_answers(case: SenderCase, _after: State, outcome: Outcome) -> bool:
    told, state = outcome.result, case.state
    here = state.permits
    out = [most - left for most, left in zip(total(case.parameters), here, strict=True)]
    held_rows = out[0] - case.withheld
    is_free = bool(state.waiting.size() <= 0) and bool(state.watermark_pending == NO_WATERMARK)
    (sent, sent_barriers), (back, back_barriers) = told["sent_mark"], told["acknowledged_mark"]
    return (
        told["can_send"] == is_possible(case, "SendChunk", "SendBarrier")
        and told["can_send_watermark"] == is_possible(case, "SendWatermark")
        and told["admits_barrier"] == bool(here.barriers > 0)
        and told["may_end"] == is_free
        and all_of([equal(one, other) for one, other in zip(told["permits"], here, strict=True)])
        and all_of([equal(one, other) for one, other in zip(told["outstanding"], out, strict=True)])
        and all_of([equal(told["rows_held"], held_rows), equal(told["withheld"], case.withheld)])
        and is_larger(case.history["_most_rows_held"], held_rows).condition(told["peak_rows_held"])
        and all_of([equal(sent - back, held_rows), equal(sent_barriers - back_barriers, out[1])])
    )


def _as_many_in_turn(case: SenderCase, _after: State, outcome: Outcome) -> bool:
    state, count = case.state, 0
    while True:
        following = (take(SYSTEM, case.parameters, state, [(name, ())]) for name in ("SendChunk", "SendBarrier"))
        after = next((each for each in following if each is not None), None)
        if after is None:
            return bool(equal(outcome.result, count))
        state, count = after, count + 1


def _all_sent(case: SenderCase, after: State, outcome: Outcome) -> Mapping[str, Any]:
    counts = dict(case.history)
    for message in outcome.result:
        for name in ("_sent_chunks", "_sent_rows") if message.kind is Kind.CHUNK else ():
            counts[name] = counts[name] + (1 if name == "_sent_chunks" else message.rows)
        if message.kind is Kind.BARRIER:
            counts["_sent_barriers"] = counts["_sent_barriers"] + 1
    return counts


def _none_is_left_that_may(case: SenderCase, after: State, outcome: Outcome) -> bool:
    sending = ("SendChunk", "SendBarrier", "SendWatermark")
    may = any(SYSTEM.is_enabled(name, after, case.parameters) for name in sending)
    return not may and len(outcome.result) == len(case.events)


SENDER_BEGINS = begins(
    Offering,
    lambda case: core.PermitSender(as_code(case.parameters, case.splits)),
    SYSTEM.initial,
    lambda case: {
        **dict.fromkeys(case.history, 0),
        "_returned_rows": case.parameters.initial_permits - case.parameters.row_permits,
        "_waiting": EMPTY,
    },
)

SENDER: tuple[Call[Any], ...] = (
    Call(
        "a chunk is offered",
        Offering,
        lambda core, case: core.offer(Kind.CHUNK, None, case.rows),
        _may_offer,
    ),
    Call(
        "a barrier is offered",
        SenderCase,
        lambda core, _: core.offer(Kind.BARRIER, None),
        lambda _: True,
    ),
    Call("a watermark is offered", SenderCase, lambda core, _: core.offer_watermark(None), lambda _: True),
    Call("the oldest leaves", SenderCase, lambda core, _: core.try_send(), _may_send, _sent, _is_oldest),
    Call(
        "the oldest leaves, or an error", SenderCase, lambda core, _: core.send_oldest(), _may_send, _sent, _is_oldest
    ),
    Call(
        "the watermark leaves",
        SenderCase,
        lambda core, _: core.send_watermark(),
        lambda case: is_possible(case, "SendWatermark"),
        returns=_is_watermark,
    ),
    *(
        Call(
            f"a message is withdrawn, with {case.known - 1} behind it",
            case,
            lambda core, case: core.withdraw(case.offered[0]),
            lambda _: True,
            leads_to=lambda case: case.withdrawn(case.known),
            returns=lambda _case, _after, outcome: outcome.result is True,
        )
        for case in (KnownLine, TwoKnown)
    ),
    Call(
        "what does not wait is not withdrawn",
        TwoKnown,
        lambda core, _: core.withdraw(Offered(CoreMessage(Kind.CHUNK, None, 1))),
        lambda _: False,
        returns=lambda _case, _after, outcome: outcome.result is False,
    ),
    Call(
        "all are withdrawn",
        OnlyKnown,
        lambda core, _: core.withdraw_all(),
        lambda _: True,
        leads_to=OnlyKnown.all_withdrawn,
    ),
    Call(
        "the next grant arrives",
        Returned,
        lambda core, case: core.on_feedback(case.feedback),
        lambda _: True,
        _counted_back,
    ),
    Call(
        "permits come back, or too many",
        AnythingReturned,
        lambda core, case: core.on_feedback(case.feedback),
        AnythingReturned.is_due,
        _counted_back,
        _tells_each,
        AnythingReturned.added,
    ),
    *(
        Call(
            f"{case.chunks} leave at once",
            case,
            lambda core, case: core.send_now(case.batch),
            _may_send_batch,
            _batch_sent,
            _as_many_as_may,
        )
        for case in (EmptySender, TwoChunks)
    ),
    Call(
        "none leaves at once before what waits",
        WaitingSender,
        lambda core, case: core.send_now([case.rows]),
        lambda _: False,
        returns=lambda _case, _after, outcome: outcome.result == 0,
    ),
    Call(
        "what a sender says of itself",
        SenderCase,
        _asked,
        lambda _: False,
        returns=_are_answers,
    ),
    Call(
        "how many of two may leave",
        _Short,
        lambda core, _: core.sendable(),
        lambda _: False,
        returns=_as_many_in_turn,
    ),
    Call(
        "all leave that may, of one and a watermark",
        _Shorter,
        lambda core, _: core.take_sendable(),
        lambda case: is_possible(case, "SendChunk", "SendBarrier", "SendWatermark"),
        _all_sent,
        _none_is_left_that_may,
    ),
)
