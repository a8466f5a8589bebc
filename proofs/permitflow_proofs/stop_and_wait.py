"""Stop-and-wait, for any line and any numbers: what holds in every state, and that what waits is served.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows from them.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

from permitflow_model.stop_and_wait import (
    OUT_OF_ORDER,
    SYSTEM,
    Parameters,
    State,
    due_after,
    is_number,
    successor,
)
from permitflow_proofs.kernel.induction import Clause, Fault, Subject
from permitflow_proofs.kernel.obligation import Obligation, SymbolicObligation
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation
from permitflow_proofs.kernel.symbols import assume, assuming, integer, merged, natural, truth
from permitflow_proofs.kernel.theorem import Theorem

__all__ = ["INVARIANT", "SUBJECT", "any_parameters", "any_state", "out", "rank", "theorems"]

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation", "ExactlyOnceInOrder")}
"""What every reachable state satisfies; proved by induction."""


def any_parameters() -> Parameters:
    """Any parameters that the model accepts."""
    with assuming(ValueError):
        return Parameters(waiters=integer("waiters"), withdrawals=truth("withdrawals"), tags=integer("tags"))


def any_state(parameters: Parameters) -> State:
    """Any state that satisfies the invariant."""
    make = partial(SymbolicQueue.any_queue, any_item=integer, dead_ends={due_after: OUT_OF_ORDER})
    numbers = {name: integer(name) for name in ("offered", "consumed", "free", "answers")}
    queues = {name: make(name) for name in ("waiting", "wire", "inbox")}
    state = cast(Callable[..., State], State)(**numbers, **queues)
    for clause in INVARIANT.values():
        assume(merged(lambda clause=clause: clause(state, parameters)))  # type: ignore[misc]  # binds the loop's value
    return state


SUBJECT = Subject(SYSTEM, any_parameters, any_state)
"""The protocol with any parameters."""


def _with_an_answer_less(state: State, _parameters: Parameters) -> State:
    return state._replace(answers=-1)


def _with_an_answer_more(state: State, _parameters: Parameters) -> State:
    return state._replace(answers=state.answers + 1)


def _with_a_number_left_out(state: State, parameters: Parameters) -> State:
    return state._replace(offered=successor(state.offered, parameters))


_CLAUSES: tuple[tuple[str, str, str, Fault[State, Parameters], str], ...] = (
    ("type-ok", "TypeOK", "No count is ever negative, and every number is one.", _with_an_answer_less, "-1 answers"),
    (
        "conservation",
        "Conservation",
        "One message is free to leave, in flight, in the inbox or being answered, after any number of steps.",
        _with_an_answer_more,
        "after the step there is an answer more",
    ),
    (
        "in-order",
        "ExactlyOnceInOrder",
        "Messages are consumed in the order in which they were offered, each once.",
        _with_a_number_left_out,
        "after the step a number is left out",
    ),
)


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


def _theorem(name: str, operator: str, statement: str, *obligations: Obligation) -> Theorem:
    return Theorem(
        id=f"stop-and-wait-{name}",
        statement=statement,
        module=SYSTEM.module,
        operator=operator,
        obligations=obligations,
    )


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows, never_stuck = SUBJECT.holds_whenever_invariant, SYSTEM.invariants["NeverStuck"]
    return (
        *(
            _theorem(name, operator, statement, *SUBJECT.induction(INVARIANT[operator], fault, in_words))
            for name, operator, statement, fault, in_words in _CLAUSES
        ),
        _theorem(
            "dead-end",
            "Successor",
            "After a message that is out of order none is due: what the proof of the order assumes of queues.",
            dead_end_obligation(due_after, OUT_OF_ORDER, _any_number, lambda: integer("message"), any_parameters),
        ),
        _theorem(
            "bounded",
            "Bounded",
            "The application never holds more than one message.",
            follows("in every state", SYSTEM.invariants["Bounded"], _nothing_is_held, "none"),
        ),
        _theorem(
            "live",
            "NeverStuck",
            "A message that waits can still be served, however long the line.",
            follows("in every state", never_stuck, _oldest_can_leave, "at once"),
        ),
        _theorem(
            "rank",
            "Protocol",
            "4 waiting + 3 in flight + 2 in the inbox + 1 answers falls by one with every step of the protocol: what "
            "is still to do is known exactly, and comes to an end.",
            *SUBJECT.step_obligations(SUBJECT.protocol_actions(), _is_a_step, _is_two_steps, "it falls by two"),
            follows("the oldest message leaves after three steps at most", _answered_after(3), _answered_after(2), "2"),
        ),
        _theorem(
            "all-delivered",
            "EveryMessageDelivered",
            "Where the protocol can do nothing more, everything that was offered has been consumed and answered.",
            SymbolicObligation(
                "in every state",
                lambda: SUBJECT.always(_rests_or(_is_at_rest)),
                lambda: SUBJECT.always(_rests_or(lambda state: not _is_at_rest(state))),
                "nothing has",
            ),
        ),
    )
