"""A diamond of any number of branches of any lengths: the places that are exactly enough, in both directions.

All branches have got as many elements and given as many, so they hold as many.  A branch that has no place holds
``hold + places`` of them; one that has given nothing, at most its own ``hold``.  So the two stand against each other if
and only if the second number is at least the first.
"""

from dataclasses import replace
from functools import partial

from permitflow_model.diamond import SYSTEM, Branch, Parameters, State, has_given, level
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, assume_all, subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily, each_in_focus
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "SameLevel")}
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""Any number of branches; one is in focus."""


def _any_branches(parameters: Parameters) -> State:
    return State(SymbolicFamily.any_of_size("branches", any_value(Branch), parameters.branches))


def _several() -> Parameters:
    parameters = any_parameters_of(Parameters)
    assume(parameters.branches >= 2)
    return parameters


PAIR = Subject(
    SYSTEM,
    _several,
    lambda parameters: assume_all(INVARIANT.values(), _any_branches(parameters), parameters),
)
"""Any two branches of any number of them are in focus."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "diamond-", promises=frozenset({"live", "stuck"}))


def _is_at_most(branch: Branch, hold: int) -> bool:
    return branch.hold <= hold


def _has_places(branch: Branch, hold: int) -> bool:
    return branch.places > hold - branch.hold


def _live(state: State, parameters: Parameters, *, short: int) -> bool:
    """With the largest hold of all, or any number that is not below one of them."""
    largest = natural("largest_hold")
    assume(state.branches.every(_is_at_most, largest))
    assume(state.branches.every(_has_places, largest - short))
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _is_short(state: State, nearer: int) -> tuple[Branch, Branch]:
    """Two branches: the first has too few places for what the other one holds more."""
    short, longer = state.branches.get(0), state.branches.get(1)
    assume(short.places <= longer.hold - short.hold + nearer)
    return short, longer


def _any_short_state(parameters: Parameters) -> State:
    state = PAIR.any_state(parameters)
    _is_short(state, 0)
    return state


_SHORT = replace(PAIR, any_state=_any_short_state)
"""The first of the two has too few places."""


def _nothing_comes_out(state: State, parameters: Parameters, *, nearer: int) -> bool:
    _is_short(state, nearer)
    return not SYSTEM.is_enabled("Zip", state, parameters)


def _still_to_take(state: State, _parameters: Parameters) -> int:
    """At most this many more elements are taken from the source: what the short branch holds, and has places for."""
    short = state.branches.get(0)
    return short.hold + short.places - level(short)


# Frames.


def _gets_one(before: Branch, after: Branch) -> bool:
    is_held_back = before.kept < before.hold
    kept, queue = (1, 0) if is_held_back else (0, 1)
    return after.kept == before.kept + kept and after.queue == before.queue + queue


def _all_get_one(before: State, after: State, _parameters: Parameters) -> bool:
    return each_in_focus(lambda name: _gets_one(before.branches.get(name), after.branches.get(name)), before.branches)


def _each_has_given(state: State, _parameters: Parameters) -> bool:
    return state.branches.every(has_given)


def _each_has_a_place(branch: Branch) -> bool:
    return branch.queue < branch.places


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Broadcast",
        dict.fromkeys(
            ("branches.0.kept", "branches.0.queue", "branches.1.kept", "branches.1.queue", "branches.others")
        ),
        _all_get_one,
        "each branch: kept +1 up to hold, then queue +1",
        when=lambda state, _: state.branches.every(_each_has_a_place),
        possible="where each branch has a place",
    ),
    Frame(
        "Zip",
        {"branches.0.queue": -1, "branches.1.queue": -1, "branches.others": None},
        words="likewise each of the others",
        when=_each_has_given,
        possible="where an element of each branch waits",
    ),
)
"""What each action changes in any two branches."""

ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_branches)
"""Any two of any number of branches, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "A branch gives nothing for its first elements, and never holds more than it has places for.",
            lambda state, _: State(state.branches.put(0, state.branches.get(0)._replace(kept=-1))),
            "after the step it has -1 of them",
        ),
        _CHAPTER.kept(
            "same-level",
            "SameLevel",
            "All branches have got as many elements, and given as many.",
            lambda state, _: State(
                state.branches.put(0, state.branches.get(0)._replace(queue=state.branches.get(0).queue + 1))
            ),
            "after the step the first one has one more",
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "A diamond is never stuck if each branch has more places than the largest hold of all exceeds its own: a "
            "buffer for the difference, and the place at the zip.",
            SUBJECT.holds_whenever_invariant(
                "any number of branches", partial(_live, short=0), partial(_live, short=1), "one place less"
            ),
        ),
        _CHAPTER.theorem(
            "stuck",
            "NeverStuck",
            "If a branch has no more places than another one holds more than it does, every run gets stuck: nothing "
            "ever comes out, and each element that is taken from the source lowers what its hold and its places leave: "
            "so no more than these are taken.",
            PAIR.holds_whenever_invariant(
                "nothing comes out",
                partial(_nothing_comes_out, nearer=0),
                partial(_nothing_comes_out, nearer=1),
                "one place more",
            ),
            *comes_to_rest(_SHORT, _still_to_take, steps=("Broadcast",), unless=("Zip",), exactly=True),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
