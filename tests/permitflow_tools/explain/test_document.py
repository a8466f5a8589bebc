"""What a page is told is what the model says, in every state of any run; and it takes no text for markup."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from permitflow_model.kernel.queue import Queue
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, Permits, State, total
from permitflow_tools.explain.document import document_of
from permitflow_tools.explain.looks.permit_channel.look import LOOK, NEVER, PLACES, ledger_of
from permitflow_tools.explain.looks.permit_channel.runs import live_run
from permitflow_tools.explain.run import ExplainedRun, Section, last_steps
from permitflow_tools.explain.run_page import page_of
from permitflow_tools.explain.state_graph import graph_page, reachable
from tests.permitflow_tools.explain.runs import shortest_stuck, states_of, walked
from tests.support.pages import PageReader

EVERYTHING = Parameters(
    row_permits=6,
    permit_batch=2,
    max_chunk_cost=4,
    sizes=(0, 1, 3, 5),
    barrier_permits=2,
    watermarks=True,
    withdrawals=True,
    flush_idle=True,
    waiters=3,
)
LIVE = Parameters(
    row_permits=20, permit_batch=5, max_chunk_cost=15, sizes=tuple(range(1, 16)), barrier_permits=1, watermarks=True
)


class Reader:
    """Reads the document as the page does."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.messages = document["messages"]
        self.returns = document["returns"]

    def places(self, k: int) -> dict[str, list[tuple[object, ...]]]:
        def is_over(name: str, index: int) -> bool:
            at = self.messages[name][index]
            return at != NEVER and int(at) <= k

        found: dict[str, list[int]] = {"waiting": [], "wire": [], "inbox": []}
        for index, offered in enumerate(self.messages["offered"]):
            if int(offered) > k or is_over("consumed", index) or is_over("withdrawn", index):
                continue
            place = "inbox" if is_over("delivered", index) else "wire" if is_over("sent", index) else "waiting"
            found[place].append(index)
        for place in ("wire", "inbox"):
            found[place].sort(key=lambda index: (int(self.messages["sent"][index]), index))
        table = zip(*(self.messages[name] for name in ("kind", "rows", "cost")), strict=True)
        rows = list(table)
        return {place: [rows[index] for index in indexes] for place, indexes in found.items()}

    def grants(self, k: int) -> list[Permits]:
        table = zip(*(self.returns[name] for name in (*Permits._fields, "returned", "arrived")), strict=True)
        return [Permits(*row[:3]) for row in table if row[3] <= k and (row[4] == NEVER or row[4] > k)]


def shown(queue: Queue[Message]) -> list[tuple[object, ...]]:
    return [(message.kind, message.rows, message.cost) for message in queue]


def everything_is_as_the_model_says(run: ExplainedRun) -> None:
    document: dict[str, Any] = document_of(run)
    reader = Reader(document)
    whole = total(run.parameters)._asdict()
    for k, state in enumerate(states_of(run)):
        places = reader.places(k)
        assert places["wire"] == shown(state.wire)
        assert places["inbox"] == shown(state.inbox)
        assert [entry for entry in places["waiting"] if entry[0] != "watermark"] == shown(state.waiting)
        assert places["waiting"].count(("watermark", 0, 1)) == (state.watermark_pending >= 0)
        assert reader.grants(k) == list(state.grants)
        assert not document["pending"] or document["pending"][k] == state.watermark_pending
        for name in document["ledger"]:
            counts = [document["ledger"][name][place][k] for place in PLACES]
            assert tuple(counts) == ledger_of(state).of_class(name)
            assert sum(counts) == whole[name]
        for number, action in enumerate(SYSTEM.actions):
            if not action.is_environment:
                is_enabled = SYSTEM.is_enabled(action.name, state, run.parameters)
                assert bool(document["enabled"][k] >> number & 1) == is_enabled
    for (before, after), mask in zip(pairwise(states_of(run)), document["steps"]["changed"], strict=True):
        changed = [name for bit, name in enumerate(State._fields) if mask >> bit & 1]
        assert changed == [name for name in State._fields if getattr(before, name) != getattr(after, name)]
    for state, row in zip(states_of(run), document["reasons"], strict=True):
        for action, reason in zip(SYSTEM.actions, row, strict=True):
            arguments = next(iter(action.arguments(run.parameters)))
            assert (reason == NEVER) == SYSTEM.is_enabled(action.name, state, run.parameters, *arguments)
            assert reason == NEVER or document["reasonTexts"][reason]


@given(choices=st.lists(st.integers(0, 1000), max_size=120), cut=st.integers(0, 80))
@example(choices=[2, 6, 0, 9], cut=1)
def test_every_state_of_a_run_is_as_the_model_says_wherever_it_begins(choices: list[int], cut: int) -> None:
    everything_is_as_the_model_says(walked(LOOK, EVERYTHING, choices, cut=cut))


def test_the_end_of_a_long_run_is_the_end_of_the_run() -> None:
    run = live_run(LIVE)
    assert last_steps(run, most=len(run.steps)) is run
    cut = last_steps(run, most=5)
    assert (len(cut.steps), cut.skipped) == (5, len(run.steps) - 5)
    assert cut.end == run.end
    assert cut.start == run.steps[-6].state
    assert "steps are left out: a page holds at most 5" in cut.remarks[0]
    everything_is_as_the_model_says(cut)


@pytest.mark.parametrize(
    "parameters",
    [
        LIVE,
        replace(LIVE, flush_idle=True),
        Parameters(row_permits=2048, permit_batch=256, max_chunk_cost=1792, sizes=tuple(range(1, 1793))),
        Parameters(row_permits=8, permit_batch=1, max_chunk_cost=8, sizes=(1,)),
        Parameters(row_permits=8, permit_batch=3, max_chunk_cost=6, sizes=(0, 6)),
    ],
)
def test_the_illustrative_run_fills_the_window_and_drains_it(parameters: Parameters) -> None:
    run = live_run(parameters)
    states = states_of(run)
    for before, step in zip(states, run.steps, strict=False):
        assert step.state == SYSTEM.perform(step.action, before, parameters, *step.arguments)
    assert any(
        not state.waiting.is_empty() and not SYSTEM.is_enabled("SendChunk", state, parameters) for state in states
    )
    end = states[-1]
    assert end.waiting.is_empty()
    assert (len(tuple(end.wire)), len(tuple(end.inbox)), len(tuple(end.grants))) == (0, 0, 0)
    assert end.permits.rows + end.unreturned == parameters.row_permits
    if parameters.flush_idle:
        assert end == SYSTEM.initial(parameters)
    everything_is_as_the_model_says(run)


STUCK = Parameters(row_permits=4, permit_batch=3, max_chunk_cost=3, sizes=(1, 2, 3))
HOSTILE = "</script><script>alert(1)</script><!--\u2028 & \" ' $title"


@pytest.fixture
def stuck() -> ExplainedRun:
    return shortest_stuck(STUCK)


def pages(stuck: ExplainedRun) -> list[str]:
    return [page_of(stuck), graph_page(reachable(LOOK, STUCK))]


def test_a_page_fetches_nothing(stuck: ExplainedRun) -> None:
    for page in pages(stuck):
        assert PageReader(page).fetched == ["data:,"]
        assert "default-src 'none'" in page
        assert re.findall(r"https?://(?!www\.w3\.org/)", page) == []
        assert re.findall(r"@import|url\(|import\(|fetch\(|XMLHttpRequest", page) == []


def test_the_embedded_numbers_are_those_of_the_document(stuck: ExplainedRun) -> None:
    assert json.loads(PageReader(page_of(stuck, most_states=0)).data["run"]) == json.loads(
        json.dumps(document_of(stuck))
    )


def test_texts_are_never_taken_for_markup(stuck: ExplainedRun) -> None:
    hostile = replace(
        stuck, title=HOSTILE, sentence=HOSTILE, remarks=(HOSTILE,), conclusions=(Section(HOSTILE, (HOSTILE,)),)
    )
    page = PageReader(page_of(hostile))
    assert page.scripts == PageReader(page_of(stuck)).scripts
    assert json.loads(page.data["run"])["title"] == HOSTILE
    assert json.loads(page.data["run"])["conclusions"] == [{"heading": HOSTILE, "items": [HOSTILE]}]
