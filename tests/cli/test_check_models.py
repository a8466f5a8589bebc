"""``permitflow check`` without numbers reports whether the models come out as the manifest records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import permitflow_model.manifest
from permitflow_model.manifest import read_manifest

Command = Callable[..., tuple[int, str, str]]
Report = Callable[..., tuple[int, dict[str, Any]]]


def test_all_models_come_out_as_recorded(report: Report) -> None:
    code, document = report("check", "--engine", "explorer")
    assert code == 0
    assert document["holds"] is True
    assert [model["name"] for model in document["models"]] == list(read_manifest())
    checked = [model for model in document["models"] if model["findings"]]
    assert len(checked) > 40
    for model in checked:
        (finding,) = model["findings"]
        assert (finding["verdict"], finding["states"], finding["depth"]) == (
            model["expect"],
            model["states"],
            model["depth"],
        )


def test_tlc_and_the_explorer_find_the_same_graph(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "tight-live", "--engine", "both")
    assert code == 0
    assert "explorer = tlc" in stdout
    assert "1 as expected, 0 differ" in stdout


def test_tlc_alone_checks_a_temporal_property(report: Report) -> None:
    code, document = report("check", "--model", "unfair-deliver", "--engine", "tlc")
    assert code == 0
    (model,) = document["models"]
    assert [finding["verdict"] for finding in model["findings"]] == ["property EveryChunkDelivered"]


def test_a_selected_model_shows_its_counterexample(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "one-above-stuck", "--engine", "explorer")
    assert code == 0  # the model is meant to get stuck
    assert "a shortest run into the violation of NeverStuck" in stdout
    assert "OfferChunk(4)" in stdout


def test_a_selected_model_of_a_streaming_query_shows_where_its_rows_are(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "spark-commit-stuck", "--engine", "explorer")
    assert code == 0
    head, *_, last = (line.split() for line in stdout.split("NeverStuck:\n")[1].splitlines() if line.strip())
    assert head[:6] == ["step", "action", "driver", "waiting", "kept", "acknowledged"]
    # One row waits, two are kept, none is acknowledged.
    assert last == ["12", "WriteCommitLog", "idle", "1", "2", "0", "[0,", "2)", "has", "it", "2"]


@pytest.fixture
def seeded(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Replace a text in a copy of the specification, and let the command line read that copy."""

    def seed(old: str, new: str) -> None:
        for path in (repository / "spec").iterdir():
            if path.is_file():
                (tmp_path / path.name).write_text(path.read_text())
        manifest = (tmp_path / "manifest.toml").read_text()
        assert old in manifest
        (tmp_path / "manifest.toml").write_text(manifest.replace(old, new, 1))
        monkeypatch.setattr(permitflow_model.manifest, "find_spec_directory", lambda: tmp_path)

    return seed


def test_a_model_that_comes_out_otherwise_fails_and_is_named(
    command: Command, seeded: Callable[[str, str], None]
) -> None:
    model = read_manifest()["published"]
    seeded(f"states = {model.states}", "states = 4711")
    code, stdout, _ = command("check", "--engine", "explorer", "--model", "published")
    assert code == 1
    assert f"published: explorer: the number of states is {model.states}, the manifest says 4711" in stdout
    assert "0 as expected, 1 differ" in stdout


def test_a_manifest_that_cannot_be_read_is_unusable(command: Command, seeded: Callable[[str, str], None]) -> None:
    seeded("[[model]]", "[[model")
    code, stdout, stderr = command("check")
    assert (code, stdout) == (2, "")
    assert "is not TOML" in stderr


def test_a_model_that_cannot_be_evaluated_differs(command: Command, seeded: Callable[[str, str], None]) -> None:
    seeded('"GrantsBatched"', '"GrantsBotched"')
    code, stdout, _ = command("check", "--engine", "explorer", "--model", "published")
    assert code == 1
    assert "has no invariant 'GrantsBotched'" in stdout


def test_an_unknown_model_is_unusable(command: Command) -> None:
    code, stdout, stderr = command("check", "--model", "one-above-stick")
    assert (code, stdout) == (2, "")
    assert "the manifest has no model 'one-above-stick'; did you mean one-above-stuck" in stderr


def test_an_unknown_engine_is_unusable(command: Command) -> None:
    code, _, stderr = command("check", "--engine", "guess")
    assert code == 2
    assert "'--engine'" in stderr
    assert "'guess' is not one of 'explorer', 'tlc', 'both'" in stderr


def test_without_java_the_explorer_checks_and_says_what_is_left_out(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, stdout, _ = command("check", "--model", "published", "--model", "live")
    assert code == 0
    assert "the explorer alone: JAVA_HOME is '/nowhere'" in stdout
    assert "1 as expected, 0 differ, 1 not checked: they need TLC" in stdout


def test_tlc_that_was_asked_for_and_is_not_there_is_unusable(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, stdout, stderr = command("check", "--engine", "tlc")
    assert (code, stdout) == (2, "")
    assert "--engine tlc: JAVA_HOME is '/nowhere'" in stderr
