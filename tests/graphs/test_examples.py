"""The known examples of loops and diamonds, drawn by the methods of a source: verdict and run agree."""

from collections.abc import Callable
from itertools import count

import pytest

from permitflow.errors import StalledGraphError
from permitflow.stages import FeedbackLoop, Overflow, Source, blueprint_of
from permitflow_tools.checking import check_graph

Numbers = Source[int]


def loop(join: Callable[[Numbers, Numbers], Numbers], arc: Callable[[Numbers], Numbers]) -> Numbers:
    back = FeedbackLoop[int]()
    out, again = join(Source.from_iterator(count), back.source).broadcast(2)
    back.close(arc(again))
    return out


def pairs(source: Numbers, back: Numbers) -> Numbers:
    return source.zip_with(back, max)


def kicked(source: Numbers, back: Numbers) -> Numbers:
    return source.zip_with(Source([0]).concat(back), max)


EXAMPLES: dict[str, tuple[str, Callable[[], Numbers]]] = {
    "a loop with back-pressure": ("deadlock", lambda: loop(Source.merge, lambda s: s.buffer(10))),
    "the way back is preferred": (
        "starves",
        lambda: loop(lambda s, back: back.merge_preferred(s), lambda s: s.buffer(10)),
    ),
    "the way back drops": ("live", lambda: loop(Source.merge, lambda s: s.buffer(10, Overflow.DROP_OLDEST))),
    "the way back has no bound": ("live", lambda: loop(Source.merge, lambda s: s.unbounded(alarm=1_000))),
    "pairs without a first element": ("deadlock", lambda: loop(pairs, lambda s: s.buffer(2))),
    "pairs with a first element": ("live", lambda: loop(kicked, lambda s: s.buffer(2))),
    "pairs without a place for it": ("deadlock", lambda: loop(kicked, lambda s: s.buffer(1))),
}


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_run_goes_on_where_its_verdict_says_so(name: str) -> None:
    outcome, make = EXAMPLES[name]
    assert check_graph(blueprint_of(make())).verdict == outcome
    taken = 0
    async with make().open() as elements:
        try:
            while taken < 200:
                await anext(elements)
                taken += 1
        except StalledGraphError:
            assert outcome == "deadlock"
    assert (taken < 200) == (outcome == "deadlock")
