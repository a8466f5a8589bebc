"""What a proof takes as any state has each reachable one: so no theorem is about fewer states than its sentence says.

States are drawn: parameters of the manifest, with some numbers changed, and a run of the model from its start.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
from itertools import chain, islice
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import pytest

import permitflow_proofs
from permitflow_model import feedback_loop
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


def is_admitted(case: Case, parameters: Any, state: Any, draw: random.Random) -> bool:
    """Is the state among those that are taken as any state, whichever members are looked at?"""
    order, chosen = draw.sample(range(10), 10), dict[str, int]()

    def any_state(more: Mapping[str, int]) -> Any:
        symbolic, made = case.subject.any_case()
        bind_parameters(made, parameters)
        for name, value in {**chosen, **more}.items():
            limit(equal(case.names[name], value))
        return symbolic

    for name in case.names:
        values = (value for value in draw.sample(range(6), 6) if is_possible(partial(any_state, {name: value})))
        chosen[name] = next(values)
    return is_possible(lambda: bind(any_state({}), state, order))


def gives_one_for_one(state: feedback_loop.State) -> bool:
    """Does each stage give at most one element for one?"""
    return all(station.most == 1 for station in state.stations)


def makes_more(state: feedback_loop.State) -> bool:
    """Does one stage give two and more for an element, and does no other lose any?"""
    stations = state.stations
    return all(one.least >= 1 and not one.drops for one in stations) and any(one.least >= 2 for one in stations)


OF_SOME_STATES: Mapping[str, Callable[[Any], bool]] = {
    "feedback_loop._ONE_FOR_ONE": gives_one_for_one,
    "feedback_loop._GROWING_LOOP": makes_more,
    "feedback_loop._STARVING": gives_one_for_one,
}
"""Those that the theorems' own sentences tell."""

OF_THE_STATE: Mapping[str, frozenset[str]] = {"feedback_loop._GROWING_LOOP": frozenset({"name(2)"})}
"""Names that are not any: of the stage of which the sentence says that it is there."""


def reached(name: str, draw: random.Random) -> Iterator[tuple[Any, Any]]:
    """Parameters that the subject is about, and a state each; first with the smallest numbers."""
    subject = CASES[name].subject
    system = systems()[subject.system.module].system
    if {each.name for each in system.actions} == {each.name for each in subject.system.actions}:
        system = subject.system  # perhaps with a mistake
    several = (drawn_parameters(system.module, draw) for _ in range(1_000))
    for parameters in chain([smallest(models_of(system.module)[0])], several):
        if given_of(subject).admits(parameters):
            state = drawn_state(system, parameters, draw)
            if name not in OF_SOME_STATES or OF_SOME_STATES[name](state):
                yield parameters, state


def sampled(count: int, *names: str) -> list[Any]:
    return [
        pytest.param(name, count, id=f"{name}-{count}", marks=pytest.mark.long if count > 2 else ()) for name in names
    ]


OF_FRAMES = [name for name in CASES if name.endswith(("ANY", "_ANY"))]
"""Any state at all: these are looked at soonest."""


@pytest.mark.parametrize(("name", "count"), [*sampled(2, *OF_FRAMES), *sampled(10, *CASES)])
def test_a_reachable_state_is_any_state(name: str, count: int) -> None:
    draw = random.Random(f"{name} {count}")
    subject, names = CASES[name]
    case = Case(subject, {each: names[each] for each in names if each not in OF_THE_STATE.get(name, ())})
    states = list(islice(reached(name, draw), count))
    assert len(states) == count, "no model of the manifest is of these parameters"
    for parameters, state in states:
        assert is_admitted(case, parameters, state, draw), (parameters, state)
