"""What the demos refuse before they start, and TPC-H tables that are whole or not there."""

import os
import stat
from pathlib import Path

import pytest

from examples.processes import work_folder
from examples.tpch import tables as tpch
from examples.tpch.settings import DemoSettings
from permitflow.errors import DemoError, InvalidOptionError


def test_a_folder_that_cannot_be_made_is_named() -> None:
    reason = r"'--keep' cannot be made \(No such file or directory\)"
    with pytest.raises(InvalidOptionError, match=reason), work_folder(Path("/proc/nowhere/files")):
        pass


def test_a_folder_with_something_in_it_is_not_used(tmp_path: Path) -> None:
    DemoSettings(keep=tmp_path)
    (tmp_path / "precious.txt").touch()
    with pytest.raises(InvalidOptionError, match="option '--keep' must be a new or an empty folder"):
        DemoSettings(keep=tmp_path)


def generator(folder: Path, script: str) -> str:
    """A program in the place of tpchgen-cli: ``$out`` is its output folder."""
    program = folder / "generator"
    find_folder = 'for last in "$@"; do case $before in --output-dir) out=$last;; esac; before=$last; done'
    program.write_text("\n".join(["#!/bin/sh", find_folder, script, ""]))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


WRITES_BOTH = 'echo x > "$out/lineitem.parquet"; echo y > "$out/orders.parquet"'


async def test_tables_are_generated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "_generator", lambda: generator(tmp_path, WRITES_BOTH))
    cache = tmp_path / "cache"
    folder = await tpch.cached_tables(0.5, cache)
    assert sorted(os.listdir(folder)) == ["lineitem.parquet", "orders.parquet"]
    monkeypatch.setattr(tpch, "_generator", lambda: generator(tmp_path, "exit 1"))
    assert await tpch.cached_tables(0.5, cache) == folder
    assert os.listdir(cache) == [folder.name]


async def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DemoError, match=r"cannot be kept in .*file"):
        await tpch.cached_tables(0.5, tmp_path / "file")
