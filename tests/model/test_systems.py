"""Each model says what its specification says, name by name; a new system is looked at because its files are there."""

import re
from inspect import signature
from typing import Any, get_type_hints

import pytest

from permitflow_model.exploration import explore_model, is_explorable
from permitflow_model.manifest import Model, module_paths, parts_of, whole_text
from permitflow_model.mistakes import mistakes_in
from permitflow_model.registry import recorded_as, system_of, systems
from permitflow_model.tla_values import camel_case, snake_case
from permitflow_testing.subjects.table import SUBJECTS
from tests.support.specification import MODELS, SPEC

each_system = pytest.mark.parametrize("name", systems())


def text_of(name: str) -> str:
    """The module, with the one with its probes if they have one of their own."""
    probes = f"{name}Probes"
    return whole_text(probes if probes in module_paths(SPEC) else name)


def declared(text: str, keyword: str) -> list[str]:
    """The names that a block declares: one per line, with a comment each."""
    found = re.search(rf"^{keyword}\n((?:    .*\n)+)", text, re.MULTILINE)
    assert found is not None, keyword
    return re.findall(r"^ +(\w+),? +\\\*", found[1], re.MULTILINE)


def operators(text: str) -> list[str]:
    return re.findall(r"^(\w+)(?:\(.*\))? ==", text, re.MULTILINE)


def state_of(name: str) -> Any:
    """The type of the states: what ``initial`` returns."""
    return get_type_hints(systems()[name].system.initial)["return"]


def test_the_systems_are_those_that_have_a_module_in_both_languages() -> None:
    assert {*systems()} >= {"BoundedQueue", "PermitChannel", "SparkMicroBatch"}
    assert system_of("SparkMicroBatchProbes") is systems()["SparkMicroBatch"]
    assert system_of("PermitChannelHistory") is None


def test_a_name_that_is_registered_leads_to_what_it_says() -> None:
    for name, registered in systems().items():
        assert registered.system.module == name
        assert {theorem.module for theorem in registered.load_theorems()} <= {*module_paths(SPEC)}
        assert bool(registered.theorems) == bool(registered.load_theorems())
        assert {registered.probes, registered.steps} <= {"", *module_paths(SPEC)}
        subject = SUBJECTS[registered.flow] if registered.flow else None
        assert subject is None or (subject.system, subject.table.flow) == (registered.system, registered.flow)


def test_a_protocol_is_found_by_what_recordings_call_it() -> None:
    assert recorded_as("demand") is systems()["Demand"]
    assert recorded_as("smoke-signals") is None
    assert recorded_as("") is None


def test_every_mistake_in_tla_is_made_in_python_and_tried() -> None:
    for name in [name for name in module_paths(SPEC) if name.endswith("Mistakes")]:
        models = [model for model in MODELS.values() if model.module == name]
        tried = {action for model in models for action in model.actions.items()}
        known = mistakes_in(name.removesuffix("Mistakes"))
        assert {(known[wrong].action, wrong) for _, wrong in tried} == tried
        defined = set(operators(module_paths(SPEC)[name].read_text()))
        assert {wrong for _, wrong in tried} == {each for each in defined if each in known}
        assert [model for model in models if model.graph]


@each_system
def test_constants_and_variables_have_the_same_names(name: str) -> None:
    text, make = text_of(name), systems()[name].parameters
    constants = ["".join(part.capitalize() for part in name.split("_")) for name in signature(make).parameters]
    assert [constant for constant in declared(text, "CONSTANTS") if constant != "Fair"] == constants
    assert declared(text, "VARIABLES") == [camel_case(variable) for variable in state_of(name)._fields]


@each_system
def test_actions_invariants_and_probes_have_the_same_names(name: str) -> None:
    text, system = text_of(name), systems()[name].system
    defined = operators(text)
    actions = [action.name for action in system.actions]
    assert set(actions) <= set(defined)
    assert [camel_case(f"_{action.perform.__name__}") for action in system.actions] == actions
    assert set(system.invariants) <= set(defined)
    assert [*system.probes] == [operator for operator in defined if operator.endswith("Probe")]


@each_system
def test_an_action_is_in_the_file_of_its_module(name: str) -> None:
    modules = {action: part for part, path in parts_of(name).items() for action in operators(path.read_text())}
    for action in systems()[name].system.actions:
        if not action.perform.__module__.startswith("permitflow_model.kernel."):
            assert action.perform.__module__ == f"permitflow_model.{snake_case(modules[action.name])}", action.name


def test_the_textbook_example_is_named_by_its_own_files_only() -> None:
    rooms = ("impl", "model", "proofs", "spec")
    files = [path for room in rooms for path in (SPEC.parent / room).rglob("*.*") if "_pb2" not in path.name]
    naming = [
        path.name
        for path in files
        if path.suffix in (".py", ".tla", ".toml") and re.search("StopAndWait|stop_and_wait", path.read_text())
    ]
    assert set(naming) == {"StopAndWait.tla", "StopAndWaitRefinement.tla", "models.toml", "stop_and_wait.py"}


def test_the_textbook_page_names_actions_and_who_performs_them() -> None:
    page = (SPEC.parent / "docs/guides/adding-a-protocol.md").read_text()
    told = re.findall(r"^\| `(\w+)` \| (application|sender|receiver) \|", page, re.MULTILINE)
    actions = systems()["StopAndWait"].system.actions
    assert told == [(action.name, "application" if action.is_environment else action.end) for action in actions]


def test_the_page_tells_what_a_protocol_costs_to_a_tenth() -> None:
    """Each row, and the sums of all and of those in ``impl/``."""
    page = SPEC.parent / "docs/guides/adding-a-protocol.md"
    rows = re.findall(r"^\|[^|]*\| \[.*?\]\((\S+)\) \| (\d+) \|", page.read_text(), re.MULTILINE)
    lines = {(page.parent / path).resolve(): int(told) for path, told in rows}
    for path, told in lines.items():
        assert len(path.read_text().splitlines()) == pytest.approx(told, rel=0.1), path.name
    sums = re.search(r"some ([\d,]+) lines in (\d+) files, of which `impl/` has (\d+) in (\d+)", page.read_text())
    assert sums is not None
    of_impl = [told for path, told in lines.items() if "impl" in path.relative_to(SPEC.parent.resolve()).parts]
    expected = sum(lines.values()), len(lines), sum(of_impl), len(of_impl)
    assert [int(each.replace(",", "")) for each in sums.groups()] == pytest.approx(expected, rel=0.01)


# A queue is not told apart from its application.
@pytest.mark.parametrize("name", sorted({*systems()} - {"BoundedQueue"}))
def test_environment_and_protocol_have_the_same_actions(name: str) -> None:
    text, system = text_of(name), systems()[name].system
    found = re.search(r"^Environment ==(.*?)^Protocol ==(.*?)^Next ==", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    for block, is_environment in zip(found.groups(), (True, False), strict=True):
        sets = {"Sizes", "Names", "Offsets", "MostBytes", "UpToHorizon", "UpToWindow", "Homes"}
        sets |= {"TaskNames", "AttemptNames", *declared(text, "CONSTANTS")}
        named = [word for word in re.findall(r"\b[A-Z]\w+", block) if word not in sets]
        assert named == [action.name for action in system.actions if action.is_environment is is_environment]


@each_system
def test_a_model_confirms_every_invariant_and_refutes_every_probe(name: str) -> None:
    system = systems()[name].system
    models = [model for model in MODELS.values() if system_of(model.module) is systems()[name]]
    confirmed = {invariant for model in models if str(model.expect) == "success" for invariant in model.invariants}
    assert set(system.invariants) <= confirmed
    assert set(system.probes) <= {model.expect.name for model in models}


def is_large(model: Model) -> bool:
    """Most have fewer states; those that have more are nine tenths of the work."""
    return model.states > 1_000


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(model, marks=pytest.mark.long if is_large(model) else (), id=name)
        for name, model in MODELS.items()
        if system_of(model.module)
    ],
)
def test_the_explorer_finds_what_the_manifest_records(model: Model) -> None:
    found = explore_model(model)
    assert (found.states, found.depth) == (model.states, model.depth)
    if is_explorable(model):
        assert found.verdict == model.expect
