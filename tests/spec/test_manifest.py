"""TLC finds in every model exactly what the manifest records, and the manifest covers the specification."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from permitflow_model.exploration import is_explorable, parameters_for, system_for
from permitflow_model.kernel.system import System
from permitflow_model.manifest import DEADLOCK, SUCCESS, Model, module_paths, parts_of
from permitflow_model.registry import systems
from permitflow_model.tla_values import format_state, state_to_tla
from permitflow_model.tlc import TlcNotFoundError, TlcResult
from permitflow_model.tlc.check import check_model, run_manifest
from tests.spec.sample import SAMPLE, by_model
from tests.support.specification import MODELS

S = TypeVar("S")
P = TypeVar("P")

TlcRun = Callable[[str], TlcResult]

BROKEN = [name for name, model in MODELS.items() if is_explorable(model) and model.expect != SUCCESS]
# Properties of single steps: a run that violates them is over.
OF_STEPS = {"IsQueue", "WatermarkOvertakesNothing"}
# Statements about the order of messages: with one number for all of them, each is as good as the other.
OF_ORDER = {
    *("ExactlyOnceInOrder", "EveryChunkDelivered", "EveryBarrierDelivered", "WatermarkOvertakesNothing", "IsQueue"),
    "EveryMessageDelivered",
}
UNFAIR = [name for name, m in MODELS.items() if m.properties and m.expect != SUCCESS and m.expect.name not in OF_STEPS]


@by_model(MODELS)
def test_tlc_finds_exactly_what_is_recorded(model_name: str, models: dict[str, Model], tlc_run: TlcRun) -> None:
    model, found = models[model_name], tlc_run(model_name)
    assert (str(found.verdict), found.states, found.depth) == (str(model.expect), model.states, model.depth)


@by_model(BROKEN)
def test_a_counterexample_of_tlc_is_a_run_of_the_model(
    model_name: str, models: dict[str, Model], tlc_run: TlcRun
) -> None:
    model, trace = models[model_name], tlc_run(model_name).trace
    assert len(trace) == model.depth or model.expect == DEADLOCK
    system, parameters = system_for(model), parameters_for(model)
    state = system.initial(parameters)
    assert text_of(state) == format_state(trace[0].state)
    for step in trace[1:]:
        assert step.action is not None
        state = follow(system, parameters, state, step.action, format_state(step.state))
    if model.expect.name is None:
        assert list(system.successors(state, parameters)) == []
    else:
        assert not system.statements[model.expect.name](state, parameters)


@by_model(UNFAIR)
def test_a_run_against_liveness_can_be_repeated_for_ever(
    model_name: str, models: dict[str, Model], tlc_run: TlcRun
) -> None:
    found = tlc_run(model_name)
    assert found.loop is not None
    last, back_to = found.trace[-1].state, found.trace[found.loop].state
    if last == back_to:
        return
    model = models[model_name]
    # The refinement has the steps of the channel itself.
    own = {name: value for name, value in model.constants.items() if name != "QueueBound"}
    model = replace(model, module=model.module.removesuffix("Refinement"), constants=own)
    system, parameters = system_for(model), parameters_for(model)
    state = system.initial(parameters)
    for step in found.trace[1:]:
        assert step.action is not None
        state = follow(system, parameters, state, step.action, format_state(step.state))
    assert format_state(back_to) in {text_of(step.state) for step in system.successors(state, parameters)}


def text_of(state: object) -> str:
    return format_state(state_to_tla(state))


def follow(system: System[S, P], parameters: P, state: S, action: str, target: str) -> S:
    """The next state with this text, by this action."""
    for step in system.successors(state, parameters):
        if step.action == action and text_of(step.state) == target:
            return step.state
    pytest.fail(f"the model has no step {action} from\n{text_of(state)}\nto\n{target}")


def test_the_sample_has_every_module_and_every_kind_of_verdict() -> None:
    short = [model for name, model in MODELS.items() if name in SAMPLE]
    assert MODELS.keys() >= SAMPLE
    assert {part_of(model.module) for model in short} == {part_of(model.module) for model in MODELS.values()}
    assert {model.expect.kind for model in short} == {model.expect.kind for model in MODELS.values()}


def part_of(module: str) -> str:
    """A module that has a model, or what others add to such a module, as Refinement."""
    extended = max((name for name in systems() if module.startswith(name)), key=len)
    return module.removeprefix(extended) or module


# What the manifest must cover.


def test_every_liveness_property_is_confirmed(models: dict[str, Model], spec_directory: Path) -> None:
    confirmed = {name for model in models.values() if model.expect == SUCCESS for name in model.properties}
    defined = {name for path in module_paths(spec_directory).values() for name in liveness_of(path.read_text())}
    assert len(defined) >= 15
    assert defined <= confirmed


def liveness_of(module: str) -> set[str]:
    """The definitions that say what happens some time, but those of which others are made."""
    texts = re.findall(r"^(\w+) ==((?:.|\n)*?)(?=^\S|\Z)", re.sub(r"\\\*.*|<<|>>", "", module), re.MULTILINE)
    temporal = {name for name, text in texts if "~>" in text or "<>" in text}
    return {name for name in temporal if not any(re.search(rf"\b{name}\b", text) for _, text in texts)}


def test_a_liveness_property_is_known_by_its_definition() -> None:
    module = "A == x ~> y\n\nB == \\A n : []<>A\n\nSpec == Init /\\ [][Next]_<<x, y>>\n\nC == x = << >>\n"
    assert liveness_of(module) == {"B"}


def test_every_probe_is_violated_by_a_model(models: dict[str, Model], spec_directory: Path) -> None:
    defined = {
        name
        for path in module_paths(spec_directory).values()
        for name in re.findall(r"^(\w+Probe) ==", path.read_text(), re.MULTILINE)
    }
    assert len(defined) >= 10
    assert {model.expect.name for model in models.values() if str(model.expect).endswith("Probe")} == defined


def test_the_readme_names_models_and_modules_that_exist(models: dict[str, Model], spec_directory: Path) -> None:
    words = re.findall(r"`([\w.…-]+)`", (spec_directory / "README.md").read_text())
    named = [word for word in words if re.fullmatch(r"[a-z]+(-[a-z]+)+…?|[a-z]+-…|[a-z-]+…", word)]
    assert len(named) >= 8
    for word in named:
        assert any(name.startswith(word[:-1]) if word.endswith("…") else name == word for name in models), word
    assert {word for word in words if word.endswith(".tla")} <= {f"{name}.tla" for name in module_paths(spec_directory)}


def test_each_protocol_says_what_is_not_modelled(spec_directory: Path) -> None:
    folders = [path for path in sorted(spec_directory.iterdir()) if (path / "models.toml").exists()]
    assert len(folders) >= 16
    for folder in folders:
        name = "".join(word.capitalize() for word in folder.name.split("_"))
        assert "(* Not modelled: " in (folder / f"{name}.tla").read_text(), name


def test_every_module_is_checked(models: dict[str, Model], spec_directory: Path) -> None:
    # What recorded runs are is held against runs: tests/conformance.
    modules = {name for name in module_paths(spec_directory) if not name.endswith("Trace")}
    assert {part for model in models.values() for part in parts_of(model.module)} == modules


def test_each_fairness_condition_is_left_out_of_a_live_model(models: dict[str, Model], spec_directory: Path) -> None:
    defined = {
        (name, condition)
        for name, path in module_paths(spec_directory).items()
        for condition in fairness_of(path.read_text())
    }
    left_out = {
        (model.module.removesuffix("Refinement"), action)
        for name, model in models.items()
        for live in [models.get(name.partition("-unfair-")[0])]
        if live is not None and live.expect == SUCCESS and "Fair" in live.constants
        for action in fair(live) - fair(model)
    }
    assert len({name for name, _ in defined}) >= 10
    assert left_out == defined


def fairness_of(module: str) -> list[str]:
    """The names by which models choose the fair actions; each condition of fairness has one."""
    text = re.sub(r"\\\*.*", "", module)
    chosen = re.findall(r'"(\w+)" +\\in Fair => [WS]F_vars\(', text)
    assert len(chosen) == len(re.findall(r"[WS]F_vars", text)) - text.count("WeakWatermarkSpec ==")
    return chosen


def test_a_condition_of_fairness_has_a_name() -> None:
    assert fairness_of('Fairness ==\n    /\\ "Send" \\in Fair => SF_vars(Send(c))') == ["Send"]
    with pytest.raises(AssertionError):
        fairness_of("Spec == Init /\\ [][Next]_vars /\\ WF_vars(Send)")


def fair(model: Model) -> frozenset[object]:
    names = model.constants["Fair"]
    assert isinstance(names, frozenset)
    return names


def test_a_property_is_only_checked_where_it_says_something(models: dict[str, Model]) -> None:
    all_checked = {name for model in models.values() for name in (*model.invariants, *model.properties)}
    assert all_checked >= OF_ORDER | OF_STEPS, "these names exist"
    for model in models.values():
        checked = {*model.invariants, *model.properties}
        if checked & OF_ORDER:
            assert model.constants.get("Tags") != 1, model.name
        if "EveryChunkDelivered" in checked:
            assert model.constants["Withdrawals"] is False, model.name


# A check that cannot fail is none.


def test_a_wrong_record_is_reported_by_both_engines(models: dict[str, Model], spec_directory: Path) -> None:
    model = models["tight-live"]
    stuck = models["one-above-stuck"].constants
    wrong = replace(model, constants=stuck, states=model.states + 1)
    result = check_model(wrong, engine="both", spec_directory=spec_directory)
    assert not result.ok
    for engine in ("explorer", "tlc"):
        assert f"{engine}: the verdict is invariant NeverStuck, the manifest says success" in result.problems
        assert f"{engine}: the number of states is 46, the manifest says 333" in result.problems
        assert f"{engine}: the depth is 6, the manifest says 15" in result.problems


def test_a_model_that_tlc_cannot_read_is_a_problem_not_a_crash(models: dict[str, Model], spec_directory: Path) -> None:
    model = models["tight-live"]
    broken = replace(model, constants={**model.constants, "Tags": 3})
    result = check_model(broken, engine="tlc", spec_directory=spec_directory)
    assert [finding.verdict for finding in result.findings] == [None]
    assert "Assumption" in result.problems[0]


def test_a_run_that_takes_too_long_is_a_problem_not_a_hang(models: dict[str, Model], spec_directory: Path) -> None:
    result = check_model(models["live"], engine="tlc", spec_directory=spec_directory, timeout_seconds=0.05)
    assert "did not finish within 0.05 s" in result.problems[0]


def test_the_manifest_is_checked_model_by_model(models: dict[str, Model], spec_directory: Path) -> None:
    names = ["empty-chunks", "flush-idle-above-row-permits"]
    results = list(run_manifest(names=names, spec_directory=spec_directory, parallel=2))
    assert [result.model.name for result in results] == sorted(names, key=list(models).index)
    assert all(result.ok for result in results)
    assert [result.graphs_equal for result in results] == [True, None]


def test_without_java_the_explorer_checks_what_it_can(
    models: dict[str, Model], spec_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_no_java() -> Path:
        raise TlcNotFoundError("no Java here")

    monkeypatch.setattr("permitflow_model.tlc.check.find_java", find_no_java)
    with pytest.raises(TlcNotFoundError):
        run_manifest(engine="both", spec_directory=spec_directory)
    names = [name for name, model in models.items() if model.states < 100]  # tests/model has all of them
    results = list(run_manifest(engine="explorer", names=names, spec_directory=spec_directory))
    assert all(result.ok for result in results)
    assert [result.model.name for result in results] == names
    assert {result.is_checked for result in results} == {True, False}
    assert [result.is_checked for result in results] == [is_explorable(models[name]) for name in names]
