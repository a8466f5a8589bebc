"""Verdicts on graphs agree with what real graphs do; ``nox -s graphs`` judges more of them, and longer."""

from functools import cache

import pytest

from permitflow_tools.checking import GraphVerdict, check_graph
from permitflow_tools.checking.graphs import decide
from tests.graphs.generated import SHAPES, generated
from tests.graphs.judging import WATCHES, disagreements, told_by_runs
from tests.graphs.mistakes import MISTAKES

FEW = WATCHES[1::3]


@cache
def verdict_of(seed: int) -> GraphVerdict:
    return check_graph(generated(seed)[1])


@pytest.mark.parametrize("seed", range(2 * len(SHAPES)))
def test_a_real_graph_does_what_its_verdict_says(seed: int) -> None:
    _, blueprint = generated(seed)
    assert [*disagreements(blueprint, verdict_of(seed), FEW)] == []


# In the last one, a sink waits while another one, which can move it, is woken.
@pytest.mark.parametrize("seed", [*range(len(SHAPES)), 480])
def test_a_run_of_a_live_graph_never_stalls(seed: int) -> None:
    _, blueprint = generated(seed)
    assert [*told_by_runs(blueprint, verdict_of(seed), WATCHES[1:2])] == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_analyser_with_a_mistake_is_found(mistake: str) -> None:
    make, seed = MISTAKES[mistake]
    _, blueprint = generated(seed)
    with make():
        verdict = decide(blueprint)
        assert [*disagreements(blueprint, verdict)] != []
