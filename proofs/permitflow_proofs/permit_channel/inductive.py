"""The inductive invariant, and its consequences in one step.

Every clause holds at the start, and every action keeps it.  Each is shown in states that satisfy all clauses, so they
are inductive together.  Then: how much a channel holds at most; the order of the data; how many grant messages the
receiver sends, by ghosts that count what the state forgets, as ``PermitChannelHistory.tla`` does (of the messages the
proof keeps permit_batch times their number, so that it stays linear); and two equations that circulate since 2014 (E.
Varga's mail "back pressure"), refuted: the first has the wrong sign, the second omits stored and owed permits.
"""

from collections.abc import Iterator
from functools import partial

from permitflow_model.permit_channel import (
    NO_WATERMARK,
    NOTHING,
    OUT_OF_ORDER,
    SYSTEM,
    Message,
    Parameters,
    Permits,
    State,
    carried_by,
    due_after,
    held,
    held_by,
    is_message,
    plus,
    successor,
)
from permitflow_proofs.kernel.induction import Clause, Refutation, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue_facts import dead_end_obligation, law_obligations, queue_obligations
from permitflow_proofs.kernel.symbols import assume, assuming, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.permit_channel.arbitrary import (
    CHANNEL,
    CHAPTER,
    GRANT_LAWS,
    INVARIANT,
    MESSAGE_LAWS,
    PUBLISHED,
    any_message,
    any_parameters,
    any_permits,
    any_rows,
    any_state,
    lawful_grant,
    lawful_message,
)


def _with_a_negative_residue(state: State, _parameters: Parameters) -> State:
    return state._replace(unreturned=-1)


def _with_a_permit_more(state: State, _parameters: Parameters) -> State:
    return state._replace(permits=plus(state.permits, Permits(1, 0, 0)))


def _with_a_batch_kept(state: State, parameters: Parameters) -> State:
    return state._replace(unreturned=state.unreturned + parameters.permit_batch)


def _with_a_larger_chunk(state: State, parameters: Parameters) -> State:
    return state._replace(wire=state.wire.push(Message("chunk", 0, max(parameters.sizes) + 1, 1)))


def _with_an_empty_grant(state: State, _parameters: Parameters) -> State:
    return state._replace(grants=state.grants.push(NOTHING))


def _with_a_barrier(state: State, _parameters: Parameters) -> State:
    return state._replace(waiting=state.waiting.push(Message("barrier", 0, 0, 1)))


def _barriers_need_two_permits(state: State, parameters: Parameters) -> bool:
    return held_by(state.waiting).barriers == 0 or parameters.barrier_permits > 1


def _with_the_newest_watermark_lost(state: State, _parameters: Parameters) -> State:
    return state._replace(newest_watermark="pending", watermark_pending=NO_WATERMARK)


def _laws_of_messages() -> Iterator[SymbolicObligation]:
    for name, law in MESSAGE_LAWS.items():
        yield from law_obligations(name, law, lambda: lawful_message(any_parameters()), lambda: any_message("message"))


def _laws_of_grants() -> Iterator[SymbolicObligation]:
    for name, law in GRANT_LAWS.items():
        yield from law_obligations(name, law, lambda: lawful_grant(any_parameters()), lambda: any_permits("grant"))


def _laws() -> tuple[Theorem, ...]:
    return (
        Theorem(
            id="queue-sums",
            statement=(
                "What the proofs assume of a queue when an item is pushed or taken holds for every queue, "
                "by induction over its length."
            ),
            module="PermitChannel",
            operator="SumHeld",
            obligations=queue_obligations(),
        ),
        CHAPTER.theorem(
            "queue-laws",
            "Held",
            "Messages in a queue together hold no negative number of permits, and at least one each; so do the "
            "grants in flight.",
            *_laws_of_messages(),
            *_laws_of_grants(),
        ),
    )


def theorems() -> tuple[Theorem, ...]:
    """Conservation and the clauses it needs."""
    return (
        CHAPTER.kept(
            "conservation",
            "Conservation",
            "For rows, barriers and watermarks alike: permits at the sender + data in flight + inbox + unreturned "
            "+ permits in flight = Buf, after any number of steps.",
            _with_a_permit_more,
            "after the step there is one row permit too many",
        ),
        CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and every message keeps the cost that its rows have.",
            _with_a_negative_residue,
            "after the step the receiver owes minus one permit",
        ),
        CHAPTER.kept(
            "residue-below-batch",
            "GrantsBatched",
            "The receiver keeps back less than permit_batch row permits, and without the idle flush each return of "
            "rows carries at least permit_batch, or what was withheld at the start.",
            _with_a_batch_kept,
            "after the step the receiver keeps back a batch more",
        ),
        CHAPTER.kept(
            "sizes-offered",
            "SizesOffered",
            "No chunk in the channel is larger than the largest that may be offered.",
            _with_a_larger_chunk,
            "a larger chunk gets onto the wire",
            about="OfferChunk",
        ),
        CHAPTER.kept(
            "no-empty-grant",
            "GrantsBringPermits",
            "Every return of permits brings at least one.",
            _with_an_empty_grant,
            "an empty grant is returned",
            about="AddPermits",
        ),
        CHAPTER.kept(
            "only-what-is-offered",
            "OnlyWhatIsOffered",
            "Without barrier permits no barrier waits, and where no watermarks are offered there are none.",
            _with_a_barrier,
            "a barrier appears, and barriers need two permits",
            about="OfferBarrier",
            breaks=_barriers_need_two_permits,
        ),
        CHAPTER.kept(
            "newest-watermark-kept",
            "NewestWatermarkKept",
            "The newest watermark is never lost: it is pending, or the one that is on its way, or it has been "
            "consumed.",
            _with_the_newest_watermark_lost,
            "after the step the newest watermark is nowhere",
        ),
        *_laws(),
    )


def _bounded_without_equality(state: State, parameters: Parameters) -> bool:
    return held_by(state.wire).rows + held_by(state.inbox).rows < parameters.row_permits


def _messages_bounded_too_tightly(state: State, parameters: Parameters) -> bool:
    messages = state.wire.size() + state.inbox.size() + state.grants.size()
    return messages <= parameters.row_permits + parameters.barrier_permits


def bound_theorems() -> tuple[Theorem, ...]:
    """Permits and messages."""
    return (
        CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The channel never holds data for more than row_permits permits, nor more barriers than permits.",
            CHANNEL.holds_whenever_invariant(
                "follows from the invariant",
                SYSTEM.invariants["Bounded"],
                _bounded_without_equality,
                "fewer than row_permits",
            ),
        ),
        CHAPTER.theorem(
            "messages-bounded",
            "MessagesBounded",
            "Messages and grants in flight number at most row_permits + barrier_permits + 1, empty chunks and "
            "watermarks included.",
            CHANNEL.holds_whenever_invariant(
                "follows from the invariant",
                SYSTEM.invariants["MessagesBounded"],
                _messages_bounded_too_tightly,
                "one message fewer",
            ),
        ),
    )


_IN_ORDER = SYSTEM.invariants["ExactlyOnceInOrder"]

DEAD_ENDS = {due_after: OUT_OF_ORDER}

NUMBERED = Subject(
    SYSTEM,
    any_parameters,
    partial(any_state, invariant={**INVARIANT, "ExactlyOnceInOrder": _IN_ORDER}, dead_ends=DEAD_ENDS),
    {"OfferChunk": any_rows},
)
"""The channel, with its chunks and barriers in order."""


def _a_number_left_out(state: State, parameters: Parameters) -> State:
    return state._replace(offered=successor(state.offered, parameters))


def _message_in_range(parameters: Parameters) -> Message:
    message = any_message("message")
    with assuming():
        assume(is_message(message, parameters))
    return message


def order_theorems() -> tuple[Theorem, ...]:
    """Order."""
    return (
        CHAPTER.theorem(
            "exactly-once-in-order",
            "ExactlyOnceInOrder",
            "Chunks and barriers, numbered together, are consumed in the order in which they were offered, each "
            "once, and watermarks keep their place among them: from the next number to be consumed to the next to "
            "be offered, none is left out, repeated or overtaken.",
            *NUMBERED.induction(_IN_ORDER, _a_number_left_out, "after the step a number is left out"),
            dead_end_obligation(
                due_after, OUT_OF_ORDER, _message_in_range, lambda: any_message("message"), any_parameters
            ),
        ),
    )


def _starts_balanced(wrong: int) -> bool:
    """permit_batch * messages + unreturned <= consumed: nothing has been sent, consumed or kept back."""
    return 0 + SYSTEM.initial(PUBLISHED.any_parameters()).unreturned + wrong <= 0


def _keeps_balance(action: str, wrong: int) -> bool:
    before, after, parameters = PUBLISHED.any_step(action)
    consumed, batches = natural("consumed_permits"), natural("batch_times_messages")
    assume(batches + before.unreturned <= consumed)
    if action == "Consume":
        consumed = consumed + held(before.inbox.head()).rows
    if after.grants.size() > before.grants.size() and after.grants.last().rows > 0:
        batches = batches + parameters.permit_batch
    return batches + after.unreturned + wrong <= consumed


def _flush_is_possible(flush_idle: bool) -> bool:
    parameters = any_parameters(flush_idle=flush_idle)
    return SYSTEM.is_enabled("Flush", any_state(parameters), parameters)


def _number_follows(fewer: int) -> bool:
    """From permit_batch * messages <= consumed to the number of messages."""
    permit_batch, consumed, messages = (
        natural("permit_batch", 1),
        natural("consumed_permits"),
        natural("grant_messages"),
    )
    assume(permit_batch * messages <= consumed)
    return messages <= consumed // permit_batch - fewer


def grant_theorems() -> tuple[Theorem, ...]:
    """Grant messages."""
    actions = [action.name for action in SYSTEM.actions if action.name != "Flush"]
    return (
        Theorem(
            id="grant-messages",
            is_promise=True,
            statement=(
                "Without the idle flush the receiver sends at most floor(consumed / permit_batch) grant messages for "
                "rows, besides that of what was withheld (the return at the end of the stream adds one)."
            ),
            module="PermitChannelHistory",
            operator="GrantBound",
            obligations=(
                SymbolicObligation(
                    "holds initially", lambda: _starts_balanced(0), lambda: _starts_balanced(1), "a residue of 1"
                ),
                *(
                    SymbolicObligation(
                        f"kept by {action}",
                        partial(_keeps_balance, action, 0),
                        partial(_keeps_balance, action, 1),
                        "one permit more is owed",
                    )
                    for action in actions
                ),
                SymbolicObligation(
                    "Flush does not happen",
                    lambda: not _flush_is_possible(flush_idle=False),
                    lambda: not _flush_is_possible(flush_idle=True),
                    "with the idle flush",
                ),
                SymbolicObligation(
                    "the number follows",
                    lambda: _number_follows(0),
                    lambda: _number_follows(1),
                    "one message fewer",
                ),
            ),
        ),
    )


# The mail's own example: four elements sent, all stored, none processed.
_FOUR = Parameters(row_permits=4, permit_batch=1, max_chunk_cost=4, sizes=(1, 4))


def _in_flight_on_the_wrong_side(state: State, parameters: Parameters) -> bool:
    """PendingPermits + PermitsInFlight = Buf + InFlight."""
    in_flight = held_by(state.wire).rows
    return state.permits.rows + carried_by(state.grants).rows == parameters.row_permits + in_flight


def _stored_forgotten(state: State, parameters: Parameters) -> bool:
    """Permits + InFlight = Buf, where Permits are those at the sender and those in flight."""
    permits = state.permits.rows + carried_by(state.grants).rows
    return permits + held_by(state.wire).rows == parameters.row_permits


def _right(state: State, parameters: Parameters) -> bool:
    """PendingPermits + PermitsInFlight = Buf - (in flight + stored + owed)."""
    gone = held_by(state.wire).rows + held_by(state.inbox).rows + state.unreturned
    return state.permits.rows + carried_by(state.grants).rows == parameters.row_permits - gone


def _residue_forgotten(state: State, parameters: Parameters) -> bool:
    gone = held_by(state.wire).rows + held_by(state.inbox).rows
    return state.permits.rows + carried_by(state.grants).rows == parameters.row_permits - gone


def _nothing_is_gone(state: State, _parameters: Parameters) -> bool:
    return held_by(state.wire).rows + held_by(state.inbox).rows + state.unreturned == 0


def _nothing_is_stored_or_owed(state: State, _parameters: Parameters) -> bool:
    return held_by(state.inbox).rows + state.unreturned == 0


def _nothing_is_stored(state: State, _parameters: Parameters) -> bool:
    return held_by(state.inbox).rows == 0


def _agree(left: Clause[State, Parameters], right: Clause[State, Parameters]) -> bool:
    return CHANNEL.always(lambda state, parameters: left(state, parameters) == right(state, parameters))


_MAIL = 'in E. Varga\'s mail "back pressure" of 2014'


def statements_of_2014() -> tuple[Theorem, ...]:
    """Wrong and right."""
    return (
        Theorem(
            id="2014-sign",
            is_promise=True,
            statement=f'False, {_MAIL}: "PendingPermits + PermitsInFlight = Buf + InFlight".',
            module="PermitChannel",
            operator="Conservation",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _in_flight_on_the_wrong_side,
                    _right,
                    "what is in flight, stored or owed is subtracted",
                    CHANNEL.always,
                    SYSTEM,
                    _FOUR,
                ),
            ),
        ),
        Theorem(
            id="2014-stored",
            is_promise=True,
            statement=f'False, {_MAIL}: "Permits + InFlight = Buf".',
            module="PermitChannel",
            operator="Conservation",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _stored_forgotten,
                    _right,
                    "what is stored, owed or on its way back counts too",
                    CHANNEL.always,
                    SYSTEM,
                    _FOUR,
                ),
            ),
        ),
        CHAPTER.theorem(
            "2014-right",
            "Conservation",
            "True: PendingPermits + PermitsInFlight = Buf - (in flight + stored + owed).",
            SymbolicObligation(
                "in every state",
                lambda: CHANNEL.always(_right),
                lambda: CHANNEL.always(_residue_forgotten),
                "what is owed is forgotten",
            ),
        ),
        CHAPTER.theorem(
            "2014-where-true",
            "Conservation",
            "The first of the two false equations holds exactly while nothing is in flight, stored or owed, the "
            "second exactly while nothing is stored or owed.",
            SymbolicObligation(
                "the first",
                lambda: _agree(_in_flight_on_the_wrong_side, _nothing_is_gone),
                lambda: _agree(_in_flight_on_the_wrong_side, _nothing_is_stored_or_owed),
                "also while something is in flight",
            ),
            SymbolicObligation(
                "the second",
                lambda: _agree(_stored_forgotten, _nothing_is_stored_or_owed),
                lambda: _agree(_stored_forgotten, _nothing_is_stored),
                "also while something is owed",
            ),
        ),
    )
