"""A connection between two stages: what holds after any calls, in any order, and that it always comes to its end."""

from functools import partial

from permitflow_model.port_machine import SYSTEM, Parameters, State, left_to_tell
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = SYSTEM.invariants
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""Any connection."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "ports-", promises=frozenset({"ends", "nothing-lost", "push-after-pull"}))


def _answers_a_pull(before: State, after: State, _parameters: Parameters) -> bool:
    return before.demand == 1 and after.demand == 0


def _answers_two(before: State, after: State, _parameters: Parameters) -> bool:
    return before.demand == 2 and after.demand == 0


def _keeps_what_is_on_its_way(before: State, after: State, _parameters: Parameters) -> bool:
    """Ending a stream changes nothing of an element on its way to an inlet that wants it."""
    if before.token != "Pushing" or before.inlet != "open":
        return True
    return after.token == "Pushing" and after.element == 1 and after.events == 1


def _drops_what_is_on_its_way(before: State, after: State, parameters: Parameters) -> bool:
    return _keeps_what_is_on_its_way(before, after._replace(element=0), parameters)


def _element_before_end(before: State, after: State, _parameters: Parameters, *, word: str) -> bool:
    """An inlet that is open hears of an element on its way before anything else."""
    if before.token != "Pushing" or before.inlet != "open":
        return True
    return after.heard == word and after.element == 1 and after.inlet == "open"


_CALLS = ("Pull", "Cancel", "Push", "Complete", "Fail")


def _left_to_tell(state: State, _parameters: Parameters) -> int:
    return left_to_tell(state)


def _is_closed(state: State) -> bool:
    return state.inlet != "open" and state.outlet != "open"


def _ends(state: State, _parameters: Parameters) -> bool:
    """Where nothing is left to tell, both ends are open or both are closed."""
    return state.events > 0 or _is_closed(state) or (state.inlet == "open" and state.outlet == "open")


def _ends_at_once(state: State, _parameters: Parameters) -> bool:
    return _is_closed(state) or (state.inlet == "open" and state.outlet == "open")


def _at_most_two(state: State, _parameters: Parameters, *, most: int) -> bool:
    return left_to_tell(state) <= most


# Frames.


def _asks(before: State, after: State, _parameters: Parameters) -> bool:
    return after.element == 0 and after.events == before.events + (1 if before.outlet == "open" else 0)


def _drops_when_cancelled(before: State, after: State, _parameters: Parameters) -> bool:
    """A cancelled inlet has no element."""
    if before.inlet != "open":
        return after.inlet == before.inlet and after.element == before.element and after.events == before.events
    return after.inlet == "cancelled" and after.element == 0


def _sends_to_an_open_inlet(before: State, after: State, _parameters: Parameters) -> bool:
    more = 1 if before.inlet == "open" else 0
    return after.element == before.element + more and after.events == before.events + more


def _is_closed_on_both_sides(before: State, _after: State, _parameters: Parameters) -> bool:
    return _is_closed(before)


def _closes(before: State, after: State, parameters: Parameters, *, failing: bool) -> bool:
    if failing and not parameters.failures:
        return False
    if before.outlet != "open":
        return after.outlet == before.outlet and after.events == before.events
    return after.outlet == ("failed" if failing and before.inlet == "open" else "completed")


def _hears_what_happened(before: State, after: State, _parameters: Parameters) -> bool:
    """Each end hears the word for what the step does."""
    return all(
        (
            (after.heard == "asked") == (before.token == "Pulling" and after.token == "OutReady"),
            (after.heard == "element") == (before.token == "Pushing" and after.token == "InReady"),
            not (after.heard == "end" and before.outlet == "failed"),
            (after.heard == "end") == (before.inlet == "open" and after.inlet == "completed"),
            (after.heard == "failure") == (before.inlet == "open" and after.inlet == "failed"),
            (after.heard == "cancelled") == (before.outlet == "open" and after.outlet == "cancelled"),
        )
    )


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Pull",
        {"token": "Pulling", "element": None, "events": None, "demand": +1, "heard": "nothing"},
        _asks,
        "element becomes 0, an open outlet will be told",
    ),
    Frame("Grab", {"element": -1, "heard": "nothing"}),
    Frame(
        "Cancel",
        {"inlet": None, "element": None, "events": None, "heard": "nothing"},
        _drops_when_cancelled,
        "an open inlet is cancelled, and its element is dropped",
    ),
    Frame(
        "Push",
        {"token": "Pushing", "element": None, "events": None, "demand": -1, "heard": "nothing"},
        _sends_to_an_open_inlet,
        "an open inlet gets one element",
    ),
    Frame(
        "Complete",
        {"outlet": None, "events": None, "heard": "nothing"},
        partial(_closes, failing=False),
        "an open outlet completes",
    ),
    Frame(
        "Fail",
        {"outlet": None, "events": None, "heard": "nothing"},
        partial(_closes, failing=True),
        "an open outlet fails, unless nobody would hear of it",
    ),
    Frame(
        "ProcessEvent",
        {"token": None, "inlet": None, "outlet": None, "events": None, "heard": None},
        _hears_what_happened,
        "the end that is told hears what happened, and nothing else",
    ),
    Frame(
        "OpenConnection",
        {"token": "InReady", "inlet": "open", "outlet": "open", "demand": None, "heard": "nothing"},
        _is_closed_on_both_sides,
        "where both ends are closed",
    ),
)
"""What each action changes."""

ANY = SUBJECT
"""A connection that satisfies its invariant: what an end hears depends on it."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "one-element",
            "TypeOK",
            "There are never two elements, nor two events, whatever the two stages call.",
            lambda state, _: state._replace(element=2),
            "after the step there are two elements",
        ),
        _CHAPTER.kept(
            "demanded",
            "Demanded",
            "There is one demand while a pull is on its way or the outlet may push, and none otherwise.",
            lambda state, _: state._replace(demand=state.demand + 1),
            "after the step there is a demand more",
        ),
        _CHAPTER.kept(
            "on-its-way",
            "NothingLost",
            "An element on its way to an open inlet is there, and the island will tell of it, ended stream or not.",
            lambda state, _: state._replace(token="Pushing", inlet="open", element=0),
            "after the step it is lost",
        ),
        _CHAPTER.kept(
            "quiet",
            "Quiet",
            "An open connection has an event if, and only if, a pull or an element is on its way.",
            lambda state, _: state._replace(inlet="open", outlet="open", events=0, token="Pulling"),
            "after the step the island does not know of a pull",
        ),
        _CHAPTER.kept(
            "not-overtaken",
            "NotOvertaken",
            "Neither the end nor a failure overtakes an element.",
            lambda state, _: state._replace(token="Pushing", inlet="failed"),
            "after the step the failure was heard, and an element is on its way",
        ),
        _CHAPTER.kept(
            "told",
            "CloseReported",
            "Where one end has closed and the other does not know, the island will tell it.",
            lambda state, _: state._replace(inlet="open", outlet="completed", events=0),
            "after the step nobody will tell the inlet",
        ),
        _CHAPTER.kept(
            "ends-match",
            "EndsMatch",
            "The inlet hears of an end or a failure only if there was one, and the outlet only of a cancellation.",
            lambda state, _: state._replace(inlet="completed", outlet="failed"),
            "after the step the inlet has heard another thing",
        ),
        _CHAPTER.theorem(
            "push-after-pull",
            "Push",
            "An outlet pushes only what was asked for: each push answers one pull.",
            *SUBJECT.step_obligations(["Push"], _answers_a_pull, _answers_two, "two pulls"),
        ),
        _CHAPTER.theorem(
            "nothing-lost",
            "CloseOutlet",
            "A stream that ends or fails while an element is on its way does not lose that element.",
            *SUBJECT.step_obligations(
                ["Complete", "Fail"], _keeps_what_is_on_its_way, _drops_what_is_on_its_way, "the element is dropped"
            ),
        ),
        _CHAPTER.theorem(
            "element-first",
            "ProcessEvent",
            "The next thing that the inlet hears is that element.",
            *SUBJECT.step_obligations(
                ["ProcessEvent"],
                partial(_element_before_end, word="element"),
                partial(_element_before_end, word="end"),
                "the end first",
            ),
        ),
        _CHAPTER.theorem(
            "rest",
            "ProcessEvent",
            "Every event that is run leaves one less, only a call leaves more, and there are never more than two: so "
            "after any call the island rests after at most two.",
            *comes_to_rest(SUBJECT, _left_to_tell, unless=_CALLS, exactly=True),
            follows("two at most", partial(_at_most_two, most=2), partial(_at_most_two, most=1), "one at most"),
        ),
        _CHAPTER.theorem(
            "ends",
            "CloseReported",
            "Where the island is at rest, both ends are open, or both are closed: no stage is left behind.",
            follows("in every state", _ends, _ends_at_once, "at once"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
