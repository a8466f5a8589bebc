"""The search for advice has one budget; where that ends, the notes say so, and nothing wrong is told."""

import pytest

from permitflow_tools.checking import check_graph, graphs_advice
from tests.graphs.generated import generated

KICKED_LOOP = 9


def test_advice_that_was_not_looked_for_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, blueprint = generated(KICKED_LOOP)
    whole = check_graph(blueprint)
    monkeypatch.setattr(graphs_advice, "_EVENTS_FOR_ALL", 0)
    ended = check_graph(blueprint)
    assert (whole.verdict, ended.verdict) == ("deadlock", "deadlock")
    assert whole.advice != ()
    assert ended.advice == ()
    assert [*ended.notes] == [
        *whole.notes,
        "more may help than is told: the search for it was ended, because it takes long",
    ]
