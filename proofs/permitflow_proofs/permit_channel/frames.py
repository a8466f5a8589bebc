"""What each action of the permit channel changes, in any state at all."""

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


_WITHDRAWN = {"waiting": -1, "offered": None, "watermark_pending": None}

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("OfferChunk", {"waiting": +1, "offered": None}),
    Frame("OfferBarrier", {"waiting": +1, "offered": None}),
    Frame(
        "OfferWatermark",
        {"watermark_pending": None, "newest_watermark": "pending"},
        _waits_behind_all,
        "behind all that waits",
    ),
    Frame("WithdrawChunk", _WITHDRAWN, _is_allowed, "a pending watermark stays"),
    Frame("WithdrawBarrier", _WITHDRAWN, _is_allowed, "likewise"),
    Frame(
        "SendChunk",
        {"waiting": -1, "wire": +1, "permits.rows": None, "watermark_pending": None},
        _takes_its_cost,
        "its cost in rows is taken; a pending watermark stays",
    ),
    Frame(
        "SendBarrier",
        {"waiting": -1, "wire": +1, "permits.barriers": -1, "watermark_pending": None},
        _keeps_the_watermark,
        "a pending watermark stays",
    ),
    Frame(
        "SendWatermark",
        {"permits.watermarks": -1, "wire": +1, "watermark_pending": None, "newest_watermark": "sent"},
        _is_sent,
        "it is on the wire",
    ),
    Frame("Deliver", {"wire": -1, "inbox": +1}),
    Frame(
        "Consume",
        {"inbox": -1, "consumed": None, "newest_watermark": None, "unreturned": None, "grants": None},
        _returns_what_was_held,
        "the permits of the message are in grants and unreturned then",
    ),
    Frame("Flush", {"grants": +1, "unreturned": None}, _returns_the_residue, "all that is unreturned"),
    Frame("AddPermits", {"permits": None, "grants": -1}, _adds_the_oldest, "the oldest grant is added"),
)
"""What each action changes."""

ANY = Subject(SYSTEM, any_parameters, lambda parameters: any_state(parameters, {}), {"OfferChunk": any_rows})
"""The channel with any parameters, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """The one about all actions."""
    return (CHAPTER.framed(FRAMES, ANY, "permits-frame"),)
