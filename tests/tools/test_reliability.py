"""docs/reliability.md says what the kept results say."""

import json
from pathlib import Path

import pytest

from tools.reliability import FOUND, RESULTS, Trial, page, promised, trials, tried

TRIAL = Trial(
    name="cuts",
    title="Cut lines",
    told="Two processes.",
    command="nox -s cuts",
    date="2026-11-28",
    seconds=61.5,
    tried=1_000,
    broken=0,
    columns=("fault", "times", "share"),
    rows=(("cut | torn", 1_000, 0.5),),
    promises=("rows come in order", "nobody waits for ever"),
)


def test_the_page_is_made_of_the_kept_results(repository: Path) -> None:
    text = (repository / "docs/reliability.md").read_text("utf-8")
    assert page(text) == text, "run: python -m tools.reliability"


def test_it_is_said_whether_the_simulator_finds_a_fault() -> None:
    faults = json.loads((RESULTS / FOUND).read_text("utf-8"))
    unsaid = [
        fault["what"] for fault in faults if not fault["by"].startswith("simulator") and not fault.get("simulator")
    ]
    assert not unsaid


def test_a_kept_trial_is_read_again_as_it_was(tmp_path: Path) -> None:
    TRIAL.keep(tmp_path)
    (found,) = trials(tmp_path)
    assert (found.rows, found.columns) == ([["cut | torn", 1_000, 0.5]], ["fault", "times", "share"])
    assert found.told == TRIAL.told


def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"name": "other"}')
    with pytest.raises(ValueError, match=r"other\.json is no trial .* let its command write it again"):
        trials(tmp_path)


def test_a_promise_is_named_once_with_all_that_tried_it() -> None:
    other = Trial(**{**TRIAL.__dict__, "name": "kills", "title": "Kills", "tried": 5, "promises": TRIAL.promises[:1]})
    lines = promised([TRIAL, other]).splitlines()
    assert len(lines) == 4
    assert lines[2] == "| rows come in order | [Cut lines](#cut-lines): 1,000; [Kills](#kills): 5 |"


def test_a_cell_does_not_end_its_table() -> None:
    assert "| cut \\| torn | 1,000 | 0.50 |\n" in tried([TRIAL])
