"""Demand, for any window, batch and line: its invariants, liveness, and how long the receiver may have nothing to do.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows from them.
"""

from dataclasses import replace
from functools import partial

from permitflow_model.demand import SYSTEM, Parameters, State
from permitflow_model.kernel.numbered import successor
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.numbered import QUEUES, dead_end
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {
    name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation", "RequestsBatched", "ExactlyOnceInOrder")
}
"""What every reachable state satisfies; proved by induction."""


def _any_count(parameters: Parameters) -> tuple[int]:
    count = natural("requested messages", 1)
    assume(count <= parameters.size)
    return (count,)


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State, queues=QUEUES, arguments={"Request": _any_count})
"""The protocol with any parameters."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "demand-",
    promises=frozenset({"all-delivered", "bounded", "in-order", "live", "stuck"}),
)


def _holds_fewer(state: State, parameters: Parameters) -> bool:
    return state.wire.size() + state.inbox.size() < parameters.size


def _live(beyond: int) -> Clause[State, Parameters]:
    """Never stuck, if the batch is larger than the window by no more than this."""

    def live(state: State, parameters: Parameters) -> bool:
        assume(parameters.batch <= parameters.size + beyond)
        return SYSTEM.invariants["NeverStuck"](state, parameters)

    return live


def rank(state: State, _parameters: Parameters) -> int:
    """At least this many steps until everything that was offered is consumed and as much as possible is requested."""
    in_channel = 3 * state.wire.size() + 2 * state.inbox.size()
    return 4 * state.waiting.size() + in_channel + state.unrequested + state.requests + 2 * state.withheld


def _is_at_rest(state: State) -> bool:
    return state.waiting.is_empty() and state.consumed == state.offered


def _any_too_large_batch() -> Parameters:
    parameters = SUBJECT.any_parameters()
    assume(parameters.batch > parameters.size)
    return parameters


_TOO_LARGE = replace(SUBJECT, any_parameters=_any_too_large_batch)


def _may_still_leave(state: State, _parameters: Parameters) -> int:
    """At once, or when a request has arrived."""
    return state.credit + state.requests + state.withheld


def _leave_at_most(state: State, parameters: Parameters, *, fewer: int) -> bool:
    return _may_still_leave(state, parameters) <= parameters.size - fewer


def _rest_of(batch: int) -> Clause[State, Parameters]:
    """Once the last message of a batch is consumed, this many messages are elsewhere: size - batch."""

    def holds(state: State, parameters: Parameters) -> bool:
        if state.unrequested != parameters.batch - 1 or state.inbox.is_empty():
            return True
        others = state.credit + state.wire.size() + state.inbox.size() - 1 + state.requests + state.withheld
        return others == parameters.size - parameters.batch + batch

    return holds


# Time.  One unit is the time in which the receiver consumes a message; a round trip takes `delay` units: from the
# consumption that completes a batch until the first message is here that leaves because of it.  The sender never lacks
# messages.  As long as the receiver has always had something to consume, it consumes message number n at time n.


def _any_schedule() -> tuple[int, int]:
    size, batch = natural("size", 1), natural("batch", 1)
    assume(batch <= size)
    return size, batch


def _always_busy(late: int) -> bool:
    """A message after the first window is here when the receiver is ready for it.

    It left because of the request at the consumption number ``requested``, a whole number of batches; this lets the
    messages up to ``size + requested`` leave, and the request before it all but the last ``batch`` of these.
    """
    size, batch = _any_schedule()
    delay, requested, number = natural("delay"), natural("requested"), natural("number", 1)
    assume(delay <= size - batch + late)
    assume(size + requested - batch < number)
    assume(number <= size + requested)
    return requested + delay <= number - 1


def _idle_once(sooner: int) -> bool:
    """With a longer round trip, the receiver waits for the first message after the first window."""
    size, batch = _any_schedule()
    delay = natural("delay")
    assume(delay > size - batch - sooner)
    return batch + delay > size


def _at_least_so_long(more: int) -> bool:
    """From a request until ``span`` messages later, where another request leaves: a round trip, and then one by one.

    ``span`` is the largest multiple of ``batch`` that is at most ``size``.  The first message that leaves because of
    the request is number ``requested + size - batch + 1``, and ``span`` is not before it.
    """
    size, batch = _any_schedule()
    delay, span = natural("delay"), natural("span", 1)
    at_request, at_first, at_span = natural("time of the request"), natural("time of the first"), natural("time then")
    assume(span <= size)
    assume(size - batch < span)
    assume(at_first >= at_request + delay + 1)  # on its way for a round trip, then consumed
    assume(at_span >= at_first + span - (size - batch + 1))  # the others one by one
    return at_span - at_request >= delay + span - size + batch + more


# Frames.


def _counts_on(before: State, after: State, _parameters: Parameters) -> bool:
    return after.offered == before.offered + 1 or after.offered == 0


def _is_allowed(_before: State, _after: State, parameters: Parameters) -> bool:
    return parameters.withdrawals


def _counts_one(before: State, after: State, _parameters: Parameters) -> bool:
    return after.unrequested + after.requests == before.unrequested + before.requests + 1


def _requests_all(before: State, after: State, _parameters: Parameters) -> bool:
    return after.withheld == 0 and after.requests == before.requests + before.withheld


def _adds_what_arrives(before: State, after: State, _parameters: Parameters) -> bool:
    return after.credit + after.requests == before.credit + before.requests and after.credit > before.credit


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Offer", {"waiting": +1, "offered": None}, _counts_on, "numbers follow each other, and begin anew with 0"),
    Frame("Withdraw", {"waiting": -1, "offered": None}, _is_allowed, "only where that is allowed"),
    Frame("Send", {"waiting": -1, "wire": +1, "credit": -1}),
    Frame("Deliver", {"wire": -1, "inbox": +1}),
    Frame(
        "Consume",
        {"inbox": -1, "consumed": None, "unrequested": None, "requests": None},
        _counts_one,
        "unrequested and requests together +1",
    ),
    Frame("RequestWithheld", {"requests": None, "withheld": None}, _requests_all, "all that is withheld is requested"),
    Frame("Request", {"requests": None, "credit": None}, _adds_what_arrives, "together unchanged, credit grows"),
)
"""What each action changes."""

ANY = subject_of(
    SYSTEM, {"TypeOK": SYSTEM.invariants["TypeOK"]}, Parameters, State, queues=QUEUES, arguments={"Request": _any_count}
)
"""The protocol in any state of the right types."""


def _may_withdraw(least: int) -> Clause[State, Parameters]:
    """Whatever waits can be given up, where that is allowed."""
    return lambda state, parameters: (
        not parameters.withdrawals or state.waiting.size() < least or SYSTEM.is_enabled("Withdraw", state, parameters)
    )


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and every number is one.",
            lambda state, _: state._replace(requests=-1),
            "-1 requested messages",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "Of size messages each may leave at once, is in flight, is in the inbox, was consumed, is being requested "
            "or is withheld, after any number of steps.",
            lambda state, _: state._replace(requests=state.requests + 1),
            "after the step one more is requested",
        ),
        _CHAPTER.kept(
            "batched",
            "RequestsBatched",
            "Fewer than a batch of consumed messages wait for their request: one request for batch messages.",
            lambda state, parameters: state._replace(unrequested=state.unrequested + parameters.batch),
            "after the step a batch more waits",
        ),
        _CHAPTER.kept(
            "in-order",
            "ExactlyOnceInOrder",
            "Messages are consumed in the order in which they were offered, each once.",
            lambda state, parameters: state._replace(offered=successor(state.offered, parameters)),
            "after the step a number is left out",
        ),
        _CHAPTER.theorem(
            "dead-end",
            "Successor",
            "After a message that is out of order none is due: what the proof of the order assumes of queues.",
            dead_end(SUBJECT.any_parameters),
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The receiver never holds more than size messages, in flight and held by its application included.",
            follows("in every state", SYSTEM.invariants["Bounded"], _holds_fewer, "fewer"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "With a batch of at most size: while a message waits, some step of the protocol is possible.",
            follows("in every state", _live(0), _live(1), "a batch of size + 1"),
        ),
        _CHAPTER.theorem(
            "stuck",
            "Consume",
            "With a batch above size, what may still leave falls with each message that leaves, and nothing raises it, "
            "because no consumed message is requested again: after size of them none can leave.",
            *comes_to_rest(_TOO_LARGE, _may_still_leave, steps=("Send",), exactly=True),
            _TOO_LARGE.holds_whenever_invariant(
                "it is at most size", partial(_leave_at_most, fewer=0), partial(_leave_at_most, fewer=1), "one less"
            ),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "4 waiting + 3 in flight + 2 in the inbox + unrequested + requested + 2 withheld falls with every step of "
            "the protocol, and only Offer raises it. So until then the protocol takes no more steps than that.",
            *comes_to_rest(SUBJECT, rank, unless=("Offer",)),
        ),
        _CHAPTER.theorem(
            "all-delivered",
            "EveryMessageDelivered",
            "With a batch of at most size: where the protocol can do nothing more, everything offered is consumed.",
            SUBJECT.comes_to(_is_at_rest, lambda parameters: parameters.batch > parameters.size),
        ),
        _CHAPTER.theorem(
            "overlap",
            "Consume",
            "When a request leaves, exactly size - batch messages are elsewhere: the most that the receiver has to "
            "consume while the request travels.",
            follows("when the last message of a batch is consumed", _rest_of(0), _rest_of(1), "one more"),
        ),
        _CHAPTER.theorem(
            "idle",
            "Consume",
            "Arithmetic of a schedule, not a statement about states: message n leaves with the request that lets size "
            "+ n messages leave. The receiver always has something to consume if, and only if, a round trip takes no "
            "longer than it consumes size - batch messages. (The sender never lacks messages.)",
            claim("with at most size - batch, no message comes late", _always_busy, "one more"),
            claim("with more, the first message after the window comes late", _idle_once, "one less"),
        ),
        _CHAPTER.theorem(
            "rate",
            "Consume",
            "Arithmetic of the same schedule: with the largest multiple of batch that is at most size as span, span "
            "messages take at least the round trip and the time of span - size + batch messages.",
            claim("from a request to the one span messages later", _at_least_so_long, "one unit more"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
        _CHAPTER.theorem(
            "withdraw",
            "Withdraw",
            "Where that is allowed, a sender can give up whatever waits, also the only message.",
            follows("in every state", _may_withdraw(1), _may_withdraw(0), "also where nothing waits"),
        ),
    )
