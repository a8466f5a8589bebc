"""Mistakes that rules make in the models' actions: theorems notice them, and a check that cannot fail is none."""

import subprocess
import sys
import tomllib
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECKOUT / "tools/model_mutants.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


def test_theorems_notice_a_sample_of_mistakes() -> None:
    run = run_tool("stop_and_wait", "--every", "6")
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("stop_and_wait: 7 mistakes: ")


def test_a_mistake_that_changes_nothing_is_printed(tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text("")
    run = run_tool("conflate", "--only", "without require(not state.completed)", "--known", str(tmp_path / "none.toml"))
    assert run.returncode == 1
    assert "conflate: complete: without require(not state.completed)  [survived]" in run.stdout


def test_each_known_survivor_is_a_mistake_that_is_made() -> None:
    made = set(run_tool("--list").stdout.splitlines())
    assert len(made) > 1_000
    known = tomllib.loads((CHECKOUT / "tests/mutants/model_survivors.toml").read_text())["survivor"]
    assert {mistake for entry in known for mistake in entry["mistakes"]} <= made


def test_a_model_that_does_not_exist_is_refused() -> None:
    run = run_tool("conflat")
    assert run.returncode == 2
    assert "no model is called 'conflat'; there are conflate, demand, " in run.stderr
