"""The manifest says everything once; a mistake in it is named with its place."""

from dataclasses import replace
from pathlib import Path

import pytest

from permitflow_model.exploration import parameters_for, system_for
from permitflow_model.manifest import (
    SUCCESS,
    ManifestError,
    Model,
    ModelVerdict,
    find_spec_directory,
    read_manifest,
)
from permitflow_model.permit_channel import Parameters
from permitflow_model.tlc.__main__ import main

GOOD = """
[module.PermitChannel]
specification = "Spec"
invariants = ["TypeOK"]
constants = { Tags = 1, Sizes = [1], InitialPermits = "RowPermits" }

[module.PermitChannelProbes]
like = "PermitChannel"

[[model]]
name = "good"
reason = "it is read"
module = "PermitChannelProbes"
constants = { RowPermits = 3, Sizes = [0, 2], Fair = ["Deliver"] }
expect = "success"
states = 7
depth = 2
"""


def read(text: str, directory: Path) -> dict[str, Model]:
    (directory / "some").mkdir(exist_ok=True)
    (directory / "some/models.toml").write_text(text)
    return read_manifest(directory)


def test_a_model_takes_what_it_does_not_say_from_its_module(tmp_path: Path) -> None:
    (model,) = read(GOOD, tmp_path).values()
    assert (model.name, model.module, model.specification) == ("good", "PermitChannelProbes", "Spec")
    assert model.constants == {
        "Tags": 1,
        "Sizes": frozenset({0, 2}),
        "InitialPermits": 3,
        "RowPermits": 3,
        "Fair": frozenset({"Deliver"}),
    }
    assert (model.invariants, model.properties) == (("TypeOK",), ())
    assert (model.expect, model.states, model.depth, model.graph) == (SUCCESS, 7, 2, False)


def test_the_configuration_for_tlc_is_made_from_the_model(tmp_path: Path) -> None:
    text = GOOD + 'properties = ["Always"]\n'
    assert read(text, tmp_path)["good"].config().splitlines() == [
        "CONSTANTS",
        "    Tags = 1",
        "    Sizes = {0, 2}",
        "    InitialPermits = 3",
        "    RowPermits = 3",
        '    Fair = {"Deliver"}',
        "SPECIFICATION Spec",
        "INVARIANTS",
        "    TypeOK",
        "PROPERTIES",
        "    Always",
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("states = 7", "", "model 'good' needs a whole number 'states' of at least 1, but it is None"),
        ("states = 7", "states = 0", "model 'good' needs a whole number 'states' of at least 1, but it is 0"),
        ("depth = 2", "depth = true", "model 'good' needs a whole number 'depth' of at least 1, but it is True"),
        ("depth = 2", "depths = 2", "model 'good' has the unknown key 'depths'; known are actions, constants, depth,"),
        ('"it is read"', '" "', "model 'good' needs a text 'reason', but it is ' '"),
        ('"success"', '"sucess"', "model 'good', expect: expected 'success', 'deadlock', 'invariant NAME' or"),
        ('"success"', '"invariant Bounded"', "expects invariant Bounded, but does not check Bounded"),
        ('"success"', '"property Live"', "expects property Live, but does not check Live"),
        ('module = "PermitChannelProbes"', 'module = "Other"', r"needs the defaults of a \[module.Other\]"),
        ('like = "PermitChannel"', 'like = "PermitChannelProbes"', "missing or like itself"),
        ("RowPermits = 3", "RowPermits = 3.5", "model 'good' gives RowPermits the value 3.5, which TLA"),
        ('["TypeOK"]', '["TypeOK", "TypeOK"]', "names something twice in 'invariants'"),
        ('["TypeOK"]', '"TypeOK"', "needs a list of names for 'invariants', not 'TypeOK'"),
        ("depth = 2", 'depth = 2\ngraph = "yes"', "needs true or false for 'graph', not 'yes'"),
        ("[[model]]", "[[models]]", "has the unknown key 'models'"),
        ("depth = 2", "depth = 2\nactions = [1]", r"needs a table of texts for 'actions', not \[1\]"),
        ("[[model]]", "[model]", r"needs at least one \[\[model\]\]"),
        ("depth = 2", "depth = ", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(ManifestError, match=message):
        read(GOOD.replace(old, new), tmp_path)


def test_a_live_model_stands_for_those_without_a_fair_action(tmp_path: Path) -> None:
    models = read(GOOD + 'properties = ["Live", "Ends"]\nneeds = { Ends = ["Deliver"] }\n', tmp_path)
    live, unfair = models["good"], models["good-unfair-deliver"]
    assert (unfair.properties, unfair.expect) == (("Ends",), ModelVerdict("property", "Ends"))
    assert unfair.constants == {**live.constants, "Fair": frozenset()}
    assert (unfair.states, unfair.depth, unfair.invariants) == (live.states, live.depth, live.invariants)


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ('{ Live = ["Consume"] }', "model 'good', needs, names 'Consume', which is not fair in it"),
        ('{ Ends = ["Deliver"] }', "model 'good', needs, has the unknown key 'Ends'; known are Live"),
        ('["Deliver"]', r"needs tables \[needs.NAME\]"),
    ],
)
def test_only_what_is_fair_can_be_needed(needs: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=message):
        read(GOOD + f'properties = ["Live"]\nneeds = {needs}\n', tmp_path)


def test_two_models_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="two models are called 'good'"):
        read(GOOD + GOOD[GOOD.index("[[model]]") :], tmp_path)


def test_a_violated_property_must_be_the_only_one(tmp_path: Path) -> None:
    text = GOOD.replace('"success"', '"property A"') + 'properties = ["A", "B"]\n'
    with pytest.raises(ManifestError, match="TLC names it for sure only if it is the only one"):
        read(text, tmp_path)


def test_a_missing_manifest_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"there is no .*\*/models\.toml"):
        read_manifest(tmp_path)


def test_the_manifest_of_the_checkout_is_found(repository: Path) -> None:
    assert find_spec_directory() == repository / "spec"


@pytest.mark.parametrize("text", ["success", "deadlock", "invariant NeverStuck", "property EveryChunkDelivered"])
def test_a_verdict_is_read_as_it_is_written(text: str) -> None:
    assert str(ModelVerdict.parse(text)) == text


# From the manifest to the model.


def test_constants_become_parameters() -> None:
    assert parameters_for(read_manifest()["everything"]) == Parameters(
        row_permits=2,
        permit_batch=2,
        max_chunk_cost=1,
        sizes=(3,),
        barrier_permits=1,
        watermarks=True,
        flush_idle=True,
        withdrawals=True,
        waiters=2,
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"PermitBatch": 0}, "do not fit: permit_batch must be at least 1, not 0"),
        ({"Colour": 1}, "unexpected keyword argument 'colour'"),
        ({"Sizes": 3}, "do not fit: 'int' object is not iterable"),
        ({"Sizes": frozenset({"a"})}, "do not fit: '<' not supported"),
    ],
)
def test_constants_that_do_not_fit_are_named(change: dict[str, int], message: str) -> None:
    model = read_manifest()["tight-live"]
    with pytest.raises(ManifestError, match=message):
        parameters_for(replace(model, constants={**model.constants, **change}))


# python -m permitflow_model.tlc


def test_a_mistake_that_python_does_not_make_is_named() -> None:
    model = replace(read_manifest()["grpc-call-sent-twice"], actions={"Push": "OnReadyAndKeep"})
    with pytest.raises(ManifestError, match="in Python no mistake 'OnReadyAndKeep' is made in 'Push'"):
        system_for(model)


def test_mistaken_actions_are_in_the_configuration() -> None:
    assert "    OnReady <- OnReadyAndKeep\n" in read_manifest()["grpc-call-sent-twice"].config()


def test_a_configuration_can_be_printed_for_other_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cfg", "tight-live"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("\\* tight-live: ")
    assert printed.endswith(read_manifest()["tight-live"].config())


def test_each_module_gets_the_configuration_of_its_first_model(tmp_path: Path) -> None:
    assert main(["cfg", "--into", str(tmp_path)]) == 0
    models = read_manifest().values()
    assert {path.stem for path in tmp_path.iterdir()} == {model.module for model in models}
    first = next(model for model in models if model.module == "PermitChannel")
    assert (tmp_path / "PermitChannel.cfg").read_text(encoding="utf-8").endswith(first.config())


def test_an_unknown_model_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["cfg", "nonsense"])
    assert caught.value.code == 2
    assert "there is no model 'nonsense'" in capsys.readouterr().err
