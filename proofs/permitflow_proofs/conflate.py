"""Conflation, for any elements: number, sum and peak are exact, whatever the speeds."""

from permitflow_model.conflate import SYSTEM, Parameters, State
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.symbols import assume, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = SYSTEM.invariants
"""What every reachable state satisfies; proved by induction."""


def _any_size(parameters: Parameters) -> tuple[int]:
    size = natural("size")
    assume(size <= parameters.largest)
    return (size,)


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State, arguments={"Push": _any_size})
"""Conflation with any parameters."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "conflate-", promises=frozenset({"all-given", "never-waits"}))


def _gives_at_once(before: State, after: State, _parameters: Parameters) -> bool:
    """A consumer that asks where something is held is given all of it."""
    return before.held.number == 0 or (not after.asked and after.held.number == 0)


def _gives_one(before: State, after: State, _parameters: Parameters) -> bool:
    return before.held.number == 0 or after.held.number == before.held.number - 1


def _accepts(state: State, parameters: Parameters) -> bool:
    """Until the end, and as long as elements are left, the next one may come: nothing waits."""
    may = state.completed or state.came.number >= parameters.elements
    return may or SYSTEM.is_enabled("Push", state, parameters, 0)


def _accepts_if_empty(state: State, parameters: Parameters) -> bool:
    return state.held.number == 0 and _accepts(state, parameters)


def _ends(state: State, parameters: Parameters) -> bool:
    """Once completed, it has ended, or can end, or holds what the consumer has still to ask for."""
    return not state.completed or state.ended or state.held.number > 0 or SYSTEM.can_move(state, parameters)


def _ends_though_something_is_held(state: State, parameters: Parameters) -> bool:
    return not state.completed or state.ended or SYSTEM.can_move(state, parameters)


# Frames.


def _adds_one(before: State, after: State, _parameters: Parameters) -> bool:
    """Who has asked is given the element; else it is held."""
    given, held = after.given.number - before.given.number, after.held.number - before.held.number
    size = after.came.total - before.came.total
    is_peak = after.came.peak >= size and after.came.peak >= before.came.peak
    return (given, held) == ((1, 0) if before.asked else (0, 1)) and not after.asked and is_peak


def _hands_over(before: State, after: State, _parameters: Parameters) -> bool:
    """All that is held, or the consumer waits; nobody asks after the end."""
    given = after.given.number - before.given.number
    is_asked = after.asked == (before.asked if before.held.number > 0 else True)
    return given == before.held.number and after.held.number == 0 and is_asked and not before.ended


def _may_end(state: State, _parameters: Parameters) -> bool:
    return state.completed and not state.ended and state.held.number == 0


def _has_ended(before: State, _after: State, _parameters: Parameters) -> bool:
    return before.ended


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Push",
        {"came": None, "held": None, "given": None, "asked": None},
        _adds_one,
        "one more is given or held",
    ),
    Frame(
        "Pull",
        {"held": None, "given": None, "asked": None},
        _hands_over,
        "all that is held is given, or it waits",
    ),
    Frame("Complete", {"completed": True}),
    Frame(
        "OnComplete",
        {"ended": True, "asked": False},
        when=_may_end,
        possible="once, after completion, where nothing is held",
    ),
    Frame("OpenStream", dict.fromkeys(State._fields), _has_ended, "after the end only"),
)
"""What each action changes."""

ANY = subject_of(SYSTEM, {"TypeOK": SYSTEM.invariants["TypeOK"]}, Parameters, State, arguments={"Push": _any_size})
"""Conflation in any state of the right types."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No number is ever negative.",
            lambda state, _: state._replace(held=state.held._replace(number=-1)),
            "-1 elements are held",
        ),
        _CHAPTER.kept(
            "conservation",
            "Conservation",
            "The given and the held elements are those that came: in number, sum and peak.",
            lambda state, _: state._replace(given=state.given._replace(total=state.given.total + 1)),
            "after the step the sum is one larger",
        ),
        _CHAPTER.kept(
            "held-for-nobody",
            "HeldForNobody",
            "Nothing is held while somebody waits.",
            lambda state, _: state._replace(asked=True, held=state.held._replace(number=1)),
            "after the step something is held, and somebody waits",
        ),
        _CHAPTER.kept(
            "all-given",
            "AllGiven",
            "At the end everything was given: the last element, too.",
            lambda state, _: state._replace(ended=True, given=state.came._replace(number=state.came.number - 1)),
            "after the step it has ended, and the last element was forgotten",
        ),
        _CHAPTER.theorem(
            "at-once",
            "Pull",
            "A consumer that asks is given all that is held, at once.",
            *SUBJECT.step_obligations(["Pull"], _gives_at_once, _gives_one, "it is given one element"),
        ),
        _CHAPTER.theorem(
            "never-waits",
            "Push",
            "While the stream is open, an element can always be pushed: it is held together with those before it, and "
            "never waits.",
            follows("in every state", _accepts, _accepts_if_empty, "nothing is held"),
        ),
        _CHAPTER.theorem(
            "ends",
            "OnComplete",
            "A completed stream ends as soon as the held elements were asked for.",
            follows("in every state", _ends, _ends_though_something_is_held, "asked for or not"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
