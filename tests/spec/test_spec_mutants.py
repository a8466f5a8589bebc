"""The properties bite: mistakes made on purpose in a copy of the specification are noticed, and by what."""

import shutil
import tomllib
from pathlib import Path
from typing import TypedDict

import pytest

from permitflow_model.compare import first_difference, graph_of_model
from permitflow_model.exploration import explore_model
from permitflow_model.manifest import Model
from permitflow_model.tlc.check import run_model


class Edit(TypedDict):
    """A text that stands once in PermitChannel.tla, and what takes its place."""

    old: str
    new: str


class Mutant(TypedDict):
    """One entry of mutants.toml."""

    name: str
    edits: list[Edit]
    model: str
    expect: str


MUTANTS: list[Mutant] = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_a_mistake_in_the_specification_is_noticed(
    mutant: Mutant, models: dict[str, Model], spec_directory: Path, tmp_path: Path
) -> None:
    model = models[mutant["model"]]
    write_mutant(spec_directory, tmp_path, mutant["edits"])
    by_graph = mutant["expect"] == "graph"
    found = run_model(model, spec_directory=tmp_path, dump_graph=by_graph, timeout_seconds=60)
    assert str(found.verdict) == ("success" if by_graph else mutant["expect"])
    if by_graph:
        assert found.graph is not None
        assert first_difference(graph_of_model(explore_model(model).graph), found.graph) is not None


def write_mutant(spec_directory: Path, target: Path, edits: list[Edit]) -> None:
    for path in spec_directory.glob("*.tla"):
        shutil.copy(path, target)
    module = target / "PermitChannel.tla"
    text = module.read_text()
    for edit in edits:
        assert text.count(edit["old"]) == 1, f"stands {text.count(edit['old'])} times: {edit['old']}"
        text = text.replace(edit["old"], edit["new"])
    module.write_text(text)
