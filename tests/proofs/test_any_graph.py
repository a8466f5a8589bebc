"""What proofs about any graph assume of it holds of a real one, whichever of its nodes they look at."""

from collections.abc import Callable, Iterator
from itertools import product

import pytest
import z3

from permitflow_model.mute_links import Parameters
from permitflow_proofs import mute, mute_links
from permitflow_proofs.kernel.paths import Explorer
from permitflow_proofs.kernel.symbols import all_of, assume, equal, function, implies, predicate, relation, truth_term

HOPS = ((4, 1), (4, 2), (5, 4), (5, 3), (6, 4), (6, 5))
"""Of a boundary, 4, a relay, 5, and a source, 6, which has two ways to the sink behind the boundary's link."""
GRAPH = Parameters(
    sinks=3, relays=2, sources=1, hops=frozenset(map(frozenset, HOPS)), high=0, low=0, supply=1, boundaries=1
)
NAMES = (0, *GRAPH.names)
"""With one that is no node."""


def facts() -> Iterator[bool]:
    """The graph, in the words of the proofs."""
    for up, down in product(NAMES, NAMES):
        yield relation("hop")(up, down) == GRAPH.is_hop(up, down)
    for node in GRAPH.names:
        yield predicate("is.behind.links")(node) == GRAPH.is_behind_links(node)
        yield from (relation("leads")(node, muter) == GRAPH.leads(node, muter) for muter in GRAPH.muters)
    for node in NAMES:
        yield equal(function("muter.of")(node), GRAPH.boundary_names.get(node, 0))
    for boundary, below in GRAPH.links:
        yield equal(function("boundary.of")(GRAPH.muter_of(boundary)), boundary)
        yield equal(function("link.of")(boundary), below)


def is_admitted(case: Callable[[], object]) -> bool:
    """Are there states of this graph in the case, whichever nodes, hop and muter it looks at?"""
    solvers = []
    for path in Explorer().paths(case):
        solvers.append(z3.SimpleSolver())
        solvers[-1].add(*path.conditions, *map(truth_term, facts()))
        solvers[-1].add(*(z3.Int(name) == getattr(GRAPH, name) for name in ("sinks", "relays", "sources")))
        solvers[-1].add(z3.Int("boundaries") == GRAPH.boundaries)
    symbols = (mute.UP, mute.DOWN, mute.ONE, mute.TWO, mute.MUTER)
    for up, down, hop, muter in product(GRAPH.names, GRAPH.names, HOPS, GRAPH.muters):
        looked_at = truth_term(equal(symbols, (up, down, *hop, muter)))
        if all(solver.check(looked_at) != z3.sat for solver in solvers):
            return False
    return True


@pytest.mark.parametrize("case", [mute.SUBJECT.any_case, mute_links.SUBJECT.any_case], ids=["mute", "mute_links"])
def test_proofs_about_any_graph_admit_a_real_one(case: Callable[[], object]) -> None:
    assert is_admitted(case)


def test_an_assumption_that_a_real_graph_does_not_meet_is_noticed() -> None:
    def of_one_way() -> None:
        _, parameters = mute_links.SUBJECT.any_case()
        ways = all_of((parameters.is_hop(mute.ONE, mute.TWO), parameters.is_source(mute.ONE)))
        assume(implies(ways, equal(mute.TWO, function("via")(mute.ONE))))
        assume(equal(function("via")(mute.ONE), 5))

    assert not is_admitted(of_one_way)
