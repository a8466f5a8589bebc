"""``Conflate.tla``, action for action: a stage that adds up elements that come while nobody asks, and gives the sum.

An optimistic technique: nothing waits, and single elements are gone.  docs/protocols/optimistic.md explains it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    elements: Positive
    """Elements that come, at most."""

    largest: Natural
    """The largest element; the smallest is 0."""


class Summary(NamedTuple):
    """Elements, added up: enough for a count, a sum, a mean and a peak."""

    number: int
    total: int
    peak: int


NOTHING = Summary(0, 0, 0)


class State(NamedTuple):
    """The variables of the specification."""

    came: Summary
    held: Summary
    given: Summary
    asked: bool
    completed: bool
    ended: bool


def together(one: Summary, other: Summary) -> Summary:
    """Both, added up."""
    return Summary(
        one.number + other.number,
        one.total + other.total,
        one.peak if one.peak >= other.peak else other.peak,
    )


def initial(_parameters: Parameters) -> State:
    """Nothing has come, and nobody has asked."""
    return State(came=NOTHING, held=NOTHING, given=NOTHING, asked=False, completed=False, ended=False)


def push(state: State, parameters: Parameters, size: int) -> State:
    """An element comes: it is given to a consumer that has asked, or added to the held sum."""
    require(not state.completed)
    require(state.came.number < parameters.elements)
    element = Summary(1, size, size)
    after = state._replace(came=together(state.came, element))
    if state.asked:
        return after._replace(asked=False, given=together(state.given, element))
    return after._replace(held=together(state.held, element))


def pull(state: State, _parameters: Parameters) -> State:
    """The consumer asks: it is given all that is held, or the next element."""
    require(not state.asked)
    require(not state.ended)
    if state.held.number > 0:
        return state._replace(held=NOTHING, given=together(state.given, state.held))
    return state._replace(asked=True)


def complete(state: State, _parameters: Parameters) -> State:
    """No more elements come."""
    require(not state.completed)
    return state._replace(completed=True)


def on_complete(state: State, _parameters: Parameters) -> State:
    """The consumer is told that nothing more comes, once nothing is held."""
    require(state.completed)
    require(not state.ended)
    require(state.held.number == 0)
    return state._replace(ended=True, asked=False)


def open_stream(state: State, parameters: Parameters) -> State:
    """Another stream."""
    require(state.ended)
    return initial(parameters)


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        state.came.number <= parameters.elements
        and state.held.number >= 0
        and state.given.number >= 0
        and 0 <= state.held.peak <= parameters.largest
        and 0 <= state.given.peak <= parameters.largest
        and (state.held.number > 0 or (state.held.total == 0 and state.held.peak == 0))
    )


def conservation(state: State, _parameters: Parameters) -> bool:
    """Given and held elements are exactly those that came: in number, sum and peak."""
    return together(state.given, state.held) == state.came


def held_for_nobody(state: State, _parameters: Parameters) -> bool:
    """Nothing is held while somebody waits."""
    return not state.asked or state.held.number == 0


def all_given(state: State, _parameters: Parameters) -> bool:
    """At the end everything was given."""
    return not state.ended or (state.completed and state.given == state.came)


def _sizes(parameters: Parameters) -> list[tuple[int]]:
    return [(size,) for size in range(parameters.largest + 1)]


SYSTEM: System[State, Parameters] = System(
    module="Conflate",
    initial=initial,
    actions=(
        Action("Push", push, _sizes, is_environment=True),
        Action("Pull", pull, is_environment=True),
        Action("Complete", complete, is_environment=True),
        Action("OpenStream", open_stream, is_environment=True),
        Action("OnComplete", on_complete),
    ),
    invariants={
        "TypeOK": type_ok,
        "Conservation": conservation,
        "HeldForNobody": held_for_nobody,
        "AllGiven": all_given,
    },
    probes={"SingleElementsProbe": lambda state, _: state.held.number <= 1},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.conflate:theorems")
