"""Stop-and-wait, for any line and any numbers: its invariants, and that each waiting message is served.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows from them.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.stop_and_wait import (
    OUT_OF_ORDER,
    SYSTEM,
    Parameters,
    State,
    due_after,
    is_number,
    successor,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation
from permitflow_proofs.kernel.symbols import assume, assuming, integer, natural
from permitflow_proofs.kernel.theorem import Theorem

__all__ = ["INVARIANT", "SUBJECT", "any_parameters", "any_state", "out", "rank", "theorems"]

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation", "ExactlyOnceInOrder")}
"""What every reachable state satisfies; proved by induction."""


def any_parameters() -> Parameters:
    """Any parameters that the model accepts."""
    return any_parameters_of(Parameters)


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    make = partial(SymbolicQueue.any_queue, any_item=integer, dead_ends={due_after: OUT_OF_ORDER})
    state = arbitrary(State, special={name: make(name) for name in ("waiting", "wire", "inbox")})
    return assume_all(INVARIANT.values(), state, parameters)


SUBJECT = Subject(SYSTEM, any_parameters, any_state)
"""The protocol with any parameters."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "stop-and-wait-")


def _nothing_is_held(state: State, _parameters: Parameters) -> bool:
    return state.wire.size() + state.inbox.size() < 1


def _oldest_can_leave(state: State, parameters: Parameters) -> bool:
    return state.waiting.is_empty() or SYSTEM.is_enabled("Send", state, parameters)


def out(state: State) -> int:
    """Steps until the message that is out, if any, is answered."""
    return 3 * state.wire.size() + 2 * state.inbox.size() + state.answers


def rank(state: State, _parameters: Parameters) -> int:
    """Steps until everything that was offered is answered; each step of the protocol is one of them."""
    return 4 * state.waiting.size() + out(state)


def _is_a_step(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) == rank(before, parameters) - 1


def _is_two_steps(before: State, after: State, parameters: Parameters) -> bool:
    return rank(after, parameters) == rank(before, parameters) - 2


def _answered_after(steps: int) -> Clause[State, Parameters]:
    return lambda state, _parameters: 0 <= out(state) <= steps


def _is_at_rest(state: State) -> bool:
    return state.waiting.is_empty() and state.free == 1 and state.consumed == state.offered


def _rests_or(holds: Callable[[State], bool]) -> Clause[State, Parameters]:
    return lambda state, parameters: SYSTEM.can_move(state, parameters) or holds(state)


def _any_number(parameters: Parameters) -> int:
    number = natural("message")
    with assuming():
        assume(is_number(number, parameters))
    return number


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows, never_stuck = SUBJECT.holds_whenever_invariant, SYSTEM.invariants["NeverStuck"]
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and every number is one.",
            lambda state, _: state._replace(answers=-1),
            "-1 answers",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "One message is free to leave, in flight, in the inbox or being answered, after any number of steps.",
            lambda state, _: state._replace(answers=state.answers + 1),
            "after the step there is an answer more",
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
            dead_end_obligation(due_after, OUT_OF_ORDER, _any_number, lambda: integer("message"), any_parameters),
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The application never holds more than one message.",
            follows("in every state", SYSTEM.invariants["Bounded"], _nothing_is_held, "none"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "A message that waits can still be served, however long the line.",
            follows("in every state", never_stuck, _oldest_can_leave, "at once"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "4 waiting + 3 in flight + 2 in the inbox + 1 answers falls by one with every step of the protocol: the "
            "number of steps left is known exactly, and the protocol comes to rest.",
            *SUBJECT.step_obligations(SUBJECT.protocol_actions(), _is_a_step, _is_two_steps, "it falls by two"),
            follows("the oldest message leaves after three steps at most", _answered_after(3), _answered_after(2), "2"),
        ),
        _CHAPTER.theorem(
            "all-delivered",
            "EveryMessageDelivered",
            "Where the protocol can do nothing more, everything that was offered has been consumed and answered.",
            follows(
                "in every state", _rests_or(_is_at_rest), _rests_or(lambda state: not _is_at_rest(state)), "nothing has"
            ),
        ),
    )
