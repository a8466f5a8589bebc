"""A token bucket, for any capacity, period and costs: what passes in a window, and which consumer it is safe for."""

from functools import partial

from permitflow_model.token_bucket import SYSTEM, Parameters, State, largest_burst, ticks_to_wait
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Refutation
from permitflow_proofs.kernel.symbols import assume, natural, negated
from permitflow_proofs.kernel.theorem import Theorem


def by_the_period(state: State, parameters: Parameters) -> bool:
    """In a window come no more tokens than its periods, the first one begun before it."""
    return parameters.period * state.earned + state.phase <= state.ticks + parameters.period - 1


def paid(state: State, parameters: Parameters) -> bool:
    """Tokens that have passed, wait, or are still in the bucket were there at the beginning or have come since."""
    return state.passed + state.pending + state.level <= largest_burst(parameters) + state.earned


def served(state: State, parameters: Parameters) -> bool:
    """A consumer that keeps its rate has no more to do than has left the bucket."""
    return state.slow or state.queue + state.pending + state.level <= largest_burst(parameters)


INVARIANT = {
    "TypeOK": SYSTEM.invariants["TypeOK"],
    "WaitsForTokens": SYSTEM.invariants["WaitsForTokens"],
    "ByThePeriod": by_the_period,
    "Paid": paid,
    "Served": served,
}
"""What every reachable state satisfies; proved by induction."""


def _any_cost(parameters: Parameters) -> tuple[int]:
    cost = natural("cost", 1)
    assume(cost <= parameters.max_cost)
    return (cost,)


SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State, arguments={"TakeTokens": _any_cost})
"""A token bucket with any parameters."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "token-bucket-", promises=frozenset({"fits", "window"}))


def _within(state: State, parameters: Parameters, *, burst: int) -> bool:
    beyond = state.passed - largest_burst(parameters) - burst
    return parameters.period * beyond <= state.ticks + parameters.period - 1


def _fits(state: State, parameters: Parameters, *, short: int) -> bool:
    assume(negated(parameters.slowdowns))
    assume(negated(state.slow))
    for burst in (parameters.capacity, parameters.max_cost):
        assume(parameters.room >= burst - short)
    return SYSTEM.invariants["Fits"](state, parameters)


def _fits_for_ever(state: State, parameters: Parameters) -> bool:
    return state.queue <= parameters.room or parameters.room < largest_burst(parameters)


def _is_a_tick_less(before: State, after: State, parameters: Parameters, *, ticks: int) -> bool:
    """A waiting element passes when the announced ticks are over, and not later."""
    if before.pending == 0:
        return True
    left = ticks_to_wait(before, parameters)
    if left == 1:
        return after.pending == 0 and after.passed == before.passed + before.pending
    return after.pending == before.pending and ticks_to_wait(after, parameters) == left - ticks


def _is_kept(before: State, after: State, parameters: Parameters, *, most: int) -> bool:
    """A token is lost only where the bucket is full."""
    is_lost = after.earned > before.earned and after.level == before.level
    return not is_lost or before.level >= parameters.capacity + most


_SLOW = Parameters(capacity=2, period=1, max_cost=1, room=4, window=4, slowdowns=True)
"""The numbers of the run that overflows."""


# Frames.


def _pays(before: State, after: State, _parameters: Parameters) -> bool:
    """An element passes or waits; none is lost."""
    passed = after.passed - before.passed
    return (
        after.queue - before.queue == passed
        and after.level + after.pending + passed == before.level
        and after.pending + passed > 0
    )


def _counts_anew(before: State, after: State, _parameters: Parameters) -> bool:
    return after.ticks == 0 and after.earned == 0 and after.passed == 0 and (before.slow or after.queue == before.queue)


def _may_be_slow(_before: State, _after: State, parameters: Parameters) -> bool:
    return parameters.slowdowns


def _keeps_what_waits(before: State, after: State, _parameters: Parameters) -> bool:
    """What waits passes or goes on waiting; at the end of a period a consumer has done one token's worth."""
    passed = after.passed - before.passed
    works = after.earned > before.earned and not before.slow and before.queue > 0
    done = before.queue + passed - after.queue
    return after.pending + passed == before.pending and done == (1 if works else 0)


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "TakeTokens",
        {"level": None, "pending": None, "queue": None, "passed": None},
        _pays,
        "its tokens are taken, and it passes or waits",
    ),
    Frame(
        "OpenWindow",
        {"queue": None, "slow": False, "ticks": None, "earned": None, "passed": None},
        _counts_anew,
        "the counts become 0, and the queue of a slow consumer",
    ),
    Frame("SlowDown", {"slow": True}, _may_be_slow, "only where that is allowed"),
    Frame(
        "Tick",
        {"ticks": +1, "phase": None, "level": None, "queue": None, "earned": None, "pending": None, "passed": None},
        _keeps_what_waits,
        "what waits passes or waits on; at the end of a period a consumer that has not stopped does one token's worth",
    ),
)
"""What each action changes."""

ANY = subject_of(SYSTEM, {}, Parameters, State, arguments={"TakeTokens": _any_cost})
"""A bucket in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and the bucket never keeps more than Capacity.",
            lambda state, parameters: state._replace(level=parameters.capacity + 1),
            "after the step there is a token more than are kept",
        ),
        _CHAPTER.kept(
            "prompt",
            "WaitsForTokens",
            "An element waits if, and only if, tokens are missing.",
            lambda state, _: state._replace(pending=0, level=-1),
            "after the step tokens are missing, and nothing waits",
        ),
        _CHAPTER.kept(
            "earned",
            "ByThePeriod",
            "In a window come no more tokens than its periods.",
            lambda state, parameters: state._replace(earned=state.earned + state.ticks + 2),
            "after the step more have come",
            about="Token",
        ),
        _CHAPTER.kept(
            "paid",
            "Paid",
            "Tokens are never spent twice: those that have passed, wait or are kept were there before or have come "
            "since.",
            lambda state, parameters: state._replace(
                passed=state.passed + largest_burst(parameters) + state.earned + 1 - state.level
            ),
            "after the step more has passed",
            about="TakeTokens",
        ),
        _CHAPTER.kept(
            "served",
            "Served",
            "The work left for a consumer that keeps the rate, and the kept tokens, are together never more than one "
            "burst.",
            lambda state, parameters: state._replace(
                slow=False, queue=state.queue + largest_burst(parameters) + 1 - state.level
            ),
            "after the step it has more to do",
            about="Fits",
        ),
        _CHAPTER.theorem(
            "window",
            "InWindow",
            "In each window pass no more than max(Capacity, MaxCost) and a token for each period of it, rounded up.",
            follows("in every state", partial(_within, burst=0), partial(_within, burst=-1), "a smaller burst"),
        ),
        _CHAPTER.theorem(
            "delay",
            "Tick",
            "An element that lacks n tokens passes in n * Period ticks, less those since the last token: never later, "
            "as in an ideal bucket.",
            *SUBJECT.step_obligations(
                ["Tick"], partial(_is_a_tick_less, ticks=1), partial(_is_a_tick_less, ticks=2), "two ticks at once"
            ),
        ),
        _CHAPTER.theorem(
            "full-rate",
            "Token",
            "A token is lost only where the bucket is full.",
            *SUBJECT.step_obligations(["Tick"], partial(_is_kept, most=0), partial(_is_kept, most=1), "fuller"),
        ),
        _CHAPTER.theorem(
            "fits",
            "Fits",
            "A consumer of that rate never overflows with room for one burst, max(Capacity, MaxCost).",
            follows("in every state", partial(_fits, short=0), partial(_fits, short=1), "one place less"),
        ),
        Theorem(
            id="token-bucket-unsafe",
            statement="False: it never overflows, whatever becomes of its rate.",
            module="TokenBucket",
            operator="SlowDown",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _fits_for_ever,
                    partial(_fits, short=0),
                    "the consumer keeps its rate",
                    SUBJECT.always,
                    SYSTEM,
                    _SLOW,
                ),
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )
