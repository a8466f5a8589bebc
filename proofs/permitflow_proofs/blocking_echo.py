"""A client that writes before it reads, with buffers of any sizes: when it gets stuck, and that it then always does.

Within one request every step takes at least one from a number, so that each run comes to the end of the answer or to
a state in which nothing moves.  Which of the two it is follows from the sizes alone.
"""

from functools import partial

from permitflow_model.blocking_echo import SYSTEM, Parameters, State
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import assume, negated
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: holds for name, holds in SYSTEM.invariants.items() if name != "NeverStuck"}
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""Buffers of any sizes, and requests of any length."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "echo-", promises=frozenset({"live", "stuck", "meanwhile"}))

WITHIN_A_REQUEST = ("Write", "Take", "Echo", "Read")


def _room(parameters: Parameters) -> int:
    """What goes round while the client does not read."""
    return parameters.server_buffer + parameters.hand + parameters.client_buffer


def _rank(state: State, _parameters: Parameters) -> int:
    """At least this many steps until the answer is read, if nothing gets stuck."""
    return 4 * state.unwritten + 3 * state.server + 2 * state.hand + state.client


def _live(state: State, parameters: Parameters, *, beyond: int) -> bool:
    assume(negated(parameters.reads_meanwhile))
    assume(parameters.writes <= _room(parameters) + beyond)
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _live_meanwhile(state: State, parameters: Parameters, *, blocks: bool) -> bool:
    assume(parameters.reads_meanwhile == (not blocks))
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _stuck(state: State, parameters: Parameters, *, more: int) -> bool:
    """Where nothing moves, exactly what goes round was written; no answer is ever read."""
    assume(negated(parameters.reads_meanwhile))
    assume(parameters.writes > _room(parameters))
    if SYSTEM.invariants["NeverStuck"](state, parameters):
        return state.read == 0
    return state.read == 0 and parameters.writes - state.unwritten == _room(parameters) + more


def _comes_to_read(state: State, parameters: Parameters, *, nearer: int) -> bool:
    assume(negated(parameters.reads_meanwhile))
    assume(parameters.writes > _room(parameters) - nearer)
    return not SYSTEM.is_enabled("Read", state, parameters)


# Frames.


def _is_reading(state: State, parameters: Parameters) -> bool:
    return parameters.reads_meanwhile or state.unwritten == 0


def _has_place(state: State, parameters: Parameters) -> bool:
    return state.client < parameters.client_buffer or (
        _is_reading(state, parameters) and state.client == parameters.client_buffer
    )


def _may_echo(state: State, parameters: Parameters) -> bool:
    has_one = state.hand > 0 or (parameters.hand == 0 and state.server > 0)
    return has_one and _has_place(state, parameters)


def _out_of_the_hand(before: State, after: State, parameters: Parameters) -> bool:
    """Or out of the buffer, without a hand."""
    if parameters.hand == 0:
        return after.server == before.server - 1 and after.hand == before.hand
    return after.hand == before.hand - 1 and after.server == before.server


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Write",
        {"unwritten": -1, "server": +1},
        when=lambda state, parameters: state.unwritten > 0 and state.server < parameters.server_buffer,
        possible="while something is unwritten, and the server's buffer is not full",
    ),
    Frame(
        "Read",
        {"client": -1, "read": +1},
        when=lambda state, parameters: _is_reading(state, parameters) and state.client > 0,
        possible="where an element is here, and everything is written, or the client reads meanwhile",
    ),
    Frame(
        "BeginRequest",
        {"unwritten": None, "read": None},
        lambda _, after, parameters: after.unwritten == parameters.writes and after.read == 0,
        "as at the start",
        when=lambda state, parameters: state.read == parameters.writes,
        possible="once the answer is read",
    ),
    Frame(
        "Take",
        {"server": -1, "hand": +1},
        when=lambda state, parameters: state.server > 0 and state.hand < parameters.hand,
        possible="where the server's buffer has an element, and its hand a place",
    ),
    Frame(
        "Echo",
        {"client": +1, "hand": None, "server": None},
        _out_of_the_hand,
        "hand -1; without a hand, server -1",
        when=_may_echo,
        possible="where the server has an element, and the client's buffer, or a read that waits, a place",
    ),
)
"""What each action changes."""


_REQUEST_ENDS = comes_to_rest(SUBJECT, _rank, steps=WITHIN_A_REQUEST, unless=("BeginRequest",), twin_by=4)


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No buffer ever holds more than its size.",
            lambda state, parameters: state._replace(server=parameters.server_buffer + 1),
            "after the step the server's holds one more",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "Each element of a request is unwritten, in a buffer, in the server's hand or read, once.",
            lambda state, _: state._replace(read=state.read + 1),
            "after the step one more is read",
        ),
        _CHAPTER.kept(
            "reads-last",
            "ReadsLast",
            "A client that blocks has read nothing while it has still something to write.",
            lambda state, parameters: state._replace(
                read=1, unwritten=1 if not parameters.reads_meanwhile else state.unwritten
            ),
            "after the step it has read one before its last write",
            breaks=lambda state, parameters: parameters.reads_meanwhile or state.unwritten == 0 or state.read == 0,
        ),
        _CHAPTER.kept(
            "never-written",
            "NeverWritten",
            "A request that is longer than both buffers and the server's hand is never written to its end.",
            lambda state, _: state._replace(unwritten=0),
            "after the step any request is",
            breaks=lambda state, _: state.unwritten > 0,
        ),
        _CHAPTER.theorem(
            "rank",
            "Next",
            "4 unwritten + 3 in the server's buffer + 2 in its hand + 1 in the client's buffer falls with every step "
            "of a request. So a request takes no more steps than that: it comes to its end, or to where nothing moves.",
            *_REQUEST_ENDS,
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "A client that writes before it reads is never stuck if Writes <= ServerBuffer + Hand + ClientBuffer.",
            follows("in every state", partial(_live, beyond=0), partial(_live, beyond=1), "one element more"),
        ),
        _CHAPTER.theorem(
            "stuck",
            "NeverStuck",
            "If Writes > ServerBuffer + Hand + ClientBuffer, every run gets stuck: no element is ever read, a request "
            "takes finitely many steps, and where nothing moves ServerBuffer + Hand + ClientBuffer elements were "
            "written.",
            *_REQUEST_ENDS,
            follows("in every state", partial(_stuck, more=0), partial(_stuck, more=1), "one more was written"),
            follows(
                "the client never comes to read",
                partial(_comes_to_read, nearer=0),
                partial(_comes_to_read, nearer=1),
                "also with a request that just fits",
            ),
        ),
        _CHAPTER.theorem(
            "meanwhile",
            "NeverStuck",
            "A client that reads while it writes is never stuck, whatever the sizes.",
            follows(
                "in every state",
                partial(_live_meanwhile, blocks=False),
                partial(_live_meanwhile, blocks=True),
                "it blocks",
            ),
        ),
        _CHAPTER.framed(FRAMES, SUBJECT),
    )
