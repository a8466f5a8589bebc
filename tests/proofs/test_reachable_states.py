"""What a proof takes as any state has each reachable one: so no theorem is about fewer states than its sentence says.

States are drawn: parameters of the manifest, with some numbers changed, and a run of the model from its start.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain, islice
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import pytest

import permitflow_proofs
from permitflow_model.exploration import parameters_for
from permitflow_model.kernel.system import System
from permitflow_model.manifest import read_manifest
from permitflow_model.registry import systems
from permitflow_proofs import permit_channel
from permitflow_proofs.kernel.given import Given, given_by
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.paths import Explorer
from permitflow_proofs.kernel.symbols import Integer, equal, limit
from tests.support.bound import bind, bind_parameters

MODULES = sorted(
    f"{package.__name__}.{each.name}"
    for package in (permitflow_proofs, permit_channel)
    for each in iter_modules(package.__path__)
    if not each.ispkg and not each.name.startswith("_")
)


class Case(NamedTuple):
    """A subject of proofs, and the symbols by whose names it looks at members."""

    subject: Subject[Any, Any]
    names: Mapping[str, Integer]


def cases() -> dict[str, Case]:
    """All subjects, each once."""
    found: dict[int, tuple[str, Case]] = {}
    for module in MODULES:
        values = vars(import_module(module))
        names = dict(_symbols(values))
        for name, value in values.items():
            for key, one in value.items() if isinstance(value, dict) else [("", value)]:
                if isinstance(one, Subject):
                    place = f"{module.partition('.')[2]}.{name}{key and '.'}{key}"
                    found.setdefault(id(one), (place, Case(one, names)))
    return dict(found.values())


def _symbols(values: Mapping[str, object]) -> Iterator[tuple[str, Integer]]:
    for value in values.values():
        for one in value if isinstance(value, tuple | list) else [value]:
            if isinstance(one, Integer):
                yield str(one.term), one


CASES = cases()


@cache
def models_of(module: str) -> list[Any]:
    """Parameters of the manifest's models of this module."""
    models = [each for each in read_manifest().values() if each.module == module and not each.actions]
    return list(dict.fromkeys(parameters_for(each) for each in models))


def smallest(parameters: Any) -> Any:
    """The same with each number as small as the others allow: one input, one place."""
    for name, kind in get_type_hints(type(parameters)).items():
        for value in range(getattr(parameters, name)) if kind is int else ():
            with suppress(ValueError):
                parameters = replace(parameters, **{name: value})
                break
    return parameters


def drawn_parameters(module: str, draw: random.Random) -> Any:
    """A model of the manifest, with a few of its numbers changed where it allows that."""
    parameters = draw.choice(models_of(module))
    hints = get_type_hints(type(parameters))
    for field in draw.sample(fields(parameters), min(2, len(fields(parameters)))):
        kind = hints[field.name]
        if kind not in (int, bool) and get_origin(kind) is not Literal:
            continue
        values = range(4) if kind is int else (False, True) if kind is bool else get_args(kind)
        with suppress(ValueError):
            parameters = replace(parameters, **{field.name: draw.choice(values)})
    return parameters


def drawn_state(system: System[Any, Any], parameters: Any, draw: random.Random) -> Any:
    """The end of a run."""
    state = system.initial(parameters)
    for _ in range(draw.randrange(40)):
        steps = list(system.successors(state, parameters))
        if not steps:
            break
        state = draw.choice(steps).state
    return state


def is_possible(claim: Callable[[], object]) -> bool:
    """Is there a way through it?"""
    return any(path.enabled for path in Explorer().paths(claim))


@cache
def given_of(subject: Subject[Any, Any]) -> Given:
    """The parameters that the subject's proofs are about."""
    given = given_by(next(Explorer().paths(subject.any_case)).premises)
    assert given is not None
    return given


def in_focus(state: tuple[Any, ...], order: Sequence[int]) -> list[Any]:
    """The members of the state's only family, those in focus first."""
    (members,) = state
    return [members[name] for name in order if name < len(members)]


def is_one_for_one(station: Any) -> bool:
    """Does its stage give at most one element for one?"""
    return bool(station.most == 1)


def keeps_all(station: Any) -> bool:
    """Does it drop nothing, and give at least one for one?"""
    return station.least >= 1 and not station.drops


def is_short(branch: Any, other: Any) -> bool:
    """Has it no more places than the other one holds more than it does?"""
    return bool(branch.places <= other.hold - branch.hold)


OF_SOME_STATES: Mapping[str, Callable[[list[Any]], bool]] = {
    "diamond._SHORT": lambda branches: is_short(*branches[:2]),
    "feedback_loop._ONE_FOR_ONE": lambda stations: all(map(is_one_for_one, stations)),
    "feedback_loop._STARVING": lambda stations: all(is_one_for_one(one) and keeps_all(one) for one in stations),
    "feedback_loop._GROWING_LOOP": lambda stations: (
        all(map(keeps_all, stations)) and any(one.least >= 2 for one in stations)
    ),
}
"""What the theorems' own sentences say of the members."""

OF_THE_STATE = {"feedback_loop._GROWING_LOOP": "name(2)"}
"""A name that is not any: of the stage of which the sentence says that it is there."""


class Drawn(NamedTuple):
    """A state that is reached."""

    parameters: Any
    state: Any
    order: Sequence[int]
    """The names of members, in the order in which they are in focus."""


def reached(name: str, draw: random.Random) -> Iterator[Drawn]:
    """States of which the theorems speak; the first one has the smallest numbers."""
    subject = CASES[name].subject
    system = systems()[subject.system.module].system
    if {each.name for each in system.actions} == {each.name for each in subject.system.actions}:
        system = subject.system  # perhaps with a mistake
    several = (drawn_parameters(system.module, draw) for _ in range(1_000))
    for parameters in chain([smallest(models_of(system.module)[0])], several):
        if given_of(subject).admits(parameters):
            state, order = drawn_state(system, parameters, draw), draw.sample(range(10), 10)
            if name not in OF_SOME_STATES or OF_SOME_STATES[name](in_focus(state, order)):
                yield Drawn(parameters, state, order)


def is_any_state(name: str, drawn: Drawn, draw: random.Random) -> bool:
    """Is it among the states of which proofs speak, whichever members are looked at by name?"""
    subject, symbols = CASES[name]
    chosen: dict[str, int] = {}

    def any_state(more: Mapping[str, int]) -> Any:
        state, parameters = subject.any_case()
        bind_parameters(parameters, drawn.parameters)
        for one, value in {**chosen, **more}.items():
            limit(equal(symbols[one], value))
        return state

    for one in sorted(symbols.keys() - {OF_THE_STATE.get(name)}):
        values = (value for value in draw.sample(range(6), 6) if is_possible(partial(any_state, {one: value})))
        chosen[one] = next(values, -1)
    return is_possible(lambda: bind(any_state({}), drawn.state, drawn.order))


LARGE = {"staging", "store_journal", "withdrawing_gate"}
SOONEST = {
    **{name: 2 for name in CASES if name.endswith(("ANY", "_ANY"))},
    **{name: 1 for name in CASES if name.endswith(".SUBJECT") and name.partition(".")[0] not in LARGE},
}
"""How many are looked at in `make test`."""


@pytest.mark.parametrize(
    ("count", "name"),
    [
        *((count, name) for name, count in SOONEST.items()),
        *(pytest.param(10, name, marks=pytest.mark.long) for name in CASES),
    ],
)
def test_a_reachable_state_is_any_state(count: int, name: str) -> None:
    draw = random.Random(f"{name} {count}")
    states = list(islice(reached(name, draw), count))
    assert len(states) == count, "no model of the manifest is of these parameters"
    for drawn in states:
        assert is_any_state(name, drawn, draw), drawn
