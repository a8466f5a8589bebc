"""Summaries add up in any order, and parameters have ranges."""

from dataclasses import replace

import pytest

from permitflow_model.conflate import NOTHING, Parameters, Summary, together

SMALL = Parameters(elements=3, largest=2)


def test_summaries_are_added_up_in_any_order() -> None:
    parts = [Summary(1, 4, 4), Summary(3, 2, 1), NOTHING, Summary(2, 9, 8)]
    forwards = backwards = NOTHING
    for one, other in zip(parts, reversed(parts), strict=True):
        forwards, backwards = together(forwards, one), together(other, backwards)
    assert forwards == backwards == Summary(6, 15, 8)


@pytest.mark.parametrize(("name", "value"), [("elements", 0), ("largest", -1)])
def test_parameters_that_the_specification_refuses_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least"):
        replace(SMALL, **{name: value})
