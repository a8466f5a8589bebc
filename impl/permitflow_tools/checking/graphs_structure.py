"""What the form of a graph of stages decides, without a run: where stages can wait for each other, and who ends.

A ring of stages that wait for each other follows arcs of the graph, each once: of two stages that share an arc, only
one can wait for the other across it.  So a ring lies within one *block* of the graph without directions (a biconnected
component), and blocks are judged one by one.  What lies behind an arc between two blocks is not connected otherwise
with what lies before it: there, the block may be offered elements, and be asked for elements, at any time.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from permitflow.stages import Arc, Blueprint, Overflow
from permitflow.stages.blueprint import (
    BalanceNode,
    BlockingClientNode,
    BoundaryNode,
    BroadcastNode,
    BufferNode,
    ChannelNode,
    ConcatNode,
    ConflateNode,
    ExpandNode,
    MergeNode,
    MergePreferredNode,
    Node,
    SinkNode,
    SourceNode,
    StageNode,
    UnboundedNode,
    ZipNode,
)
from permitflow_model.stage_graph import ANY, Parameters, Stage

if TYPE_CHECKING:
    from networkx import DiGraph

MOST_COUNTED = 200
"""A source with more elements is explored as one that has no end."""


def parameters_of(
    blueprint: Blueprint, *, is_exact: bool = True, counted_unbounded: int = 0, at_once: Mapping[str, int] | None = None
) -> Parameters:
    """The blueprint as the constants of the model.

    Args:
        blueprint: the graph.
        is_exact: count the elements of each source; else one with many is endless.
        counted_unbounded: so far the unbounded stages count; 0: without end.
        at_once: sources and sinks that stand for parts of a graph which may have an element, or ask, at once: 1; or
            always do: 2.
    """
    names = [*blueprint.stages]
    positions = {name: position for position, name in enumerate(names)}
    number = {arc: position for position, arc in enumerate(blueprint.arcs)}
    return Parameters(
        tuple(
            stage_of(blueprint.stages[name], is_exact, counted_unbounded, (at_once or {}).get(name, 0))
            for name in names
        ),
        tuple((positions[arc.producer], positions[arc.consumer]) for arc in blueprint.arcs),
        tuple(tuple(number[arc] for arc in blueprint.into(name)) for name in names),
        tuple(tuple(number[arc] for arc in blueprint.out_of(name)) for name in names),
    )


def stage_of(node: Node, is_exact: bool, counted_unbounded: int, at_once: int) -> Stage:
    """A node as a stage of the model, with the model's constants."""
    match node:
        case SourceNode():
            is_counted = node.elements is not None and (is_exact or node.elements <= MOST_COUNTED)
            elements = node.elements if is_counted and node.elements is not None else ANY
            return Stage(node.kind, elements=elements, capacity=at_once)
        case SinkNode():
            return Stage(node.kind, capacity=at_once)
        case StageNode():
            least, most = node.gives
            return Stage(node.kind, takes=node.takes, least=least, most=ANY if most is None else most)
        case BufferNode():
            return Stage(node.kind, capacity=node.capacity, overflow=node.overflow.value)
        case UnboundedNode():
            return Stage(node.kind, capacity=counted_unbounded)
        case BoundaryNode():
            return Stage(node.kind, capacity=node.prefetch)
        case ChannelNode():
            return Stage(node.kind, capacity=node.window, batch=node.batch)
        case BlockingClientNode():
            return Stage(node.kind, capacity=node.receive_buffer, writes=node.writes)
        case _:
            return Stage(node.kind)


def makes_wait(node: Node) -> bool:
    """Can it wait until it is asked, before it asks?  What gives elements up, or keeps any number, never does."""
    if isinstance(node, BufferNode):
        return node.overflow is Overflow.BLOCK
    return not isinstance(node, UnboundedNode | ConflateNode)


def sees_order(node: Node) -> bool:
    """Does it emit something else if elements or asks come in another order?  All others make one and the same run."""
    if isinstance(node, BufferNode):
        return node.overflow is not Overflow.BLOCK
    return isinstance(node, MergeNode | MergePreferredNode | BalanceNode | ConflateNode | ExpandNode)


@dataclass(frozen=True)
class Block:
    """A part of a blueprint within which stages may wait for each other, with sources and sinks at its open ends."""

    blueprint: Blueprint
    inner: tuple[str, ...]
    """Its stages, without those that stand for the rest of the graph."""
    is_supply_known: bool = True
    """Has it as many elements as come in the whole graph, from those that stand for the rest?"""
    at_once: Mapping[str, int] = field(default_factory=dict)
    """Which of those that stand for the rest may have an element, or ask, while the island runs (1), or do (2)."""

    def parameters(self, *, is_exact: bool = True, counted_unbounded: int = 0) -> Parameters:
        """The constants of the model."""
        at_once = {} if self.is_determinate else self.at_once
        return parameters_of(self.blueprint, is_exact=is_exact, counted_unbounded=counted_unbounded, at_once=at_once)

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes of its own stages."""
        return (self.blueprint.stages[name] for name in self.inner)

    @cached_property
    def is_determinate(self) -> bool:
        """Has it one run, but for what the data choose?"""
        return not any(sees_order(node) for node in self.nodes)


def graph_of(blueprint: Blueprint) -> "DiGraph[Any]":
    """All stages and arcs; between two stages, one arc stands for all."""
    from networkx import DiGraph

    graph: DiGraph[Any] = DiGraph()
    graph.add_nodes_from(blueprint.stages)
    graph.add_edges_from((arc.producer, arc.consumer) for arc in blueprint.arcs)
    return graph


def blocks_of(blueprint: Blueprint) -> list[Block]:
    """Its blocks that have a ring of arcs, those of few stages first."""
    from networkx import biconnected_components

    found = []
    for component in biconnected_components(graph_of(blueprint).to_undirected()):
        stages = {str(name) for name in component}
        inner = [arc for arc in blueprint.arcs if arc.producer in stages and arc.consumer in stages]
        if len(inner) >= len(stages):
            found.append(_block(blueprint, stages, inner))
    for arc in blueprint.arcs:
        if arc.producer == arc.consumer and not any(arc.producer in block.inner for block in found):
            found.append(_block(blueprint, {arc.producer}, [arc]))
    return sorted(found, key=lambda block: (len(block.inner), block.inner))


def block_around(blueprint: Blueprint, name: str) -> Block:
    """The stages of all blocks to which a stage belongs; if it belongs to none, itself."""
    stages = {name}.union(*(block.inner for block in blocks_of(blueprint) if name in block.inner))
    inner = [arc for arc in blueprint.arcs if arc.producer in stages and arc.consumer in stages]
    return _block(blueprint, stages, inner)


def _block(blueprint: Blueprint, stages: Collection[str], inner: Iterable[Arc]) -> Block:
    nodes = {name: node for name, node in blueprint.stages.items() if name in stages}
    arcs, at_once, is_known = [*inner], dict[str, int](), True
    for name in [*nodes]:
        for arc in blueprint.into(name):
            if arc.producer not in stages:
                outside = f"into-{name}-{arc.inlet}"
                supply = supply_of(blueprint, arc)
                is_known = is_known and (supply is not None or not endings(blueprint)[arc.producer])
                nodes[outside] = SourceNode(supply)
                if not isinstance(blueprint.stages[arc.producer], SourceNode):
                    at_once[outside] = 1
                arcs.append(Arc(outside, name, inlet=arc.inlet))
        for arc in blueprint.out_of(name):
            if arc.consumer not in stages:
                outside = f"out-of-{name}-{arc.outlet}"
                nodes[outside] = SinkNode()
                if not isinstance(blueprint.stages[arc.consumer], SinkNode):
                    at_once[outside] = 1 if makes_wait(blueprint.stages[arc.consumer]) else 2
                arcs.append(Arc(name, outside, outlet=arc.outlet))
    inside = tuple(name for name in blueprint.stages if name in stages)
    return Block(Blueprint(nodes, tuple(arcs)), inside, is_known, at_once)


def supply_of(blueprint: Blueprint, arc: Arc) -> int | None:
    """How many elements come at an arc into a block; None: any number, or nobody knows."""
    factors: list[StageNode] = []
    name = arc.producer
    for _ in blueprint.stages:
        match blueprint.stages[name]:
            case SourceNode(elements=None):
                return None
            case SourceNode(elements=int(elements)):
                for node in reversed(factors):
                    elements = -(-elements // node.takes) * node.gives[0]
                return elements
            case StageNode(gives=(least, most)) as node if least == most:
                factors.append(node)
            case BufferNode(overflow=Overflow.BLOCK) | UnboundedNode() | BoundaryNode() | ChannelNode():
                pass
            case BroadcastNode():
                pass
            case _:
                return None
        name = blueprint.into(name)[0].producer
    return None


# Who may wait for whom.

Place: TypeAlias = tuple[Arc, bool]
"""An arc, and whether its consumer has asked for an element: if so, its producer has to move, else its consumer."""


def possible_waits(blueprint: Blueprint) -> frozenset[Place]:
    """Where stages might wait in a ring, whatever the sizes of buffers and the data; if nowhere, the graph is live.

    It is the largest set of places each of which waits for others of the set.  A stage that needs all of several ports
    waits as soon as one of them is dead, one that takes whichever comes waits only if all are.
    """
    waits = {
        (arc, is_asked): _may_wait_for(blueprint, arc, is_asked=is_asked)
        for arc in blueprint.arcs
        for is_asked in (True, False)
    }
    dead = {place for place, (others, _) in waits.items() if others}
    while alive := [
        place for place in dead if not (all if waits[place][1] else any)(other in dead for other in waits[place][0])
    ]:
        dead.difference_update(alive)
    return frozenset(dead)


def _may_wait_for(blueprint: Blueprint, arc: Arc, *, is_asked: bool) -> tuple[list[Place], bool]:
    """The places for which a stage may wait, and whether any one of them is enough for it to go on."""
    name = arc.producer if is_asked else arc.consumer
    node = blueprint.stages[name]
    elements = [(each, True) for each in blueprint.into(name) if is_asked or each != arc]
    asks = [(each, False) for each in blueprint.out_of(name) if not is_asked or each != arc]
    if is_asked:
        if isinstance(node, SourceNode | BlockingClientNode):
            return [], True
        if isinstance(node, BroadcastNode):
            return elements + asks, False
        return elements, isinstance(node, MergeNode | MergePreferredNode)
    if isinstance(node, SinkNode) or not makes_wait(node):
        return [], True
    if isinstance(node, ConcatNode):
        return [(each, True) for each in blueprint.into(name) if each.inlet < arc.inlet] + asks, False
    if isinstance(node, ZipNode):
        return elements + asks, False
    return asks, isinstance(node, BalanceNode)


def roomy_of(blueprint: Blueprint) -> dict[str, int]:
    """The buffers that have more places than elements come to them, with that number: they never make anybody wait."""
    found = {}
    for name, node in blueprint.stages.items():
        if isinstance(node, BufferNode) and node.overflow is Overflow.BLOCK:
            supply = supply_of(blueprint, blueprint.into(name)[0])
            if supply is not None and supply < node.capacity:
                found[name] = supply
    return found


# Who ends.


def endings(blueprint: Blueprint) -> Mapping[str, bool]:
    """Does each stage end after all sources with a number have ended, if nothing is stuck?

    A stage ends when its inlets have: a zip with the first of them, a merge and a concat with the last.  A stage whose
    outlets are all cancelled ends, too, and what leads only to itself is cancelled.
    """
    ended: set[str] = set()
    gone: set[str] = set()
    """Stages that end because nobody wants their elements."""
    while True:
        before = len(ended) + len(gone)
        for name, node in blueprint.stages.items():
            if name not in ended and _ends(blueprint, name, node, ended | gone):
                ended.add(name)
        wanted = _wanted(blueprint, ended | gone)
        gone |= {name for name in blueprint.stages if name not in wanted and name not in ended}
        if len(ended) + len(gone) == before:
            return {name: name in ended or name in gone for name in blueprint.stages}


def _ends(blueprint: Blueprint, name: str, node: Node, ended: Collection[str]) -> bool:
    if isinstance(node, SourceNode):
        return node.elements is not None
    inlets = [
        arc.producer in ended or isinstance(blueprint.stages[arc.producer], BlockingClientNode)
        for arc in blueprint.into(name)
    ]
    if isinstance(node, BlockingClientNode):
        return all(inlets)
    return any(inlets) if isinstance(node, ZipNode) else all(inlets)


def _wanted(blueprint: Blueprint, ended: Collection[str]) -> set[str]:
    """The stages from which elements still come to an end of the graph."""
    ends = [name for name, node in blueprint.stages.items() if isinstance(node, SinkNode | BlockingClientNode)]
    seen = {*ends} if ends else {*blueprint.stages}
    ahead = [*ends]
    while ahead:
        name = ahead.pop()
        if name in ended and not isinstance(blueprint.stages[name], SinkNode):
            continue
        for arc in blueprint.into(name):
            if arc.producer not in seen:
                seen.add(arc.producer)
                ahead.append(arc.producer)
    return seen


def runs_dry(blueprint: Blueprint) -> frozenset[str]:
    """The stages that perhaps get nothing more, and no end, when all sources with a number have ended.

    That is so in a loop that can lose its last element, or never had one, and behind it, even if an endless source
    leads there, too: a zip needs an element of each inlet, a concat the end of the first ones.
    """
    from networkx import ancestors, strongly_connected_components

    dry = {
        name for name, node in blueprint.stages.items() if not isinstance(node, SourceNode) or node.elements is not None
    }
    while wet := [name for name in dry if not _is_dry(blueprint, name, dry)]:
        dry.difference_update(wet)
    graph = graph_of(blueprint).subgraph(dry)
    parts = strongly_connected_components(graph)
    loops = {name for part in parts for name in part if len(part) > 1 or graph.has_edge(name, name)}
    before = loops.union(*(ancestors(graph, name) for name in loops))
    return frozenset(dry) if any(_loses(blueprint.stages[name]) for name in before) else frozenset()


def _is_dry(blueprint: Blueprint, name: str, dry: Collection[str]) -> bool:
    node = blueprint.stages[name]
    inlets = [arc.producer in dry for arc in blueprint.into(name)]
    if isinstance(node, SourceNode | BlockingClientNode):
        return True
    return any(inlets) if isinstance(node, ZipNode | ConcatNode) else all(inlets)


def _loses(node: Node) -> bool:
    """Can it emit nothing for an element, or into the loop?  What drops an element does so because it keeps others."""
    match node:
        case SourceNode(elements=0) | StageNode(gives=(0, _)) | BalanceNode():
            return True
        case StageNode(takes=takes):
            return takes > 1
    return False


def ancestors_of(blueprint: Blueprint, name: str) -> set[str]:
    """All stages from which an arc, or several, lead to this one."""
    from networkx import ancestors

    return {*ancestors(graph_of(blueprint), name)}
