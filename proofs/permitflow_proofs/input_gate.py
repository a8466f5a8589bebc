"""The gate, for any number of inputs and any number of buffers: what holds in every state, and when it is live.

One channel is in focus; of the others is known what every channel satisfies.  The clauses are shown in states that
satisfy all of them.  Runs into a deadlock name two channels, and are runs for any number of inputs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from permitflow_model.input_gate import (
    CHANNEL_CLAUSES,
    GATE_CLAUSES,
    OUT_OF_ORDER,
    RESUME,
    REVOKE,
    SYSTEM,
    Channel,
    ChannelClause,
    Item,
    Parameters,
    State,
    content_in,
    data_here,
    due_after,
    effect_in,
    is_awaited_no_more,
    is_blocked,
    is_grant,
    is_item,
    is_open,
    needs_to_move,
    promise_in,
    span_in,
)
from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.runs import Move
from permitflow_model.mistakes import Mistake, mistaken, mistakes_in
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Fault, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation, law_obligations
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import all_of, any_of, assume, assuming, implies, integer, merged, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in CHANNEL_CLAUSES if name != "InEpoch"}
"""What every reachable state satisfies; proved by induction."""

EPOCHS_INVARIANT = {
    name: SYSTEM.invariants[name]
    for name in ("TypeOK", "StoppedByBarrier", "NothingBehind", "NothingAfterEnd", "InEpoch")
}
"""The part of the invariant that the order of epochs needs."""

any_parameters = partial(any_parameters_of, Parameters)

_MISTAKES = mistakes_in("InputGate")
_GOES_ON = (_MISTAKES["SendBarrierAndGoOn"], _MISTAKES["AlignSilently"])
_KEEPS = (_MISTAKES["DeliverAndKeep"],)
_ANNOUNCES_NOTHING = (_MISTAKES["AnnounceNothing"],)


def _goes_on_and_keeps(channel: Channel, _parameters: Parameters, _epoch: int, _failed: bool) -> bool:
    """Its sender never stops, and nothing is taken back."""
    keeps = effect_in(channel.grants).keeps
    return not channel.stopped and not channel.released and keeps == 1


_CLAUSES: Mapping[str, ChannelClause] = {**CHANNEL_CLAUSES, "GoesOnAndKeeps": _goes_on_and_keeps}
_STORING_CLAUSES = ("TypeOK", "Conservation", "GoesOnAndKeeps", "NothingAfterEnd")
"""The invariant where senders do not stop and nothing is taken back: the gate stores data behind a barrier."""


# Laws of queues: each number is never negative.

_COUNTED: tuple[Law, ...] = (
    lambda items: content_in(items).items - items.size(),
    lambda items: items.size() - content_in(items).items,
    lambda items: content_in(items).data,
    lambda items: content_in(items).barriers,
    lambda items: content_in(items).items - content_in(items).data - content_in(items).barriers,
    lambda items: (content_in(items).items, content_in(items).behind),
)
_PROMISED: tuple[Law, ...] = (
    lambda messages: promise_in(messages).data - content_in(messages).data,
    lambda messages: content_in(messages).data - promise_in(messages).data,
    lambda messages: promise_in(messages).most,
)
_SPANNED: tuple[Law, ...] = (lambda messages: 1 + span_in(messages).newest,)
_HEARD: tuple[Law, ...] = (
    lambda grants: 2 * effect_in(grants).keeps,
    lambda grants: 1 - effect_in(grants).keeps,
    lambda grants: effect_in(grants).adds,
    lambda grants: (effect_in(grants).words, effect_in(grants).keeps + effect_in(grants).words - 1),
    lambda grants: _granted_in(grants),
)


def _granted(grant: int) -> int:
    return grant if grant > 0 else 0


def _plus(left: int, right: int) -> int:
    return left + right


def _granted_in(grants: Sums) -> int:
    """All credit that is granted, void or not."""
    return grants.sum_of(_granted, _plus, 0)


def _any_item(name: str) -> Item:
    return arbitrary(Item, f"{name}.")


def _any_channel(name: str) -> Channel:
    def items(field: str, *laws: Law) -> SymbolicQueue[Item]:
        return SymbolicQueue.any_queue(f"{name}.{field}", _any_item, (*_COUNTED, *laws), {due_after: OUT_OF_ORDER})

    queues = {
        "waiting": items("waiting"),
        "wire": items("wire", *_PROMISED, *_SPANNED),
        "inbox": items("inbox", *_SPANNED),
        "grants": SymbolicQueue.any_queue(f"{name}.grants", integer, _HEARD),
    }
    return arbitrary(Channel, f"{name}.", special=queues)


def _lawful(channel: Channel, parameters: Parameters, epoch: int, failed: bool, names: tuple[str, ...]) -> bool:
    """All clauses together: one question about all channels instead of one for each clause."""
    return all_of([merged(partial(_CLAUSES[name], channel, parameters, epoch, failed)) for name in names])


def _any_lawful_state(names: Iterable[str], parameters: Parameters) -> State:
    channels = SymbolicFamily.any_family("channels", _any_channel)
    state = arbitrary(State, special={"channels": channels})
    channels.assume_every(_lawful, parameters, state.epoch, state.failed, tuple(names))
    assume_all([GATE_CLAUSES[name] for name in names if name in GATE_CLAUSES], state, parameters)
    channels.settle()
    return state


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    return _any_lawful_state(INVARIANT, parameters)


def _any_skip(parameters: Parameters) -> tuple[int, ...]:
    skipped = natural("skipped", 1)
    assume(skipped <= parameters.skip)
    return (skipped,)


_SKIPPED = {"OfferNewerBarrier": _any_skip}

SUBJECT = Subject(SYSTEM, any_parameters, any_state, _SKIPPED)
"""The gate."""

EPOCHS = Subject(SYSTEM, any_parameters, partial(_any_lawful_state, EPOCHS_INVARIANT), _SKIPPED)
"""The same, with the order of epochs: any number of them, or without end."""

STORING = Subject(
    mistaken(SYSTEM, *_GOES_ON, *_KEEPS),
    partial(any_parameters, revoke=False),
    partial(_any_lawful_state, _STORING_CLAUSES),
    _SKIPPED,
)
"""The gate whose senders do not stop, and where nothing is taken back."""

LOSSES = Subject(SYSTEM, any_parameters, partial(_any_lawful_state, ("LossFrees",)), _SKIPPED)
"""The gate, and what it is after an input was lost."""

_RESTING = Subject(
    SYSTEM, any_parameters, partial(_any_lawful_state, ("TypeOK", "NothingAfterEnd", "BacklogKnown")), _SKIPPED
)
"""The gate with what its ranks need of the invariant."""


def _any_aligning_state(parameters: Parameters) -> State:
    """In focus is a channel that is blocked, if one is: its step is what makes the ranks fall."""
    state = _RESTING.any_state(parameters)
    return state._replace(channels=cast("SymbolicFamily[Channel]", state.channels).with_some(is_blocked))


_ALIGNING = Subject(SYSTEM, any_parameters, _any_aligning_state)

_PROMISES = frozenset(
    {"bounded", "comes-to-rest", "in-epoch", "live-exclusive", "live-floating", "loss-frees", "stuck"}
)
_CHAPTER = Chapter(SUBJECT, INVARIANT, "gate-", promises=_PROMISES)
_EPOCHS_CHAPTER = Chapter(EPOCHS, EPOCHS_INVARIANT, "gate-", promises=_PROMISES)
_LOSSES_CHAPTER = Chapter(LOSSES, INVARIANT, "gate-", promises=_PROMISES)


def _first_changed(change: Callable[[Channel, Parameters], Channel]) -> Fault[State, Parameters]:
    def fault(state: State, parameters: Parameters) -> State:
        return state._replace(channels=state.channels.put(0, change(state.channels.get(0), parameters)))

    return fault


def _stored_behind(channel: Channel, _parameters: Parameters) -> Channel:
    return channel._replace(blocked=True, inbox=channel.inbox.push(Item("data", channel.epoch, 0)))


def _hoarding(channel: Channel, parameters: Parameters) -> Channel:
    return channel._replace(free=parameters.exclusive + content_in(channel.waiting).data + 1)


# Liveness.


def _has_borrowed(channel: Channel) -> bool:
    return channel.borrowed > 0


def _never_stuck(subject: Subject[State, Parameters], state: State, parameters: Parameters) -> bool:
    """The invariant, each guard as one truth value: forks at each of them would multiply."""
    # What is said of all channels is asked for first, so that it is known in all cases.
    state.channels.every(is_awaited_no_more)
    state.channels.every(is_open)
    moves = [
        merged(partial(subject.system.is_enabled, action, state, parameters, *name))
        for action in subject.protocol_actions()
        for name in subject.system.action(action).performers(state)
    ]
    return implies(merged(partial(needs_to_move, state)), any_of(moves))


def _live_with_exclusive(subject: Subject[State, Parameters], least: int) -> bool:
    """In any state that satisfies the invariant: the channel that waits has a buffer of its own."""
    state, parameters = subject.any_case()
    assume(parameters.exclusive >= least)
    return _never_stuck(subject, state, parameters)


def _live_with_floating(least: int) -> bool:
    """... and without such a buffer: in focus are the channel that waits, and one that has borrowed."""
    parameters = any_parameters(exclusive=0)
    assume(parameters.floating >= least)
    state = any_state(parameters)
    channels = cast("SymbolicFamily[Channel]", state.channels).with_some(_has_borrowed)
    return _never_stuck(SUBJECT, state._replace(channels=channels), parameters)


def _conserves(more: int, state: State, parameters: Parameters) -> bool:
    """The clauses without stop, with so many buffers more."""
    state = state._replace(pool=state.pool + more)
    # The gate first: a fact about all channels must not depend on one of them.
    if not all(GATE_CLAUSES[name](state, parameters) for name in _STORING_CLAUSES if name in GATE_CLAUSES):
        return False
    return state.channels.every(_lawful, parameters, state.epoch, state.failed, _STORING_CLAUSES)


def _barriers_left(channel: Channel) -> int:
    """Steps that barriers and the end of a channel still have to take."""
    waiting, wire, inbox = (content_in(queue).barriers for queue in (channel.waiting, channel.wire, channel.inbox))
    # Products do not fork.
    ending = 1 * channel.closed - 1 * channel.over
    return 5 * waiting + 4 * wire + 3 * inbox + 2 * channel.blocked + effect_in(channel.grants).words + ending


def _data_left(channel: Channel) -> int:
    """More than the steps that data, credit and announcements of a channel still have to take until a barrier moves."""
    waiting, wire, inbox = (content_in(queue) for queue in (channel.waiting, channel.wire, channel.inbox))
    sent = 6 * wire.data + 5 * inbox.data + wire.items - wire.data - wire.barriers
    credit = channel.credit + 2 * _granted_in(channel.grants) + 3 * channel.free
    return 7 * waiting.data + 2 * (waiting.data - channel.announced) + sent + credit


def _barrier_rank(state: State, _parameters: Parameters) -> int:
    return state.channels.sum_of(_barriers_left)


def _data_rank(state: State, _parameters: Parameters) -> int:
    return state.channels.sum_of(_data_left) + 4 * state.pool


# Runs into a failure without one of the rules, for any number of inputs.

_TOLD: tuple[Move, ...] = (
    *(("OfferData", (name,)) for name in (0, 1)),
    *(("AnnounceBacklog", (name,)) for name in (0, 1)),
    *(("Deliver", (name,)) for name in (0, 1)),
)
_LENT: tuple[Move, ...] = (("Borrow", (1,)), ("Grant", (1,)), ("AddCredit", (1,)))
_BARRIER: tuple[Move, ...] = (("SendBarrier", (1,)), ("Deliver", (1,)), ("ConsumeBarrier", (1,)))

# Channel 1 has the only floating buffer, as credit behind a barrier.
_KEPT_AS_CREDIT: tuple[Move, ...] = (("OfferBarrier", (1,)), *_TOLD, *_LENT[:2], *_BARRIER, *_LENT[2:])
# ... and as data behind a barrier, stored at the gate.
_KEPT_AS_DATA: tuple[Move, ...] = (
    ("OfferBarrier", (1,)),
    *_BARRIER,
    *_TOLD,
    *_LENT,
    ("SendData", (1,)),
    ("Deliver", (1,)),
)
# Credit is used that was taken back.
_VOID_CREDIT: tuple[Move, ...] = (
    ("OfferBarrier", (0,)),
    ("OfferData", (0,)),
    ("AnnounceBacklog", (0,)),
    *((action, (0,)) for action in ("Deliver", "Borrow", "Grant", "AddCredit", "SendBarrier", "SendData", "Deliver")),
)
# Credit on its way crosses the barrier, and is granted once more after it.
_CROSSING_CREDIT: tuple[Move, ...] = (
    *((action, (0,)) for action in ("OfferData", "SendData", "Deliver", "ConsumeData", "Grant")),
    *((action, (0,)) for action in ("OfferBarrier", "OfferData", "SendBarrier", "AddCredit", "SendData")),
    *((action, (0,)) for action in ("Deliver", "Deliver")),
)


class _Run(NamedTuple):
    """Steps of a gate with mistakes, and the invariant that they break."""

    moves: tuple[Move, ...]
    invariant: str
    mistakes: tuple[Mistake, ...]
    exclusive: int = 0
    floating: int = 1
    revoke: bool = False

    def breaks(self) -> bool:
        """For any backlog of 2 and more, and any number of inputs from 2 on."""
        system = mistaken(SYSTEM, *self.mistakes)
        parameters = any_parameters(exclusive=self.exclusive, floating=self.floating, revoke=self.revoke)
        assume(parameters.inputs >= 2)
        assume(parameters.backlog >= 2)
        end = take(system, parameters, system.initial(parameters), self.moves)
        return end is not None and not system.invariants[self.invariant](end, parameters)

    def unless(self, name: str, in_words: str, **changes: Any) -> SymbolicObligation:
        """The claim; its twin is changed so."""
        return SymbolicObligation(name, self.breaks, self._replace(**changes).breaks, in_words)


def _lawful_item() -> Item:
    item, parameters = _any_item("item"), any_parameters()
    assume(is_item(item, parameters))
    return item


def _lawful_grant() -> int:
    grant = integer("grant")
    assume(is_grant(grant, any_parameters()))
    return grant


def _laws(name: str, laws: tuple[Law, ...], lawful: Callable[[], object]) -> Iterator[SymbolicObligation]:
    for number, law in enumerate(laws, start=1):
        yield from law_obligations(f"{name}, law {number}", partial(_itself, law), lawful)


def _itself(law: Law) -> Law:
    return law


def _item_in_range(parameters: Parameters) -> Item:
    item = _any_item("item")
    with assuming():
        assume(is_item(item, parameters))
    return item


# Frames: in focus are an input that acts, and any other one.


def _at(state: State, name: int = 0) -> Channel:
    return state.channels.get(name)


def _tells_its_backlog(before: State, after: State, _parameters: Parameters) -> bool:
    """What leaves is what has waited longest, and tells how much data waits behind it."""
    message, waits = _at(after).wire.last(), content_in(_at(after).waiting).data
    return message.kind == "data" and message.backlog == waits and _at(after).announced == waits


def _sends_a_barrier(before: State, after: State, _parameters: Parameters) -> bool:
    message, head = _at(after).wire.last(), _at(before).waiting.head()
    return message.kind == "barrier" and message.epoch == head.epoch and _at(after).announced == 0


def _announces(_before: State, after: State, _parameters: Parameters) -> bool:
    message, waits = _at(after).wire.last(), content_in(_at(after).waiting).data
    return message.kind == "backlog" and message.backlog == waits and _at(after).announced == waits


def _adds_the_oldest_grant(before: State, after: State, _parameters: Parameters) -> bool:
    return _at(after).credit == _at(before).credit + _at(before).grants.head()


def _keeps_or_voids_its_credit(before: State, after: State, _parameters: Parameters) -> bool:
    return _at(after).credit == (0 if _at(before).grants.head() == REVOKE else _at(before).credit)


def _loses_nothing(before: State, after: State, _parameters: Parameters) -> bool:
    """Data and barriers go from the wire to the inbox; buffers go nowhere but home."""
    message = _at(before).wire.head()
    arrived = content_in(_at(after).inbox).items - content_in(_at(before).inbox).items
    buffers = after.pool + _at(after).borrowed == before.pool + _at(before).borrowed
    return buffers and _at(after).required == message.backlog and arrived == (0 if message.kind == "backlog" else 1)


def _frees_one(before: State, after: State, _parameters: Parameters) -> bool:
    """One piece of data is done, and its buffer is free, here or in the pool."""
    done = content_in(_at(before).inbox).data - content_in(_at(after).inbox).data
    buffers = after.pool + _at(after).borrowed == before.pool + _at(before).borrowed
    return done == 1 and buffers and after.pool + _at(after).free == before.pool + _at(before).free + 1


def _blocks(before: State, after: State, parameters: Parameters) -> bool:
    """The pending barrier has the number that is consumed."""
    number = _at(before).inbox.head().epoch
    return after.epoch == (before.epoch if parameters.skip == 0 else number)


def _goes_on(one: Channel, other: Channel) -> bool:
    """An input that was blocked is open, and its sender is told once."""
    if not one.blocked:
        return other.grants.size() == one.grants.size() and other.released == one.released
    return other.grants.size() == one.grants.size() + 1 and not other.released


def _subsumes(before: State, after: State, _parameters: Parameters) -> bool:
    number = _at(before).inbox.head().epoch
    return after.epoch == number and _goes_on(_at(before, 1), _at(after, 1))


def _passes(before: State, after: State, _parameters: Parameters) -> bool:
    grants = _at(after).grants.size() == _at(before).grants.size() + 1
    return grants and not _at(after).released


def _goes_home(before: State, after: State, _parameters: Parameters) -> bool:
    is_empty = _at(after).borrowed == 0 and _at(after).free == 0
    return is_empty and after.pool == before.pool + _at(before).borrowed


def _is_lost(before: State, after: State, parameters: Parameters) -> bool:
    lost = _at(after)
    has_nothing = all(queue.is_empty() for queue in (lost.waiting, lost.wire, lost.inbox, lost.grants))
    has_nothing = has_nothing and lost.credit == 0 and lost.free == 0 and lost.borrowed == 0
    is_over = lost.over and lost.closed and after.pool == before.pool + _at(before).borrowed
    is_given_up = after.epoch == (_next_epoch(before, parameters) if _is_pending(before) else before.epoch)
    return has_nothing and is_over and is_given_up and _goes_on(_at(before, 1), _at(after, 1))


def _grants_all(before: State, after: State, _parameters: Parameters) -> bool:
    return _at(after).free == 0 and _at(after).grants.last() == _at(before).free


def _aligns_all(before: State, after: State, parameters: Parameters) -> bool:
    """All that are blocked go on, in the next epoch."""
    resumed = [_goes_on(_at(before, name), _at(after, name)) for name in (0, 1)]
    return all(resumed) and after.epoch == _next_epoch(before, parameters)


def _next_epoch(state: State, parameters: Parameters) -> int:
    return 0 if state.epoch + 1 == parameters.epochs else state.epoch + 1


# Guards.


def _has_room(state: State, parameters: Parameters) -> bool:
    held = [content_in(queue) for queue in (_at(state).waiting, _at(state).wire, _at(state).inbox)]
    return not _at(state).closed and sum(one.data + one.barriers for one in held) < parameters.backlog


def _may_offer_data(state: State, parameters: Parameters, _name: int) -> bool:
    return _has_room(state, parameters)


def _may_offer_barrier(state: State, parameters: Parameters, _name: int, skipped: int = 0) -> bool:
    """Where barriers may be left out, their numbers are compared, so they must not start again from 0."""
    if parameters.skip > 0 and parameters.epochs > 0 and _at(state).epoch + skipped + 1 >= parameters.epochs:
        return False
    return _has_room(state, parameters)


def _may_offer_newer(state: State, parameters: Parameters, name: int, skipped: int) -> bool:
    return 1 <= skipped <= parameters.skip and _may_offer_barrier(state, parameters, name, skipped)


def _is_first(queue: Queue[Item], kind: str) -> bool:
    return not queue.is_empty() and queue.head().kind == kind


def _may_send_data(state: State, _parameters: Parameters, _name: int) -> bool:
    return _is_first(_at(state).waiting, "data") and not _at(state).stopped and _at(state).credit > 0


def _may_send_barrier(state: State, _parameters: Parameters, _name: int) -> bool:
    return _is_first(_at(state).waiting, "barrier") and not _at(state).stopped


def _may_announce(state: State, parameters: Parameters, _name: int) -> bool:
    needs_some = parameters.exclusive == 0 and _at(state).credit == 0
    return needs_some and not _at(state).stopped and _at(state).announced < content_in(_at(state).waiting).data


def _may_consume(kind: str, state: State) -> bool:
    return not state.failed and not _at(state).blocked and _is_first(_at(state).inbox, kind)


def _may_consume_data(state: State, _parameters: Parameters, _name: int) -> bool:
    return _may_consume("data", state)


def _is_pending(state: State) -> bool:
    return not state.channels.every(is_open)


def _may_consume_barrier(state: State, parameters: Parameters, _name: int) -> bool:
    """Where barriers may be left out: the pending one, or a newer one where none is pending."""
    if not _may_consume("barrier", state):
        return False
    number = _at(state).inbox.head().epoch
    if parameters.skip == 0 or number == state.epoch:
        return True
    return number > state.epoch and not _is_pending(state)


def _may_consume_newer(state: State, parameters: Parameters, _name: int) -> bool:
    if parameters.skip == 0 or not _may_consume("barrier", state):
        return False
    return _at(state).inbox.head().epoch > state.epoch and _is_pending(state)


def _may_consume_older(state: State, parameters: Parameters, _name: int) -> bool:
    if parameters.skip == 0 or not _may_consume("barrier", state):
        return False
    return _at(state).inbox.head().epoch < state.epoch


def _may_consume_end(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _at(state)
    if state.failed or one.over or not one.closed or one.stopped or one.blocked:
        return False
    return one.waiting.is_empty() and one.wire.is_empty() and one.inbox.is_empty()


def _may_borrow(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _at(state)
    if state.pool <= 0 or one.released or one.over:
        return False
    return one.borrowed - content_in(one.inbox).data < one.required


def _may_grant(state: State, _parameters: Parameters, _name: int) -> bool:
    return _at(state).free > 0 and not _at(state).released


def _is_awaited_unless(*reasons: str) -> bool:
    """An input is awaited where none of these fields says otherwise."""
    state, _ = ANY.any_case()
    one = _at(state)
    return is_awaited_no_more(one) == any_of([getattr(one, reason) for reason in reasons])


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
        when=lambda state, parameters, _name: parameters.ends and not _at(state).closed,
        possible="with Ends, once",
    ),
    Frame(
        "LoseInput",
        {"channels.0": None, "pool": None, "epoch": None, "failed": True, **_FREED},
        _is_lost,
        "it is over and has nothing, its loans go home, the pending alignment is given up, and who is blocked goes on",
        when=lambda state, parameters, _name: parameters.losses and not _at(state).over,
        possible="with Losses, before its end",
    ),
    Frame("Done"),
    Frame(
        "SendData",
        {"channels.0.waiting": -1, "channels.0.credit": -1, "channels.0.announced": None, "channels.0.wire": +1},
        _tells_its_backlog,
        "it tells how much data waits",
        when=_may_send_data,
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
        when=lambda state, _, _name: not _at(state).grants.is_empty() and _at(state).grants.head() > RESUME,
        possible="where credit is the oldest on its way back",
    ),
    Frame(
        "ResumeConsumption",
        {"channels.0.grants": -1, "channels.0.stopped": False, "channels.0.credit": None},
        _keeps_or_voids_its_credit,
        "0 if all credit was taken back, else as before",
        when=lambda state, _, _name: not _at(state).grants.is_empty() and _at(state).grants.head() <= RESUME,
        possible="where the word to resume is the oldest on its way back",
    ),
    Frame(
        "Deliver",
        {"channels.0.wire": -1, **_parts("required", "inbox", "released", "free", "borrowed"), "pool": None},
        _loses_nothing,
        "data and barriers are in the inbox then; pool and loans together unchanged",
        when=lambda state, _, _name: not _at(state).wire.is_empty(),
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


def _grow(by: int, before: State, after: State, _parameters: Parameters) -> bool:
    """Data and barriers of an input that wait, travel or are stored."""
    one, other = (
        sum([content_in(queue).data + content_in(queue).barriers for queue in (each.waiting, each.wire, each.inbox)])
        for each in (_at(before), _at(after))
    )
    return other == one + by


def _conservation_of_messages() -> tuple[SymbolicObligation, ...]:
    changes = {
        **dict.fromkeys(("OfferData", "OfferBarrier", "OfferNewerBarrier"), +1),
        **dict.fromkeys(("ConsumeData", "ConsumeBarrier", "ConsumeNewerBarrier", "ConsumeOlderBarrier"), -1),
    }
    return tuple(
        obligation
        for action in SYSTEM.actions
        if action.name != "LoseInput"
        for by in [changes.get(action.name, 0)]
        for obligation in ANY.step_obligations(
            [action.name], partial(_grow, by), partial(_grow, by + 1), "one is doubled"
        )
    )


def _any_gate(_parameters: Parameters) -> State:
    """Any state of the right types: in focus are an input that acts, and any other one."""
    channels = SymbolicFamily.any_family("channels", _any_channel, focus=2)
    return arbitrary(State, special={"channels": channels})


ANY = Subject(SYSTEM, any_parameters, _any_gate, _SKIPPED)
"""The gate in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (*_of_queues(), *_clauses(), *_consequences(), *_without_a_rule())


def _of_queues() -> tuple[Theorem, ...]:
    return (
        _CHAPTER.theorem(
            "laws",
            "TypeOK",
            "The laws of queues that the proofs assume: counts, told backlogs, grants, and that nothing is due "
            "behind an item that is out of order.",
            *_laws("items", _COUNTED, _lawful_item),
            *_laws("promises", _PROMISED, _lawful_item),
            *_laws("spans", _SPANNED, _lawful_item),
            *_laws("grants", _HEARD, _lawful_grant),
            dead_end_obligation(due_after, OUT_OF_ORDER, _item_in_range, lambda: _any_item("item"), any_parameters),
        ),
        _CHAPTER.theorem(
            "messages",
            "Next",
            "Of what an input has offered nothing is lost or doubled until it is consumed, unless the input is lost.",
            *_conservation_of_messages(),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )


def _clauses() -> tuple[Theorem, ...]:
    kept = _CHAPTER.kept
    return (
        kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and every epoch number is in its range.",
            lambda state, _: state._replace(pool=-1),
            "-1 floating buffers",
        ),
        kept(
            "conservation",
            "Conservation",
            "No buffer is made, none is lost: the pool and all channels have the floating ones, and each buffer of a "
            "channel is granted, holds data, or is free.",
            lambda state, _: state._replace(pool=state.pool + 1),
            "after the step there is a buffer more",
        ),
        kept(
            "stopped",
            "StoppedByBarrier",
            "A sender is stopped from sending a barrier to hearing that it is aligned or given up, and at no other "
            "time.",
            _first_changed(lambda channel, _: channel._replace(stopped=False, blocked=True)),
            "after the step a sender goes on while its channel is blocked",
        ),
        kept(
            "nothing-behind",
            "NothingBehind",
            "Nothing is sent behind a barrier before it is aligned, so nothing is stored for a blocked input.",
            _first_changed(_stored_behind),
            "after the step data is stored for a blocked channel",
        ),
        _EPOCHS_CHAPTER.kept(
            "in-epoch",
            "InEpoch",
            "What was sent and is not consumed is of the epoch that the gate may consume; where barriers may be left "
            "out, of this epoch or of an older one. What waits is in order behind it.",
            lambda state, _: state._replace(epoch=state.epoch + 1, failed=False),
            "after the step the gate is an epoch ahead",
        ),
        kept(
            "after-end",
            "NothingAfterEnd",
            "Of an input that has ended or was lost, nothing is stored, lent or blocked.",
            _first_changed(lambda channel, _: channel._replace(over=True, free=channel.free + 1)),
            "after the step an input that is over has a buffer",
        ),
        _LOSSES_CHAPTER.kept(
            "loss-frees",
            "LossFrees",
            "Where an input is lost, the pending alignment is aborted: nobody stays behind a barrier.",
            lambda state, parameters: _first_changed(lambda channel, _: channel._replace(blocked=True))(
                state._replace(failed=True), parameters
            ),
            "after the step an input stays behind a barrier in a gate that has failed",
        ),
        kept(
            "released",
            "ReleasedByBarrier",
            "Credit is taken back from the arrival of a barrier until it is aligned or given up, and at no other time.",
            _first_changed(lambda channel, _: channel._replace(released=not channel.released)),
            "after the step a channel has, or has not, what it should not have, or have",
        ),
        kept(
            "backlog",
            "BacklogKnown",
            "The gate learns each backlog that was told, and never expects more than waits or travels.",
            _first_changed(lambda channel, _: channel._replace(announced=channel.announced + 1)),
            "after the step a sender believes to have told more",
        ),
        kept(
            "nothing-hoarded",
            "NothingHoarded",
            "No channel keeps a floating buffer for which it has no data.",
            _first_changed(_hoarding),
            "after the step a channel has a buffer too many",
        ),
    )


def _bounded(less: int, state: State, parameters: Parameters) -> bool:
    floating = parameters.floating - less
    return state.channels.sum_of(_floating_here, parameters) <= floating


def _floating_here(channel: Channel, parameters: Parameters) -> int:
    return max(0, data_here(channel) - parameters.exclusive)


def _at_least_one(name: str, holds: Callable[[int], bool], twin_change: str) -> SymbolicObligation:
    return SymbolicObligation(name, partial(holds, 1), partial(holds, 0), twin_change)


def _consequences() -> tuple[Theorem, ...]:
    follows = SUBJECT.holds_whenever_invariant
    theorem = _CHAPTER.theorem
    return (
        theorem(
            "bounded",
            "Bounded",
            "The gate never stores more than the buffers of its pool and of its channels.",
            follows("in every state", SYSTEM.invariants["Bounded"], partial(_bounded, 1), "one buffer less"),
        ),
        theorem(
            "awaited",
            "Joined",
            "An alignment waits for each input that is neither behind the barrier nor over, and for no other one.",
            SymbolicObligation(
                "any input",
                partial(_is_awaited_unless, "blocked", "over"),
                partial(_is_awaited_unless, "blocked"),
                "an input that is over is awaited",
            ),
        ),
        theorem(
            "storing",
            "Conservation",
            "Where senders do not stop and nothing is taken back, no buffer is made or lost either: data is stored "
            "behind barriers instead.",
            *STORING.induction(
                partial(_conserves, 0),
                lambda state, _: state,
                "a buffer more",
                partial(_conserves, 1),
            ),
        ),
        theorem(
            "live-exclusive",
            "NeverStuck",
            "With an exclusive buffer for each channel: while an input waits for something else than an alignment, or "
            "all inputs have joined one, some step of the protocol is possible; also where senders go on behind their "
            "barriers, if nothing is taken back.",
            _at_least_one("where senders stop", partial(_live_with_exclusive, SUBJECT), "no exclusive buffer"),
            _at_least_one("where they go on", partial(_live_with_exclusive, STORING), "no exclusive buffer"),
        ),
        theorem(
            "live-floating",
            "NeverStuck",
            "Without exclusive buffers the same holds if there is a floating buffer: senders stop and announce, and a "
            "barrier takes buffers back.",
            _at_least_one("in every state", _live_with_floating, "no buffer at all"),
        ),
        theorem(
            "comes-to-rest",
            "Protocol",
            "Each step of the protocol lowers what barriers and ends still have to do, or keeps it and lowers what "
            "data, credit and announcements have to do; only what is offered, and the loss of an input, raise these. "
            "So until then the protocol takes finitely many steps only.",
            *comes_to_rest(
                _RESTING,
                _barrier_rank,
                _data_rank,
                unless=("OfferData", "OfferBarrier", "OfferNewerBarrier", "OfferEnd", "LoseInput"),
                within={"Align": _ALIGNING},
                twin_by=1_000_000,
            ),
        ),
    )


def _without_a_rule() -> tuple[Theorem, ...]:
    return (
        _CHAPTER.theorem(
            "stuck",
            "NeverStuck",
            "Without exclusive buffers, and with one floating buffer, two of any number of inputs are stuck if "
            "barriers release nothing, if senders announce nothing, or if senders neither stop nor release "
            "(FLINK-16404).",
            _Run(_KEPT_AS_CREDIT, "NeverStuck", _KEEPS).unless(
                "a blocked channel keeps credit", "the buffer is released", mistakes=()
            ),
            _Run((("OfferData", (0,)),), "NeverStuck", _ANNOUNCES_NOTHING).unless(
                "a sender cannot say that it has data", "it can", mistakes=()
            ),
            _Run(_KEPT_AS_DATA, "NeverStuck", (*_GOES_ON, *_KEEPS)).unless(
                "data is stored behind a barrier", "the sender stops", mistakes=_KEEPS
            ),
        ),
        _CHAPTER.theorem(
            "out-of-nothing",
            "Conservation",
            "Where credit is taken back and senders do not stop, buffers are made out of nothing: void credit is used, "
            "and by the ticket's rule credit crosses the barrier.",
            _Run(_VOID_CREDIT, "Conservation", _GOES_ON).unless(
                "void credit is used", "nothing is released", mistakes=(*_GOES_ON, *_KEEPS)
            ),
            _Run(_CROSSING_CREDIT, "Conservation", _GOES_ON, exclusive=1, floating=0, revoke=True).unless(
                "credit crosses the barrier", "nothing is revoked", revoke=False
            ),
        ),
    )
