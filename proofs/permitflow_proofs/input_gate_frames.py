"""What each action of the gate changes, and where it is possible.

In focus are an input that acts, and any other one.
"""

from permitflow_model.input_gate_alignment import is_awaited_no_more, is_open
from permitflow_model.input_gate_credit import RESUME, REVOKE, Channel, Item, Parameters, State, content_in
from permitflow_model.kernel.queue import Queue
from permitflow_proofs.kernel.family import each_in_focus
from permitflow_proofs.kernel.frame import Change, Frame


def at(state: State, name: int = 0) -> Channel:
    """The input that acts, or another one."""
    return state.channels.get(name)


def _tells_its_backlog(before: State, after: State, _parameters: Parameters) -> bool:
    """What leaves is what has waited longest, and tells how much data waits behind it."""
    message, waits = at(after).wire.last(), content_in(at(after).waiting).data
    return message.kind == "data" and message.backlog == waits and at(after).announced == waits


def _sends_a_barrier(before: State, after: State, _parameters: Parameters) -> bool:
    message, head = at(after).wire.last(), at(before).waiting.head()
    return message.kind == "barrier" and message.epoch == head.epoch and at(after).announced == 0


def _announces(_before: State, after: State, _parameters: Parameters) -> bool:
    message, waits = at(after).wire.last(), content_in(at(after).waiting).data
    return message.kind == "backlog" and message.backlog == waits and at(after).announced == waits


def _adds_the_oldest_grant(before: State, after: State, _parameters: Parameters) -> bool:
    return at(after).credit == at(before).credit + at(before).grants.head()


def _keeps_or_voids_its_credit(before: State, after: State, _parameters: Parameters) -> bool:
    return at(after).credit == (0 if at(before).grants.head() == REVOKE else at(before).credit)


def loses_nothing(before: State, after: State, _parameters: Parameters) -> bool:
    """Data and barriers go from the wire to the inbox; buffers go nowhere but home."""
    message = at(before).wire.head()
    arrived = content_in(at(after).inbox).items - content_in(at(before).inbox).items
    buffers = after.pool + at(after).borrowed == before.pool + at(before).borrowed
    return buffers and at(after).required == message.backlog and arrived == (0 if message.kind == "backlog" else 1)


def _frees_one(before: State, after: State, _parameters: Parameters) -> bool:
    """One piece of data is done, and its buffer is free, here or in the pool."""
    done = content_in(at(before).inbox).data - content_in(at(after).inbox).data
    buffers = after.pool + at(after).borrowed == before.pool + at(before).borrowed
    return done == 1 and buffers and after.pool + at(after).free == before.pool + at(before).free + 1


def _blocks(before: State, after: State, parameters: Parameters) -> bool:
    """The pending barrier has the number that is consumed."""
    number = at(before).inbox.head().epoch
    return after.epoch == (before.epoch if parameters.skip == 0 else number)


def _goes_on(one: Channel, other: Channel) -> bool:
    """An input that was blocked is open, and its sender is told once."""
    if not one.blocked:
        return other.grants.size() == one.grants.size() and other.released == one.released
    return other.grants.size() == one.grants.size() + 1 and not other.released


def _other_goes_on(before: State, after: State) -> bool:
    """Does any other input, if there is one?"""
    return each_in_focus(lambda name: name == 0 or _goes_on(at(before, name), at(after, name)), before.channels)


def _subsumes(before: State, after: State, _parameters: Parameters) -> bool:
    number = at(before).inbox.head().epoch
    return after.epoch == number and _other_goes_on(before, after)


def _passes(before: State, after: State, _parameters: Parameters) -> bool:
    grants = at(after).grants.size() == at(before).grants.size() + 1
    return grants and not at(after).released


def _goes_home(before: State, after: State, _parameters: Parameters) -> bool:
    is_empty = at(after).borrowed == 0 and at(after).free == 0
    return is_empty and after.pool == before.pool + at(before).borrowed


def _is_lost(before: State, after: State, parameters: Parameters) -> bool:
    lost = at(after)
    has_nothing = all(queue.is_empty() for queue in (lost.waiting, lost.wire, lost.inbox, lost.grants))
    has_nothing = has_nothing and lost.credit == 0 and lost.free == 0 and lost.borrowed == 0
    is_over = lost.over and lost.closed and after.pool == before.pool + at(before).borrowed
    is_given_up = after.epoch == (_next_epoch(before, parameters) if _is_pending(before) else before.epoch)
    return has_nothing and is_over and is_given_up and _other_goes_on(before, after)


def _grants_all(before: State, after: State, _parameters: Parameters) -> bool:
    return at(after).free == 0 and at(after).grants.last() == at(before).free


def _aligns_all(before: State, after: State, parameters: Parameters) -> bool:
    """All that are blocked go on, in the next epoch."""
    resumed = _goes_on(at(before), at(after)) and _other_goes_on(before, after)
    return resumed and after.epoch == _next_epoch(before, parameters)


def _next_epoch(state: State, parameters: Parameters) -> int:
    return 0 if state.epoch + 1 == parameters.epochs else state.epoch + 1


# Guards.


def _has_room(state: State, parameters: Parameters) -> bool:
    held = [content_in(queue) for queue in (at(state).waiting, at(state).wire, at(state).inbox)]
    return not at(state).closed and sum(one.data + one.barriers for one in held) < parameters.backlog


def _may_offer_data(state: State, parameters: Parameters, _name: int) -> bool:
    return _has_room(state, parameters)


def _may_offer_barrier(state: State, parameters: Parameters, _name: int, skipped: int = 0) -> bool:
    """Where barriers may be left out, their numbers are compared, so they must not start again from 0."""
    if parameters.skip > 0 and parameters.epochs > 0 and at(state).epoch + skipped + 1 >= parameters.epochs:
        return False
    return _has_room(state, parameters)


def _may_offer_newer(state: State, parameters: Parameters, name: int, skipped: int) -> bool:
    return 1 <= skipped <= parameters.skip and _may_offer_barrier(state, parameters, name, skipped)


def _is_first(queue: Queue[Item], kind: str) -> bool:
    return not queue.is_empty() and queue.head().kind == kind


def may_send_data(state: State, _parameters: Parameters, _name: int) -> bool:
    """Is data first, with credit, and not stopped?"""
    return _is_first(at(state).waiting, "data") and not at(state).stopped and at(state).credit > 0


def _may_send_barrier(state: State, _parameters: Parameters, _name: int) -> bool:
    return _is_first(at(state).waiting, "barrier") and not at(state).stopped


def _may_announce(state: State, parameters: Parameters, _name: int) -> bool:
    needs_some = parameters.exclusive == 0 and at(state).credit == 0
    return needs_some and not at(state).stopped and at(state).announced < content_in(at(state).waiting).data


def _may_consume(kind: str, state: State) -> bool:
    return not state.failed and not at(state).blocked and _is_first(at(state).inbox, kind)


def _may_consume_data(state: State, _parameters: Parameters, _name: int) -> bool:
    return _may_consume("data", state)


def _is_pending(state: State) -> bool:
    return not state.channels.every(is_open)


def _may_consume_barrier(state: State, parameters: Parameters, _name: int) -> bool:
    """Where barriers may be left out: the pending one, or a newer one where none is pending."""
    if not _may_consume("barrier", state):
        return False
    number = at(state).inbox.head().epoch
    if parameters.skip == 0 or number == state.epoch:
        return True
    return number > state.epoch and not _is_pending(state)


def _may_consume_newer(state: State, parameters: Parameters, _name: int) -> bool:
    if parameters.skip == 0 or not _may_consume("barrier", state):
        return False
    return at(state).inbox.head().epoch > state.epoch and _is_pending(state)


def _may_consume_older(state: State, parameters: Parameters, _name: int) -> bool:
    if parameters.skip == 0 or not _may_consume("barrier", state):
        return False
    return at(state).inbox.head().epoch < state.epoch


def _may_consume_end(state: State, _parameters: Parameters, _name: int) -> bool:
    one = at(state)
    if state.failed or one.over or not one.closed or one.stopped or one.blocked:
        return False
    return one.waiting.is_empty() and one.wire.is_empty() and one.inbox.is_empty()


def _may_borrow(state: State, _parameters: Parameters, _name: int) -> bool:
    one = at(state)
    if state.pool <= 0 or one.released or one.over:
        return False
    return one.borrowed - content_in(one.inbox).data < one.required


def _may_grant(state: State, _parameters: Parameters, _name: int) -> bool:
    return at(state).free > 0 and not at(state).released


def _may_align(state: State, _parameters: Parameters) -> bool:
    """No input is waited for."""
    return _is_pending(state) and state.channels.every(is_awaited_no_more)


def _parts(*names: str, of: int = 0) -> dict[str, Change]:
    return {f"channels.{of}.{name}": None for name in names}


_FREED: dict[str, Change] = {"channels.1.blocked": False, **_parts("released", "grants", of=1), "channels.others": None}

_CONSUMES = "not blocked, and no input is lost"

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("OfferData", {"channels.0.waiting": +1}, when=_may_offer_data, possible="up to Backlog, until the end"),
    Frame(
        "OfferBarrier",
        {"channels.0.waiting": +1, "channels.0.epoch": None},
        when=_may_offer_barrier,
        possible="likewise; with Skip, as long as there is a next number",
    ),
    Frame(
        "OfferNewerBarrier",
        {"channels.0.waiting": +1, "channels.0.epoch": None},
        when=_may_offer_newer,
        possible="likewise, with 1 to Skip numbers left out",
    ),
    Frame(
        "OfferEnd",
        {"channels.0.closed": True},
        when=lambda state, parameters, _name: parameters.ends and not at(state).closed,
        possible="with Ends, once",
    ),
    Frame(
        "LoseInput",
        {"channels.0": None, "pool": None, "epoch": None, "failed": True, **_FREED},
        _is_lost,
        "it is over and has nothing, its loans go home, the pending alignment is given up, and who is blocked goes on",
        when=lambda state, parameters, _name: parameters.losses and not at(state).over,
        possible="with Losses, before its end",
    ),
    Frame("Done"),
    Frame(
        "SendData",
        {"channels.0.waiting": -1, "channels.0.credit": -1, "channels.0.announced": None, "channels.0.wire": +1},
        _tells_its_backlog,
        "it tells how much data waits",
        when=may_send_data,
        possible="where data is first, with credit, not stopped",
    ),
    Frame(
        "SendBarrier",
        {"channels.0.waiting": -1, "channels.0.wire": +1, "channels.0.stopped": True, **_parts("announced", "sent")},
        _sends_a_barrier,
        "it tells that no data waits for credit",
        when=_may_send_barrier,
        possible="where a barrier is first, not stopped",
    ),
    Frame(
        "AnnounceBacklog",
        {"channels.0.announced": None, "channels.0.wire": +1},
        _announces,
        "it tells how much data waits",
        when=_may_announce,
        possible="with no exclusive buffers; no credit, not stopped, more data waits than was told",
    ),
    Frame(
        "AddCredit",
        {"channels.0.grants": -1, "channels.0.credit": None},
        _adds_the_oldest_grant,
        "by as much as the oldest grant",
        when=lambda state, _, _name: not at(state).grants.is_empty() and at(state).grants.head() > RESUME,
        possible="where credit is the oldest on its way back",
    ),
    Frame(
        "ResumeConsumption",
        {"channels.0.grants": -1, "channels.0.stopped": False, "channels.0.credit": None},
        _keeps_or_voids_its_credit,
        "0 if all credit was taken back, else as before",
        when=lambda state, _, _name: not at(state).grants.is_empty() and at(state).grants.head() <= RESUME,
        possible="where the word to resume is the oldest on its way back",
    ),
    Frame(
        "Deliver",
        {"channels.0.wire": -1, **_parts("required", "inbox", "released", "free", "borrowed"), "pool": None},
        loses_nothing,
        "data and barriers are in the inbox then; pool and loans together unchanged",
        when=lambda state, _, _name: not at(state).wire.is_empty(),
        possible="where one is on its way",
    ),
    Frame(
        "ConsumeData",
        {"channels.0.inbox": -1, **_parts("borrowed", "free"), "pool": None},
        _frees_one,
        "one buffer is free, here or in the pool",
        when=_may_consume_data,
        possible=f"where data is first, {_CONSUMES}",
    ),
    Frame(
        "ConsumeBarrier",
        {"channels.0.inbox": -1, "channels.0.blocked": True, "epoch": None},
        _blocks,
        "with Skip, its number is the epoch's",
        when=_may_consume_barrier,
        possible=f"where a barrier is first, {_CONSUMES}; with Skip, the pending one, or a newer one where none is",
    ),
    Frame(
        "ConsumeNewerBarrier",
        {"channels.0.inbox": -1, "channels.0.blocked": True, "epoch": None, **_FREED},
        _subsumes,
        "its number is the epoch's, and who is blocked goes on",
        when=_may_consume_newer,
        possible=f"with Skip, where a barrier newer than the pending one is first, {_CONSUMES}",
    ),
    Frame(
        "ConsumeOlderBarrier",
        {"channels.0.inbox": -1, **_parts("released", "grants")},
        _passes,
        "its sender is told at once",
        when=_may_consume_older,
        possible=f"with Skip, where a barrier that was given up is first, {_CONSUMES}",
    ),
    Frame(
        "ConsumeEnd",
        {"channels.0.over": True, **_parts("borrowed", "free"), "pool": None},
        _goes_home,
        "its loans go home",
        when=_may_consume_end,
        possible=f"once, where it is closed and has nothing more, not stopped, {_CONSUMES}",
    ),
    Frame(
        "Borrow",
        {"channels.0.borrowed": +1, "channels.0.free": +1, "pool": -1},
        when=_may_borrow,
        possible="where the pool has one, and its loans do not suffice for what was told; not released, not over",
    ),
    Frame(
        "Grant",
        {"channels.0.free": None, "channels.0.grants": +1},
        _grants_all,
        "all that is free",
        when=_may_grant,
        possible="where some are free, not released",
    ),
    Frame(
        "Align",
        {"channels.0.blocked": False, **_parts("released", "grants"), "epoch": None, **_FREED},
        _aligns_all,
        "the next epoch, and each that was blocked goes on",
        when=_may_align,
        possible="where an input is blocked, and none is waited for",
    ),
)
"""What each action changes: no message and no buffer is lost but by Lose."""
