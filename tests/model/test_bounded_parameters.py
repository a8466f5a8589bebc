"""Parameters are refused below the least value that stands at their fields."""

import re
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_type_hints

import pytest

from permitflow_model.exploration import parameters_for
from permitflow_model.kernel.parameters import AtLeast, Bounded, Natural, Positive
from permitflow_model.manifest import module_paths
from permitflow_model.registry import system_of, systems
from permitflow_model.tla_values import snake_case
from tests.support.specification import MODELS, SPEC


@dataclass(frozen=True, kw_only=True)
class Shop(Bounded):
    desks: Positive
    queue: Natural = 0
    names: tuple[str, ...] = field(default_factory=tuple)


@dataclass(frozen=True, kw_only=True)
class LargeShop(Shop):
    floors: Positive = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.floors > self.desks:
            raise ValueError("floors must be at most desks")


def test_the_least_values_are_accepted() -> None:
    assert Shop(desks=1) == Shop(desks=1, queue=0)
    assert LargeShop(desks=1).floors == 1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"desks": 0}, "desks must be at least 1, not 0"),
        ({"desks": 1, "queue": -1}, "queue must be at least 0, not -1"),
        ({"desks": 1, "floors": 0}, "floors must be at least 1, not 0"),
        ({"desks": 1, "floors": 2}, "floors must be at most desks"),
    ],
)
def test_a_parameter_below_its_least_value_is_refused(wrong: dict[str, int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        LargeShop(**wrong)  # type: ignore[arg-type]  # there are no names among them


UNBOUNDED = {
    ("PermitChannel", "initial_permits"),  # -1: all
    *(("BoundedQueue", name) for name in ("bound", "line")),  # the parameters of what refines it are bounded
}


def parameters_of(name: str) -> Any:
    """Of a model."""
    return parameters_for(next(model for model in MODELS.values() if system_of(model.module) is systems()[name]))


@pytest.mark.parametrize("name", systems())
def test_a_model_refuses_each_number_below_its_least(name: str) -> None:
    """Where none is stated, as at a high mark, which must be at least the low one, no number below 0 will do."""
    parameters = parameters_of(name)
    for field_name, hint in get_type_hints(type(parameters), include_extras=True).items():
        for least in [part.least for part in get_args(hint) if isinstance(part, AtLeast)]:
            with pytest.raises(ValueError, match=f"{field_name} must be at least {least}, not {least - 1}"):
                replace(parameters, **{field_name: least - 1})
        if hint is int and (name, field_name) not in UNBOUNDED:
            with pytest.raises(ValueError, match="must be"):
                replace(parameters, **{field_name: -1})


def assumed_in(specification: str) -> dict[str, int]:
    """The least values of constants that its assumption names as natural or positive numbers."""
    assumption = re.search(r"^ASSUME .*\n((?: .*\n)+)", specification, re.MULTILINE)
    sets = re.findall(r"{?([\w,\s]+?)}? (?:\\in|\\subseteq) Nat( \\ {0})?", assumption[1] if assumption else "")
    return {snake_case(name): int(bool(positive)) for names, positive in sets for name in re.findall(r"\w+", names)}


def test_the_least_values_are_those_of_the_specification() -> None:
    stated = {
        (name, field_name): part.least
        for name in systems()
        for field_name, hint in get_type_hints(type(parameters_of(name)), include_extras=True).items()
        for part in get_args(hint)
        if isinstance(part, AtLeast)
    }
    paths = module_paths(SPEC)
    assumed = {
        (name, constant): least for name in systems() for constant, least in assumed_in(paths[name].read_text()).items()
    }
    del assumed["PermitChannel", "tags"]  # and not 0, as another line says
    compared = stated.keys() & assumed.keys()
    assert len(compared) > 100
    assert {key: stated[key] for key in compared} == {key: assumed[key] for key in compared}
