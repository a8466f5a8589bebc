"""The tables of the guide to graphs are what the analyser finds now, and each verdict is what its file expects."""

from pathlib import Path

import pytest

from permitflow_tools.parameters.graph import read_graph
from tests.graphs.judging import WATCHES, disagreements
from tools.graph_examples import DOCUMENT, EXAMPLES, FOLDER, REPORTS, judged, with_tables

FEW = WATCHES[1::3]
FILES = sorted([*FOLDER.glob("*.toml"), *REPORTS.glob("*.toml")])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_graph_comes_out_as_its_file_expects(path: Path) -> None:
    about, found = judged(path)
    assert found.verdict == about.verdict


# A request of a million elements takes longer than a test.
@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "jaxec-168"], ids=lambda path: path.stem)
def test_the_library_s_stages_do_what_the_verdict_says(path: Path) -> None:
    assert [*disagreements(read_graph(path).blueprint, judged(path)[1], FEW)] == []


def test_every_example_is_in_the_guide() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(EXAMPLES)


def test_the_guide_has_the_tables_of_today() -> None:
    guide = DOCUMENT.read_text(encoding="utf-8")
    assert guide == with_tables(guide), "run `make docs`"


def test_at_least_ten_public_reports_are_told_by_number() -> None:
    reports = [read_graph(path).about for path in REPORTS.glob("*.toml")]
    assert len({about.report for about in reports}) >= 10
    assert all(about.report.rpartition("/")[2].isdigit() and about.symptom for about in reports)
