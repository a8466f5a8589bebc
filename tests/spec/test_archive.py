"""The archive of TLC's classes is made by the first run and used by the next; without a cache TLC runs as well."""

from pathlib import Path

import pytest

from permitflow_model.manifest import Model
from permitflow_model.tlc import find_jar, find_java
from permitflow_model.tlc.archive import archive_of, archive_options
from permitflow_model.tlc.check import run_model


def test_a_run_keeps_an_archive_for_the_next(
    models: dict[str, Model], spec_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive, model = archive_of(find_java(), find_jar()), models["one-above-stuck"]
    lost = archive.with_name("tlc-lost.jsa")
    archive.parent.mkdir()
    lost.touch()
    lost.with_suffix(".jar").symlink_to(tmp_path / "gone.jar")
    found = run_model(model, spec_directory=spec_directory)
    assert (str(found.verdict), found.states) == (str(model.expect), model.states)
    assert {*archive.parent.iterdir()} == {archive, archive.with_suffix(".jar")}, "without that of a jar that is gone"
    with archive_options(find_java(), find_jar(), tmp_path) as options:
        assert f"-XX:SharedArchiveFile={archive}" in options


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with archive_options(find_java(), find_jar(), tmp_path) as options:
        (tmp_path / "classes.jsa").write_text("made")
        assert f"-XX:ArchiveClassesAtExit={tmp_path / 'classes.jsa'}" in options


def test_one_of_two_runs_at_a_time_makes_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (
        archive_options(find_java(), find_jar(), tmp_path) as first,
        archive_options(find_java(), find_jar(), tmp_path) as second,
    ):
        assert first
        assert second == []
