"""Stop-and-wait, for any line and any numbers: its invariants, and that each waiting message is served.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows from them.
"""

from permitflow_model.kernel.numbered import successor
from permitflow_model.stop_and_wait import SYSTEM, Parameters, State
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.numbered import QUEUES, dead_end
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation", "ExactlyOnceInOrder")}
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State, queues=QUEUES)
"""The protocol with any parameters."""

_CHAPTER = Chapter(
    SUBJECT, INVARIANT, "stop-and-wait-", promises=frozenset({"all-delivered", "bounded", "in-order", "live"})
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


def _answered_after(steps: int) -> Clause[State, Parameters]:
    return lambda state, _parameters: 0 <= out(state) <= steps


def _is_at_rest(state: State) -> bool:
    return state.waiting.is_empty() and state.free == 1 and state.consumed == state.offered


def _counts_on(before: State, after: State, _parameters: Parameters) -> bool:
    return after.offered == before.offered + 1 or after.offered == 0


def _is_allowed(_before: State, _after: State, parameters: Parameters) -> bool:
    return parameters.withdrawals


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Offer", {"waiting": +1, "offered": None}, _counts_on, "numbers follow each other, and begin anew with 0"),
    Frame("Withdraw", {"waiting": -1, "offered": None}, _is_allowed, "only where that is allowed"),
    Frame("Send", {"waiting": -1, "wire": +1, "free": -1}),
    Frame("Deliver", {"wire": -1, "inbox": +1}),
    Frame("Consume", {"inbox": -1, "consumed": None, "answers": +1}),
    Frame("Answer", {"answers": -1, "free": +1}),
)
"""What each action changes."""

ANY = subject_of(SYSTEM, {"TypeOK": SYSTEM.invariants["TypeOK"]}, Parameters, State, queues=QUEUES)
"""The protocol in any state of the right types."""


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
            dead_end(SUBJECT.any_parameters),
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
            "While a message waits, some step of the protocol is possible, however long the line.",
            follows("in every state", never_stuck, _oldest_can_leave, "at once"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "4 waiting + 3 in flight + 2 in the inbox + 1 answers falls by one with every step of the protocol, and "
            "only Offer raises it. So the number of steps until the protocol rests is known exactly.",
            *comes_to_rest(SUBJECT, rank, unless=("Offer",), exactly=True),
            follows("the oldest message leaves after three steps at most", _answered_after(3), _answered_after(2), "2"),
        ),
        _CHAPTER.theorem(
            "all-delivered",
            "EveryMessageDelivered",
            "Where the protocol can do nothing more, everything that was offered has been consumed and answered.",
            SUBJECT.comes_to(_is_at_rest),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
