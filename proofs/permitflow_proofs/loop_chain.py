"""A chain of control loops of any sizes, for any number of loops.

Loops are looked at by symbolic names: one that acts, its neighbour, and any other one.  That nothing is stuck goes from
loop to loop, from the sink back to the source: if one has no room, there is a last such one.
"""

from functools import partial
from typing import cast

from permitflow_model.loop_chain import SYSTEM, Loop, Parameters, State, held, size
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.family_facts import family_obligations
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.indexed import Indexed, member_by_name
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import all_of, assume, function, merged, natural, negated
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "Conservation")}
"""What every reachable state satisfies; proved by induction."""


_ACTING, _OTHER = (function("name")(number) for number in range(2))


def any_state(parameters: Parameters) -> State:
    """Any state of a chain of loops of any sizes that satisfies the invariant."""
    assume(all_of((_ACTING >= 0, parameters.loops > _ACTING)))
    names = (0, _ACTING, _ACTING + 1, _OTHER, parameters.loops - 1)
    loops = Indexed.any_family(member_by_name(Loop, "loop."), parameters.loops, *names)
    return assume_all(INVARIANT.values(), State(natural("waiting"), loops), parameters)


SUBJECT = Subject(SYSTEM, partial(any_parameters_of, Parameters), any_state, acting=_ACTING)
"""Any number of loops."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "chain-", promises=frozenset({"bounded", "live"}))


def _holds_at_most(less: int) -> bool:
    """Does a chain of any number of loops that satisfy the invariant hold at most its sizes less this?"""
    parameters = any_parameters_of(Parameters)
    state: State = assume_all(INVARIANT.values(), arbitrary(State), parameters)
    most = state.loops.sum_of(size)
    return state.loops.sum_of(held) <= most - less


def _loops_of(state: State) -> Indexed[Loop]:
    return cast("Indexed[Loop]", state.loops)


def _lets_in(loop: Loop) -> bool:
    """Has it room for a message, and none to hand on?"""
    return all_of((loop.credit > 0, held(loop) == 0))


def _is_empty(loop: Loop) -> bool:
    return held(loop) == 0


def _rests_empty(beyond: int) -> bool:
    """With batches of at most the sizes, or so much more: where nothing moves, nothing is in the chain, or waits."""
    state, parameters = SUBJECT.any_case()
    loops = _loops_of(state)

    def is_live(name: int) -> bool:
        return loops.get(name).batch <= loops.get(name).size + beyond

    def rests(action: str, *name: int) -> bool:
        return negated(merged(partial(SYSTEM.is_enabled, action, state, parameters, *name)))

    loops.assume_every(is_live)
    for action in ("Deliver", "Request", "HandOn"):
        loops.assume_every(partial(rests, action))
    assume(rests("Consume"))
    assume(rests("Send"))
    # A loop that is full, or holds something, would be the last one, before one that lets in; or the sink's.
    full = loops.last_without(_lets_in)
    return all_of((negated(full.exists), state.waiting == 0, loops.every(_is_empty)))


def _steps(name: int, loop: Loop, parameters: Parameters) -> int:
    """Steps until the messages of a loop are consumed by the sink, and requested: three in each loop."""
    loops_to_go = parameters.loops - name
    messages = 3 * loops_to_go * loop.wire + (3 * loops_to_go - 1) * loop.inbox
    return messages + loop.unrequested + loop.requests


def rank(state: State, parameters: Parameters) -> int:
    """At least this many steps until everything that was offered is consumed, in all loops together."""
    return (3 * parameters.loops + 1) * state.waiting + _loops_of(state).sum_by_name(_steps, parameters)


# Frames.


def _neighbours(parameters: Parameters, name: int) -> State:
    """Two neighbours in any state at all: this loop, and the next one."""
    loops = Indexed.any_family(member_by_name(Loop, "loop."), parameters.loops, focus={"0": name, "1": name + 1})
    return State(natural("waiting"), loops)


def _with_first(parameters: Parameters) -> State:
    return _neighbours(parameters, 0)


def _with_last(parameters: Parameters) -> State:
    return _neighbours(parameters, parameters.loops - 1)


def _requests_or_collects(before: State, after: State, _parameters: Parameters) -> bool:
    one, other = (_loops_of(state).get(_loops_of(state).focus["0"]) for state in (before, after))
    return other.unrequested + other.requests == one.unrequested + one.requests + 1


# Guards.


def _may_send(state: State, _parameters: Parameters) -> bool:
    return state.waiting > 0 and state.loops.get(0).credit > 0


def _may_hand_on(state: State, parameters: Parameters, name: int) -> bool:
    return name < parameters.loops - 1 and state.loops.get(name).inbox > 0 and state.loops.get(name + 1).credit > 0


_CONSUMED: dict[str, Change] = {"loops.0.inbox": -1, "loops.0.unrequested": None, "loops.0.requests": None}

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Offer",
        {"waiting": +1},
        when=lambda state, parameters: state.waiting < parameters.waiters,
        possible="up to Waiters",
    ),
    Frame(
        "Send",
        {"waiting": -1, "loops.0.credit": -1, "loops.0.wire": +1},
        words="the first loop acts",
        when=_may_send,
        possible="where a message waits, and the loop has credit",
        any_state=_with_first,
    ),
    Frame(
        "Deliver",
        {"loops.0.wire": -1, "loops.0.inbox": +1},
        when=lambda state, _, name: state.loops.get(name).wire > 0,
        possible="where one is on its way",
    ),
    Frame(
        "HandOn",
        {**_CONSUMED, "loops.1.credit": -1, "loops.1.wire": +1},
        _requests_or_collects,
        "unrequested and requests together +1; 1 is the next loop",
        when=_may_hand_on,
        possible="in each loop but the last, where it has a message, and the next loop has credit",
    ),
    Frame(
        "Consume",
        _CONSUMED,
        _requests_or_collects,
        "likewise; the last loop acts",
        when=lambda state, parameters: state.loops.get(parameters.loops - 1).inbox > 0,
        possible="where it has a message",
        any_state=_with_last,
    ),
    Frame(
        "Request",
        {"loops.0.requests": -1, "loops.0.credit": +1},
        when=lambda state, _, name: state.loops.get(name).requests > 0,
        possible="where one is on its way",
    ),
)
"""What each action changes in the loop that acts and the next one."""


def _any_neighbours(parameters: Parameters) -> State:
    assume(all_of((_ACTING >= 0, parameters.loops > _ACTING)))
    return _neighbours(parameters, _ACTING)


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_neighbours, acting=_ACTING)
"""Two neighbours in a chain of any number of loops, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        Theorem(
            id="families",
            statement=(
                "What the proofs assume of a family of any size holds for every family: of all its members, of a "
                "witness, of the last one in an order, of the largest measure, and of sums. By induction over the "
                "number of members: so an argument that goes from loop to loop, or from hop to hop, holds for any "
                "number of them."
            ),
            module="LoopChain",
            operator="Sum",
            obligations=family_obligations(),
        ),
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
            "In each loop, the messages that may be out are conserved, whatever the other loops do.",
            lambda state, _: state._replace(
                loops=state.loops.put(0, state.loops.get(0)._replace(size=state.loops.get(0).size + 1))
            ),
            "after the step the first loop has one more",
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
            "A chain of any number of loops with batches of at most their sizes is never stuck: where nothing moves, "
            "no message is in it or waits at the source.",
            claim("any number of loops", _rests_empty, "a batch of size + 1"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "3 for each loop that a message still has to pass, and one for each message to be requested, in all loops "
            "together: this falls with every step of the protocol, and only Offer raises it. So until then the "
            "protocol takes no more steps than that, however many loops there are.",
            *comes_to_rest(SUBJECT, rank, unless=("Offer",)),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
