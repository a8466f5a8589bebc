"""Analysers with a mistake: the judge must find each of them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest.mock import patch

from permitflow.stages.blueprint import BufferNode, Node, SourceNode, StageNode, UnboundedNode
from permitflow_model import stage_graph
from permitflow_model.stage_graph import Parameters, Stage
from permitflow_model.stage_graph_waits import Wait, ring_of
from permitflow_tools.checking import graphs, graphs_advice, graphs_structure

Mistake = Callable[[], Any]
"""A context in which the analyser makes it."""


def _constants(changed: Callable[[Node, Stage], Stage]) -> Mistake:
    """Other numbers reach the model."""
    right = graphs_structure.stage_of

    def wrong(node: Node, *how: Any) -> Stage:
        return changed(node, right(node, *how))

    return lambda: patch.object(graphs_structure, "stage_of", wrong)


def _kind(kind: str, taken_for: str) -> Mistake:
    """The model takes a kind for another one."""
    return lambda: patch.dict(stage_graph.KINDS, {kind: stage_graph.KINDS[taken_for]})


def _nothing(name: str) -> Mistake:
    """A part of the analysis is left out."""
    return lambda: patch.object(graphs, name, lambda *_: None)


@contextmanager
def _reversed_ring() -> Iterator[None]:
    def wrong(parameters: Parameters, *found: Any) -> list[Wait]:
        stages = len(parameters.stages)
        return [replace(wait, on=(wait.on + 1) % stages) for wait in ring_of(parameters, *found)]

    with patch.object(graphs, "ring_of", wrong), patch.object(graphs_advice, "advice_for", lambda *_: ()):
        yield


def _waits(node: Node) -> bool:
    return not isinstance(node, BufferNode | UnboundedNode)


MISTAKES: Final[Mapping[str, tuple[Mistake, int]]] = {
    "a buffer is counted twice": (
        _constants(
            lambda node, made: made._replace(capacity=2 * made.capacity) if isinstance(node, BufferNode) else made
        ),
        9,
    ),
    "dropping is taken for waiting": (
        _constants(lambda _, made: made._replace(overflow="block")),
        17,
    ),
    "every buffer is taken for one that drops": (
        lambda: patch.object(graphs_structure, "makes_wait", _waits),
        16,
    ),
    "a filter lets everything pass": (
        _constants(lambda node, made: made._replace(least=made.most) if isinstance(node, StageNode) else made),
        12,
    ),
    "balance is taken for broadcast": (_kind("balance", "broadcast"), 6),
    "zip is taken for merge": (_kind("zip", "merge"), 9),
    "a merge takes what comes first only": (_kind("merge", "concat"), 2),
    "sources have no end": (
        _constants(
            lambda node, made: made._replace(elements=stage_graph.ANY) if isinstance(node, SourceNode) else made
        ),
        72,
    ),
    "completion is forgotten": (_nothing("never_completing"), 26),
    "starvation is forgotten": (_nothing("starving"), 7),
    "a client reads while it writes": (
        _constants(lambda _, made: made._replace(capacity=made.capacity + made.writes)),
        16,
    ),
    "a window is one larger": (
        _constants(lambda _, made: made._replace(capacity=made.capacity + 1) if made.kind == "channel" else made),
        4,
    ),
    "the ring is told wrongly": (_reversed_ring, 2),
    "no order is seen": (lambda: patch.object(graphs_structure, "sees_order", lambda _: False), 162),
}
"""Each with the seed of a graph in which it shows."""
