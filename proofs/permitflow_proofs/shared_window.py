"""Aligned inputs that share the window of one connection, for any number of them: when they are live."""

from functools import partial

from permitflow_model.kernel.runs import Move
from permitflow_model.shared_window import SYSTEM, Parameters, State, Stream, is_blocked, window
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation")}
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""The inputs with any parameters."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "shared-window-")


def _live(short: int) -> bool:
    """With a window larger than those of all inputs but one together, less so much."""
    state, parameters = SUBJECT.any_case()
    # As a sum over the inputs, because a product of two unknowns is not linear.
    others = state.streams.sum_of(window, parameters) - parameters.stream
    assume(parameters.connection > others - short)
    return SYSTEM.invariants["NeverStuck"](state, parameters)


_FILLED: tuple[Move, ...] = (
    *((action, (1,)) for action in ("OfferBarrier", "Send", "Read", "OfferData", "Send", "OfferData", "Send")),
    ("OfferData", (0,)),
)


def _stuck(connection: int) -> bool:
    parameters = any_parameters_of(Parameters, connection=connection, stream=2)
    assume(parameters.inputs >= 2)
    end = take(SYSTEM, parameters, SYSTEM.initial(parameters), _FILLED)
    return end is not None and not SYSTEM.invariants["NeverStuck"](end, parameters)


# Frames.


def _blocks_behind_a_barrier(before: State, after: State, _parameters: Parameters) -> bool:
    return after.streams.get(0).blocked == (before.streams.get(0).inbox.head() == "barrier")


def _aligns_all(before: State, _after: State, _parameters: Parameters) -> bool:
    """All barriers have been read."""
    return before.streams.every(is_blocked)


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("OfferData", {"streams.0.waiting": +1}),
    Frame("OfferBarrier", {"streams.0.waiting": +1}),
    Frame("Send", {"streams.0.waiting": -1, "streams.0.inbox": +1, "room": -1}),
    Frame(
        "Read",
        {"streams.0.inbox": -1, "streams.0.blocked": None, "room": +1},
        _blocks_behind_a_barrier,
        "a barrier blocks its input",
    ),
    Frame(
        "Align",
        {"streams.0.blocked": False, "streams.1.blocked": False, "streams.others": None},
        _aligns_all,
        "where all are blocked",
    ),
)
"""What each action changes: in focus are an input that acts, and any other one."""


def _any_inputs(_parameters: Parameters) -> State:
    streams = SymbolicFamily.any_family("streams", any_value(Stream), focus=2)
    return arbitrary(State, special={"streams": streams})


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_inputs)
"""The inputs in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No input has more unread than its window, and the connection's room is never negative.",
            lambda state, _: state._replace(room=-1),
            "the room is -1",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "Each message that is not read takes one place in the connection's window.",
            lambda state, _: state._replace(room=state.room + 1),
            "after the step there is more room",
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "No input is stuck if the connection's window is larger than those of all inputs but one together: "
            "blocked inputs cannot fill it.",
            SymbolicObligation("in every state", partial(_live, 0), partial(_live, 1), "one less"),
        ),
        _CHAPTER.theorem(
            "stuck",
            "NeverStuck",
            "One blocked input fills the window of the connection if its own is as large, and any number of others "
            "wait for ever (RisingWave's issue #4505).",
            SymbolicObligation("with two each", partial(_stuck, 2), partial(_stuck, 3), "one more for the connection"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
