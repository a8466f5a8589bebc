"""The page of a graph of stages: every stage and arc, the ring in red, and what each stage holds at each step."""

import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from permitflow.stages.blueprint import Blueprint, BroadcastNode, BufferNode, MergeNode, SinkNode, SourceNode, StageNode
from permitflow_tools.checking import GraphStep, GraphVerdict, GraphWait
from permitflow_tools.explain.blueprint_page import JudgedGraph, blueprint_drawing, blueprint_page
from tests.support.axe import violations
from tests.support.browser import Visit
from tests.support.pages import PageReader

Open = Callable[..., Visit]
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="there is no Graphviz")
CONTRASTS = Path(__file__).with_name("contrasts.js").read_text()

LOOP = Blueprint.of(
    {"orders": SourceNode(), "merge": MergeNode(), "copy": BroadcastNode(), "out": SinkNode(), "back": BufferNode(1)},
    ["orders -> merge", "merge -> copy", "copy -> out", "copy -> back", "back -> merge"],
)
DEAD = GraphVerdict(
    verdict="deadlock",
    reason="the loop is full",
    ring=(
        GraphWait("copy", "back", "it has <no> room"),
        GraphWait("back", "merge", "it has not asked"),
        GraphWait("merge", "copy", "full"),
    ),
    run=(
        GraphStep("", "the beginning", (0, 0, 0, 0, 0), ("", "", "ask", "ask", "")),
        GraphStep("merge", "merge takes an element", (0, 1, 0, 0, 0), ("element", "ask", "ask", "ask", "")),
        GraphStep("copy", "copy gives to both", (0, 1, 0, 0, 1), ("ask", "element", "", "", "element")),
    ),
    advice=("drop on copy -> back", "drop elsewhere"),
    steps=2,
    explored=78,
)
GRAPH = JudgedGraph("A <loop>", LOOP, DEAD)
UNDECIDED = replace(DEAD, verdict="unknown", ring=(), run=(), advice=(), explored=0)


def test_a_page_needs_nothing_else_and_takes_no_text_for_markup() -> None:
    page = blueprint_page(GRAPH)
    reader = PageReader(page)
    assert [address for address in reader.fetched if not address.startswith("data:")] == []
    assert "A &lt;loop&gt;" in page
    assert "it has &lt;no&gt; room" in page
    document = json.loads(reader.data["blueprint"])
    assert document["ring"] == [2, 4, 1]
    assert document["held"][-1] == [0, 1, 0, 0, 1]


@needs_dot
def test_the_drawing_has_every_stage_and_arc_with_the_ring_marked() -> None:
    root = ET.fromstring(blueprint_drawing(GRAPH))
    drawn = {
        each.attrib["id"]: each.attrib["class"].split() for each in root.iter() if each.get("id", "").startswith("LR-")
    }
    assert ["ring" in drawn[f"LR-stage-{number}"] for number in range(5)] == [False, True, True, False, True]
    assert ["ring" in drawn[f"LR-arc-{number}"] for number in range(5)] == [False, True, False, True, True]


def test_without_graphviz_a_page_lists_the_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    page = blueprint_page(GRAPH)
    assert 'class="blueprint" role="img"' not in page
    assert page.count('<tr id="row-') == 5
    with pytest.raises(ModuleNotFoundError, match="Graphviz"):
        blueprint_drawing(GRAPH)


@needs_dot
def test_it_opens_on_the_ring_and_steps_back_to_what_each_stage_held(visit: Open) -> None:
    opened = visit(blueprint_page(GRAPH))
    assert held(opened) == ["0", "1", "0", "0", "1"]
    assert "wait for ever" in opened.page.inner_text("#step")
    assert opened.page.locator(".wide .at-end .node.ring").count() == 3
    opened.press("Home", "ArrowRight")
    assert held(opened) == ["0", "1", "0", "0", "0"]
    assert opened.page.locator(".wide .token.ask").count() == 3
    assert opened.page.inner_text("#step-heading") == "Step 1: merge"
    assert opened.page.locator(".wide #LR-stage-1 text").last.text_content() == "holds 1"


def held(opened: Visit) -> list[str]:
    cells: list[str] = opened.page.locator("#stages tbody td:last-child").all_inner_texts()
    return cells


@needs_dot
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_it_is_readable_by_everybody(visit: Open, scheme: str, width: int) -> None:
    for graph in (GRAPH, JudgedGraph("Nobody knows", LOOP, UNDECIDED)):
        opened = visit(blueprint_page(graph), scheme=scheme, width=width)
        assert violations(opened.page) == []
        assert [text for text, contrast in opened.page.evaluate(CONTRASTS) if contrast < 4.5] == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width


@needs_dot
def test_without_scripts_the_last_state_and_the_argument_are_there(visit: Open) -> None:
    opened = visit(blueprint_page(GRAPH), scripts=False)
    assert held(opened) == ["0", "1", "0", "0", "1"]
    assert "drop on copy -> back" in opened.page.inner_text(".argument")
    assert not opened.page.locator("#play").is_visible()


@needs_dot
def test_a_wide_graph_is_scrolled_and_stays_readable(visit: Open) -> None:
    names = [f"s{number}" for number in range(48)]
    chain = Blueprint.of(
        {"a": SourceNode(), **dict.fromkeys(names, StageNode()), "z": SinkNode()},
        [f"{one} -> {other}" for one, other in zip(["a", *names], [*names, "z"], strict=True)],
    )
    opened = visit(blueprint_page(JudgedGraph("A chain", chain, UNDECIDED)))
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 1280
    assert opened.page.locator(".wide text").first.bounding_box()["height"] > 8  # type: ignore[index]
