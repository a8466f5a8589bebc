"""A chain of control loops of any sizes, for any number of loops.

An action changes one loop, or two neighbours; so two loops stand for all: what each action keeps in a chain of two,
whatever its loops are, it keeps in each loop of a longer one.  That nothing is stuck goes from loop to loop, from the
sink back to the source.
"""

from functools import partial

from permitflow_model.kernel.family import Members
from permitflow_model.loop_chain import SYSTEM, Loop, Parameters, State, held, size
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.symbols import assume, natural, suppose
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation")}
"""What every reachable state satisfies; proved by induction."""


def _any_loop(name: str) -> Loop:
    return arbitrary(Loop, name)


def any_state(parameters: Parameters) -> State:
    """Any state of a chain of two loops of any sizes that satisfies the invariant."""
    loops = Members((_any_loop("first."), _any_loop("second.")))
    return assume_all(INVARIANT.values(), State(natural("waiting"), loops), parameters)


def any_parameters() -> Parameters:
    """Any parameters of a chain of two loops."""
    return any_parameters_of(Parameters, loops=2)


SUBJECT = Subject(SYSTEM, any_parameters, any_state)
"""Two neighbours."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "chain-", promises=frozenset({"bounded", "live"}))


def _holds_at_most(less: int) -> bool:
    """Of a chain of any number of loops, each of which satisfies the invariant."""
    parameters = any_parameters_of(Parameters)
    state: State = assume_all(INVARIANT.values(), arbitrary(State), parameters)
    most = state.loops.sum_of(size)
    return state.loops.sum_of(held) <= most - less


def _assume_live(loop: Loop, beyond: int) -> None:
    assume(loop.batch <= loop.size + beyond)


def _never_stuck(beyond: int) -> bool:
    """Two loops with batches of at most their sizes, or so much more."""
    state, parameters = SUBJECT.any_case()
    for name in range(2):
        _assume_live(state.loops.get(name), beyond)
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _may_send(loop: Loop) -> bool:
    return loop.credit > 0


def _sink_lets_in(beyond: int) -> bool:
    """Of the last loop: where nothing moves, it has room for a message."""
    state, parameters = SUBJECT.any_case()
    last = state.loops.get(1)
    _assume_live(last, beyond)
    suppose(lambda: not SYSTEM.is_enabled("Deliver", state, parameters, 1))
    suppose(lambda: not SYSTEM.is_enabled("Request", state, parameters, 1))
    suppose(lambda: not SYSTEM.is_enabled("Consume", state, parameters))
    return _may_send(last)


def _stage_lets_in(beyond: int) -> bool:
    """If the next loop has room, and nothing moves, then so has this one."""
    state, parameters = SUBJECT.any_case()
    loop = state.loops.get(0)
    _assume_live(loop, beyond)
    assume(_may_send(state.loops.get(1)))
    suppose(lambda: not SYSTEM.is_enabled("Deliver", state, parameters, 0))
    suppose(lambda: not SYSTEM.is_enabled("Request", state, parameters, 0))
    suppose(lambda: not SYSTEM.is_enabled("HandOn", state, parameters, 0))
    return _may_send(loop) and held(loop) == 0


def _steps(loop: Loop, loops_to_go: int) -> int:
    """Steps until the messages of a loop are consumed by the sink: three in each loop."""
    messages = 3 * loops_to_go * loop.wire + (3 * loops_to_go - 1) * loop.inbox
    return messages + loop.unrequested + loop.requests


def _falls(action: str, name: tuple[int, ...], least: int) -> bool:
    """Of the two last of `behind` + 2 loops, or of the two first of a longer chain: their steps fall by one."""
    state, parameters = SUBJECT.any_case()
    behind = 0 if action == "Consume" else natural("loops behind")
    after = SYSTEM.perform(action, state, parameters, *name)

    def rank(of: State) -> int:
        first, second = of.loops.get(0), of.loops.get(1)
        waiting = (3 * (behind + 2) + 1) * of.waiting
        return waiting + _steps(first, behind + 2) + _steps(second, behind + 1)

    return rank(after) <= rank(state) - 1 - least


_MOVES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("Send", ()),
    *((action, (name,)) for action in ("Deliver", "Request") for name in (0, 1)),
    ("HandOn", (0,)),
    ("Consume", ()),
)


# Frames.


def _requests_or_collects(name: int, before: State, after: State, _parameters: Parameters) -> bool:
    one, other = before.loops.get(name), after.loops.get(name)
    return other.unrequested + other.requests == one.unrequested + one.requests + 1


def _consumed_in(name: int) -> dict[str, Change]:
    return {f"loops.{name}.inbox": -1, f"loops.{name}.unrequested": None, f"loops.{name}.requests": None}


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame("Offer", {"waiting": +1}),
    Frame("Send", {"waiting": -1, "loops.0.credit": -1, "loops.0.wire": +1}),
    Frame("Deliver", {"loops.0.wire": -1, "loops.0.inbox": +1}),
    Frame(
        "HandOn",
        {**_consumed_in(0), "loops.1.credit": -1, "loops.1.wire": +1},
        partial(_requests_or_collects, 0),
        "unrequested and requests together +1",
    ),
    Frame("Consume", _consumed_in(1), partial(_requests_or_collects, 1), "likewise"),
    Frame("Request", {"loops.0.requests": -1, "loops.0.credit": +1}),
)
"""What each action changes in a chain of two loops."""


def _any_two(_parameters: Parameters) -> State:
    return State(natural("waiting"), Members((_any_loop("first."), _any_loop("second."))))


ANY = Subject(SYSTEM, any_parameters, _any_two)
"""Two neighbours in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count of a loop is ever negative, and fewer than a batch of consumed ones wait for a request.",
            lambda state, _: state._replace(waiting=-1),
            "-1 messages wait",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "In each of two neighbours, the messages that may be out are conserved, whatever the other loop does.",
            lambda state, _: state._replace(
                loops=state.loops.put(1, state.loops.get(1)._replace(size=state.loops.get(1).size + 1))
            ),
            "after the step the second loop has one more",
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "A chain never holds more messages than the sizes of its loops together: each loop holds no more than its "
            "own.",
            claim("any number of loops", _holds_at_most, "one less"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "Two loops with batches of at most their sizes are never stuck. Where nothing moves, the last loop has "
            "room; and a loop before one that has room is empty and has room. (So it is in longer chains, from the "
            "sink to the source: this induction is argued, and no formula.)",
            claim("two loops", _never_stuck, "a batch of size + 1"),
            claim("the last loop has room", _sink_lets_in, "a batch of size + 1"),
            claim("so has each loop before one that has room, and is empty", _stage_lets_in, "a batch of size + 1"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "3 for each loop that a message still has to pass, and one for each message to be requested: this falls "
            "with every step of two neighbours, however many loops are behind them.",
            *(
                claim(f"{action}{list(name) or ''}", partial(_falls, action, name), "it falls by two")
                for action, name in _MOVES
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
