"""The gate, for any number of inputs and any number of buffers: what holds in every state, and when it is live.

The clauses are shown in states that satisfy all of them (``input_gate_states``).  Runs into a deadlock name two
channels, and are runs for any number of inputs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from permitflow_model.input_gate import (
    GATE_CLAUSES,
    OUT_OF_ORDER,
    SYSTEM,
    due_after,
    is_grant,
    is_item,
    is_waiting,
    needs_to_move,
)
from permitflow_model.input_gate_alignment import is_awaited_no_more, is_open
from permitflow_model.input_gate_credit import Channel, Item, Parameters, State, content_in
from permitflow_model.kernel.runs import Move
from permitflow_model.mistakes import Mistake, mistaken
from permitflow_proofs.input_gate_frames import FRAMES, at
from permitflow_proofs.input_gate_states import (
    ALIGNING,
    ANNOUNCES_NOTHING,
    ANY,
    EPOCHS,
    EPOCHS_INVARIANT,
    GOES_ON,
    INVARIANT,
    KEEPS,
    LOSSES,
    RESTING,
    STORING,
    STORING_CLAUSES,
    SUBJECT,
    any_item,
    any_parameters,
    any_state,
    barrier_rank,
    bounded_by_less,
    counted,
    granted_in,
    heard,
    lawful,
    promised,
    spanned,
)
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.induction import Fault, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue_facts import dead_end_obligation, law_obligations
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import any_of, assume, assuming, implies, integer, merged
from permitflow_proofs.kernel.theorem import Theorem

__all__ = [
    "ANY",
    "EPOCHS",
    "EPOCHS_INVARIANT",
    "FRAMES",
    "INVARIANT",
    "SUBJECT",
    "any_parameters",
    "any_state",
    "theorems",
]

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


S = TypeVar("S")
P = TypeVar("P")


def never_stuck(subject: Subject[S, P], gate: State, state: S, parameters: P) -> bool:
    """The invariant, each guard as one truth value: forks at each of them would multiply.

    ``gate`` is the state as one of the gate, where it has more parts.
    """
    cast("SymbolicFamily[Channel]", gate.channels).choose(is_waiting)
    # What is said of all channels is asked for first, so that it is known in all cases.
    gate.channels.every(is_awaited_no_more)
    gate.channels.every(is_open)

    def is_possible(action: str, *name: int) -> bool:
        return merged(partial(subject.system.is_enabled, action, state, parameters, *name))

    moves = [
        subject.system.action(action).by_some(state, partial(is_possible, action))
        for action in subject.protocol_actions()
    ]
    return implies(merged(partial(needs_to_move, gate)), any_of(moves))


def _live_with_exclusive(subject: Subject[State, Parameters], least: int) -> bool:
    """In any state that satisfies the invariant: the channel that waits has a buffer of its own."""
    state, parameters = subject.any_case()
    assume(parameters.exclusive >= least)
    return never_stuck(subject, state, state, parameters)


def _live_with_floating(least: int) -> bool:
    """The same without such a buffer: in focus are the channel that waits, and one that has borrowed."""
    parameters = any_parameters(exclusive=0)
    assume(parameters.floating >= least)
    state = any_state(parameters)
    channels = cast("SymbolicFamily[Channel]", state.channels).with_some(_has_borrowed)
    state = state._replace(channels=channels)
    return never_stuck(SUBJECT, state, state, parameters)


def _conserves(more: int, state: State, parameters: Parameters) -> bool:
    """The clauses without stop, with this many more buffers."""
    state = state._replace(pool=state.pool + more)
    # The gate first: a fact about all channels must not depend on one of them.
    if not all(GATE_CLAUSES[name](state, parameters) for name in STORING_CLAUSES if name in GATE_CLAUSES):
        return False
    return state.channels.every(lawful, parameters, state.epoch, state.failed, STORING_CLAUSES)


def _data_left(channel: Channel) -> int:
    """More than the steps that data, credit and announcements of a channel still have to take until a barrier moves."""
    waiting, wire, inbox = (content_in(queue) for queue in (channel.waiting, channel.wire, channel.inbox))
    sent = 6 * wire.data + 5 * inbox.data + wire.items - wire.data - wire.barriers
    credit = channel.credit + 2 * granted_in(channel.grants) + 3 * channel.free
    return 7 * waiting.data + 2 * (waiting.data - channel.announced) + sent + credit


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
    item, parameters = any_item("item"), any_parameters()
    assume(is_item(item, parameters))
    return item


def _lawful_grant() -> int:
    grant = integer("grant")
    assume(is_grant(grant, any_parameters()))
    return grant


def _item_in_range(parameters: Parameters) -> Item:
    item = any_item("item")
    with assuming():
        assume(is_item(item, parameters))
    return item


def _is_awaited_unless(*reasons: str) -> bool:
    """An input is awaited where none of these fields says otherwise."""
    state, _ = ANY.any_case()
    one = at(state)
    return is_awaited_no_more(one) == any_of([getattr(one, reason) for reason in reasons])


def _grow(by: int, before: State, after: State, _parameters: Parameters) -> bool:
    """Data and barriers of an input that wait, travel or are stored."""
    one, other = (
        sum([content_in(queue).data + content_in(queue).barriers for queue in (each.waiting, each.wire, each.inbox)])
        for each in (at(before), at(after))
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
            *law_obligations("items", counted, _lawful_item),
            *law_obligations("promises", promised, _lawful_item, beside=(counted,)),
            *law_obligations("spans", spanned, _lawful_item),
            *law_obligations("grants", heard, _lawful_grant),
            dead_end_obligation(due_after, OUT_OF_ORDER, _item_in_range, lambda: any_item("item"), any_parameters),
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
            follows("in every state", SYSTEM.invariants["Bounded"], bounded_by_less, "one buffer less"),
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
                RESTING,
                barrier_rank,
                _data_rank,
                unless=("OfferData", "OfferBarrier", "OfferNewerBarrier", "OfferEnd", "LoseInput"),
                within={"Align": ALIGNING},
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
            _Run(_KEPT_AS_CREDIT, "NeverStuck", KEEPS).unless(
                "a blocked channel keeps credit", "the buffer is released", mistakes=()
            ),
            _Run((("OfferData", (0,)),), "NeverStuck", ANNOUNCES_NOTHING).unless(
                "a sender cannot say that it has data", "it can", mistakes=()
            ),
            _Run(_KEPT_AS_DATA, "NeverStuck", (*GOES_ON, *KEEPS)).unless(
                "data is stored behind a barrier", "the sender stops", mistakes=KEEPS
            ),
        ),
        _CHAPTER.theorem(
            "out-of-nothing",
            "Conservation",
            "Where credit is taken back and senders do not stop, buffers are made out of nothing: void credit is used, "
            "and by the ticket's rule credit crosses the barrier.",
            _Run(_VOID_CREDIT, "Conservation", GOES_ON).unless(
                "void credit is used", "nothing is released", mistakes=(*GOES_ON, *KEEPS)
            ),
            _Run(_CROSSING_CREDIT, "Conservation", GOES_ON, exclusive=1, floating=0, revoke=True).unless(
                "credit crosses the barrier", "nothing is revoked", revoke=False
            ),
        ),
    )
