"""``permitflow check graph FILE``, and ``explain`` of such a file: verdict, ring, run, what would help; exit codes."""

import sys
from pathlib import Path

import pytest

from tests.permitflow_tools.cli.conftest import Command, Report

GRAPHS = Path(__file__).resolve().parents[3] / "docs/examples/graphs"
LOOP = str(GRAPHS / "loop.toml")
LIVE = str(GRAPHS / "loop-drop.toml")


def test_a_deadlock_is_told_with_its_ring_its_run_and_what_helps(command: Command) -> None:
    code, text, _ = command("check", "graph", LOOP)
    assert code == 1
    first, ring, *rest = text.splitlines()
    assert first == f"deadlock: {LOOP}: 5 stages, 5 arcs"
    assert "merge waits until copy asks" in ring
    assert "A shortest run into it:" in rest
    assert any(line.startswith("- let back drop") for line in rest)


def test_a_report_has_the_ring_and_each_state_of_the_run(report: Report) -> None:
    code, document = report("check", "graph", LOOP)
    assert (code, document["verdict"], document["holds"], document["is_shortest"]) == (1, "deadlock", False, True)
    ring = {wait["stage"]: wait["on"] for wait in document["ring"]}
    assert ring == {"merge": "copy", "copy": "back", "back": "merge"}
    assert document["run"][0] == {
        "stage": None,
        "text": "the beginning",
        "held": dict.fromkeys(document["stages"], 0),
        "arcs": document["run"][0]["arcs"],
    }
    assert document["run"][-1]["held"]["back"] == 2
    assert document["advice"]


def test_a_long_run_is_shortened_on_paper_and_keeps_its_numbers(command: Command) -> None:
    lines = command("check", "graph", str(GRAPHS / "echo.toml"))[1].splitlines()
    assert any(line.endswith("2,017 more steps") for line in map(str.strip, lines))
    assert any(line.startswith("2,048 ") and line.endswith(" 1,024") for line in lines)


def test_a_live_graph_is_told_with_its_argument(command: Command, report: Report) -> None:
    assert command("check", "graph", LIVE)[:2] == (
        0,
        f"live: {LIVE}: 5 stages, 5 arcs\n"
        "each loop has a stage that never makes the one before it wait, and an element can always come into it\n",
    )
    assert report("check", "graph", LIVE)[1]["run"] is None


def test_without_networkx_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    code, _, stderr = command("check", "graph", LOOP)
    assert code == 2
    assert "networkx is not installed, but this command needs it: install permitflow[graphs]" in stderr


def test_explain_draws_a_graph_that_it_is_given(report: Report, tmp_path: Path) -> None:
    page = tmp_path / "loop.html"
    code, document = report("explain", LOOP, "-o", str(page))
    assert (code, document["verdict"], document["files"]) == (0, "deadlock", [str(page)])
    assert "A loop that is fed from outside" in page.read_text(encoding="utf-8")
    assert report("explain", "graph", LOOP, "-o", str(page))[1] == document
