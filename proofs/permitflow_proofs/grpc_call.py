"""A gRPC call between two stages, for any prefetch, batch, threshold, window and sizes of messages.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows from them.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.grpc_call import (
    OUT_OF_ORDER,
    SYSTEM,
    Message,
    Parameters,
    State,
    bytes_of,
    due_after,
    is_message,
    larger,
    successor,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import any_of, assume, assuming, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: clause for name, clause in SYSTEM.invariants.items() if name not in ("AllReceived", "NeverStuck")}
"""What every reachable state satisfies; proved by induction."""


def any_parameters() -> Parameters:
    """Any parameters that the model accepts, also those that are not live."""
    return any_parameters_of(Parameters)


_any_message = any_value(Message)


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    make = partial(SymbolicQueue.any_queue, any_item=_any_message, dead_ends={due_after: OUT_OF_ORDER})
    state = arbitrary(State, special={name: make(name) for name in ("hand", "local", "wire", "inbox")})
    return assume_all(INVARIANT.values(), state, parameters)


def _any_size(parameters: Parameters) -> tuple[int]:
    size = natural("size", 1)
    assume(size <= parameters.max_size)
    return (size,)


SUBJECT = Subject(SYSTEM, any_parameters, any_state, {"Push": _any_size})
"""The call with any parameters."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "grpc-call-",
    promises=frozenset({"ahead", "all-received", "in-order", "live", "reaches"}),
)


def _lawful_message(parameters: Parameters) -> Message:
    message: Message = _any_message("message")
    with assuming():
        assume(is_message(message, parameters))
    return message


def _ahead(state: State, parameters: Parameters, *, fewer: int) -> bool:
    """Beyond the prefetch: one message in hand, the local queue and the window."""
    hand = 0 if state.hand.is_empty() else state.hand.head().size
    held = hand + bytes_of(state.local) + bytes_of(state.wire)
    most = parameters.max_size + parameters.threshold - 1 + parameters.max_size + larger(parameters)
    return state.inbox.size() <= parameters.prefetch and held <= most - fewer


def _live(beyond: int) -> Clause[State, Parameters]:
    """Never stuck, if the batch is larger than the prefetch by no more than this."""

    def live(state: State, parameters: Parameters) -> bool:
        assume(parameters.batch <= parameters.prefetch + beyond)
        return SYSTEM.invariants["NeverStuck"](state, parameters)

    return live


def rank(state: State, _parameters: Parameters) -> int:
    """At least this many steps until everything that was pushed is with the consumer, and both ends have ended."""
    queues = 5 * state.hand.size() + 4 * state.local.size() + 2 * state.wire.size() + state.inbox.size()
    has_to_hear = state.consumer == "cancelled" and (state.producer == "open" or state.producer == "completed")
    return queues + (1 if state.edge else 0) + (1 if state.consumer == "open" else 0) + (1 if has_to_hear else 0)


def _is_asked(state: State) -> bool:
    """Everything that was pushed is with the consumer, and the producer is asked for more."""
    is_empty = all(queue.is_empty() for queue in (state.hand, state.local, state.wire, state.inbox))
    return is_empty and state.consumed == state.offered and state.producer == "open" and state.asked == 1


def _rests_or(holds: Callable[[State], bool]) -> Clause[State, Parameters]:
    """Where a consumer asks and the protocol can do nothing more."""

    def rests(state: State, parameters: Parameters) -> bool:
        assume(parameters.batch <= parameters.prefetch)
        return not state.wanted or SYSTEM.can_move(state, parameters) or holds(state)

    return rests


def _requests_a_batch(before: State, after: State, parameters: Parameters, *, more: int) -> bool:
    """Each batch-th message that is taken requests a whole batch, the others nothing."""
    is_last = before.unrequested == parameters.batch - 1
    return after.requested - before.requested == (parameters.batch + more if is_last else 0)


def _waits_for_the_call(before: State, after: State, _parameters: Parameters, *, asked: int) -> bool:
    """While the stage holds a message, its producer is asked for none."""
    return after.hand.is_empty() or after.asked == asked


def _nothing_dropped(before: State, after: State, _parameters: Parameters, *, fewer: int) -> bool:
    """As many messages as before, where only the consumer takes some away."""
    return _messages(after) == _messages(before) - fewer


def _messages(state: State) -> int:
    return state.hand.size() + state.local.size() + state.wire.size() + state.inbox.size()


def _loses_one(state: State, parameters: Parameters) -> State:
    return state._replace(offered=successor(state.offered, parameters))


# Frames.


def _takes_one(before: State, after: State, _parameters: Parameters) -> bool:
    """One message more is local or held; who holds it asks for none."""
    more = after.local.size() + after.hand.size() - before.local.size() - before.hand.size()
    follows = after.offered == before.offered + 1 or after.offered == 0
    return follows and more == 1 and after.asked - before.asked == before.hand.size() - after.hand.size()


def _closes_if_empty(before: State, after: State, _parameters: Parameters) -> bool:
    return after.closed == before.hand.is_empty()


def _drops_at_the_sender(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.hand.is_empty() and after.local.is_empty()


def _breaks_off(before: State, after: State, parameters: Parameters) -> bool:
    return parameters.breaks and _drops_at_the_sender(before, after, parameters)


def _drops_on_the_way(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.wire.is_empty() and after.inbox.is_empty()


def _may_cancel(state: State, parameters: Parameters) -> bool:
    return parameters.breaks and state.consumer == "open"


def _may_transmit(state: State, parameters: Parameters) -> bool:
    if state.local.is_empty() or state.consumer != "open":
        return False
    return state.wire.is_empty() or bytes_of(state.wire) + state.local.head().size <= parameters.window


def _may_emit(state: State, _parameters: Parameters) -> bool:
    return state.wanted and not state.inbox.is_empty()


def _gives_what_it_holds(before: State, after: State, _parameters: Parameters) -> bool:
    """No message is lost or doubled; who gives it away asks for another one, or closes."""
    given = before.hand.size() - after.hand.size()
    asks = after.asked - before.asked
    closes = 1 if after.closed and before.producer == "completed" and given == 1 else 0
    return after.local.size() - before.local.size() == given and 0 <= given <= 1 and asks + closes == given


def _wakes_who_can_go_on(before: State, after: State, parameters: Parameters) -> bool:
    """A wake-up remains; there is a new one if the call has become ready."""
    bytes_before, bytes_after = bytes_of(before.local), bytes_of(after.local)
    becomes_ready = bytes_after < parameters.threshold <= bytes_before
    return after.edge == any_of((before.edge, becomes_ready))


def _counts_one(before: State, after: State, _parameters: Parameters) -> bool:
    return after.requested + after.unrequested == before.requested + before.unrequested + 1


def _drops_in_the_window(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.wire.is_empty()


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Push",
        {"offered": None, "local": None, "hand": None, "asked": None},
        _takes_one,
        "local and hand together +1; the producer is not asked while one is held",
    ),
    Frame("Complete", {"producer": "completed", "closed": None}, _closes_if_empty, "closed if nothing is held"),
    Frame("Fail", {"producer": "failed", "hand": None, "local": None}, _breaks_off, "both become empty"),
    Frame("Pull", {"wanted": True}),
    Frame(
        "Cancel",
        {"consumer": "cancelled", "wire": None, "inbox": None, "wanted": False},
        _drops_on_the_way,
        "both become empty",
        when=_may_cancel,
        possible="with Breaks, while the consumer is open",
    ),
    Frame("SpuriousReady", {"edge": True}),
    Frame(
        "OnReady",
        {"edge": False, "hand": None, "local": None, "asked": None, "closed": None},
        _gives_what_it_holds,
        "what leaves hand is in local, and another one is asked for, or the call is closed",
    ),
    Frame(
        "Transmit",
        {"local": -1, "wire": +1, "edge": None},
        _wakes_who_can_go_on,
        "a wake-up remains, and there is one if the call has become ready",
        when=_may_transmit,
        possible="for an open consumer, where the window is empty or has room for the message",
    ),
    Frame(
        "OnCancel", {"producer": "cancelled", "hand": None, "local": None}, _drops_at_the_sender, "both become empty"
    ),
    Frame("Deliver", {"wire": -1, "inbox": +1, "requested": -1}),
    Frame(
        "Emit",
        {"wanted": False, "inbox": -1, "consumed": None, "requested": None, "unrequested": None},
        _counts_one,
        "requested and unrequested together +1",
        when=_may_emit,
        possible="where one is wanted and one is here",
    ),
    Frame("OnComplete", {"consumer": "completed", "wanted": False}),
    Frame(
        "OnError",
        {"consumer": "failed", "wire": None, "wanted": False},
        _drops_in_the_window,
        "wire becomes empty",
    ),
)
"""What each action changes."""


def _has_heard_the_end(state: State, parameters: Parameters, *, failed: str) -> bool:
    """Where the protocol can do nothing more, a producer knows of a cancellation, and who asks knows of a failure."""
    if SYSTEM.can_move(state, parameters):
        return True
    if state.consumer == "cancelled":
        return state.producer == "cancelled" or state.producer == failed
    return not (state.wanted and state.producer == "failed")


ANY = SUBJECT
"""A call that satisfies its invariant: a stage holds one message at most."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and every message has a number and a size.",
            lambda state, _: state._replace(requested=-1),
            "-1 requested messages",
        ),
        _CHAPTER.kept(
            "asked-once",
            "AskedOnce",
            "An open producer is asked for one message, or the stage holds one; never two.",
            lambda state, _: state._replace(asked=state.asked + 2),
            "after the step it is asked for two more",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "Of prefetch messages each may still come, is with the receiver's stage, or was taken and is not requested "
            "again.",
            lambda state, _: state._replace(consumer="open", requested=state.requested + 1),
            "after the step one more is requested",
        ),
        _CHAPTER.kept(
            "batched",
            "RequestsBatched",
            "Fewer than a batch of messages that were taken wait for their request.",
            lambda state, parameters: state._replace(unrequested=state.unrequested + parameters.batch),
            "after the step a batch more waits",
        ),
        _CHAPTER.kept(
            "bounded",
            "Bounded",
            "The stage holds one message, the local queue threshold - 1 + max_size bytes, the window its bytes or one "
            "larger message, the receiver's stage prefetch messages.",
            lambda state, parameters: state._replace(
                wire=state.wire.push(Message(0, larger(parameters))).push(Message(0, 1))
            ),
            "after the step two messages more are in the window",
        ),
        _CHAPTER.kept(
            "woken",
            "Woken",
            "While the stage holds a message and the call is ready, the stage will be told: no wake-up is lost.",
            lambda state, _: state._replace(hand=state.hand.push(Message(0, 1)), edge=False),
            "after the step it holds one, and the call has said already that it is ready",
        ),
        _CHAPTER.kept(
            "in-order",
            "InOrder",
            "Messages reach the consumer in the order in which they were pushed, each once.",
            lambda state, parameters: state._replace(
                consumer="open", local=state.local.push(Message(parameters.tags, 1))
            ),
            "after the step another message is sent",
        ),
        _CHAPTER.kept(
            "nothing-lost",
            "NothingLost",
            "Unless the call was broken off, what was pushed and not consumed is on its way, each message once.",
            lambda state, parameters: state._replace(producer="open", consumer="open", offered=parameters.tags),
            "after the step another number was pushed",
        ),
        _CHAPTER.kept(
            "end-sent",
            "EndSent",
            "A stage that has ended half-closes the call as soon as it holds nothing, and not before.",
            lambda state, _: state._replace(producer="completed", closed=not state.hand.is_empty()),
            "after the step it has half-closed too early or not at all",
        ),
        _CHAPTER.kept(
            "ends-match",
            "EndsMatch",
            "What an end has heard of the other's end has happened: the consumer of a completion or a failure, the "
            "producer of a cancellation. What was dropped stays dropped.",
            lambda state, _: state._replace(consumer="completed", producer="open"),
            "after the step the consumer has heard of an end that was none",
        ),
        _CHAPTER.theorem(
            "dead-end",
            "Successor",
            "After a message that is out of order none is due: what the proof of the order assumes of queues.",
            dead_end_obligation(
                due_after, OUT_OF_ORDER, _lawful_message, partial(_any_message, "message"), any_parameters
            ),
        ),
        _CHAPTER.theorem(
            "ahead",
            "Bounded",
            "The producer is never further ahead of the consumer than prefetch messages and, in bytes, one message in "
            "hand, threshold - 1 and one message in the local queue, and the window or one larger message.",
            follows("in every state", partial(_ahead, fewer=0), partial(_ahead, fewer=1), "one byte less"),
        ),
        _CHAPTER.theorem(
            "held-back",
            "Push",
            "While the stage holds a message its producer is asked for none: a consumer that stands still stops it.",
            *SUBJECT.step_obligations(
                ["Push", "OnReady", "Transmit"],
                partial(_waits_for_the_call, asked=0),
                partial(_waits_for_the_call, asked=1),
                "it is asked for one",
            ),
        ),
        _CHAPTER.theorem(
            "requests",
            "Emit",
            "Each batch-th message that the consumer takes requests a whole batch, the others nothing.",
            *SUBJECT.step_obligations(
                ["Emit"], partial(_requests_a_batch, more=0), partial(_requests_a_batch, more=1), "one more"
            ),
        ),
        _CHAPTER.theorem(
            "completed",
            "Complete",
            "Completing a stream drops nothing, whatever the stage holds; nor does any step of the call until its end.",
            *SUBJECT.step_obligations(
                ["Complete", "OnReady", "Transmit", "Deliver", "OnComplete"],
                partial(_nothing_dropped, fewer=0),
                partial(_nothing_dropped, fewer=1),
                "one is dropped",
            ),
        ),
        _CHAPTER.theorem(
            "all-received",
            "AllReceived",
            "When the stream completes for the consumer, it has got everything that was pushed.",
            follows(
                "in every state",
                SYSTEM.invariants["AllReceived"],
                lambda state, parameters: SYSTEM.invariants["AllReceived"](_loses_one(state, parameters), parameters),
                "one is lost",
            ),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "With a batch of at most the prefetch: while a consumer asks, some step of the protocol is possible, or "
            "the producer is asked.",
            follows("in every state", _live(0), _live(1), "a batch of prefetch + 1"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "5 in hand + 4 local + 2 in the window + those handed over + 1 for a wake-up and for each end that has to "
            "hear something falls with every step of the protocol, and only Push and SpuriousReady raise it. So "
            "until then the protocol takes no more steps than that.",
            *comes_to_rest(SUBJECT, rank, unless=("Push", "SpuriousReady")),
        ),
        _CHAPTER.theorem(
            "reaches",
            "NeverStuck",
            "With such a batch: where a consumer asks and the protocol can do nothing more, everything that was pushed "
            "is consumed, and an open producer is asked: demand reaches it.",
            follows("in every state", _rests_or(_is_asked), _rests_or(lambda state: not _is_asked(state)), "it is not"),
        ),
        _CHAPTER.theorem(
            "ends-heard",
            "BothEnd",
            "Where the protocol can do nothing more, the producer has heard of a cancellation, unless it has failed, "
            "and a consumer that asks has heard of a failure.",
            follows(
                "in every state",
                partial(_has_heard_the_end, failed="failed"),
                partial(_has_heard_the_end, failed="cancelled"),
                "also if it has failed",
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
