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


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["graph"], "graph needs a file: `permitflow check graph loop.toml`"),
        (
            ["graph", LOOP, "--row-permits", "8"],
            "--row-permits belongs to numbers of your own: leave it away, or what is named",
        ),
        (["graph", "nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["graph", str(GRAPHS.parent / "orders.toml")], "describes a channel: `permitflow check "),
        ([LOOP], "describes a graph of stages: `permitflow check graph "),
        ([LOOP, LIVE], "one file at a time"),
    ],
    ids=["no file", "other options", "nowhere", "a channel", "without the word", "two files"],
)
def test_other_input_is_refused_with_what_to_do(command: Command, arguments: list[str], complaint: str) -> None:
    code, _, stderr = command("check", *arguments)
    assert code == 2
    assert complaint in stderr


def test_without_networkx_it_says_what_to_install(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    code, _, stderr = command("check", "graph", LOOP)
    assert code == 2
    assert "networkx is not installed, but this command needs it: install permitflow[graphs]" in stderr


def test_explain_draws_a_graph_that_it_is_given(report: Report, command: Command, tmp_path: Path) -> None:
    page = tmp_path / "loop.html"
    code, document = report("explain", LOOP, "-o", str(page))
    assert (code, document["verdict"], document["files"]) == (0, "deadlock", [str(page)])
    assert "A loop that is fed from outside" in page.read_text(encoding="utf-8")
    assert report("explain", "graph", LOOP, "-o", str(page))[1] == document
    code, _, stderr = command("explain", LOOP, "--row-permits", "8")
    assert code == 2
    assert "--row-permits belongs to numbers of your own" in stderr
