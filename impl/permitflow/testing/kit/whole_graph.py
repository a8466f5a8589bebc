"""The rule of all rules: walks over whole state graphs, one for each group of features."""

from permitflow.testing.kit.adapter import lacks_of
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.leading import Led, steps_in_words
from permitflow.testing.kit.outside import canonical
from permitflow.testing.kit.report import Outcome, RuleVerdict
from permitflow.testing.kit.rules import MakeAdapter, Rule
from permitflow.testing.kit.walking import Coverage, constants_for, graph_for, outside_for, shortest_way, tour
from permitflow.testing.moves import Divergence, Move

__all__ = ["walk_graphs"]

_CLASSES = frozenset({Feature.BARRIERS, Feature.WATERMARKS})
# Beside barriers or watermarks, chunks of one size that need no batches show all that there is to see.
_SMALL = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.REFUSALS})


def graphs_of(lacks: frozenset[Feature], hops: int) -> tuple[frozenset[Feature], ...]:
    """The features that are left out of each graph; together the graphs have all that the channel has.

    A chain of channels is walked with chunks of one size only, sent by those who wait: all of it would be a hundred
    times as many edges.
    """
    if hops > 1:
        return (lacks | _CLASSES | _SMALL,)
    beside = (lacks | _SMALL | (_CLASSES - {kind}) for kind in sorted(_CLASSES - lacks))
    return tuple(dict.fromkeys((lacks | _CLASSES, *beside)))


async def walk_graphs(rule: Rule, make: MakeAdapter) -> RuleVerdict:
    """Walk every edge of every graph; stop at the first step that is not the model's."""
    edges = of_edges = states = 0
    adapter = make()
    for left_out in graphs_of(lacks_of(adapter), adapter.hops):
        found = await _walk(rule, make, left_out)
        if isinstance(found, RuleVerdict):
            return found
        edges, of_edges, states = edges + found.edges, of_edges + found.of_edges, states + found.states
    finding = f"{edges:,} of {of_edges:,} edges walked, in {states:,} states"
    return RuleVerdict(rule, Outcome.HOLDS, finding)


async def _walk(rule: Rule, make: MakeAdapter, left_out: frozenset[Feature]) -> Coverage | RuleVerdict:
    adapter = make()
    led = Led(adapter, outside_for(left_out, adapter.hops), constants_for(left_out, adapter.hops))
    graph = graph_for(left_out, adapter.hops)
    await led.open()
    try:
        return await tour(led, graph)
    except Divergence:
        pass
    finally:
        await led.close()
    wrong = led.steps[-1].move
    here = frozenset(map(canonical, led.worlds))
    shorter = await _again(make, left_out, (*shortest_way(graph, here), wrong))
    steps = led.steps if shorter is None else shorter.steps
    finding = f"does something else than the model, after {len(led.steps) - 1:,} moves that were right"
    return RuleVerdict(rule, Outcome.BREAKS, finding, tuple(steps_in_words(steps)[-12:]))


async def _again(make: MakeAdapter, left_out: frozenset[Feature], moves: tuple[Move, ...]) -> Led | None:
    """Does a short run go wrong, too?"""
    adapter = make()
    led = Led(adapter, outside_for(left_out, adapter.hops), constants_for(left_out, adapter.hops))
    await led.open()
    try:
        for move in moves:
            await led.make(move)
    except Divergence:
        return led
    finally:
        await led.close()
    return None
