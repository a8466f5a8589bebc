"""Summaries add up in any order."""

from permitflow_model.conflate import NOTHING, Summary, together


def test_summaries_are_added_up_in_any_order() -> None:
    parts = [Summary(1, 4, 4), Summary(3, 2, 1), NOTHING, Summary(2, 9, 8)]
    forwards = backwards = NOTHING
    for one, other in zip(parts, reversed(parts), strict=True):
        forwards, backwards = together(forwards, one), together(other, backwards)
    assert forwards == backwards == Summary(6, 15, 8)
