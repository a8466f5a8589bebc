"""A queue that drops, of any size and at any rates: how long those have waited who are served.

Two measures of a watched job.  Behind it are all jobs that came after it, if only the oldest are dropped.  Ahead of it
are those that it must let pass.  Each tick adds to the one, or takes from the other.
"""

from functools import partial

from permitflow_model.drop_queue import SYSTEM, Parameters, State, fresh_capacity
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Refutation
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem


def behind(state: State, parameters: Parameters) -> bool:
    """If the oldest are dropped, as many jobs are behind a watched one as have come since it came."""
    if not state.watched or parameters.drops != "oldest":
        return True
    is_behind = state.size - 1 - state.ahead
    return parameters.arrivals * state.waited + state.came <= is_behind + parameters.arrivals


def ahead(state: State, parameters: Parameters) -> bool:
    """As many jobs were ahead of a watched one as were served since it came, and as still are."""
    if not state.watched:
        return True
    return parameters.services * state.waited + state.served + state.ahead <= parameters.capacity - 1


def fresh_if_short(state: State, parameters: Parameters) -> bool:
    """No job is served that was sent again, if the queue is short enough for what it drops."""
    return not state.outdated or parameters.capacity > fresh_capacity(parameters)


INVARIANT = {
    "TypeOK": SYSTEM.invariants["TypeOK"],
    "Behind": behind,
    "Ahead": ahead,
    "FreshIfShort": fresh_if_short,
}
"""What every reachable state satisfies; proved by induction."""


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""A queue with any parameters."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "drop-",
    promises=frozenset(
        {
            "oldest-fresh",
            "any-fresh",
        }
    ),
)


def _served_within(before: State, after: State, parameters: Parameters, *, oldest: bool, short: int) -> bool:
    """A watched job that is served has waited for no more than one queue's worth of arrivals, or of services."""
    assume((parameters.drops == "oldest") == oldest)
    rate = parameters.arrivals if oldest else parameters.services
    is_it = before.watched and not after.watched
    return not is_it or rate * before.waited <= parameters.capacity - 1 - short


def _fresh(state: State, parameters: Parameters, *, by_arrivals: bool, beyond: int) -> bool:
    """Each of the two rules of ``fresh_capacity``, by itself."""
    if by_arrivals:
        assume(parameters.drops == "oldest")
    rate = parameters.arrivals if by_arrivals else parameters.services
    assume(parameters.capacity <= rate * parameters.resend + beyond)
    return SYSTEM.invariants["Fresh"](state, parameters)


def _fresh_at_the_tail(state: State, parameters: Parameters) -> bool:
    """The rule for the oldest, used for the others."""
    is_long = parameters.drops == "oldest" or parameters.capacity > parameters.arrivals * parameters.resend
    return is_long or not state.outdated


def _short(state: State, parameters: Parameters) -> bool:
    return _fresh(state, parameters, by_arrivals=False, beyond=0)


_TAIL = Parameters(capacity=6, arrivals=2, services=1, resend=3, drops="incoming")
"""The numbers of the run in which the incoming job is dropped, and an outdated one is served."""


# Frames.


def _is_full(state: State, parameters: Parameters) -> bool:
    return state.size >= parameters.capacity


def _makes_room(before: State, after: State, parameters: Parameters) -> bool:
    return after.size == (before.size if _is_full(before, parameters) else before.size + 1)


def _drops_one(before: State, after: State, parameters: Parameters) -> bool:
    """One job of a full queue gives way, by its strategy: perhaps the watched one, or one ahead of it."""
    if not _makes_room(before, after, parameters):
        return False
    if not _is_full(before, parameters) or not before.watched or parameters.drops == "incoming":
        return after.watched == before.watched and after.ahead == before.ahead
    if parameters.drops == "youngest":
        is_dropped, ahead = before.ahead == before.size - 1, before.ahead
    else:
        is_dropped, ahead = before.ahead == 0, before.ahead - 1
    return not after.watched if is_dropped else after.watched and after.ahead == ahead


def _lets_in(before: State, after: State, parameters: Parameters) -> bool:
    """It is the youngest."""
    return _makes_room(before, after, parameters) and after.ahead == after.size - 1


def _may_be_watched(state: State, parameters: Parameters) -> bool:
    """Nobody drops it as it comes."""
    comes_in = not _is_full(state, parameters) or parameters.drops != "incoming"
    return comes_in and state.came < parameters.arrivals and not state.watched


def _serves_the_oldest(before: State, after: State, parameters: Parameters) -> bool:
    """It is known whether a watched job was sent again."""
    if not before.watched or before.ahead > 0:
        is_next = after.ahead == before.ahead - (1 if before.watched else 0)
        return is_next and after.watched == before.watched and after.outdated == before.outdated
    is_late = before.outdated or before.waited >= parameters.resend
    return not after.watched and after.outdated == is_late


def _begins_a_tick(before: State, after: State, _parameters: Parameters) -> bool:
    waited = before.waited + 1 if before.watched else 0
    return after.came == 0 and after.served == 0 and after.waited == waited


_JOB: dict[str, Change] = dict.fromkeys(("watched", "ahead", "waited"))

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Arrive",
        {"came": +1, "size": None, **_JOB},
        _drops_one,
        "size +1; if full, one gives way",
    ),
    Frame(
        "ArriveWatched",
        {"came": +1, "size": None, "watched": True, "ahead": None},
        _lets_in,
        "likewise; all others are ahead",
        when=_may_be_watched,
        possible="while jobs of the tick come, none is watched, and the queue is not full or drops another one",
    ),
    Frame(
        "Serve",
        {"size": -1, "served": +1, **_JOB, "outdated": None},
        _serves_the_oldest,
        "the oldest",
    ),
    Frame(
        "Tick",
        {"came": None, "served": None, "waited": None},
        _begins_a_tick,
        "a watched job has waited one more",
    ),
)
"""What each action changes."""

ANY = subject_of(SYSTEM, {}, Parameters, State)
"""A queue in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "The queue never holds more than its capacity, and a watched job is in it.",
            lambda state, parameters: state._replace(size=parameters.capacity + 1),
            "after the step there is a job more",
        ),
        _CHAPTER.kept(
            "behind",
            "Behind",
            "If the oldest are dropped: at least as many jobs are behind a watched one as come in the ticks that it "
            "has waited, less those of one tick.",
            lambda state, parameters: state._replace(
                watched=True, ahead=0, size=1, waited=1 + parameters.capacity, came=1
            ),
            "after the step it has waited longer, and nothing is behind it",
            about="Arrive",
            breaks=lambda state, parameters: parameters.drops != "oldest" or behind(state, parameters),
        ),
        _CHAPTER.kept(
            "ahead",
            "Ahead",
            "The jobs that are ahead of a watched one, and those that were served since it came, are together at most "
            "Capacity - 1.",
            lambda state, parameters: state._replace(watched=True, ahead=state.ahead + parameters.capacity),
            "after the step more are ahead of it",
            about="Serve",
        ),
        _CHAPTER.kept(
            "fresh",
            "FreshIfShort",
            "No job is served that was sent again, if the queue is short enough.",
            lambda state, parameters: state._replace(
                outdated=parameters.capacity <= parameters.services * parameters.resend
                and parameters.capacity <= parameters.arrivals * parameters.resend
            ),
            "after the step one was, in a short queue",
            about="Fresh",
        ),
        _CHAPTER.theorem(
            "oldest-waits",
            "Serve",
            "If the oldest are dropped, a job that is served has waited (Capacity - 1) / Arrivals ticks at most.",
            *SUBJECT.step_obligations(
                ["Serve"],
                partial(_served_within, oldest=True, short=0),
                partial(_served_within, oldest=True, short=1),
                "less",
            ),
        ),
        _CHAPTER.theorem(
            "tail-waits",
            "Serve",
            "If the youngest or the incoming job is dropped, it has waited (Capacity - 1) / Services ticks at most.",
            *SUBJECT.step_obligations(
                ["Serve"],
                partial(_served_within, oldest=False, short=0),
                partial(_served_within, oldest=False, short=1),
                "less",
            ),
        ),
        _CHAPTER.theorem(
            "oldest-fresh",
            "Fresh",
            "No duplicates if the oldest are dropped and Capacity <= Arrivals * Resend: the more comes, the longer the "
            "queue may be.",
            follows(
                "in every state",
                partial(_fresh, by_arrivals=True, beyond=0),
                partial(_fresh, by_arrivals=True, beyond=1),
                "a place more",
            ),
        ),
        _CHAPTER.theorem(
            "any-fresh",
            "Fresh",
            "No duplicates, whichever job is dropped and however many come, if Capacity <= Services * Resend.",
            follows(
                "in every state",
                partial(_fresh, by_arrivals=False, beyond=0),
                partial(_fresh, by_arrivals=False, beyond=1),
                "a place more",
            ),
        ),
        Theorem(
            id="drop-wrong-end",
            statement="False: Capacity <= Arrivals * Resend is short enough for the other strategies, too.",
            module="DropQueue",
            operator="Fresh",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _fresh_at_the_tail,
                    _short,
                    "Capacity <= Services * Resend",
                    SUBJECT.always,
                    SYSTEM,
                    _TAIL,
                ),
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
