"""``TokenBucket.tla``, action for action: a throttle that lets elements pass at a rate, and bursts up to its capacity.

An optimistic technique: it is safe for a consumer of that rate only.  docs/protocols/optimistic.md explains it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    capacity: Natural
    """The most tokens that are kept."""

    period: Positive
    """Ticks from one token to the next."""

    max_cost: Positive
    """The most tokens that an element takes; it may be more than are kept."""

    room: Natural
    """Places of the consumer behind the throttle, in tokens' worth."""

    window: Positive
    """Ticks of the longest window that is looked at."""

    slowdowns: bool = False
    """May the consumer become slower than the rate?"""


class State(NamedTuple):
    """The variables of the specification."""

    level: int
    phase: int
    pending: int
    queue: int
    slow: bool
    ticks: int
    earned: int
    passed: int


def largest_burst(parameters: Parameters) -> int:
    """The most that passes at once: all kept tokens, or one element that takes more."""
    return max(parameters.capacity, parameters.max_cost)


def ticks_to_wait(state: State, parameters: Parameters) -> int:
    """Ticks until the element that waits passes; 0 if none waits."""
    return 0 if state.pending == 0 else -state.level * parameters.period - state.phase


def initial(parameters: Parameters) -> State:
    """The bucket is full."""
    return State(level=parameters.capacity, phase=0, pending=0, queue=0, slow=False, ticks=0, earned=0, passed=0)


def let_pass(state: State, cost: int) -> State:
    """An element passes to the consumer."""
    return state._replace(pending=0, queue=state.queue + cost, passed=state.passed + cost)


def take_tokens(state: State, _parameters: Parameters, cost: int) -> State:
    """An element comes: it takes its tokens, and waits for those that are missing."""
    require(state.pending == 0)
    after = state._replace(level=state.level - cost)
    return let_pass(after, cost) if after.level >= 0 else after._replace(pending=cost)


def open_window(state: State, _parameters: Parameters) -> State:
    """Somebody begins to count what passes; a consumer that has stopped starts anew, with nothing to do."""
    queue = 0 if state.slow else state.queue
    return state._replace(queue=queue, slow=False, ticks=0, earned=0, passed=0)


def slow_down(state: State, parameters: Parameters) -> State:
    """The consumer stops."""
    require(parameters.slowdowns)
    require(not state.slow)
    return state._replace(slow=True)


def tick(state: State, parameters: Parameters) -> State:
    """Time passes; at the end of a period a token comes, and the consumer is done with one token's worth."""
    require(state.ticks < parameters.window)
    after = state._replace(ticks=state.ticks + 1)
    if state.phase + 1 < parameters.period:
        return after._replace(phase=state.phase + 1)
    level = state.level + 1 if state.level < parameters.capacity else state.level
    queue = state.queue - 1 if state.queue > 0 and not state.slow else state.queue
    after = after._replace(phase=0, level=level, queue=queue, earned=state.earned + 1)
    return let_pass(after, state.pending) if state.pending > 0 and level == 0 else after


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range; nobody waits while there are tokens."""
    return (
        -state.pending <= state.level <= parameters.capacity
        and 0 <= state.phase < parameters.period
        and 0 <= state.pending <= parameters.max_cost
        and state.queue >= 0
        and 0 <= state.ticks <= parameters.window
        and state.earned >= 0
        and state.passed >= 0
    )


def waits_for_tokens(state: State, _parameters: Parameters) -> bool:
    """An element waits if, and only if, tokens are missing: none is held back longer than that."""
    return (state.pending > 0) == (state.level < 0)


def in_window(state: State, parameters: Parameters) -> bool:
    """In a window pass no more than the largest burst and the tokens of its ticks, rounded up."""
    beyond = state.passed - largest_burst(parameters)
    return parameters.period * beyond <= state.ticks + parameters.period - 1


def fits(state: State, parameters: Parameters) -> bool:
    """The consumer has room for all that has passed."""
    return state.queue <= parameters.room


def _costs(parameters: Parameters) -> list[tuple[int]]:
    return [(cost,) for cost in range(1, parameters.max_cost + 1)]


SYSTEM: System[State, Parameters] = System(
    module="TokenBucket",
    initial=initial,
    actions=(
        Action("TakeTokens", take_tokens, _costs, is_environment=True),
        Action("OpenWindow", open_window, is_environment=True),
        Action("SlowDown", slow_down, is_environment=True),
        Action("Tick", tick),
    ),
    invariants={"TypeOK": type_ok, "WaitsForTokens": waits_for_tokens, "InWindow": in_window, "Fits": fits},
    probes={
        "NothingWaitsProbe": lambda state, _: state.pending == 0,
        "NoBurstProbe": lambda state, parameters: parameters.period * (state.passed - 1) <= state.ticks,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.token_bucket:theorems")
