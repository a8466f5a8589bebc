"""A gate whose senders take back what waits: any inputs, buffers and backlogs, any withdrawals.

The clauses are the gate's, but for what its senders have told and hoard, which withdrawals change.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

from permitflow_model.input_gate import GATE_CLAUSES, is_item
from permitflow_model.input_gate_alignment import is_blocked
from permitflow_model.input_gate_credit import Channel, Item, Parameters, State, content_in
from permitflow_model.input_gate_queues import effect_in
from permitflow_model.withdrawing_gate import CLAUSES, SYSTEM, returning_by, returning_in
from permitflow_proofs import input_gate_frames as gate_frames
from permitflow_proofs import input_gate_states as gate
from permitflow_proofs.input_gate import never_stuck
from permitflow_proofs.kernel.arbitrary import arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.queue import Sums
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import all_of, assume, larger_of, merged, negated
from permitflow_proofs.kernel.theorem import Theorem

CLAUSES_TOGETHER: Mapping[str, Clause[State, Parameters]] = {
    name: SYSTEM.invariants[name] for name in CLAUSES if name != "InEpoch"
}
"""What every reachable state satisfies; proved by induction, all of it at once."""

EPOCHS_INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    name: SYSTEM.invariants[name] for name in gate.EPOCHS_INVARIANT
}
"""The part of the invariant that the order of epochs needs."""


def _returning(messages: Sums) -> tuple[int, ...]:
    """Law: of what comes back nothing is counted below 0, and it is no more than there is."""
    content, (returns, held, needed) = content_in(messages), returning_in(messages)
    rest = held - content.data - returns
    return returns, needed - returns, held - needed, content.items - content.barriers - held, rest, -rest


def _any_item(name: str) -> Item:
    return arbitrary(Item, f"{name}.")


def _any_channel(name: str) -> Channel:
    return gate.any_channel(name, _any_item, _returning)


def _lawful(channel: Channel, parameters: Parameters, epoch: int, failed: bool, names: tuple[str, ...]) -> bool:
    """All clauses together, as of the gate."""
    return all_of([merged(partial(CLAUSES[name], channel, parameters, epoch, failed)) for name in names])


def _any_lawful_state(
    names: tuple[str, ...], parameters: Parameters, any_channel: Callable[[str], Channel] = _any_channel
) -> State:
    channels = SymbolicFamily.any_family("channels", any_channel)
    state = arbitrary(State, special={"channels": channels})
    channels.assume_every(_lawful, parameters, state.epoch, state.failed, names)
    assume_all([GATE_CLAUSES[name] for name in names if name in GATE_CLAUSES], state, parameters)
    channels.settle()
    return state


def _holds_all(state: State, parameters: Parameters) -> bool:
    # The gate first: a fact about all channels must not depend on one of them.
    if not all(GATE_CLAUSES[name](state, parameters) for name in CLAUSES_TOGETHER if name in GATE_CLAUSES):
        return False
    return state.channels.every(_lawful, parameters, state.epoch, state.failed, tuple(CLAUSES_TOGETHER))


INVARIANT: Mapping[str, Clause[State, Parameters]] = {"Together": _holds_all}
"""One question instead of nine: most of a proof is what it begins with."""

SUBJECT = Subject(SYSTEM, gate.any_parameters, partial(_any_lawful_state, tuple(CLAUSES_TOGETHER)), gate.SKIPPED)
"""The gate with any withdrawals."""

EPOCHS = Subject(SYSTEM, gate.any_parameters, partial(_any_lawful_state, tuple(EPOCHS_INVARIANT)), gate.SKIPPED)
"""The same, with the order of epochs."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "withdrawing-gate-",
    promises=frozenset({"safe", "bounded", "in-epoch", "live-exclusive", "live-floating", "comes-to-rest"}),
)


def _lawful_item() -> Item:
    item, parameters = _any_item("item"), gate.any_parameters()
    assume(is_item(item, parameters))
    return item


# Why it comes to rest: credit that is lent for nothing returns, and the gate believes less each time.


class _Belief(NamedTuple):
    """What the gate will believe beyond what still comes."""

    held: int
    """Messages that are data or return credit."""
    most: int
    """The most that a message tells, less those behind it; 0: there is none."""


def _belief_of(message: Item) -> _Belief:
    return _Belief(returning_by(message).held, message.backlog)


def _outdone_by(earlier: _Belief, later: _Belief) -> _Belief:
    return _Belief(earlier.held + later.held, larger_of(earlier.most - later.held, later.most))


def _belief_in(messages: Sums) -> _Belief:
    return messages.sum_of(_belief_of, _outdone_by, _Belief(0, 0))


def _believing(messages: Sums) -> tuple[int, ...]:
    """Law: the same are counted as of what comes back, and nothing below 0 is told."""
    belief, returning = _belief_in(messages), returning_in(messages)
    return belief.held - returning.held, returning.held - belief.held, belief.most


def _unneeded(channel: Channel, parameters: Parameters) -> int:
    """Credit that a channel has, or may still be lent, beyond its own and what waits."""
    belief, grants = _belief_in(channel.wire), effect_in(channel.grants)
    believed = larger_of(larger_of(channel.required - belief.held, belief.most), channel.announced)
    # Products do not fork.
    granted = negated(channel.released) * (grants.adds + (grants.keeps > 0) * channel.credit)
    has = granted + channel.free - parameters.exclusive
    return larger_of(0, larger_of(has, believed) - content_in(channel.waiting).data)


def _data_left(channel: Channel) -> int:
    """As of the gate; a credit that comes back is worth more than one in the pool, and nothing is told too early."""
    waiting, wire, inbox = (content_in(queue) for queue in (channel.waiting, channel.wire, channel.inbox))
    untold = larger_of(0, waiting.data - channel.announced)
    sent = 6 * wire.data + 5 * inbox.data + wire.items - wire.data - wire.barriers
    credit = 4 * returning_in(channel.wire).returns + channel.credit + 2 * gate.granted_in(channel.grants)
    return 7 * waiting.data + 2 * untold + sent + credit + 3 * channel.free


def _unneeded_rank(state: State, parameters: Parameters) -> int:
    return state.channels.sum_of(_unneeded, parameters)


def _data_rank(state: State, _parameters: Parameters) -> int:
    return state.channels.sum_of(_data_left) + 4 * state.pool


def _any_resting_state(clauses: tuple[str, ...], aligns: bool, parameters: Parameters) -> State:
    """With these clauses; where all align, in focus is a channel that is blocked, if one is."""
    state = _any_lawful_state(
        clauses, parameters, lambda name: gate.any_channel(name, _any_item, _returning, _believing)
    )
    if not aligns:
        return state
    return state._replace(channels=cast("SymbolicFamily[Channel]", state.channels).with_some(is_blocked))


def _resting(*clauses: str, aligns: bool = False) -> Subject[State, Parameters]:
    any_state = partial(_any_resting_state, ("TypeOK", *clauses), aligns)
    return Subject(SYSTEM, gate.any_parameters, any_state, gate.SKIPPED)


RESTING = _resting("StoppedByBarrier", "ReleasedByBarrier", "NothingAfterEnd")
"""The gate with what most steps need of the invariant for its ranks to fall."""
BUFFERING = _resting("Conservation")
"""... and steps that free a buffer, or lend one."""


# What each action of its own changes, in any state at all.


def _is_last(state: State, kind: str) -> bool:
    waiting = gate_frames.at(state).waiting
    return not waiting.is_empty() and waiting.last().kind == kind


def _hoards(state: State, parameters: Parameters, _name: int) -> bool:
    one = gate_frames.at(state)
    needed = parameters.exclusive + content_in(one.waiting).data
    return not one.stopped and not one.over and one.credit > needed


def _tells(_before: State, after: State, _parameters: Parameters) -> bool:
    """It is a credit that comes back, and tells how much data waits."""
    one = gate_frames.at(after)
    message, waits = one.wire.last(), content_in(one.waiting).data
    return message.kind == "return" and message.backlog == waits and one.announced == waits


def _believes(before: State, after: State, _parameters: Parameters) -> bool:
    """What leaves is data, and tells one less than the larger of what was told and what waited."""
    one, message = gate_frames.at(before), gate_frames.at(after).wire.last()
    told, waited = message.backlog + 1, content_in(one.waiting).data
    is_larger = told >= one.announced and told >= waited and (told == one.announced or told == waited)
    return message.kind == "data" and is_larger and gate_frames.at(after).announced == message.backlog


def _arrives(before: State, after: State, parameters: Parameters) -> bool:
    """As of the gate; a credit that comes back is in the pool, and lent no more."""
    one, other = gate_frames.at(before), gate_frames.at(after)
    if one.wire.head().kind != "return":
        return gate_frames.loses_nothing(before, after, parameters)
    is_home = after.pool == before.pool + 1 and other.borrowed == one.borrowed - 1 and other.free == one.free
    is_told = other.required == one.wire.head().backlog and other.released == one.released
    return is_home and is_told and other.inbox.size() == one.inbox.size()


_OWN = ("WithdrawData", "WithdrawBarrier", "SendAndTell", "ReturnCredit", "DeliverOrReturn")


def _any_gate(parameters: Parameters) -> State:
    channels = SymbolicFamily.any_of_size("channels", _any_channel, parameters.inputs)
    return arbitrary(State, special={"channels": channels})


_ANY = Subject(replace(SYSTEM, actions=tuple(map(SYSTEM.action, _OWN))), gate.any_parameters, _any_gate)
"""The actions that the gate has not, in any state at all."""

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "WithdrawData",
        {"channels.0.waiting": -1},
        when=lambda state, _, _name: _is_last(state, "data"),
        possible="where data waits last",
    ),
    Frame(
        "WithdrawBarrier",
        {"channels.0.waiting": -1, "channels.0.epoch": None},
        when=lambda state, _, _name: _is_last(state, "barrier"),
        possible="where a barrier waits last",
    ),
    Frame(
        "SendAndTell",
        {"channels.0.waiting": -1, "channels.0.credit": -1, "channels.0.announced": None, "channels.0.wire": +1},
        _believes,
        "it tells one less than the larger of what was told and what waited",
        when=gate_frames.may_send_data,
        possible="where data is first, with credit, not stopped",
    ),
    Frame(
        "ReturnCredit",
        {"channels.0.credit": -1, "channels.0.announced": None, "channels.0.wire": +1},
        _tells,
        "it tells how much data waits",
        when=_hoards,
        possible="with more credit than its own and than waits, not stopped, not over",
    ),
    Frame(
        "DeliverOrReturn",
        {
            "channels.0.wire": -1,
            **{f"channels.0.{name}": None for name in ("required", "inbox", "released", "free", "borrowed")},
            "pool": None,
        },
        _arrives,
        "a credit that comes back is in the pool, and lent no more; others as Deliver",
        when=lambda state, _, _name: not gate_frames.at(state).wire.is_empty(),
        possible="where one is on its way",
    ),
)


def _has_borrowed(channel: Channel) -> bool:
    return channel.borrowed > 0


def _live_with_exclusive(less: int) -> bool:
    state, parameters = SUBJECT.any_case()
    assume(parameters.exclusive >= 1 - less)
    return never_stuck(SUBJECT, state, state, parameters)


def _live_with_floating(less: int) -> bool:
    parameters = gate.any_parameters(exclusive=0)
    assume(parameters.floating >= 1 - less)
    state = SUBJECT.any_state(parameters)
    # In focus are the channel that waits, and one that has borrowed.
    channels = cast("SymbolicFamily[Channel]", state.channels).with_some(_has_borrowed)
    state = state._replace(channels=channels)
    return never_stuck(SUBJECT, state, state, parameters)


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    theorem = _CHAPTER.theorem
    return (
        theorem(
            "laws",
            "ReturnsAreLent",
            "The laws of what comes back on a wire, which the proofs assume.",
            *law_obligations("items", gate.counted, _lawful_item),
            *law_obligations("spans", gate.spanned, _lawful_item),
            *law_obligations("promises", gate.promised, _lawful_item, beside=(gate.counted,)),
            *law_obligations("returns", _returning, _lawful_item, beside=(gate.counted,)),
            *law_obligations("beliefs", _believing, _lawful_item, beside=(gate.counted, _returning)),
        ),
        _CHAPTER.framed(FRAMES, _ANY),
        theorem(
            "safe",
            "Conservation",
            "Whatever senders take back, no buffer is made and none is lost, and what comes back is still lent when it "
            "arrives. One barrier stops a sender, nothing is behind it, its credit is taken back until it is aligned "
            "or given up, and the gate will know what was told.",
            *SUBJECT.induction(
                INVARIANT["Together"], lambda state, _: state._replace(pool=state.pool + 1), "a buffer more"
            ),
        ),
        theorem(
            "bounded",
            "Bounded",
            "Whatever is taken back, the gate never stores more than the buffers of its pool and of its channels.",
            SUBJECT.holds_whenever_invariant(
                "in every state", SYSTEM.invariants["Bounded"], gate.bounded_by_less, "one buffer less"
            ),
        ),
        theorem(
            "in-epoch",
            "InEpoch",
            "What was sent and is not consumed is of the epoch that the gate may consume, or of an older one that was "
            "given up; what waits is in order behind it, whatever was taken back.",
            *EPOCHS.induction(
                EPOCHS_INVARIANT["InEpoch"],
                lambda state, _: state._replace(epoch=state.epoch + 1, failed=False),
                "after the step the gate is an epoch ahead",
            ),
        ),
        theorem(
            "live-exclusive",
            "NeverStuck",
            "With an exclusive buffer for each channel: while an input waits for something else than an alignment, or "
            "all inputs have joined one, some step of the protocol is possible.",
            claim("in every state", _live_with_exclusive, "no exclusive buffer"),
        ),
        theorem(
            "live-floating",
            "NeverStuck",
            "Without exclusive buffers the same holds if there is a floating buffer: who has lent credit that it does "
            "not need can give it back.",
            claim("in every state", _live_with_floating, "no buffer at all"),
        ),
        theorem(
            "comes-to-rest",
            "Protocol",
            "Each step of the protocol lowers what barriers and ends still have to do; or keeps it, and lowers the "
            "credit that channels have, or may still be lent, beyond what waits; or keeps both, and lowers what data, "
            "credit and announcements have to do. Only what is offered or taken back, and the loss of an input, raise "
            "these. So until then the protocol takes finitely many steps only.",
            *comes_to_rest(
                RESTING,
                gate.barrier_rank,
                _unneeded_rank,
                _data_rank,
                unless=[action.name for action in SYSTEM.actions if action.is_environment and action.name != "Done"],
                within={"Align": _resting(aligns=True), "ConsumeData": BUFFERING, "Borrow": BUFFERING},
                twin_by=1_000_000,
            ),
        ),
    )
