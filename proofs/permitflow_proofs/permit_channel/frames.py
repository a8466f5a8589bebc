"""What each action of the permit channel changes, in any state at all."""

from functools import partial

from permitflow_model.permit_channel import (
    NO_WATERMARK,
    SYSTEM,
    Parameters,
    Permits,
    State,
    carried_by,
    held,
    plus,
)
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.symbols import implies
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import CHAPTER, any_parameters, any_rows, any_state


def _waits_behind_all(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.watermark_pending == after.waiting.size()


def _keeps_the_watermark(before: State, after: State, _parameters: Parameters) -> bool:
    """A watermark that is pending stays so, behind as many messages at most."""
    moved = before.watermark_pending - after.watermark_pending
    return 0 <= moved <= 1 and (after.watermark_pending >= 0) == (before.watermark_pending >= 0)


def _takes_its_cost(before: State, after: State, parameters: Parameters) -> bool:
    cost = before.waiting.head().cost
    return after.permits.rows == before.permits.rows - cost and _keeps_the_watermark(before, after, parameters)


def _is_sent(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.watermark_pending == NO_WATERMARK and after.wire.last().kind == "watermark"


def _returns_what_was_held(before: State, after: State, _parameters: Parameters) -> bool:
    """The permits of the message are on their way, or rows among the residue."""
    was = plus(carried_by(before.grants), Permits(before.unreturned, 0, 0))
    now = plus(carried_by(after.grants), Permits(after.unreturned, 0, 0))
    return now == plus(was, held(before.inbox.head()))


def _returns_the_residue(before: State, after: State, _parameters: Parameters) -> bool:
    return after.unreturned == 0 and after.grants.last() == Permits(before.unreturned, 0, 0)


def _adds_the_oldest(before: State, after: State, _parameters: Parameters) -> bool:
    return after.permits == plus(before.permits, before.grants.head())


def _is_allowed(before: State, after: State, parameters: Parameters) -> bool:
    return parameters.withdrawals and _keeps_the_watermark(before, after, parameters)


def _is_next(number: int, after: int, parameters: Parameters) -> bool:
    """Numbers are given in turn, and begin anew behind the last one."""
    is_number = number >= 0 and number < parameters.tags
    return implies(is_number, after == (number + 1 if number + 1 < parameters.tags else 0))


def _offers_the_next(before: State, after: State, parameters: Parameters) -> bool:
    return _is_next(before.offered, after.offered, parameters)


def _consumes(before: State, after: State, parameters: Parameters) -> bool:
    is_numbered = before.inbox.head().kind != "watermark"
    counts = _is_next(before.consumed, after.consumed, parameters) if is_numbered else after.consumed == before.consumed
    return counts and _returns_what_was_held(before, after, parameters)


def _has_a_place(state: State, parameters: Parameters, *_rows: int) -> bool:
    return state.waiting.size() < parameters.waiters


def _may_offer_a_barrier(state: State, parameters: Parameters) -> bool:
    return parameters.barrier_permits > 0 and _has_a_place(state, parameters)


def _may_withdraw(kind: str, state: State, parameters: Parameters) -> bool:
    return parameters.withdrawals and not state.waiting.is_empty() and state.waiting.last().kind == kind


def _may_send(kind: str, state: State, _parameters: Parameters) -> bool:
    if state.waiting.is_empty():
        return False
    message = state.waiting.head()
    permits = state.permits.rows if kind == "chunk" else state.permits.barriers
    return message.kind == kind and permits >= (message.cost if kind == "chunk" else 1)


def _may_flush(state: State, parameters: Parameters) -> bool:
    return parameters.flush_idle and state.inbox.is_empty() and state.unreturned > 0


_WITHDRAWN = {"waiting": -1, "offered": None, "watermark_pending": None}

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "OfferChunk",
        {"waiting": +1, "offered": None},
        _offers_the_next,
        "the next number is given",
        when=_has_a_place,
        possible="up to Waiters",
    ),
    Frame(
        "OfferBarrier",
        {"waiting": +1, "offered": None},
        _offers_the_next,
        "the next number is given",
        when=_may_offer_a_barrier,
        possible="up to Waiters, if there are barriers",
    ),
    Frame(
        "OfferWatermark",
        {"watermark_pending": None, "newest_watermark": "pending"},
        _waits_behind_all,
        "behind all that waits",
        when=lambda _, parameters: parameters.watermarks,
        possible="always, if there are watermarks",
    ),
    Frame(
        "WithdrawChunk",
        _WITHDRAWN,
        _is_allowed,
        "a pending watermark stays",
        when=partial(_may_withdraw, "chunk"),
        possible="where the newest that waits is a chunk",
    ),
    Frame(
        "WithdrawBarrier",
        _WITHDRAWN,
        _is_allowed,
        "likewise",
        when=partial(_may_withdraw, "barrier"),
        possible="where the newest that waits is a barrier",
    ),
    Frame(
        "SendChunk",
        {"waiting": -1, "wire": +1, "permits.rows": None, "watermark_pending": None},
        _takes_its_cost,
        "its cost in rows is taken; a pending watermark stays",
        when=partial(_may_send, "chunk"),
        possible="where the oldest that waits is a chunk, and its cost is there",
    ),
    Frame(
        "SendBarrier",
        {"waiting": -1, "wire": +1, "permits.barriers": -1, "watermark_pending": None},
        _keeps_the_watermark,
        "a pending watermark stays",
        when=partial(_may_send, "barrier"),
        possible="where the oldest that waits is a barrier, and a permit is there",
    ),
    Frame(
        "SendWatermark",
        {"permits.watermarks": -1, "wire": +1, "watermark_pending": None, "newest_watermark": "sent"},
        _is_sent,
        "it is on the wire",
        when=lambda state, _: state.watermark_pending == 0 and state.permits.watermarks >= 1,
        possible="where nothing waits before it, and a permit is there",
    ),
    Frame(
        "Deliver",
        {"wire": -1, "inbox": +1},
        when=lambda state, _: state.wire.size() > 0,
        possible="where one is on its way",
    ),
    Frame(
        "Consume",
        {"inbox": -1, "consumed": None, "newest_watermark": None, "unreturned": None, "grants": None},
        _consumes,
        "the next number, but for a watermark; the permits of the message are in grants and unreturned then",
        when=lambda state, _: state.inbox.size() > 0,
        possible="where one is here",
    ),
    Frame(
        "Flush",
        {"grants": +1, "unreturned": None},
        _returns_the_residue,
        "all that is unreturned",
        when=_may_flush,
        possible="where nothing is here, and a residue is kept, if FlushIdle",
    ),
    Frame(
        "AddPermits",
        {"permits": None, "grants": -1},
        _adds_the_oldest,
        "the oldest grant is added",
        when=lambda state, _: state.grants.size() > 0,
        possible="where one is on its way",
    ),
)
"""What each action changes."""

ANY = Subject(SYSTEM, any_parameters, lambda parameters: any_state(parameters, {}), {"OfferChunk": any_rows})
"""The channel with any parameters, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """The one about all actions."""
    return (CHAPTER.framed(FRAMES, ANY, "permits-frame"),)
