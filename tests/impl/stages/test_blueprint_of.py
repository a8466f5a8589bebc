"""What each method of a source is in a blueprint."""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from permitflow.stages import FeedbackLoop, Overflow, Source, Supervision, blueprint_of
from permitflow.stages.blueprint import (
    BoundaryNode,
    BufferNode,
    ConcatNode,
    ConflateNode,
    ExpandNode,
    MergePreferredNode,
    Node,
    SinkNode,
    SourceNode,
    StageNode,
    UnboundedNode,
    ZipNode,
)
from permitflow.stages.core.elements import Map

STREAM: Any = Source([1, 2])
SOME = StageNode(gives=(0, 1))
UNKNOWN = StageNode(gives=(0, None))

NODES: dict[str, tuple[Callable[[], Any], list[Node]]] = {
    "map": (lambda: STREAM.map(abs), [StageNode()]),
    "filter": (lambda: STREAM.filter(abs), [SOME]),
    "map_concat": (lambda: STREAM.map_concat(list), [UNKNOWN]),
    "take": (lambda: STREAM.take(1), [StageNode()]),
    "map_async": (lambda: STREAM.map_async(abs, 3), [BufferNode(3)]),
    "map_async that drops": (
        lambda: STREAM.map_async(abs, 3, supervision=Supervision.RESUME),
        [SOME, BufferNode(3)],
    ),
    "flat_map": (lambda: STREAM.flat_map(list), [UNKNOWN]),
    "frames": (lambda: STREAM.frames("\n", 9), [UNKNOWN]),
    "rechunk": (lambda: STREAM.rechunk(2), [UNKNOWN]),
    "buffer": (lambda: STREAM.buffer(3), [BufferNode(3)]),
    "buffer that drops": (lambda: STREAM.buffer(3, Overflow.CLEAR), [BufferNode(3, Overflow.CLEAR)]),
    "unbounded": (lambda: STREAM.unbounded(alarm=9), [UnboundedNode(9)]),
    "conflate": (lambda: STREAM.conflate(max), [ConflateNode()]),
    "batch": (lambda: STREAM.batch(3, max), [BufferNode(4), SOME]),
    "batch_weighted": (lambda: STREAM.batch_weighted(3, abs, max), [BufferNode(2), SOME]),
    "expand": (lambda: STREAM.expand(list), [ExpandNode()]),
    "throttle": (lambda: STREAM.throttle(1, 1.0), [StageNode()]),
    "grouped_within": (lambda: STREAM.grouped_within(3, 1.0), [BufferNode(3), SOME]),
    "idle_timeout": (lambda: STREAM.idle_timeout(1.0), [StageNode()]),
    "async_boundary": (lambda: STREAM.async_boundary(4), [BoundaryNode(4)]),
    "via": (lambda: STREAM.via(lambda: Map(abs)), [UNKNOWN]),
    "via what is known": (lambda: STREAM.via(lambda: Map(abs), node=StageNode()), [StageNode()]),
}


@pytest.mark.parametrize("name", NODES)
def test_each_stage_is_told_by_its_kind(name: str) -> None:
    make, nodes = NODES[name]
    drawn = blueprint_of(make())
    assert [*drawn.stages.values()] == [SourceNode(2), *nodes, SinkNode()]


def test_the_joins_are_told_with_their_ports() -> None:
    back = FeedbackLoop[int]()
    merged = back.source.merge_preferred(Source(count()), Source([1])).map(abs)
    left, right, again = merged.broadcast(3)
    first, second = right.zip_with(left, max).balance(2)
    back.close(again.filter(bool))
    drawn = blueprint_of(first.concat(Source(iter([3]))).map(int.bit_count), second)
    assert {str(arc) for arc in drawn.arcs} == {
        "filter.0 -> merge_preferred.0",
        "source.0 -> merge_preferred.1",
        "source-2.0 -> merge_preferred.2",
        "merge_preferred.0 -> map.0",
        "map.0 -> broadcast.0",
        "broadcast.0 -> zip.1",
        "broadcast.1 -> zip.0",
        "broadcast.2 -> filter.0",
        "zip.0 -> balance.0",
        "balance.0 -> concat.0",
        "source-3.0 -> concat.1",
        "concat.0 -> map-2.0",
        "map-2.0 -> sink.0",
        "balance.1 -> sink-2.0",
    }
    kinds = {name: drawn.stages[name] for name in ("zip", "concat", "merge_preferred")}
    assert kinds == {"zip": ZipNode(), "concat": ConcatNode(), "merge_preferred": MergePreferredNode()}


def test_a_source_is_endless_unless_it_knows_its_length() -> None:
    for elements, told in (([1, 2], 2), (range(5), 5), (iter([1]), None), (count(), None)):
        assert blueprint_of(Source(elements)).stages["source"] == SourceNode(told)
    assert blueprint_of(Source.from_iterator(lambda: [1])).stages["source"] == SourceNode()
