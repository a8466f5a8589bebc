"""Work that ends, in a loop at the pace of an endless source: when the loop has lost its last element, all wait."""

from itertools import pairwise

import pytest

from permitflow.stages import Overflow
from permitflow.stages.blueprint import (
    BalanceNode,
    Blueprint,
    BroadcastNode,
    BufferNode,
    ConcatNode,
    ExpandNode,
    MergeNode,
    Node,
    SinkNode,
    SourceNode,
    StageNode,
    UnboundedNode,
    ZipNode,
)
from permitflow_tools.checking import check_graph
from tests.graphs.judging import WATCHES, disagreements

FILTER = StageNode(gives=(0, 1))


def paced_loop(elements: int | None, pace: Node, fan: Node, *back: Node) -> Blueprint:
    stages: dict[str, Node] = {
        "jobs": SourceNode(elements),
        "ticks": SourceNode(),
        "join": MergeNode(),
        "pace": pace,
        "fan": fan,
        "sink": SinkNode(),
    }
    names = [f"back-{number}" for number in range(len(back))]
    ways = [("jobs", "join", "pace", "fan", "sink"), ("ticks", "pace"), ("fan", *names, "join")]
    arcs = [f"{a} -> {b}" for way in ways for a, b in pairwise(way)]
    return Blueprint.of({**stages, **dict(zip(names, back, strict=True))}, arcs)


GRAPHS = {
    "a filter": ("never completes", paced_loop(10, ZipNode(), BroadcastNode(), FILTER, UnboundedNode())),
    "many jobs": ("never completes", paced_loop(100_000, ZipNode(), BroadcastNode(), FILTER, UnboundedNode())),
    "no jobs": ("never completes", paced_loop(0, ZipNode(), BroadcastNode(), UnboundedNode())),
    "half a group": (
        "never completes",
        paced_loop(3, ZipNode(), BroadcastNode(), StageNode(takes=2), BufferNode(2)),
    ),
    "all leave": ("never completes", paced_loop(3, ZipNode(), BalanceNode(), UnboundedNode())),
    "ticks come after the jobs": (
        "never completes",
        paced_loop(3, ConcatNode(), BroadcastNode(), FILTER, UnboundedNode()),
    ),
    "nothing is ever repeated": (
        "never completes",
        paced_loop(3, ZipNode(), BroadcastNode(), FILTER, ExpandNode(), BufferNode(2, Overflow.DROP_OLDEST)),
    ),
    "nothing is lost": ("live", paced_loop(3, ZipNode(), BroadcastNode(), UnboundedNode())),
    "jobs do not end": ("live", paced_loop(None, ZipNode(), BroadcastNode(), FILTER, UnboundedNode())),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_paced_loop_that_can_run_dry_never_completes(name: str) -> None:
    outcome, blueprint = GRAPHS[name]
    verdict = check_graph(blueprint)
    assert verdict.verdict == outcome
    if name != "many jobs":
        assert [*disagreements(blueprint, verdict, WATCHES[:4])] == []
