"""Aligned inputs that share the window of one connection, for any number of them: when they are live."""

from functools import partial
from typing import cast

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.runs import Move
from permitflow_model.shared_window import SYSTEM, Message, Parameters, State, Stream, is_blocked, waits, window
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, subject_of
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.family import SymbolicFamily
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation")}
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""The inputs with any parameters."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "shared-window-", promises=frozenset({"live", "stuck"}))


def _live(short: int) -> bool:
    """With a window larger than those of all inputs but one together, less so much."""
    state, parameters = SUBJECT.any_case()
    # As a sum over the inputs, because a product of two unknowns is not linear.
    others = state.streams.sum_of(window, parameters) - parameters.stream
    assume(parameters.connection > others - short)
    cast("SymbolicFamily[Stream]", state.streams).choose(waits)
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _any_parameters() -> Parameters:
    """Parameters of a connection that one stream can fill while another one waits for it."""
    parameters = any_parameters_of(Parameters)
    assume(parameters.inputs >= 2)
    assume(parameters.connection <= parameters.stream)
    return parameters


def _filled(parameters: Parameters, messages: int) -> State:
    """One input is blocked, and has this many messages unread; nothing else was offered."""
    start = SYSTEM.initial(parameters)
    inbox = SymbolicQueue.any_queue("unread", any_value(Message))
    assume(inbox.size() == messages)
    blocked = Stream(waiting=Fifo(), inbox=inbox, blocked=True)
    return start._replace(streams=start.streams.put(1, blocked), room=parameters.connection - messages)


def _has_filled(end: State | None, parameters: Parameters, messages: int) -> bool:
    """Is it such a state?"""
    if end is None:
        return False
    stream = end.streams.get(1)
    room = parameters.connection - messages
    return stream.blocked and stream.waiting.is_empty() and stream.inbox.size() == messages and end.room == room


_BLOCK: tuple[Move, ...] = tuple((action, (1,)) for action in ("OfferBarrier", "Send", "Read"))
_FILL: tuple[Move, ...] = tuple((action, (1,)) for action in ("OfferData", "Send"))


def _blocks(wrong: int) -> bool:
    parameters = _any_parameters()
    return _has_filled(take(SYSTEM, parameters, SYSTEM.initial(parameters), _BLOCK), parameters, wrong)


def _fills(beyond: int) -> bool:
    parameters, messages = _any_parameters(), natural("messages")
    assume(messages < parameters.connection + beyond)
    end = take(SYSTEM, parameters, _filled(parameters, messages), _FILL)
    return _has_filled(end, parameters, messages + 1)


def _stuck(fewer: int) -> bool:
    parameters = _any_parameters()
    end = take(SYSTEM, parameters, _filled(parameters, parameters.connection - fewer), [("OfferData", (0,))])
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
"""What each action changes: in focus are an input that acts and, if there are several, any other one."""


def _any_inputs(parameters: Parameters) -> State:
    streams = SymbolicFamily.any_of_size("streams", any_value(Stream), parameters.inputs)
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
            "wait for ever (RisingWave's #4505).",
            claim("an input is blocked, and nothing of it is unread", _blocks, "one message is"),
            claim("the blocked input sends one message more, while the window has room", _fills, "and without room"),
            claim("where the window is full, another input that waits is stuck", _stuck, "room for one more"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
