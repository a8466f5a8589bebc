"""Every benchmark still runs, and what it measures can be told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import PARTS, application
from benchmarks.tables import TABLES

# Guards against hangs: the run starts some forty processes, two of them Spark's, which other tests may hold up.
HANGING_SECONDS = 900


def command(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=repository,
        capture_output=True,
        text=True,
        timeout=HANGING_SECONDS,
        check=False,
    )


@pytest.mark.timeout(HANGING_SECONDS)
@pytest.mark.long
def test_all_parts_run(repository: Path, tmp_path: Path) -> None:
    done = command(repository, "run", "--smoke", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["failures"] == []
    assert set(results["parts"]) == set(PARTS)
    assert all(results["parts"].values())
    tables = (tmp_path / "tables.md").read_text()
    assert all(f"## {name}\n" in tables for name in set(TABLES) - {"defaults"})


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("run", "--part", "speed"), "no such part: speed"),
        (("run", "--ways", "carrier pigeon"), "no way has 'carrier pigeon'"),
        (("update-docs", "--folder", "nowhere"), "nothing was measured"),
    ],
)
def test_a_wrong_option_is_refused_with_what_is_possible(arguments: tuple[str, ...], complaint: str) -> None:
    done = CliRunner().invoke(application, arguments)
    assert done.exit_code == 2
    assert complaint in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.long
def test_figures_of_a_smoke_run_do_not_get_into_documents(repository: Path, tmp_path: Path) -> None:
    assert command(repository, "run", "--smoke", "--part", "local", "--folder", str(tmp_path)).returncode == 0
    before = (repository / "docs/concepts/performance.md").read_bytes()
    done = command(repository, "update-docs", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "smoke run" in done.stderr
    assert (repository / "docs/concepts/performance.md").read_bytes() == before
