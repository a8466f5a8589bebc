"""Mistakes that rules make in the models' actions: theorems notice them, and a check that cannot fail is none."""

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.model_mutants", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=250, check=False)


@pytest.fixture(scope="module")
def made() -> list[str]:
    """All mistakes that rules make."""
    return run_tool("--list").stdout.splitlines()


@pytest.mark.parametrize("count", [4, pytest.param(8, marks=pytest.mark.long)])
def test_theorems_notice_a_sample_of_mistakes(count: int) -> None:
    run = run_tool("--sample", str(count), "--seed", "2")
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"\n{count} mistakes, 0 survived" in run.stdout


def test_a_mistake_that_changes_nothing_is_found_to_be_none() -> None:
    run = run_tool("conflate", "--only", "complete: without require(not state.completed)")
    assert run.returncode == 0
    assert run.stdout.startswith("conflate: 1 mistakes: 1 no difference")


def test_a_listed_survivor_that_is_noticed_is_printed(tmp_path: Path) -> None:
    mistake = "stop_and_wait: send: without wire in"
    made = [line for line in run_tool("stop_and_wait", "--only", mistake, "--list").stdout.splitlines() if line]
    (tmp_path / "known.toml").write_text(f"[[survivor]]\nreason = 'none'\nmistakes = {made!r}\n")
    run = run_tool("stop_and_wait", "--only", mistake, "--known", str(tmp_path / "known.toml"))
    assert run.returncode == 1
    assert "noticed, but listed as a survivor" in run.stdout


def test_each_known_survivor_is_a_mistake_that_is_made(made: list[str]) -> None:
    assert len(set(made)) > 1_000
    known = tomllib.loads((CHECKOUT / "tests/mutants/model_survivors.toml").read_text()).get("survivor", [])
    assert {mistake for entry in known for mistake in entry["mistakes"]} <= set(made)


def test_the_table_counts_the_mistakes_that_are_made(made: list[str]) -> None:
    counts = Counter(line.split(":")[0] for line in made)
    table = (CHECKOUT / "docs/claims.md").read_text(encoding="utf-8").partition("tools.model_mutants --write -->")[2]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]
    counted = {name.strip("`"): int(mistakes) for name, mistakes, *_ in rows}
    assert counted == counts, "run `python -m tools.model_mutants --write`"
    assert all(sum(int(number or 0) for number in numbers) == counted[name.strip("`")] for name, _, *numbers in rows)


def test_a_model_that_does_not_exist_is_refused() -> None:
    run = run_tool("conflat")
    assert run.returncode == 2
    assert "no model is called 'conflat'; there are adaptive_gate, adaptive_window, blocking_echo, " in run.stderr
