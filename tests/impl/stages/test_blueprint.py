"""A blueprint of a graph of stages: its arcs as texts, and what is refused."""

import pytest

from permitflow.errors import BlueprintError
from permitflow.stages import Arc, Blueprint, Overflow
from permitflow.stages.blueprint import (
    MOST_STAGES,
    BoundaryNode,
    BroadcastNode,
    BufferNode,
    ChannelNode,
    MergeNode,
    Node,
    SinkNode,
    SourceNode,
    StageNode,
)

LOOP: dict[str, Node] = {"in": SourceNode(), "merge": MergeNode(), "copy": BroadcastNode(), "out": SinkNode()}


def test_ports_are_numbered_in_the_order_of_the_arcs() -> None:
    blueprint = Blueprint.of(LOOP, ["copy -> merge.0", "in -> merge", "merge -> copy", "copy.0 -> out"])
    assert blueprint.into("merge") == (Arc("copy", "merge", outlet=1), Arc("in", "merge", inlet=1))
    assert [arc.consumer for arc in blueprint.out_of("copy")] == ["out", "merge"]


@pytest.mark.parametrize(
    ("arcs", "told"),
    [
        (["in -> merge", "in -> merge"], r"arc 2, stage 'in', outlet 1: a source has 1 outlet: in\.1 -> merge\.1"),
        (["in -> merge", "copy.0 -> out", "copy.0 -> merge"], r"arc 3, stage 'copy', outlet 0: it is connected twice"),
        (["in -> merge", "merge -> copy", "copy.1 -> out"], r"stage 'copy', outlet 0: it is not connected"),
        (["in -> out"], r"stage 'merge', inlet 0: it is not connected"),
        (["in -> oven"], r"arc 1, stage 'oven': there is no such stage"),
        (["in - out"], r"arc 1, graph: 'in - out' is not an arc; write it as"),
    ],
)
def test_a_wrong_arc_is_named_with_its_stage_and_port(arcs: list[str], told: str) -> None:
    with pytest.raises(BlueprintError, match=told):
        Blueprint.of(LOOP, arcs)


@pytest.mark.parametrize(
    ("node", "told"),
    [
        (StageNode(takes=0, gives=(0, 0)), "takes must be at least 1"),
        (StageNode(gives=(2, 1)), "gives must be at least 2"),
        (BufferNode(-1), "capacity must be at least 1, and a whole number, not -1"),
        (BufferNode(1, "block"), "overflow must be one of"),  # type: ignore[arg-type]
        (BoundaryNode(3), "prefetch must be a power of two"),
        (ChannelNode(2, 2), "window must be at least 3"),
        (Node(), "must be one of source, sink"),
    ],
)
def test_a_number_out_of_its_range_is_named_with_its_stage(node: Node, told: str) -> None:
    with pytest.raises(BlueprintError, match=f"stage 'b'.*{told}"):
        Blueprint.of({"a": SourceNode(), "b": node, "c": SinkNode()}, ["a -> b", "b -> c"])


def test_a_graph_of_too_many_stages_is_refused() -> None:
    nodes = {"in": SourceNode(), **{f"b{n}": BufferNode(1, Overflow.BLOCK) for n in range(10_000)}}
    with pytest.raises(BlueprintError, match=f"graph: it has 10001 stages; at most {MOST_STAGES} are checked"):
        Blueprint(nodes, ())
