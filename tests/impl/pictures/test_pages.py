"""Pages hold everything they need, and take nothing that they show for markup."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from permitflow.pictures.document import document_of, ranges
from permitflow.pictures.run import Run, Section, stuck_run
from permitflow.pictures.run_page import page_of
from permitflow.pictures.state_graph import graph_page, reachable
from permitflow_model.kernel.system import Step
from permitflow_model.permit_channel import SYSTEM, Parameters, State

STUCK = Parameters(row_count=4, batch=3, clamp=3, sizes=(1, 2, 3))
HOSTILE = "</script><script>alert(1)</script><!--\u2028 & \" ' $title"


@pytest.fixture
def stuck(shortest_stuck: Callable[[Parameters], list[Step[State]]]) -> Run:
    return stuck_run(STUCK, SYSTEM.initial(STUCK), shortest_stuck(STUCK))


class Reader(HTMLParser):
    """Collects scripts, embedded data, and addresses that a browser would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.data: dict[str, str] = {}
        self.scripts = 0
        self.tags: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        if tag == "script":
            self.scripts += 1
            self._inside = values.get("id") or ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.data[self._inside] = self.data.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = ""


def pages(stuck: Run) -> list[str]:
    return [page_of(stuck), graph_page(reachable(STUCK))]


def test_a_page_fetches_nothing(stuck: Run) -> None:
    for page in pages(stuck):
        assert Reader(page).fetched == ["data:,"]
        assert "default-src 'none'" in page
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page) == []
        assert re.findall(r"@import|url\(|import\(|fetch\(|XMLHttpRequest", page) == []


def test_nothing_is_left_of_the_template(stuck: Run) -> None:
    for page in pages(stuck):
        assert re.findall(r"\$(?:title|style|script|run|graph|facts|sentence|module|drawing|storyboard)\b", page) == []


def test_the_embedded_numbers_are_those_of_the_document(stuck: Run) -> None:
    assert json.loads(Reader(page_of(stuck)).data["run"]) == json.loads(json.dumps(document_of(stuck)))


def test_texts_are_never_taken_for_markup(stuck: Run) -> None:
    hostile = replace(
        stuck, title=HOSTILE, sentence=HOSTILE, remarks=(HOSTILE,), conclusions=(Section(HOSTILE, (HOSTILE,)),)
    )
    page = Reader(page_of(hostile))
    assert page.scripts == Reader(page_of(stuck)).scripts
    assert json.loads(page.data["run"])["title"] == HOSTILE
    assert json.loads(page.data["run"])["conclusions"] == [{"heading": HOSTILE, "items": [HOSTILE]}]


def test_every_action_is_quoted_with_its_line(stuck: Run) -> None:
    actions = document_of(stuck)["actions"]
    assert isinstance(actions, list)
    assert [action["name"] for action in actions] == [action.name for action in SYSTEM.actions]
    for action in actions:
        assert re.fullmatch(r"spec/PermitChannel\.tla:\d+", action["place"])
        assert f"{action['name']}" in action["text"]
        assert action["does"].endswith(".")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((1, 2, 3), "1\u20133"), ((7,), "7"), ((5, 1, 2, 2000, 2001), "1\u20132, 5, 2,000\u20132,001"), ((), "")],
)
def test_numbers_in_few_words(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text
