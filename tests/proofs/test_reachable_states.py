"""What a proof takes as any state has each reachable one: so no theorem is about fewer states than its sentence says.

States are drawn: parameters of the manifest, with some numbers changed, and a run of the model from its start.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache, partial
from importlib import import_module
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


def drawn_parameters(module: str, draw: random.Random) -> Any:
    """A model of the manifest, with a few of its numbers changed where it allows that."""
    parameters = draw.choice(models_of(module))
    hints = get_type_hints(type(parameters))
    for field in draw.sample(fields(parameters), min(2, len(fields(parameters)))):
        kind = hints[field.name]
        if kind not in (int, bool) and get_origin(kind) is not Literal:
            continue
        values = range(4) if kind is int else (False, True) if kind is bool else get_args(kind)
        try:
            parameters = replace(parameters, **{field.name: draw.choice(values)})
        except ValueError:
            continue
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


@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", CASES)
def test_a_reachable_state_is_any_state(name: str, count: int) -> None:
    draw = random.Random(f"{name} {count}")
    case = CASES[name]
    module = case.subject.system.module
    system = systems()[module].system
    if {each.name for each in system.actions} == {each.name for each in case.subject.system.actions}:
        system = case.subject.system  # perhaps with a mistake
    looked_at = 0
    for _ in range(1_000):
        parameters = drawn_parameters(module, draw)
        if given_of(case.subject).admits(parameters):
            state = drawn_state(system, parameters, draw)
            assert is_admitted(case, parameters, state, draw), (parameters, state)
            looked_at += 1
        if looked_at == count:
            return
    raise AssertionError("no model of the manifest is of these parameters")
